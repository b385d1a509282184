"""The engine of a run: pending cycles, one try after the other, each stored as soon as it has ended.

A kind of run (boot, low power, sections, own measurements, diagnosis) says what its items are, how one of them is
tried, and what is kept of a try.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from attrs import asdict, define, field

from lab.benchmarks.cycles import CycleAttempt, nothing_before_cycle, run_cycles
from lab.console.holders import explaining_shared_port
from lab.host.clock import Clock
from lab.metrics.limits import Limits
from lab.results import AttemptRecord, Run, Store
from lab.run.attempts import AttemptRecorder, AttemptResult, AttemptStart, ByteLossDetector
from lab.run.progress import Progress

Result = TypeVar("Result")


@define
class RunEngine:
    """A run in progress: its store, board and plan, and the attempts that it has.

    Attributes:
        run: from the store; `run.plan` names its items and their cycles.
        board: a `lab.run.board.Board`, or one of labgrid's own drivers (`lab.pytest_plugin.labgridboard`).
        sleep: waits that many seconds.
        retries: further attempts a cycle after a transient failure.
        before_cycle: called before each cycle, see `run_cycles`.
        limits: of metrics, by the lab.
    """

    ITEMS: ClassVar[str]  # the plan's key of its items, e.g. "media"
    ITEM: ClassVar[str]  # an attempt's parameter that names its item, e.g. "medium"

    store: Store
    run: Run
    board: Any
    progress: Progress
    clock: Clock
    sleep: Callable[[float], None]
    retries: int
    before_cycle: Callable[[], None] = nothing_before_cycle
    limits: Limits = field(factory=dict)
    recorder: AttemptRecorder = field(init=False)
    losses: ByteLossDetector = field(init=False)
    attempt_start: AttemptStart = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.recorder = AttemptRecorder(self.store, self.run.id, self.clock, self.limits)
        self.losses = ByteLossDetector(self.board.console)

    @property
    def items(self) -> list[str]:
        """The items of the plan, e.g. its media."""
        return list(self.run.plan[self.ITEMS])

    @property
    def attempts(self) -> list[AttemptRecord]:
        """The run's attempts, in recorded order."""
        return self.recorder.attempts

    def good_attempts(self, **params: str) -> list[AttemptRecord]:
        """The attempts with these parameters that succeeded."""
        return [attempt for attempt in self.attempts if attempt.ok and params.items() <= attempt.params.items()]

    def measured_metrics(self, item: str) -> frozenset[str]:
        """The metrics of an item's good attempts."""
        return frozenset(s.metric for attempt in self.good_attempts(**{self.ITEM: item}) for s in attempt.samples)

    def cycles(self, item: str) -> int:  # noqa: ARG002 - some kinds have other numbers of cycles for each item
        """The planned cycles of an item."""
        return int(self.run.plan["cycles"])

    def pending(self, item: str) -> list[int]:
        """The item's cycles without a good attempt."""
        done = {attempt.cycle for attempt in self.good_attempts(**{self.ITEM: item})}
        return [cycle for cycle in range(1, self.cycles(item) + 1) if cycle not in done]

    def start_attempt(self) -> None:
        """Start an attempt: what the console says from now on is its evidence."""
        self.attempt_start = self.recorder.start()
        self.board.console.capture = []

    def explaining_failures(self) -> AbstractContextManager[None]:
        """Explain failures in the block by another reader of the console."""
        return explaining_shared_port(self.board.console)

    def port_details(self) -> dict[str, object]:
        """The console's port, for an attempt's details."""
        info = self.board.console.info
        return {"port": asdict(info.meta) if info else None}


@define
class CycleRun(RunEngine, ABC, Generic[Result]):
    """A run whose attempts are tries of one cycle of one item each."""

    @abstractmethod
    def try_cycle(self, item: str) -> Result:
        """Try one cycle of an item.

        Raises:
            BoardlabError: it failed.
        """

    @abstractmethod
    def evidence(self, item: str, result: Result | None) -> AttemptResult:
        """The evidence kept of a try; `result` None: it failed."""

    @abstractmethod
    def report(self, item: str, cycle: int, result: Result) -> None:
        """Write the lines of a good cycle."""

    def missing(self, item: str) -> list[str]:  # noqa: ARG002 - of those that have some
        """The metrics of every good cycle that an item lacks."""
        return []

    def prepare(self, item: str) -> None:
        """Prepare the board for an item's cycles."""
        self.board.select_medium(item)

    def title(self, item: str) -> str:
        """The item in lines for people."""
        return item

    def measure(self, item: str, only: Sequence[int] | None = None) -> None:
        """Measure the pending cycles of one item.

        Args:
            only: these cycles, in place of the pending ones.

        Raises:
            BoardlabError: a cycle could not be measured within its retries; earlier ones are in the store.
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
        self.recorder.record(self.attempt_start, attempt, self.evidence(item, attempt.result))
        if attempt.error is not None:
            self.progress.attempt_failed(self.title(item), self.cycles(item), attempt)
        elif attempt.result is not None:
            self.report(item, attempt.cycle, attempt.result)
