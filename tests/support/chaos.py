"""Faults everywhere on simulated boards, and the counts and times afterwards.

    env -C tests uv run python -m support.chaos [--minutes 60] [--boards 8] [--seed 1] [--cycles 6] [--time-scale 0.1] [--pace 3] [--verbose]

Every board of a bench is measured again and again, half of them by `pytest`, the others by `lab run`. Meanwhile pytest,
`lab run`, console server, pdudaemon and the bench are killed (SIGKILL) or stand still for 0.1 to 5 s (SIGSTOP), adapters
are unplugged, the disks of recordings and results are full, and power switch and strap relays refuse, hang or fail. What
ended is resumed as a person or a timer would. After so many minutes the havoc ends, and every run is resumed to its end.
Then it must hold that

- every cycle of every run has exactly one sample, and attempts are counted from one;
- every boot time is within its ± of what the boards' truth logs say, or carries a flag that says that it may not be
  ("nearly": one in twenty may be off by up to 10 ms more on a host as busy as this; "untold": the bench was killed before
  it had written the prompt down);
- every failed attempt has a class of lab.failures, and no session ended by a crash or hangs;
- nothing is left behind: processes, locks, sockets, files, leases, mounts.

The exit status is 1 when one of them does not, and what the lab wrote is kept for a look. The seed says what strikes in
which order; at what of a boot it strikes depends on the machine too. The disks are small tmpfs of our own (root, or a
user namespace).
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal

import psutil
from attrs import define, field, frozen

from lab.results import open_store
from lab.virtual.truth_log import read_truth
from support.chaos_lab import LAB, ChaosLab, Disk, Mood, Switch, mounts_below, with_own_mounts
from support.chaos_verdict import Judged, Story, boot_times, judge, left_behind, miscounts, uncatalogued, untrue

CLOSING_S = 600.0  # for all runs to be resumed to their ends
TICK_S = 0.05
KILLED = {-9, -15, 137, 143}
EXPECTED = {0, 1, 2, 4, 69, 75, 130}  # of pytest and `lab run`, docs/cli.md; all others are crashes
# Python's, pytest's own, and an exception of a test that is none of ours: those have a class, and no traceback.
CRASH = re.compile(
    r"^(Traceback \(most recent call last\)|INTERNALERROR>|E +[\w.]+(?:Error|Exception)\b)", re.MULTILINE
)
SHOWN = 20
LAST_LINES = 30  # of a session that does not end
MEDIA = ("sd", "emmc", "ospi")
PAUSE_S = 1.0  # before a session that follows one that went wrong
Way = Literal["pytest", "lab run"]
FREEZE_S = (0.1, 5.0)
AWAY_S = (0.2, 4.0)  # an adapter; the console driver waits three seconds for it
FULL_S = (0.2, 6.0)
SPARE_BYTES = (0, 1 << 17)
MOOD_S = (0.3, 8.0)
HANGING_S = (0.5, 45.0)  # pdudaemon is waited for half a minute
RESTART_S = (0.0, 3.0)
STRIKE_TRIES = 5
UNPLUG_AT = (
    "spl.load",
    "tfa",
    "uboot.start",
    "uboot.load",
    "kernel.start",
    "kernel.middle",
    "init",
    "user.middle",
    "login",
)


@frozen
class Ended:
    """A session that ended: its command, and its exit status (negative: the signal)."""

    words: tuple[str, ...]
    status: int


@define
class Operator:
    """Measures one board, again and again, by `pytest` or by `lab run`.

    Attributes:
        done: every run is completed, and no further one shall begin.
        ended: the sessions so far.
    """

    lab: ChaosLab
    board: str
    way: Way
    chance: Random
    cycles: int
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    done: bool = field(default=False, init=False)
    ended: list[Ended] = field(factory=list, init=False)
    _words: tuple[str, ...] = field(default=(), init=False)
    _not_before_s: float = field(default=0.0, init=False)

    @property
    def log(self) -> Path:
        """The output of its sessions."""
        return self.lab.home / f"{self.board}.log"

    def tend(self, *, closing: bool) -> None:
        """Start the next session when there is none; `closing`: only such as end what was begun."""
        if self.process is not None:
            status = self.process.poll()
            if status is None:
                return
            self.ended.append(Ended(self._words, status))
            self.process = None
            self._not_before_s = time.monotonic() + (PAUSE_S if status else 0.0)
        if self.done or self.lab.results.full or time.monotonic() < self._not_before_s:
            return  # a look into a store on a full disk may cost us our life (SIGBUS)
        words = self._next(closing=closing)
        if words is None:
            self.done = closing
            return
        self._words = words
        command = [LAB, "run"] if self.way == "lab run" else [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
        self.process = self.lab.popen([*command, *words], self.log)

    def _next(self, *, closing: bool) -> tuple[str, ...] | None:
        env = str(self.lab.env(self.board))
        if self.way == "pytest":
            run = self._latest("SELECT id, status FROM runs WHERE board = ? ORDER BY id DESC LIMIT 1")
            words = ("--lg-env", env, "tests_perf/test_boot.py")
            if run is not None and run[1] != "completed":
                return (*words, "--lab-resume", str(run[0]))
            medium = self.chance.choice(MEDIA)
            return None if closing else (*words, "--lab-medium", medium, "--lab-cycles", str(self.cycles))
        job = self._latest("SELECT id, state FROM jobs WHERE board = ? ORDER BY id DESC LIMIT 1")
        if job is not None and job[1] == "failed":
            return ("--resume", f"j{job[0]}")
        if closing and (job is None or job[1] == "completed"):
            return None
        # As a timer does: a job that was killed is gone on with, else a new one begins.
        return ("--env", env, "--cycles", str(max(1, self.cycles // len(MEDIA))), "--continue")

    def _latest(self, query: str) -> tuple[Any, ...] | None:
        with looking(self.lab) as store:
            found: tuple[Any, ...] | None = store.execute(query, (self.board,)).fetchone()
            return found


@contextlib.contextmanager
def looking(lab: ChaosLab) -> Iterator[sqlite3.Connection]:
    """The store, read past boardlab's own code."""
    with contextlib.closing(sqlite3.connect(f"file:{lab.database}?mode=rw", uri=True, timeout=30)) as store:
        store.execute("PRAGMA query_only=ON")
        yield store


@define
class Havoc:
    """A lab and the chance that strikes it. Each strike returns what it did to what, or "" when there was nothing to strike."""

    lab: ChaosLab
    operators: Sequence[Operator]
    chance: Random
    done: dict[str, int] = field(factory=dict, init=False)
    _untried: list[StrikeKind] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._untried = self.chance.sample(KINDS, len(KINDS))

    def strike(self) -> str:
        """Do one thing, in words: at first each kind once, then by their weights."""
        for _ in range(STRIKE_TRIES):
            kind = self._untried.pop() if self._untried else self._any()
            try:
                what = kind.action(self)
            except psutil.NoSuchProcess:  # it has just ended by itself
                what = ""
            if what:
                self.done[kind.name] = self.done.get(kind.name, 0) + 1
                return f"{kind.name}: {what}"
            if kind.name not in self.done:
                self._untried.insert(0, kind)  # nothing there to strike; later
        return ""

    def _any(self) -> StrikeKind:
        (kind,) = self.chance.choices(KINDS, weights=[kind.weight for kind in KINDS])
        return kind

    def kill(self, *words: str) -> str:
        """Kill -9 of a process of the lab, whose command line has these words."""
        return self._kill(self._one(*words))

    def stop(self, *words: str) -> str:
        """SIGSTOP of a process of the lab, for a while."""
        return self._freeze(self._one(*words))

    def kill_lab_run(self) -> str:
        """Kill -9 of a board's `lab run`."""
        measuring = [o.process for o in self.operators if o.way == "lab run" and o.process is not None]
        alive = [process for process in measuring if process.poll() is None]
        return self._kill(psutil.Process(self.chance.choice(alive).pid) if alive else None)

    def kill_bench(self) -> str:
        """Kill -9 of the bench: all adapters and switches of the lab are gone, and come back after a while."""
        pause_s = self.chance.uniform(*RESTART_S)
        what = self.kill("lab.virtual.bench")
        if what:
            self.lab.bench_was_killed(pause_s)
        return what

    def unplug(self) -> str:
        """A console's adapter goes away in the middle of the next boot, and comes back, perhaps under another number."""
        fault = self.chance.choice(("adapter_lost", "adapter_renumbered"))
        where, seconds = self.chance.choice(UNPLUG_AT), self.chance.uniform(*AWAY_S)
        return self._fault({"fault": fault, "cycles": "next", "at_point": where, "seconds": f"{seconds:.2f}"})

    def bad_outlet(self) -> str:
        """An outlet does not obey at the next power-on."""
        fault = self.chance.choice(("pdu_error", "pdu_connection_refused", "pdu_lies", "no_power"))
        return self._fault({"fault": fault, "cycles": "next"})

    def fill(self, disk: Disk) -> str:
        """A disk is full for a while."""
        seconds, spare = self.chance.uniform(*FULL_S), self.chance.randint(*SPARE_BYTES)
        if disk.full:
            return ""
        disk.fill(spare)
        self.lab.later(seconds, disk.empty)
        return f"{spare} bytes left for {seconds:.2f} s"

    def upset(self, switch: Switch) -> str:
        """A switch refuses connections, hangs or fails for a while."""
        moods: tuple[Mood, ...] = ("refusing", "hanging", "failing")
        mood = self.chance.choice(moods)
        seconds = self.chance.uniform(*(HANGING_S if mood == "hanging" else MOOD_S))
        if switch.mood != "well":
            return ""
        switch.become(mood)
        self.lab.later(seconds, lambda: switch.become("well"))
        return f"{mood} for {seconds:.2f} s"

    def _one(self, *words: str) -> psutil.Process | None:
        found = [process for process in self.lab.processes(*words) if process not in self.lab.frozen]
        return self.chance.choice(sorted(found, key=lambda process: process.pid)) if found else None

    def _kill(self, process: psutil.Process | None) -> str:
        if process is None:
            return ""
        process.kill()
        return f"pid {process.pid}"

    def _freeze(self, process: psutil.Process | None) -> str:
        seconds = self.chance.uniform(*FREEZE_S)
        if process is None:
            return ""
        self.lab.freeze(process, seconds)
        return f"pid {process.pid} for {seconds:.2f} s"

    def _fault(self, words: dict[str, str]) -> str:
        board = self.chance.choice(self.lab.boards)
        heard = self.lab.fault(board, words)
        return f"{board}: {', '.join(words.values())}" if heard else ""


@frozen
class StrikeKind:
    """A kind of strike, and how often it comes beside the others."""

    name: str
    weight: float
    action: Callable[[Havoc], str]


KINDS = (
    StrikeKind("kill pytest", 3.0, lambda havoc: havoc.kill("pytest", "/env/")),
    StrikeKind("kill lab run", 2.0, Havoc.kill_lab_run),
    StrikeKind("kill console server", 1.0, lambda havoc: havoc.kill("lab.console.server")),
    StrikeKind("kill pdudaemon", 1.0, lambda havoc: havoc.kill("pdudaemon.conf")),
    StrikeKind("kill bench", 0.5, Havoc.kill_bench),
    StrikeKind("stop console server", 2.0, lambda havoc: havoc.stop("lab.console.server")),
    StrikeKind("stop bench", 2.0, lambda havoc: havoc.stop("lab.virtual.bench")),
    StrikeKind("stop pytest", 2.0, lambda havoc: havoc.stop("pytest", "/env/")),
    StrikeKind("adapter unplugged", 2.0, Havoc.unplug),
    StrikeKind("outlet does not obey", 1.0, Havoc.bad_outlet),
    StrikeKind("recordings' disk full", 1.0, lambda havoc: havoc.fill(havoc.lab.recordings)),
    StrikeKind("results' disk full", 1.0, lambda havoc: havoc.fill(havoc.lab.results)),
    StrikeKind("power switch refuses, hangs, fails", 1.0, lambda havoc: havoc.upset(havoc.lab.pdu)),
    StrikeKind("straps refuse, hang, fail", 1.0, lambda havoc: havoc.upset(havoc.lab.straps)),
)


@define
class Report:
    """The strikes and their results."""

    strikes: dict[str, int] = field(factory=dict)
    sessions: Counter[str] = field(factory=Counter)
    outcomes: Counter[str] = field(factory=Counter)
    judged: list[Judged] = field(factory=list)
    runs: int = 0
    wrong: list[str] = field(factory=list)

    def lines(self) -> list[str]:
        """The table."""
        kinds = Counter(each.kind for each in self.judged)
        ratios = [abs(j.error_s) / j.timed.about_s for j in self.judged if j.error_s is not None and j.timed.about_s]
        rows = [
            *((f"| {kind.name} | {self.strikes.get(kind.name, 0)} |") for kind in KINDS),
            *(f"| sessions that ended with {how} | {count} |" for how, count in sorted(self.sessions.items())),
            *(f"| attempts: {outcome} | {count} |" for outcome, count in self.outcomes.most_common()),
            f"| runs, all resumed to their ends | {self.runs} |",
            f"| boot times | {len(self.judged)} |",
            *(f"| of these {kind} | {kinds[kind]} |" for kind in ("inside", "flagged", "nearly", "untold", "outside")),
            f"| largest share of its ± that an error takes | {max(ratios, default=0.0):.3f} |",
            f"| what does not hold | {len(self.wrong)} |",
        ]
        shown = [f"WRONG: {each}" for each in self.wrong[:SHOWN]]
        more = [f"and {len(self.wrong) - SHOWN} more"] if len(self.wrong) > SHOWN else []
        return ["| what | how often |", "|---|---|", *rows, *shown, *more]


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="of havoc")
    parser.add_argument("--boards", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cycles", type=int, default=6, help="of a run")
    parser.add_argument("--time-scale", type=float, default=0.1, help="as of `lab virtual up sim`")
    parser.add_argument("--pace", type=float, default=3.0, help="seconds between two strikes, on average")
    parser.add_argument("--verbose", action="store_true", help="tell of every strike")
    options = parser.parse_args()
    with_own_mounts()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # who ends us early leaves nothing behind either
    print(f"seed {options.seed}: {options.minutes:g} minutes on {options.boards} boards", flush=True)
    home = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))
    say = print_now if options.verbose else lambda _line: None
    lab = ChaosLab(home, options.boards, options.time_scale, options.seed)
    report = Report()
    try:
        suffer(lab, report, options, say)
        if report.wrong:
            kept = Path(tempfile.mkdtemp(prefix="chaos-kept-"))
            shutil.copytree(home, kept, dirs_exist_ok=True, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
            print(f"what the lab wrote is kept in {kept}")
    finally:
        lab.end()
        report.wrong += [f"{disk.path} is still in use: {said}" for disk in lab.disks if (said := disk.unmount())]
        report.wrong += [f"{point} is still mounted" for point in mounts_below(home)]
        shutil.rmtree(home, ignore_errors=True)
    print("\n".join(report.lines()))
    return 1 if report.wrong else 0


def suffer(lab: ChaosLab, report: Report, options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """All of it, from a lab that is well to one that has ended."""
    lab.start()
    chance = Random(options.seed)
    operators = [
        Operator(lab, board, "lab run" if number % 2 else "pytest", Random(chance.random()), options.cycles)
        for number, board in enumerate(lab.boards)
    ]
    havoc = Havoc(lab, operators, chance)
    rage(havoc, options.minutes * 60, options.pace, say)
    say("the havoc is over")
    report.strikes = havoc.done
    report.wrong += finish(lab, operators)
    look(lab, operators, report)
    report.wrong += lab.stop()
    compare(lab, report)
    report.wrong += left_behind(lab.home, lab.listening)


def print_now(line: str) -> None:
    """Say it with the time, at once."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def rage(havoc: Havoc, seconds: float, pace_s: float, say: Callable[[str], None]) -> None:
    """Measure, and strike."""
    end_s = time.monotonic() + seconds
    next_s = time.monotonic() + pace_s
    while time.monotonic() < end_s:
        attend(havoc.lab, havoc.operators, closing=False)
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + havoc.chance.expovariate(1 / pace_s)
            what = havoc.strike()
            if what:
                say(what)
        time.sleep(TICK_S)


def attend(lab: ChaosLab, operators: Iterable[Operator], *, closing: bool) -> None:
    """Let everybody do what they do by themselves."""
    lab.tend()
    for operator in operators:
        operator.tend(closing=closing)


def finish(lab: ChaosLab, operators: Sequence[Operator]) -> list[str]:
    """Mend everything, and resume every run to its end; the boards on which that does not come."""
    lab.heal()
    deadline = time.monotonic() + CLOSING_S
    while not all(operator.done for operator in operators) and time.monotonic() < deadline:
        attend(lab, operators, closing=True)
        time.sleep(TICK_S)
    return [unfinished(operator) for operator in operators if not operator.done]


def unfinished(operator: Operator) -> str:
    """The state of a board whose run does not end."""
    running = operator.process is not None and operator.process.poll() is None
    lines = operator.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    return "\n    ".join(
        [
            f"{operator.board}: its run does not end; its sessions ended with {[e.status for e in operator.ended[-5:]]}, "
            f"{'one is running' if running else 'none is running'}; the last one said:",
            *lines,
        ]
    )


def look(lab: ChaosLab, operators: Sequence[Operator], report: Report) -> None:
    """Report the store's counts, classes and leases, and the sessions' ends."""
    for operator in operators:
        for ended in operator.ended:
            killed = ended.status in KILLED
            report.sessions["a kill" if killed else f"status {ended.status}"] += 1
            if not killed and ended.status not in EXPECTED:
                report.wrong.append(f"{operator.board}: a session ended with {ended.status}, see {operator.log.name}")
    for log in [*sorted(lab.home.glob("*.log")), *lab.recordings.path.glob("*.log"), lab.bench / "bench.log"]:
        escaped = Counter(match[1] for match in CRASH.finditer(log.read_text(encoding="utf-8", errors="replace")))
        report.wrong += [f"{log.relative_to(lab.home)} has {count} × {what!r}" for what, count in escaped.items()]
    with open_store(lab.environ["LAB_DB"]) as store:
        for run in store.runs():
            attempts = store.attempts(run.id)
            report.runs += 1
            report.outcomes.update(attempt.outcome for attempt in attempts)
            report.wrong += miscounts(run, attempts)
            report.judged += [Judged(timed, "untold", None) for timed in boot_times(run, attempts)]
    report.wrong += uncatalogued(report.outcomes)
    with looking(lab) as rows:
        held = rows.execute("SELECT id, board, state FROM jobs WHERE state IN ('queued', 'running')").fetchall()
        report.wrong += [f"job {number} still has {board}: it is {state}" for number, board, state in held]
        (sound,) = rows.execute("PRAGMA integrity_check").fetchone()
        if sound != "ok":
            report.wrong.append(f"the database is damaged: {sound}")


def compare(lab: ChaosLab, report: Report) -> None:
    """Each boot time beside the truth, which is complete once the bench has ended."""
    stories = {
        board: [Story(read_truth(life.truth), life.killed_ns) for life in lives] for board, lives in lab.truths.items()
    }
    report.judged = [judge(each.timed, stories[each.timed.board]) for each in report.judged]
    report.wrong += untrue(report.judged)


if __name__ == "__main__":
    sys.exit(main())
