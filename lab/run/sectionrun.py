"""A run of sections in cycles, row by row.

Each row's result or failure is an attempt in the store.

An attempt at a row is stored as soon as it has ended, with the row's parameters. When a cycle has all rows, and all
changes are undone, the cycle's own attempt is stored, with the section's name alone; it has the samples of a
section without rows. So a cycle without that attempt is unfinished, and continues with its missing rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import count
from typing import Final, Self, TypeAlias

from attrs import define, evolve, field

from lab.benchmarks.cycles import CycleAttempt, Retries, nothing_before_cycle
from lab.benchmarks.section import Bench, ParsedReading, Preflight, Row, Section, preflight
from lab.errors import BoardError, BoardlabError, BoardTransientError, TestError, TestStableError, TestTransientError
from lab.host.clock import Clock
from lab.metrics import Flag, uncertainty
from lab.metrics.declared import Limits
from lab.metrics.model import sample_of
from lab.results import ArtifactRef, Run, SampleRecord, Store
from lab.results import Attempt as ResultsAttempt
from lab.results.records import CONSOLE_LOG, GoodAttempt
from lab.run.attempts import AttemptRecorder, AttemptResult, stored_metrics
from lab.run.session import BoardSession

# --- Setup: governor, clock, cards and tools ---


_GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
_CLOCK = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
_CLOCK_SHARE = 0.01  # of the nominal clock
_TOOLS = ("openssl version", "fio --version", "iperf3 --version", "netperf -V", "mpstat -V", "cyclictest --help")
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@define
class RunSetup:
    """The state of a booted board that numbers depend on.

    Attributes:
        facts: name -> finding, e.g. {"card mmcblk1": "SR32G", "tool openssl": "3.2.4"}.
        flags: of every sample in this state.
    """

    facts: dict[str, str] = field(factory=dict)
    flags: set[Flag] = field(factory=set)
    _before: str = ""

    def take(self, bench: Bench, known: Mapping[str, str]) -> None:
        """Fix the clock at its highest, and record the state.

        Args:
            known: the facts of the board's run before; one that has changed is a flag.
        """
        self._fix_clock(bench)
        self.facts |= dict(_cards(bench)) | dict(_tools(bench))
        if any(name in known and known[name] != value for name, value in self.facts.items()):
            self.flags.add(Flag.SETUP_CHANGED)

    def give_back(self, bench: Bench) -> None:
        """Restore the earlier governor."""
        if self._before and self._before != "performance":
            bench.run(_set_governor(self._before), check=False)

    def _fix_clock(self, bench: Bench) -> None:
        text = bench.run(f"cat {_GOVERNORS} 2>/dev/null", check=False).decode("utf-8", "replace").split()
        if not text:
            return  # a board without frequency scaling
        self._before = text[0]
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
    return f"for file in {_GOVERNORS}; do echo {name} > $file; done"


def _cards(bench: Bench) -> Iterator[tuple[str, str]]:
    command = "for file in /sys/block/mmcblk*/device/name; do echo $file $(cat $file 2>/dev/null); done"
    for match in re.finditer(rb"/sys/block/(mmcblk\d+)/device/name (\S+)", bench.run(command, check=False)):
        yield f"card {match[1].decode()}", match[2].decode("utf-8", "replace")


def _tools(bench: Bench) -> Iterator[tuple[str, str]]:
    for command in _TOOLS:
        name = command.split()[0]
        output = bench.run(f"command -v {name} > /dev/null && {command} 2>&1", check=False)
        if version := _VERSION.search(output.decode("utf-8", "replace")):
            yield f"tool {name}", version[0]


# --- The run ---
# An attempt at a row is kept as soon as it has ended, with the row's parameters. When all rows of a cycle are there, and
# what was changed is put back, the cycle's own attempt is kept, with the section's name alone; it has the samples of a
# section that has no rows. So a cycle without that attempt is not done, and goes on with the rows that it lacks.


KIND = "sections"
SECTION, REPEATS = "section", "repeats"  # the parameter of attempts; the plan's key: section -> its cycles


Measured: TypeAlias = tuple[ParsedReading, ...]


@define
class SectionRun:
    """Measures sections on one board and stores their transcripts.

    Attributes:
        run: from the store; `run.plan` has the cycles of each section (`repeats`; default 1).
        session: returns a new one for each try, at the section's prompt.
        simulated: flag every sample as of a simulated board.
        write: prints a line for the person at the terminal.
        retries: further attempts a cycle, or a row of it, after a transient failure.
        software: "uboot" and "kernel" -> the version line of the last boot.
        losses: returns flags of the console's losses since the last call, see `lab.run.attempts.Losses`.
        judged: explains a failure, e.g. by another reader of the console.
        before_cycle: called before each cycle, see `lab.benchmarks.cycles.run_cycles`. limits: of metrics, by the lab.
    """

    store: Store
    run: Run
    session: Callable[[Section], BoardSession]
    simulated: bool
    write: Callable[[str], None]
    clock: Clock
    sleep: Callable[[float], None]
    retries: int
    setup: RunSetup = field(factory=RunSetup)
    judged: Callable[[], AbstractContextManager[None]] = nullcontext
    before_cycle: Callable[[], None] = nothing_before_cycle
    software: Callable[[], Mapping[str, str]] = dict
    losses: Callable[[], frozenset[Flag]] = frozenset
    limits: Limits = field(factory=dict)
    _whole: AttemptRecorder = field(init=False)
    _rows: AttemptRecorder = field(init=False)
    _session: BoardSession | None = field(default=None, init=False)
    _row: Mapping[str, str] = field(factory=dict, init=False)  # that is being measured; empty: between the rows
    _stored_bytes: int = field(default=0, init=False)  # so much of the session's transcript is in the store

    def __attrs_post_init__(self) -> None:
        self._whole, self._rows = (AttemptRecorder(self.store, self.run.id, self.clock, self.limits) for _ in range(2))

    def repeats(self, section: str) -> int:
        """The number of its cycles in the plan."""
        return int(self.run.plan.get(REPEATS, {}).get(section, 1))

    def pending(self, section: str) -> list[int]:
        """The incomplete cycles."""
        return self.pending_of([section])[section]

    def pending_of(self, sections: Iterable[str]) -> dict[str, list[int]]:
        """The incomplete cycles of each of these sections."""
        good = [a for a in self.store.good_attempts(self.run.id) if a.params.keys() == {SECTION}]
        done = {(a.params[SECTION], a.cycle) for a in good}
        return {
            name: [cycle for cycle in range(1, self.repeats(name) + 1) if (name, cycle) not in done]
            for name in sections
        }

    def missing(self, section: Section) -> list[str]:
        """The section's metrics without a sample in the run."""
        return sorted(set(section.metrics) - stored_metrics(self.store, self.run.id, section=section.name))

    def preflight(self, section: Section) -> Preflight:
        """Check the section's needs on the board, with retries of a boot.

        Raises:
            BoardlabError: the check failed; each try is an attempt at the first pending cycle.
        """
        retries = Retries(self.retries)
        for number in count(1):
            self._session, self._row, self._stored_bytes = None, {}, 0
            self._whole.start()
            try:
                with self.judged():
                    self._session = self.session(section)
                    return preflight(section, self._session)
            except BoardlabError as error:
                cycle = next(iter(self.pending(section.name)), 1)
                self._record(section, CycleAttempt(cycle, number, None, error))
                pause_s = retries.pause_s(error)
                again = pause_s is not None
                self.write(_failed_line(f"{section.name:22}", {}, number, error, again=again, goes_on=again))
                if pause_s is None:
                    raise
                self.sleep(pause_s)
        raise AssertionError("unreachable: the loop above has no end of its own")

    def measure(self, section: Section) -> None:
        """Measure a section's pending cycles with retries; rows fail independently.

        Raises:
            BoardlabError: the section, or some of its rows, could not be measured; the store has its output.
        """
        ledger = RowLedger.of(self.store.good_attempts(self.run.id), section.name)
        for cycle in self.pending(section.name):
            self.before_cycle()
            self._cycle(section, cycle, ledger)
            if ledger.lost(cycle) and not ledger.numbers(cycle):
                break  # not one row went well: further cycles would tell the same
        ledger.tell(self.run.id)

    def _cycle(self, section: Section, cycle: int, ledger: RowLedger) -> None:
        tries: Counter[RowKey] = Counter()
        retries: dict[RowKey, Retries] = {}
        repeats = self.repeats(section.name)
        head = f"{section.name:22}" + (f" {cycle:2}/{repeats}" if repeats > 1 else "")
        while True:
            try:
                readings = self._try(section, cycle, ledger, tries)
            except BoardlabError as error:
                key = row_key(self._row)
                number = tries[key] = tries[key] + 1
                self._record(section, CycleAttempt(cycle, number, None, error))
                most = 0 if ledger.failed_before(self._row) else self.retries
                pause_s = retries.setdefault(key, Retries(most)).pause_s(error)
                again = pause_s is not None
                hung = self._session is not None and self._session.lost
                goes_on = again or ledger.give_up(cycle, self._row, error, hung=hung)
                self.write(_failed_line(head, self._row, number, error, again=again, goes_on=goes_on))
                if not goes_on:
                    raise
                self.sleep(pause_s or 0.0)
            else:
                break
        if ledger.lost(cycle):
            return  # the cycle is not done, and is gone on with when the run is resumed
        numbers = len(readings) + ledger.numbers(cycle)
        self._record(section, CycleAttempt(cycle, tries[row_key({})] + 1, readings, None))
        self.write(f"{head} {numbers:4} numbers  {self._whole.elapsed_s:7.1f} s")

    def _try(self, section: Section, cycle: int, ledger: RowLedger, tries: Counter[RowKey]) -> Measured:
        """Measure the cycle's missing rows; return a rowless section's readings."""
        self._session, self._row, self._stored_bytes = None, {}, 0
        self._whole.start()
        found: Measured = ()
        with self.judged():
            session = self._session = self.session(section)
            rows = section.rows(session)
            with _then(partial(section.restore, session)), _then(rows.close):
                for row in rows:
                    self._row = row.params
                    if not row.params:
                        found = self._measured(section, row)
                    elif ledger.wants(cycle, row.params):
                        self._rows.start()
                        attempt = CycleAttempt(
                            cycle, tries[row_key(row.params)] + 1, self._measured(section, row), None
                        )
                        self._record(section, attempt)
                        ledger.keep(cycle, row.params, len(attempt.result or ()))
                    self._row = {}
        if not found and not ledger.rows(cycle):
            _check(section, ())
        return found

    def _measured(self, section: Section, row: Row) -> Measured:
        self.losses()  # earlier losses are not of this row
        readings = tuple(row.measure())
        _check(section, readings)
        lost = self.losses()
        return tuple(evolve(reading, flags=reading.flags | lost) for reading in readings)

    def _record(self, section: Section, attempt: CycleAttempt[Measured]) -> None:
        """Store an attempt with its own part of the transcript."""
        base, logs = self._stored_bytes, list[ArtifactRef]()
        if self._session is not None:
            log = bytes(self._session.transcript[base:])
            logs, self._stored_bytes = [self.store.artifacts.put(log, kind=CONSOLE_LOG)], base + len(log)
        flags = frozenset(self.setup.flags) | ({Flag.SIMULATED} if self.simulated else frozenset())
        evidence = AttemptResult(
            params={SECTION: section.name, **self._row},
            artifacts=tuple(logs),
            details={"setup": dict(self.setup.facts), "simulated": self.simulated, "software": dict(self.software())},
            samples=tuple(_sample(section, reading, base, flags) for reading in attempt.result or ()),
        )
        (self._rows if self._row else self._whole).record(attempt, evidence)


@contextmanager
def _then(undo: Callable[[], object]) -> Iterator[None]:
    """Undo a change after the block; the block's error comes first."""
    try:
        yield
    except BoardlabError as error:
        try:
            undo()
        except BoardlabError as second:
            error.add_note(f"and putting back failed: {second}")
        raise
    else:
        undo()


def _check(section: Section, readings: Iterable[ParsedReading]) -> None:
    names = {reading.metric for reading in readings}
    unknown = sorted(names - set(section.metrics))
    if unknown or not names:
        raise TestStableError(
            f"section {section.name} reads {', '.join(unknown) or 'nothing'}, and declares {', '.join(section.metrics)}: "
            "mend its module in lab/benchmarks"
        )


def _sample(section: Section, parsed: ParsedReading, base: int, flags: frozenset[Flag]) -> SampleRecord:
    metric = section.metric(parsed.metric)
    bound = uncertainty.of_step(max(parsed.quantum, metric.resolution))
    window = (parsed.start - base, parsed.end - base)
    own = metric in section.declares
    return sample_of(metric, parsed.params, parsed.value, bound, flags | parsed.flags, window, declared=own)


def _failed_line(
    head: str, row: Mapping[str, str], number: int, error: BoardlabError, *, again: bool, goes_on: bool
) -> str:
    what_next = "retry" if again else "the other rows" if goes_on else "stop"
    which = f" {row_name(row)}" if row else ""
    return f"{head}{which} attempt {number} FAILED [{error.failure}, {error.fault}]: {error} -> {what_next}"


def durations(store: Store, board_type: str) -> Mapping[str, float]:
    """Last duration of a cycle by section, on this board type (s)."""
    found: dict[str, float] = {}
    for run in store.runs(limit=50):
        if run.kind == KIND and run.board_type == board_type:
            for attempt in store.attempts(run.id):
                if attempt.ok and attempt.params.keys() == {SECTION}:
                    found.setdefault(attempt.params[SECTION], attempt.duration_s)
    return found


def facts_before(store: Store, run: Run) -> Mapping[str, str]:
    """The setup of the board's previous run; empty: none."""
    for earlier in store.runs():
        if earlier.kind == KIND and earlier.board == run.board and earlier.id < run.id:
            for attempt in store.attempts(earlier.id):
                if attempt.ok:
                    setup = attempt.details.get("setup", {})
                    return {str(name): str(value) for name, value in setup.items()}
    return {}


# --- Rows of a section ---


MAX_HUNG: Final = 2  # rows after which the board had to be power-cycled; more of them, and it is not about the rows
RowKey: TypeAlias = tuple[tuple[str, str], ...]


def row_key(row: Mapping[str, str]) -> RowKey:
    """A row's parameters as a hashable key."""
    return tuple(sorted(row.items()))


def row_name(row: Mapping[str, str]) -> str:
    """A row for people: `direction=capture, rate_hz=8000`."""
    return ", ".join(f"{name}={text}" for name, text in row_key(row))


@define
class RowLedger:
    """The rows of one section in one run.

    Attributes:
        good: cycle and row -> number of its values.
        bad: cycle and row -> its error in this session, after retries.
    """

    good: dict[tuple[int, RowKey], int] = field(factory=dict)
    bad: dict[tuple[int, RowKey], BoardlabError] = field(factory=dict)
    _hung: set[RowKey] = field(factory=set)

    @classmethod
    def of(cls, attempts: Iterable[GoodAttempt], section: str) -> Self:
        """The rows that the run already has."""
        ledger = cls()
        for attempt in attempts:
            row = dict(attempt.params)
            if row.pop("section", "") == section and row:
                ledger.keep(attempt.cycle, row, attempt.samples)
        return ledger

    def wants(self, cycle: int, row: Mapping[str, str]) -> bool:
        """True if a row must be measured.

        A row that hung the board is tried in one cycle only.
        """
        place = cycle, row_key(row)
        if place[1] in self._hung and place not in self.good:
            self.bad.setdefault(place, next(error for (_, key), error in self.bad.items() if key == place[1]))
        return place not in self.good and place not in self.bad

    def keep(self, cycle: int, row: Mapping[str, str], numbers: int) -> None:
        """Note a stored row."""
        self.good[cycle, row_key(row)] = numbers

    def failed_before(self, row: Mapping[str, str]) -> bool:
        """True if it failed in another cycle of this session.

        Then one try of it is enough.
        """
        return any(key == row_key(row) for _, key in self.bad)

    def give_up(self, cycle: int, row: Mapping[str, str], error: BoardlabError, *, hung: bool) -> bool:
        """Note a failed row; True if other rows may still succeed.

        They may not if the failure is not about the row: it is the lab's, a configuration's, or a
        stable one, or no row was at work (`row` is empty), or the board did not come back from several rows.

        Args:
            hung: the board has to be power-cycled.
        """
        if not row or not error.transient or not isinstance(error, BoardError | TestError):
            return False
        self.bad[cycle, row_key(row)] = error
        if hung:
            self._hung.add(row_key(row))
        return len(self._hung) < MAX_HUNG

    def rows(self, cycle: int) -> int:
        """Number of a cycle's rows with a result."""
        return sum(each == cycle for each, _ in (*self.good, *self.bad))

    def numbers(self, cycle: int) -> int:
        """Number of values of a cycle's rows."""
        return sum(count for (each, _), count in self.good.items() if each == cycle)

    def lost(self, cycle: int) -> bool:
        """True if rows of a cycle could not be measured."""
        return any(each == cycle for each, _ in self.bad)

    def tell(self, run_id: int) -> None:
        """Raise an error that names the failed rows.

        Raises:
            BoardTransientError, TestTransientError: rows failed; the failure class is that of the first.
        """
        rows: dict[RowKey, tuple[list[int], BoardlabError]] = {}
        for (cycle, key), error in self.bad.items():
            rows.setdefault(key, ([], error))[0].append(cycle)
        if not rows:
            return
        failures = [
            f"{row_name(dict(key))} (cycle {', '.join(map(str, cycles))}): [{error.failure}] {error}"
            for key, (cycles, error) in rows.items()
        ]
        first = next(iter(self.bad.values()))
        kind = BoardTransientError if isinstance(first, BoardError) else TestTransientError
        raise kind(
            f"{len(rows)} of {len({key for _, key in (*self.good, *self.bad)})} rows could not be measured, the others are in "
            f"the store: {'; '.join(failures)}. Output of each try: lab results show {run_id} --log. pytest "
            f"--lab-resume {run_id} tries these rows again",
            failure=first.failure,
        )


def not_measured(attempts: Iterable[ResultsAttempt]) -> Iterator[str]:
    """A line for each tried row and section that a cycle lacks."""
    good: set[tuple[int, RowKey]] = set()
    bad: dict[RowKey, dict[int, ResultsAttempt]] = {}
    for attempt in attempts:
        key = row_key(attempt.params)
        if attempt.ok:
            good.add((attempt.cycle, key))
        else:
            bad.setdefault(key, {})[attempt.cycle] = attempt
    for key, cycles in bad.items():
        missing = {cycle: attempt for cycle, attempt in cycles.items() if (cycle, key) not in good}
        if missing:
            row = dict(key)
            which = f"{row.pop('section', '')} {row_name(row)}".strip()
            reason = next(iter(missing.values()))
            where = ", ".join(map(str, missing))
            yield f"not measured: {which} (cycle {where}): [{reason.outcome}, {reason.fault}] {reason.message}"
