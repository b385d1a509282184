"""Checks after chaos.py: each function returns the violations, in words."""

from __future__ import annotations

import fnmatch
import os
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from attrs import define, field, frozen

from lab.failures import CATALOGUE
from lab.metrics import Flag
from lab.results import Attempt, Run
from lab.virtual.truth_log import Truth

START, PROMPT = rb"Starting kernel \.\.\.", rb"-evm login: "
NEAR_NS = 2_000_000_000  # a stamp further from its marker than its ± and this is of another boot
CUT_NS = 300_000_000  # of a killed bench's truth the last is missing: it is written every tenth of a second
# Flags that say that a time itself may be wrong, not only what it was measured on.
DOUBTFUL = frozenset({Flag.CONSOLE_OVERRUN, Flag.CLOCK_DISAGREES, Flag.PROMPT_REPEATED, Flag.UNCERTAIN})
# Every file that may be there when nothing runs (docs/console.md, docs/results.md, docs/virtual-boards.md).
LASTING = (
    *(
        "run/console.log",
        "run/console.log.1",
        "run/console.lock",
        "run/rise-*.trace",
        "run/outlets/*.json",
        "run/rails/*.json",
    ),
    *("run/recordings/*.log", "run/recordings/*.idx", "run/recordings/older/*/*.log", "run/recordings/older/*/*.idx"),
    *("results/results.db", "results/artifacts/??/*"),
    *("bench/bench.log", "bench/bench.lock", "bench/pdudaemon.log", "bench/pdudaemon.conf", "bench/env.yaml"),
    *("bench/*/env.yaml", "bench/*/truth*.log", "bench/*/truth*.log.1", "bench/*/straps/bit*", "bench/*/sim.json"),
    *("env/*.yaml", "truth/*.log", "*.log"),
)
PASSING = ("results/artifacts/??/.*", "*/.*")  # names that mean: not ready yet
Kind = Literal["inside", "flagged", "nearly", "untold", "outside"]
# A program that computes beside the kernel's serial thread makes it late by some milliseconds, not always with evidence
# (docs/farm/load.md). Sessions that start do so here all the time.
BUSY_S = 0.01
NEARLY = 0.05  # of the numbers may be so


@frozen
class Timed:
    """A boot time as it was measured, with the stamps that it was made of."""

    run: int
    board: str
    cycle: int
    value_s: float
    about_s: float
    flags: frozenset[str]
    start_ns: int
    prompt_ns: int

    @property
    def name(self) -> str:
        """Which it is."""
        return f"run {self.run}, {self.board}, cycle {self.cycle}"


@frozen
class Judged:
    """A boot time beside the truth; `error_s` is None where there is no truth to compare it with."""

    timed: Timed
    kind: Kind
    error_s: float | None

    @property
    def said(self) -> str:
        """In words."""
        timed = self.timed
        beside = "no such boot in the truth" if self.error_s is None else f"off by {self.error_s:+.6f} s"
        return f"{timed.name}: {timed.value_s:.6f} s ± {timed.about_s:.6f} s {sorted(timed.flags)}: {beside}"


@define
class Story:
    """What a board's UART really said in the life of one bench: each kernel start, and the prompt that followed it.

    Attributes:
        killed_ns: when the bench was killed, if it was.
    """

    truth: Truth
    killed_ns: int | None = None
    starts: list[int] = field(init=False)
    prompts: list[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.starts, self.prompts = self.truth.find(START), self.truth.find(PROMPT)

    def prompt_of(self, start_ns: int) -> int | None:
        """When the prompt of the boot left that began there."""
        following = min((t_ns for t_ns in self.starts if t_ns > start_ns), default=None)
        prompt = min((t_ns for t_ns in self.prompts if t_ns > start_ns), default=None)
        return None if prompt is None or (following is not None and prompt > following) else prompt


def judge(timed: Timed, stories: Sequence[Story]) -> Judged:
    """A boot time beside what the board's UART said in each life of its bench."""
    near_ns = NEAR_NS + round(timed.about_s * 1e9)
    near = [(abs(t_ns - timed.start_ns), t_ns, story) for story in stories for t_ns in story.starts]
    distance_ns, start_ns, story = min(near, key=lambda each: each[0], default=(near_ns, 0, None))
    flagged = bool(timed.flags & DOUBTFUL)
    if story is None or distance_ns >= near_ns:
        return Judged(timed, "flagged" if flagged else "outside", None)
    prompt_ns = story.prompt_of(start_ns)
    if prompt_ns is None:
        cut = (
            story.killed_ns is not None and timed.prompt_ns > story.killed_ns - CUT_NS and start_ns == story.starts[-1]
        )
        return Judged(timed, "untold" if cut else "flagged" if flagged else "outside", None)
    error_s = timed.value_s - (prompt_ns - start_ns) / 1e9
    beyond_s = abs(error_s) - timed.about_s
    if beyond_s <= 0:
        return Judged(timed, "inside", error_s)
    return Judged(timed, "flagged" if flagged else "nearly" if beyond_s <= BUSY_S else "outside", error_s)


def untrue(judged: Sequence[Judged]) -> list[str]:
    """Boot times that are wrong; one in twenty, and at least one, may be off by what a busy host costs."""
    nearly = [each.said for each in judged if each.kind == "nearly"]
    too_many = len(nearly) > max(1, NEARLY * len(judged))
    return [each.said for each in judged if each.kind == "outside"] + (nearly if too_many else [])


def boot_times(run: Run, attempts: Iterable[Attempt]) -> list[Timed]:
    """The boot times of a run."""
    found = []
    for attempt in attempts:
        moments = {moment.name: moment.t_ns for moment in reversed(attempt.moments)}
        found += [
            Timed(
                run.id,
                run.board,
                attempt.cycle,
                sample.value,
                sample.uncertainty,
                sample.flags,
                moments.get("starting_kernel", 0),
                moments.get("login", 0),
            )
            for sample in attempt.samples
            if sample.metric == "boot.time"
        ]
    return found


def miscounts(run: Run, attempts: Sequence[Attempt]) -> list[str]:
    """A run that is not completed, or has not exactly one sample a cycle, or attempts that are not counted from one."""
    wrong = [] if run.status == "completed" else [f"run {run.id} on {run.board} is {run.status}"]
    wanted = {(medium, cycle) for medium in run.plan["media"] for cycle in range(1, run.plan["cycles"] + 1)}
    samples = Counter(
        (sample.params["medium"], attempt.cycle)
        for attempt in attempts
        for sample in attempt.samples
        if sample.metric == "boot.time"
    )
    wrong += [
        f"run {run.id} on {run.board}: {medium}, cycle {cycle} has {samples[medium, cycle]} samples"
        for medium, cycle in sorted(wanted | samples.keys())
        if samples[medium, cycle] != ((medium, cycle) in wanted)
    ]
    numbers: dict[tuple[str, int], list[int]] = {}
    for attempt in attempts:
        numbers.setdefault((attempt.params["medium"], attempt.cycle), []).append(attempt.number)
    return wrong + [
        f"run {run.id} on {run.board}: {medium}, cycle {cycle} has attempts {sorted(counted)}"
        for (medium, cycle), counted in sorted(numbers.items())
        if sorted(counted) != list(range(1, len(counted) + 1))
    ]


def uncatalogued(outcomes: Mapping[str, int]) -> list[str]:
    """Classes of failures that the catalogue does not have."""
    return [
        f"{count} attempts failed with {outcome!r}, which lab.failures does not have"
        for outcome, count in sorted(outcomes.items())
        if outcome != "ok" and outcome not in CATALOGUE
    ]


def left_behind(home: Path, ports: Sequence[int]) -> list[str]:
    """Locks, sockets, listeners and files that nothing needs when all has ended."""
    here = f"{home}/"
    wrong = []
    files = {}
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        if path.is_dir() and not path.is_symlink():
            continue
        status = path.lstat()
        files[f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"] = name
        lasting = any(_fits(name, pattern) for pattern in LASTING)
        if not lasting or any(_fits(name, pattern) for pattern in PASSING):
            wrong.append(f"{name} was left behind")
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        words = line.split()  # proc_locks(5); who waits for a lock has one more
        if words[-3] in files and "->" not in words:
            wrong.append(f"{files[words[-3]]} is still locked: {line}")
    for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines():
        if here in line:
            wrong.append(f"a socket is still bound: {line.split()[-1]}")
    return wrong + [f"somebody still listens on port {port}" for port in ports if _listens(port)]


def _fits(name: str, pattern: str) -> bool:
    """Whether a path fits a pattern, part by part."""
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
