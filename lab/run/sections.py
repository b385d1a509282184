"""A run of sections of the guide in cycles, row by row.

An attempt at a row is stored as soon as it has ended, good or failed, with the row's parameters. When a cycle has all
its rows, and the section has undone its changes to the board, an attempt of the cycle itself is stored; its only
parameter is the section's name, and it has the samples of a section without rows. So a cycle without that attempt is
unfinished, and a resumed run continues it with the missing rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import ClassVar, Final, NoReturn, TypeAlias

from attrs import define, evolve, field

from lab.benchmarks.cycles import CycleAttempt, Retries
from lab.benchmarks.section import Bench, ParsedReading, Preflight, Row, Section, preflight
from lab.errors import BoardlabError, TestStableError
from lab.metrics import Flag, uncertainty
from lab.metrics.model import sample_of
from lab.results import ArtifactRef, Run, SampleRecord, Store
from lab.results.records import CONSOLE_LOG
from lab.run.attempts import AttemptResult
from lab.run.engine import AttemptStart, RunEngine
from lab.run.rows import RowKey, RowLedger, row_key, row_name
from lab.run.session import BoardSession

KIND: Final = "sections"
SECTION = "section"  # parameter of each attempt
REPEATS = "repeats"  # key of the plan: section -> number of its cycles
Readings: TypeAlias = tuple[ParsedReading, ...]

_GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
_CLOCK = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
_CLOCK_SHARE = 0.01  # share of the nominal clock by which the measured one may differ
_TOOLS = ("openssl version", "fio --version", "iperf3 --version", "netperf -V", "mpstat -V", "cyclictest --help")
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@define
class RunSetup:
    """The state of a booted board that its numbers depend on: clock, cards and versions of programs.

    Attributes:
        facts: name -> value, e.g. {"card mmcblk1": "SR32G", "tool openssl": "3.2.4"}.
        flags: flags of every sample that is measured in this state.
    """

    facts: dict[str, str] = field(factory=dict)
    flags: set[Flag] = field(factory=set)
    _original_governor: str = ""  # empty: the board has no frequency scaling

    def take(self, bench: Bench, earlier_facts: Mapping[str, str]) -> None:
        """Fix the processor's clock at its highest frequency, and record the board's state.

        Args:
            earlier_facts: facts of the board's previous run; if one has changed, all samples are flagged.
        """
        self._fix_clock(bench)
        self.facts |= dict(_cards(bench)) | dict(_tools(bench))
        if any(name in earlier_facts and earlier_facts[name] != value for name, value in self.facts.items()):
            self.flags.add(Flag.SETUP_CHANGED)

    def give_back(self, bench: Bench) -> None:
        """Restore the governor that `take` has replaced."""
        if self._original_governor and self._original_governor != "performance":
            bench.run(_set_governor(self._original_governor), check=False)

    def _fix_clock(self, bench: Bench) -> None:
        """Set the governor "performance", and flag a board whose governor or clock is another all the same."""
        governors = bench.run(f"cat {_GOVERNORS} 2>/dev/null", check=False).decode("utf-8", "replace").split()
        if not governors:
            return  # a board without frequency scaling
        self._original_governor = governors[0]
        bench.run(_set_governor("performance"), check=False)
        now = set(bench.run(f"cat {_GOVERNORS}", check=False).decode("utf-8", "replace").split())
        self.facts["governor"] = ", ".join(sorted(now))
        if now != {"performance"}:
            self.flags.add(Flag.GOVERNOR)
        identity = bench.board.identity
        clock = bench.run(f"cat {_CLOCK} 2>/dev/null", check=False).strip()
        if clock.isdigit():
            mhz = int(clock) / 1000
            self.facts["clock"] = f"{mhz:g} MHz"
            if identity is not None and abs(mhz / identity.cpu_mhz - 1) > _CLOCK_SHARE:
                self.flags.add(Flag.CLOCK_DIFFERS)


def _set_governor(name: str) -> str:
    """Return the command that sets the governor of all processors."""
    return f"for file in {_GOVERNORS}; do echo {name} > $file; done"


def _cards(bench: Bench) -> Iterator[tuple[str, str]]:
    """Yield the product names of the MMC devices, as facts of the setup."""
    command = "for file in /sys/block/mmcblk*/device/name; do echo $file $(cat $file 2>/dev/null); done"
    for match in re.finditer(rb"/sys/block/(mmcblk\d+)/device/name (\S+)", bench.run(command, check=False)):
        yield f"card {match[1].decode()}", match[2].decode("utf-8", "replace")


def _tools(bench: Bench) -> Iterator[tuple[str, str]]:
    """Yield the benchmark programs' versions, as facts of the setup."""
    for command in _TOOLS:
        name = command.split()[0]
        output = bench.run(f"command -v {name} > /dev/null && {command} 2>&1", check=False)
        if version := _VERSION.search(output.decode("utf-8", "replace")):
            yield f"tool {name}", version[0]


@define
class SectionRun(RunEngine):
    """Measures sections on one board, and stores their transcripts.

    `run.plan` has the number of cycles of each section (`repeats`; default 1).

    Attributes:
        session: starts a new session for a try of a section, at the prompt that the section needs.
        setup: state of the board, stored with each attempt.
    """

    ITEMS: ClassVar[str] = "sections"
    ITEM: ClassVar[str] = SECTION

    session: Callable[[Section], BoardSession] = field(kw_only=True)
    setup: RunSetup = field(factory=RunSetup, kw_only=True)
    _row_start: AttemptStart = field(init=False)
    _session: BoardSession | None = field(default=None, init=False)
    _row: Mapping[str, str] = field(factory=dict, init=False)  # the row that is being measured; empty: between rows
    _stored_bytes: int = field(default=0, init=False)  # length of the transcript's part that is in the store

    def cycles(self, item: str) -> int:
        return int(self.run.plan.get(REPEATS, {}).get(item, 1))

    def pending(self, item: str) -> list[int]:
        finished = {
            attempt.cycle for attempt in self.good_attempts(section=item) if attempt.params.keys() == {SECTION}
        }
        return [cycle for cycle in range(1, self.cycles(item) + 1) if cycle not in finished]

    def missing(self, section: Section) -> list[str]:
        """Return the section's metrics without a sample in the run."""
        return sorted(set(section.metrics) - self.measured_metrics(section.name))

    def preflight(self, section: Section) -> Preflight:
        """Check on the board that it has what the section needs.

        Each failed try is stored as an attempt at the first pending cycle, and retried as a boot is.

        Raises:
            BoardlabError: the check failed, and so did its retries.
        """
        retries = Retries(self.retries)
        for number in count(1):
            try:
                with self._trying(section) as session:
                    return preflight(section, session)
            except BoardlabError as error:
                cycle = next(iter(self.pending(section.name)), 1)
                self._record(section, CycleAttempt(cycle, number, None, error))
                pause_s = retries.pause_s(error)
                self._write_failure(f"{section.name:22}", number, error, "stop" if pause_s is None else "retry")
                if pause_s is None:
                    raise
                self.sleep(pause_s)
        raise AssertionError("unreachable: the loop above ends by return or raise")

    def refuse(self, section: Section, problem: str) -> NoReturn:
        """Store a section that the preflight refused as a failed attempt.

        Args:
            problem: why it was refused, for the message.

        Raises:
            TestStableError: always, with the problem.
        """
        error = TestStableError(problem)
        self._record(section, CycleAttempt(next(iter(self.pending(section.name)), 1), 1, None, error))
        raise error

    def measure(self, section: Section) -> None:
        """Measure a section's pending cycles with retries.

        A row that cannot be measured is left out, and the others go on.

        Raises:
            BoardlabError: the section, or some of its rows, could not be measured; the store has their output.
        """
        ledger = RowLedger.from_attempts(self.good_attempts(section=section.name))
        for cycle in self.pending(section.name):
            self.before_cycle()
            self._measure_cycle(section, cycle, ledger)
            if ledger.has_failed(cycle) and not ledger.numbers(cycle):
                break  # no row succeeded: further cycles would not help
        ledger.raise_failures(self.run.id)

    def _measure_cycle(self, section: Section, cycle: int, ledger: RowLedger) -> None:
        """Try the missing rows of a cycle until each is measured or given up.

        Args:
            ledger: the section's rows; it is updated.

        Raises:
            BoardlabError: the failure is not that of a row, so no other row can be tried.
        """
        tries: Counter[RowKey] = Counter()
        retries: dict[RowKey, Retries] = {}
        cycles = self.cycles(section.name)
        head = f"{section.name:22}" + (f" {cycle:2}/{cycles}" if cycles > 1 else "")
        while True:
            try:
                readings = self._try_rows(section, cycle, ledger, tries)
                break
            except BoardlabError as error:
                key = row_key(self._row)
                number = tries[key] = tries[key] + 1
                self._record(section, CycleAttempt(cycle, number, None, error))
                limit = 0 if ledger.failed_before(self._row) else self.retries
                pause_s = retries.setdefault(key, Retries(limit)).pause_s(error)
                hung = self._session is not None and self._session.lost
                if pause_s is not None:
                    self._write_failure(head, number, error, "retry")
                    self.sleep(pause_s)
                elif ledger.give_up(cycle, self._row, error, hung=hung):
                    self._write_failure(head, number, error, "the other rows")
                else:
                    self._write_failure(head, number, error, "stop")
                    raise
        if ledger.has_failed(cycle):
            return  # the cycle stays unfinished; a resumed run continues it
        numbers = len(readings) + ledger.numbers(cycle)
        self._record(section, CycleAttempt(cycle, tries[row_key({})] + 1, readings, None))
        self.progress.write(f"{head} {numbers:4} numbers  {self.attempt_start.elapsed_s(self.clock):7.1f} s")

    def _try_rows(self, section: Section, cycle: int, ledger: RowLedger, tries: Counter[RowKey]) -> Readings:
        """Measure the missing rows of a cycle in one session, and store them one by one.

        Args:
            tries: how often each row has failed in this cycle.

        Returns:
            The readings of a section without rows, which belong to the cycle's own attempt; else empty.
        """
        readings: Readings = ()
        with self._trying(section) as session:
            rows = section.rows(session)
            with _undoing(partial(section.restore, session)), _undoing(rows.close):
                for row in rows:
                    self._row = row.params
                    if not row.params:
                        readings = self._read(section, row)
                    elif ledger.wants(cycle, row.params):
                        self._row_start = AttemptStart.now(self.clock)
                        row_readings = self._read(section, row)
                        number = tries[row_key(row.params)] + 1
                        self._record(section, CycleAttempt(cycle, number, row_readings, None))
                        ledger.keep(cycle, row.params, len(row_readings))
                    self._row = {}
        if not readings and not ledger.rows(cycle):
            _check_declared(section, ())
        return readings

    @contextmanager
    def _trying(self, section: Section) -> Iterator[BoardSession]:
        """Start a try of a section in a new session; a second reader of the console is blamed for its failure."""
        self._session, self._row, self._stored_bytes = None, {}, 0
        self.attempt_start = AttemptStart.now(self.clock)
        with self.explaining_failures():
            self._session = self.session(section)
            yield self._session

    def _read(self, section: Section, row: Row) -> Readings:
        """Measure a row; its readings are flagged if the console lost bytes meanwhile."""
        self.losses.flags()  # forget the bytes that were lost before this row
        readings = tuple(row.measure())
        _check_declared(section, readings)
        flags = self.losses.flags()
        return tuple(evolve(reading, flags=reading.flags | flags) for reading in readings)

    def _record(self, section: Section, attempt: CycleAttempt[Readings]) -> None:
        """Store an attempt with the part of the transcript that no earlier attempt has."""
        base, logs = self._stored_bytes, list[ArtifactRef]()
        if self._session is not None:
            log = bytes(self._session.transcript[base:])
            logs, self._stored_bytes = [self.store.artifacts.put(log, kind=CONSOLE_LOG)], base + len(log)
        simulated = self.run.provenance.get("virtual") is True
        flags = frozenset(self.setup.flags) | ({Flag.SIMULATED} if simulated else frozenset())
        evidence = AttemptResult(
            params={SECTION: section.name, **self._row},
            artifacts=tuple(logs),
            details={"setup": dict(self.setup.facts), "simulated": simulated, "software": dict(self.board.software)},
            samples=tuple(_sample(section, reading, base, flags) for reading in attempt.result or ()),
        )
        self.store_attempt(self._row_start if self._row else self.attempt_start, attempt, evidence)

    def _write_failure(self, head: str, number: int, error: BoardlabError, what_next: str) -> None:
        """Write the progress line of a failed attempt."""
        title = f"{head} {row_name(self._row)}" if self._row else head
        self.progress.write(
            f"{title} attempt {number} FAILED [{error.failure}, {error.fault}]: {error} -> {what_next}"
        )


@contextmanager
def _undoing(undo: Callable[[], object]) -> Iterator[None]:
    """Undo a change to the board after the block; if both fail, the block's error is raised, with a note."""
    try:
        yield
    except BoardlabError as error:
        try:
            undo()
        except BoardlabError as undo_error:
            error.add_note(f"and undoing its changes to the board failed: {undo_error}")
        raise
    else:
        undo()


def _check_declared(section: Section, readings: Iterable[ParsedReading]) -> None:
    """Require at least one reading, and readings of declared metrics only.

    Raises:
        TestStableError: the section's module measures something else than it declares.
    """
    names = {reading.metric for reading in readings}
    unknown = sorted(names - set(section.metrics))
    if unknown or not names:
        raise TestStableError(
            f"section {section.name} measured {', '.join(unknown) or 'nothing'}, and declares "
            f"{', '.join(section.metrics)}: correct its module in lab/benchmarks"
        )


def _sample(section: Section, reading: ParsedReading, base: int, flags: frozenset[Flag]) -> SampleRecord:
    """Return a reading as a sample, whose ± is the step of the program's output.

    Args:
        base: position in the transcript at which the attempt's log begins.
    """
    metric = section.metric(reading.metric)
    bound = uncertainty.of_step(max(reading.quantum, metric.resolution))
    window = (reading.start - base, reading.end - base)
    declared = metric in section.declares
    return sample_of(metric, reading.params, reading.value, bound, flags | reading.flags, window, declared=declared)


def durations(store: Store, board_type: str) -> Mapping[str, float]:
    """Return for each section how long its latest cycle on a board of this type took, in s."""
    durations_s: dict[str, float] = {}
    for run in store.runs(limit=50):
        if run.kind == KIND and run.board_type == board_type:
            for attempt in store.attempts(run.id):
                if attempt.ok and attempt.params.keys() == {SECTION}:
                    durations_s.setdefault(attempt.params[SECTION], attempt.duration_s)
    return durations_s


def facts_before(store: Store, run: Run) -> Mapping[str, str]:
    """Return the facts of the setup (`RunSetup.facts`) of the board's previous run; empty: there is none."""
    for earlier in store.runs(kind=KIND, board=run.board):
        if earlier.id < run.id:
            for attempt in store.good_attempts(earlier.id):
                setup = attempt.details.get("setup", {})
                return {str(name): str(value) for name, value in setup.items()}
    return {}
