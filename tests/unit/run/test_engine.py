"""The engine of a run: its attempts are read once, and each is stored and kept as soon as it has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import asdict, evolve
from sqlalchemy import event
from support.scripted_host import ScriptedHost, SilentConsole, section_run, sessions
from support.simruns import SimBench, bench, planned

from lab import boards
from lab.benchmarks.cycles import CycleAttempt
from lab.benchmarks.lmbench import bw_pipe
from lab.benchmarks.lowpower.kernellog import read_log
from lab.benchmarks.lowpower.modes import SuspendPlan
from lab.benchmarks.lowpower.preflight import PrintkSettings
from lab.benchmarks.lowpower.result import SuspendResult
from lab.benchmarks.section import Bench, Row, Rows, Section
from lab.host.clock import MonotonicRaw
from lab.metrics import Moment
from lab.results import AttemptRecord, Store
from lab.run import diagnosis, lowpower, sections
from lab.run.diagnosis import DiagnosisRun
from lab.run.engine import RunEngine
from lab.run.lowpower import LowPowerRun
from lab.run.measure import MeasureRun
from lab.run.pairs import BootPairs
from lab.run.progress import Progress

CYCLES = 5
AM62 = boards.load("am62xx_sk")
SUSPEND = """\
[   45.548480] PM: suspend entry (deep)
[   45.677311] Enabling non-boot CPUs ...
[   46.032262] PM: suspend exit
""".splitlines()


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """The statements that a store sends to its database."""
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        sent.append(statement)

    event.listen(type(store._engine), "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(type(store._engine), "before_cursor_execute", note)


def boot(made: SimBench) -> tuple[RunEngine, Callable[[int], None]]:
    return made.run, lambda cycle: made.run.measure("sd", [cycle])


def low_power(made: SimBench) -> tuple[RunEngine, Callable[[int], None]]:
    answer = Moment("answer", 5_000_000_000, 1_000_000, 100, "boardlab: back 0")

    def suspend(plan: SuspendPlan, _trace: Path) -> SuspendResult:
        settings = PrintkSettings("7 4 1 7", ("ttyS2",))
        return SuspendResult(plan, read_log(SUSPEND, AM62), None, None, answer, 4.0, settings, (), "", "", None)

    class Console(SilentConsole):
        def captured(self) -> bytes:
            return b""

    board: Any = SimpleNamespace(
        type=AM62,
        console=Console(),
        low_power=SimpleNamespace(cycle=suspend, release=""),
        software={},
        wired=(),
        select_medium=lambda _medium: None,
    )
    plan = {"cycles": CYCLES, "modes": ["deep_sleep"], "wake": "rtc", "sleep_s": 5, "medium": "sd"}
    begun = made.store.begin_run(lowpower.KIND, "am62xx_sk", "sk-1", "11.01", plan=plan, provenance={})
    clock = MonotonicRaw()
    run = LowPowerRun(made.store, begun, board, Progress(lambda _line: None, clock, 0), clock, lambda _s: None, 0)
    return run, lambda cycle: run.measure("deep_sleep", [cycle])


def measure(made: SimBench) -> tuple[RunEngine, Callable[[int], None]]:
    test = "test_own.py::test_own"
    begun = made.store.begin_run(
        "measure", "am62xx_sk", "sim-1", "1", plan={"tests": [test], "repeats": {test: CYCLES}}, provenance={}
    )
    own = MeasureRun(
        made.store, begun, made.strategy, made.run.progress, made.run.clock, made.run.sleep, made.run.retries
    )

    def once(cycle: int) -> None:
        assert cycle in own.pending(test)
        numbers = own.begin({})
        made.strategy.transition("linux")
        declared = {"unit": "s", "better": "lower", "resolution": 0.1, "definition": "A number.", "version": 1}
        numbers("own.number", 1.0, **declared)  # type: ignore[arg-type]
        own.check_test(test, numbers)
        own.record(test, CycleAttempt(cycle, 1, numbers, None), numbers)

    return own, once


def section(made: SimBench) -> tuple[RunEngine, Callable[[int], None]]:
    def rows(bench: Bench) -> Rows:
        for name in ("1", "2"):
            yield Row(lambda: bench.read(bw_pipe, "bw_pipe"), {"number": name})

    pipe = Section("pipe", "Pipe", "System Benchmarks", ("lmbench.bw_pipe",), rows, "bw_pipe")
    plan = {"sections": ["pipe"], "repeats": {"pipe": CYCLES}}
    begun = made.store.begin_run(sections.KIND, "am62xx_sk", "sk-1", "11.01", plan=plan, provenance={})
    run = section_run(made.store, begun, sessions(ScriptedHost({"bw_pipe": "Pipe bandwidth: 2384.03 MB/sec"})))

    def once(cycle: int) -> None:
        begun.plan["repeats"]["pipe"] = cycle  # type: ignore[index]
        assert run.preflight(pipe).failed == {}
        run.measure(pipe)

    return run, once


def diagnose(made: SimBench) -> tuple[RunEngine, Callable[[int], None]]:
    made.run.measure("sd", [1])
    begun = diagnosis.begin(made.store, made.run.run)
    run = DiagnosisRun(
        made.store, begun, made.strategy, made.run.progress, made.run.clock, made.run.sleep, made.run.retries
    )
    return run, lambda cycle: run.measure("sd", [cycle])


def pair(made: SimBench) -> tuple[RunEngine, Callable[[int], None]]:
    other = made.store.begin_run("ab", "am62xx_sk", "sim-1", "b", plan=made.run.run.plan, provenance={})
    sides = {"a": made.run, "b": evolve(made.run, run=other)}
    pairs = BootPairs(sides, 7, "sd", lambda _side: None)

    def once(number: int) -> None:
        assert pairs.difference(number, "a", "b") is not None

    return made.run, once


KINDS = [boot, low_power, measure, section, diagnose, pair]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_cycle_reads_no_attempts_before_it_however_many_there_are(tmp_path: Path, kind: Any) -> None:
    with bench(tmp_path, cycles=CYCLES) as made:
        engine, once = kind(made)
        sent_by_cycle = []
        for cycle in range(1, CYCLES + 1):
            with statements(made.store) as sent:
                once(cycle)
            sent_by_cycle.append(sent)
        good = [attempt for attempt in made.store.attempts(engine.run.id) if attempt.ok]
        assert {attempt.cycle for attempt in good} == {*range(1, CYCLES + 1)}
    sent_by_cycle.pop()  # at its end a run judges its first boots again
    reads = [s for sent in sent_by_cycle[1:] for s in sent if s.startswith("SELECT") and "samples" in s]
    assert reads == [], "attempts are read with their samples, or with the number of these"
    counts = [len(sent) for sent in sent_by_cycle[1:]]
    assert len({*counts}) == 1, f"statements by cycle: {counts}"


def as_document(attempt: AttemptRecord) -> dict[str, object]:
    """An attempt without what only the store, or only the session, knows."""
    document = {name: value for name, value in asdict(attempt).items() if name not in {"id", "run_id"}}
    samples = [{**sample, "declared": None} for sample in document["samples"]]
    artifacts = sorted(ref["kind"] + ref["sha256"] for ref in document["artifacts"])
    return {**document, "samples": samples, "artifacts": artifacts}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_session_keeps_the_attempts_that_a_resumed_one_reads(tmp_path: Path, kind: Any) -> None:
    with bench(tmp_path, [planned("hang_kernel", "2")] if kind is boot else [], cycles=2) as made:
        engine, once = kind(made)
        once(1)
        once(2)
        stored = made.store.attempts(engine.run.id)
    assert engine.attempts != []
    for kept, read in zip(engine.attempts, stored, strict=True):
        assert as_document(kept) == as_document(read)


def test_attempts_of_another_session_are_seen_where_the_run_is_closed(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=2) as made:
        made.run.measure("sd", [1])
        evolve(made.run).measure("sd", [2])
        assert made.run.pending("sd") == [2]
        made.run.forget_attempts()
        assert made.run.pending("sd") == []
