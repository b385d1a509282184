"""A console that lost bytes: whatever was read from the rest says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, evolve, field
from support.scripted_host import ScriptedHost, section_run, sessions

from lab import boards
from lab.benchmarks.lmbench import bw_pipe
from lab.benchmarks.lowpower.kernellog import read_log
from lab.benchmarks.lowpower.modes import SuspendPlan
from lab.benchmarks.lowpower.preflight import PrintkSettings
from lab.benchmarks.lowpower.result import SuspendResult
from lab.benchmarks.section import Bench, ParsedReading, Row, Rows, Section
from lab.console.model import Chunk, Event, Gap, RecordKind
from lab.console.status import PortInfo
from lab.errors import BoardlabError
from lab.host.clock import MonotonicRaw
from lab.metrics import Flag, Moment
from lab.results import SampleRecord, Store, open_store
from lab.run import lowpower, sections
from lab.run.attempts import ByteLossDetector, sample_record
from lab.run.progress import Progress

AM62 = boards.load("am62xx_sk")
LOST = frozenset({Flag.CONSOLE_OVERRUN})
NONE = frozenset[Flag]()
GAP = Gap(2, 3, RecordKind.DROPPED, 64)
DEEP = """\
[   45.548480] PM: suspend entry (deep)
[   45.677311] Enabling non-boot CPUs ...
[   46.032262] PM: suspend exit
""".splitlines()


@define
class Console:
    """One whose driver counts `lost` characters since power-on."""

    lost: int = 0
    capture: list[Event] = field(factory=list)
    info: PortInfo | None = None

    def overruns(self) -> int:
        return self.lost

    def captured(self) -> bytes:
        return b""

    def start_capture(self) -> None:
        self.capture, self.lost = [], 0

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        return error


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as opened:
        yield opened


def test_losses_are_told_once_and_of_what_came_since() -> None:
    console = Console(lost=2)
    losses = ByteLossDetector(console)
    assert [losses.flags(), losses.flags()] == [LOST, NONE]
    console.lost = 3
    assert [losses.flags(), losses.flags()] == [LOST, NONE]
    console.capture += [Chunk(1, 0, b"abc"), GAP]
    assert [losses.flags(), losses.flags()] == [LOST, NONE]
    console.capture.append(Chunk(3, 67, b"d"))
    assert losses.flags() == NONE


def test_losses_are_counted_anew_from_a_power_on() -> None:
    console = Console(lost=5, capture=[GAP])
    losses = ByteLossDetector(console)
    losses.flags()
    console.start_capture()
    assert losses.flags() == NONE
    console.lost = 1
    assert losses.flags() == LOST
    console.capture = [GAP]
    assert losses.flags() == LOST


def test_a_row_of_a_section_is_flagged_where_the_console_lost_bytes_meanwhile(store: Store) -> None:
    console = Console()

    def row(bench: Bench, loses: int) -> Callable[[], list[ParsedReading]]:
        def measure() -> list[ParsedReading]:
            found = bench.read(bw_pipe, "bw_pipe")
            console.lost += loses
            return found

        return measure

    def rows(bench: Bench) -> Rows:
        for number, loses in enumerate((0, 1, 0)):
            yield Row(row(bench, loses), {"number": str(number)})

    section = Section("pipe", "Pipe", "System Benchmarks", ("lmbench.bw_pipe",), rows, "bw_pipe")
    begun = store.begin_run(sections.KIND, "am62xx_sk", "sk-1", "11.01", plan={}, provenance={})
    host = ScriptedHost({"bw_pipe": "Pipe bandwidth: 2384.03 MB/sec"})
    section_run(store, begun, sessions(host), console=console).measure(section)
    flags = {a.params["number"]: a.samples[0].flags for a in store.attempts(begun.id) if "number" in a.params}
    assert flags == {"0": frozenset(), "1": {Flag.CONSOLE_OVERRUN}, "2": frozenset()}


def test_a_suspend_is_flagged_where_the_console_lost_bytes_meanwhile(store: Store) -> None:
    console = Console(lost=7)  # while the board booted
    losing = iter((0, 1))
    answer = Moment("answer", 5_000_000_000, 1_000_000, 100, "boardlab: back 0")

    def cycle(plan: SuspendPlan, _trace: Path) -> SuspendResult:
        console.lost += next(losing)
        found = PrintkSettings("7 4 1 7", ("ttyS2",))
        return SuspendResult(plan, read_log(DEEP, AM62), None, None, answer, 4.0, found, (), "", "", None)

    board: Any = SimpleNamespace(
        type=AM62,
        console=console,
        low_power=SimpleNamespace(cycle=cycle, release=""),
        software={},
        wired=(),
        select_medium=lambda _medium: None,
    )
    plan = {"cycles": 2, "modes": ["deep_sleep"], "wake": "rtc", "sleep_s": 5, "medium": "sd"}
    begun = store.begin_run(lowpower.KIND, "am62xx_sk", "sk-1", "11.01", plan=plan, provenance={})
    clock = MonotonicRaw()
    progress = Progress(lambda _line: None, clock, 2)
    lowpower.LowPowerRun(store, begun, board, progress, clock, lambda _s: None, 0).measure("deep_sleep")
    flags = [sample.flags for attempt in store.attempts(begun.id) for sample in attempt.samples]
    assert flags == [frozenset(), {Flag.CONSOLE_OVERRUN}]


def test_a_number_that_was_not_read_from_the_attempts_log_has_no_place_in_it() -> None:
    of_command = SampleRecord("x", {}, 1.0, 0.1, frozenset())
    for sample in (of_command, evolve(of_command, log_start=10, log_end=20)):
        placed = sample_record(sample, log_base=5000)
        assert (placed.log_start, placed.log_end) == (None, None)
    placed = sample_record(evolve(of_command, log_start=4990, log_end=5020), log_base=5000)
    assert (placed.log_start, placed.log_end) == (0, 20)
