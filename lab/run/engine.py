"""The engine of a run: it tries the pending cycles, and stores each try as soon as it has ended.

The kinds of runs (boot, low power, sections, own measurements, diagnosis) are its subclasses. Each says what the items
of its plan are, how one cycle of an item is tried, and which evidence is stored.
"""

from __future__ import annotations

import datetime as dt
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

from attrs import asdict, define, evolve, field, frozen

from lab.benchmarks.cycles import CycleAttempt, nothing_before_cycle, run_cycles
from lab.console.holders import explaining_shared_port
from lab.host.clock import NS_PER_S, Clock, utc_now
from lab.host.process import CpuTimes, cpu_times
from lab.metrics.limits import Limits
from lab.results import AttemptRecord, Run, Store
from lab.results.history import Item, item_of
from lab.results.records import HOST_BUSY, LIMITS, OK
from lab.run.attempts import AttemptResult, ByteLossDetector
from lab.run.progress import Progress

Result = TypeVar("Result")


@frozen
class AttemptStart:
    """The start of an attempt.

    Attributes:
        started_at: wall time, a label only.
        t_ns: the same instant on the run's clock.
        cpu: times of this host's processors, to tell later how busy they were.
    """

    started_at: dt.datetime
    t_ns: int
    cpu: CpuTimes

    @classmethod
    def now(cls, clock: Clock) -> Self:
        """Return a start at this instant."""
        return cls(utc_now(), clock.now_ns(), cpu_times())

    def elapsed_s(self, clock: Clock) -> float:
        """Return the seconds since the start, by the run's clock."""
        return (clock.now_ns() - self.t_ns) / NS_PER_S


@define
class RunEngine:
    """A run in progress, with its store, its board and its attempts.

    Attributes:
        ITEMS: key of the run's plan that lists the items, e.g. "media".
        ITEM: parameter of an attempt that names its item, e.g. "medium".
        run: the run's record; `run.plan` names its items and their cycles.
        board: a `lab.run.board.Board`, or a wrapper of labgrid's own drivers (`lab.pytest_plugin.labgridboard`).
        sleep: waits that many seconds.
        retries: further attempts at a cycle after a transient failure.
        before_cycle: called before each cycle, see `run_cycles`.
        limits: the lab's limits by metric; those of a measured metric are stored with the attempt.
        losses: tells which bytes the console has lost.
        attempt_start: start of the latest attempt.
    """

    ITEMS: ClassVar[str]
    ITEM: ClassVar[str]

    store: Store
    run: Run
    board: Any
    progress: Progress
    clock: Clock
    sleep: Callable[[float], None]
    retries: int
    before_cycle: Callable[[], None] = nothing_before_cycle
    limits: Limits = field(factory=dict)
    losses: ByteLossDetector = field(init=False)
    attempt_start: AttemptStart = field(init=False)
    _attempts: list[AttemptRecord] | None = field(default=None, init=False)
    _good: dict[tuple[Item, int], int] = field(factory=dict, init=False)  # item and cycle -> index of its good attempt

    def __attrs_post_init__(self) -> None:
        self.losses = ByteLossDetector(self.board.console)

    @property
    def items(self) -> list[str]:
        """The items of the plan, e.g. its media."""
        return list(self.run.plan[self.ITEMS])

    @property
    def attempts(self) -> list[AttemptRecord]:
        """The run's attempts in recorded order; they are read from the store once."""
        if self._attempts is None:
            self._attempts = [*self.store.attempts(self.run.id)]
            self._good = {_cycle_of(attempt): index for index, attempt in enumerate(self._attempts) if attempt.ok}
        return self._attempts

    def forget_attempts(self) -> None:
        """Read the attempts again at their next use: another session may have added some."""
        self._attempts = None

    def good_attempts(self, **params: str) -> list[AttemptRecord]:
        """Return the successful attempts with these parameters."""
        return [attempt for attempt in self.attempts if attempt.ok and params.items() <= attempt.params.items()]

    def measured_metrics(self, item: str) -> frozenset[str]:
        """Return the metrics that an item's good attempts have measured."""
        attempts = self.good_attempts(**{self.ITEM: item})
        return frozenset(sample.metric for attempt in attempts for sample in attempt.samples)

    def cycles(self, item: str) -> int:  # noqa: ARG002 - some kinds plan another number for each item
        """Return how many cycles of an item are planned."""
        return int(self.run.plan["cycles"])

    def pending(self, item: str) -> list[int]:
        """Return the item's cycles without a good attempt, by number from 1."""
        done = {attempt.cycle for attempt in self.good_attempts(**{self.ITEM: item})}
        return [cycle for cycle in range(1, self.cycles(item) + 1) if cycle not in done]

    def start_attempt(self) -> None:
        """Start an attempt; the console's output from now on is its evidence."""
        self.attempt_start = AttemptStart.now(self.clock)
        self.board.console.capture = []

    def store_attempt(self, start: AttemptStart, attempt: CycleAttempt[Any], evidence: AttemptResult) -> None:
        """Store an attempt that has ended, with how busy this host was meanwhile.

        Raises:
            BoardlabError: the store cannot be written.
        """
        error = attempt.error
        limited = dict.fromkeys(sample.metric for sample in evidence.samples if self.limits.get(sample.metric))
        limits = {metric: [limit.document() for limit in self.limits[metric]] for metric in limited}
        busy = cpu_times().busy_since(start.cpu)
        record = AttemptRecord(
            cycle=attempt.cycle,
            number=attempt.number,
            params=dict(evidence.params),
            outcome=OK if error is None else error.failure,
            fault=None if error is None else error.fault,
            transient=None if error is None else error.transient,
            message="" if error is None else str(error),
            started_at=start.started_at,
            duration_s=start.elapsed_s(self.clock),
            samples=evidence.samples,
            artifacts=evidence.artifacts,
            moments=evidence.moments,
            details={
                **evidence.details,
                **({} if busy is None else {HOST_BUSY: round(busy, 3)}),
                **({LIMITS: limits} if limits else {}),
            },
        )
        attempts = self.attempts  # read them before the store has this one, else it would be in the list twice
        self.store.record_attempt(self.run.id, record)
        if record.ok:
            self._good[_cycle_of(record)] = len(attempts)
        # The store gives details back as JSON does, e.g. tuples as lists: the next cycle must see the same.
        attempts.append(evolve(record, details=json.loads(json.dumps(record.details))))

    def revise_attempt(self, record: AttemptRecord) -> None:
        """Replace the ± and the flags of a stored good attempt's samples, and its details.

        Raises:
            BoardlabError: the store cannot be written.
        """
        self.store.revise_attempt(self.run.id, record)
        attempts = self.attempts
        attempts[self._good[_cycle_of(record)]] = record

    def explaining_failures(self) -> AbstractContextManager[None]:
        """Return a context that blames a second reader of the console for the block's failures, if there is one."""
        return explaining_shared_port(self.board.console)

    def port_details(self) -> dict[str, object]:
        """Return the console's port as details of an attempt."""
        info = self.board.console.info
        return {"port": asdict(info.meta) if info else None}


def _cycle_of(record: AttemptRecord) -> tuple[Item, int]:
    """Return the item and the number of the cycle that an attempt tried."""
    return item_of(record.params), record.cycle


@define
class CycleRun(RunEngine, ABC, Generic[Result]):
    """A run in which each attempt is a try of one cycle of one item."""

    @abstractmethod
    def try_cycle(self, item: str) -> Result:
        """Try one cycle of an item.

        Raises:
            BoardlabError: the cycle failed.
        """

    @abstractmethod
    def evidence(self, item: str, result: Result | None) -> AttemptResult:
        """Return the evidence of a try, to be stored.

        Args:
            result: of a good try; None: the try failed.
        """

    @abstractmethod
    def report(self, item: str, cycle: int, result: Result) -> None:
        """Write the progress lines of a good cycle."""

    def missing(self, item: str) -> list[str]:  # noqa: ARG002 - some kinds require none
        """Return the metrics that each good cycle should have, and no cycle of this item has."""
        return []

    def prepare(self, item: str) -> None:
        """Prepare the board for an item's cycles."""
        self.board.select_medium(item)

    def title(self, item: str) -> str:
        """Return the item's name in progress lines."""
        return item

    def measure(self, item: str, only: Sequence[int] | None = None) -> None:
        """Measure the pending cycles of one item.

        Args:
            only: numbers of the cycles to measure; None: all pending ones.

        Raises:
            BoardlabError: a cycle failed, and so did its retries; the earlier cycles are in the store.
        """
        self.prepare(item)
        run_cycles(
            self.pending(item) if only is None else only,
            lambda _cycle, _number: self._try(item),
            partial(self._record, item),
            retries=self.retries,
            sleep=self.sleep,
            before_cycle=self.before_cycle,
        )

    def _try(self, item: str) -> Result:
        self.start_attempt()
        with self.explaining_failures():
            return self.try_cycle(item)

    def _record(self, item: str, attempt: CycleAttempt[Result]) -> None:
        self.store_attempt(self.attempt_start, attempt, self.evidence(item, attempt.result))
        if attempt.error is not None:
            self.progress.attempt_failed(self.title(item), self.cycles(item), attempt)
        elif attempt.result is not None:
            self.report(item, attempt.cycle, attempt.result)
