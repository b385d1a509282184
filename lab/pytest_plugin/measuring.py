"""A session's run, as its tests see it, whatever is measured: begun, failed without a traceback, closed."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol, TypeVar

import pytest
from attrs import define

from lab.benchmarks.cycles import AWAY
from lab.errors import BoardlabError
from lab.jobs.records import JOB_VARIABLE
from lab.pytest_plugin.guest import exit_code
from lab.pytest_plugin.runs import record_samples, writer
from lab.results import Run, Store
from lab.results.records import RunStatus
from lab.shown import plain_text


@define(slots=False)
class Measurer(ABC):
    """What a test gets to measure with.

    Attributes:
        store, run: where the run is kept.
        failed: something could not be measured.
    """

    store: Store
    run: Run
    failed: bool = False

    @property
    @abstractmethod
    def title(self) -> str:
        """What the run is of, for the line that says that it begins."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Whether everything that was planned and can be measured is."""

    def give_back(self) -> None:  # noqa: B027 - most change nothing on the board that outlives its power
        """Undo what was changed on the board."""

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What fails here fails the test, with its class and message; a host that is away ends the session of a `lab run`, which goes on later."""
        try:
            yield
        except BoardlabError as error:
            if error.transient and error.failure in AWAY and JOB_VARIABLE in os.environ:
                pytest.exit(
                    plain_text(f"[{error.failure}, fault: {error.fault}] {error}"), returncode=exit_code(error)
                )
            self.failed = True
            pytest.fail(plain_text(f"[{error.failure}, fault: {error.fault}] {error}"), pytrace=False)

    def finish(self) -> RunStatus:
        """Close the run in the store; returns its status."""
        status: RunStatus = "completed" if self.is_complete() else "failed" if self.failed else "interrupted"
        self.store.finish_run(self.run.id, status)
        return status


AnyMeasurer = TypeVar("AnyMeasurer", bound=Measurer)


def session_of(
    config: pytest.Config,
    strategy: Any,
    key: pytest.StashKey[AnyMeasurer],
    begin: Callable[[pytest.Config, Any], AnyMeasurer],
    record: Callable[[str, object], None],
) -> Iterator[AnyMeasurer]:
    """The body of a session's fixture: begin the run; at the end switch the board off and close the run.

    Args:
        key: where the session keeps the measurer for its summary. record: takes properties for JUnit's XML.
    """
    try:
        measurer = begin(config, strategy)
    except BoardlabError as error:
        pytest.exit(plain_text(f"error: {error}"), returncode=exit_code(error))
    config.stash[key] = measurer
    write = writer(config)
    write(f"run {measurer.run.id} on {strategy.board}{measurer.title}")
    yield measurer
    with _undisturbed(write):
        try:
            measurer.give_back()
            if not config.option.lab_leave_on:
                strategy.transition("off")
        except BoardlabError as error:
            write(f"error: {error}")
        finally:
            try:
                measurer.finish()
                record_samples(measurer.store, measurer.run.id, record)
            except BoardlabError as error:
                write(f"error: {error}")


@contextmanager
def _undisturbed(write: Callable[[str], None]) -> Iterator[None]:
    """A session that ends is not cut short by SIGTERM, nor by the first Ctrl-C: its board would stay on, and its run open."""

    def again(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        write("the session ends already and switches its board off; Ctrl-C again leaves the board as it is")

    handlers = {signal.SIGTERM: lambda _number, _frame: None, signal.SIGINT: again}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- A session's run of cycles: its tests measure one item after the other, a medium or a mode ---


class CycleRun(Protocol):
    """What measures (lab.run.bootrun.BootRun, lab.run.lowpowerrun.LowPowerRun)."""

    def measure(self, item: str, /) -> None: ...
    def pending(self, item: str, /) -> list[int]: ...
    def missing(self, item: str, /) -> list[str]: ...


@define(slots=False, kw_only=True)
class CycleMeasurer(Measurer):
    """What a test gets: measures the pending cycles of an item, and fails without a traceback.

    Attributes:
        items: where the run's plan names them: "media" or "modes".
        board: its type in words.
    """

    cycle_run: CycleRun
    items: str
    board: str

    @property
    def title(self) -> str:
        """See `Measurer`."""
        return f" ({self.board}), results in {self.store.url}"

    def measure(self, item: str) -> None:
        """Measure the pending cycles of one item; a failure fails the test with its class and message."""
        with self.failing():
            self.cycle_run.measure(item)

    def pending(self, item: str) -> list[int]:
        """Cycles without a sample."""
        return self.cycle_run.pending(item)

    def missing(self, item: str) -> list[str]:
        """The metrics of every good cycle of which the run has no sample of this item in the store."""
        return self.cycle_run.missing(item)

    def is_complete(self) -> bool:
        """See `Measurer`."""
        return not any(self.pending(item) for item in self.run.plan[self.items])


MeasurerKey = pytest.StashKey[CycleMeasurer]
