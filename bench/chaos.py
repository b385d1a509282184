"""Does boardlab keep its promise when everything around it fails? Havoc on simulated boards, then the counts and the truth.

    uv run python bench/chaos.py [--minutes 60] [--boards 8] [--seed 1] [--cycles 6] [--time-scale 0.1] [--pace 3] [--verbose]

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
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random

from attrs import define, field
from chaos_disk import mounts_below, with_own_mounts
from chaos_lab import ChaosLab
from chaos_sessions import Operator, looking
from chaos_strikes import KINDS, Havoc
from chaos_verdict import Judged, Story, boot_times, judge, left_behind, miscounts, uncatalogued, untrue

from lab.results import open_store
from lab.virtual.truth import read_truth

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


@define
class Report:
    """What was done, and what came of it."""

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
    chance = Random(options.seed)  # noqa: S311 - repeatable, not secret
    operators = [
        Operator(lab, board, "lab run" if number % 2 else "pytest", Random(chance.random()), options.cycles)  # noqa: S311
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
    """What there is to say of a board whose run does not end."""
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
    """What the store says: counts, classes, leases; and how the sessions ended."""
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
