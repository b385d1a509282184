"""A session's run, for tests of all kinds: begin, fail, close."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Protocol, TypeVar

import pytest
from attrs import define

from lab.benchmarks.cycles import AWAY
from lab.errors import BoardlabError
from lab.host.process import handling
from lab.jobs.records import JOB_VARIABLE
from lab.pytest_plugin.jobs import hold_failed
from lab.pytest_plugin.runs import record_samples, writer
from lab.pytest_plugin.session_rules import exit_code
from lab.results import Run, Store
from lab.results.records import RunStatus
from lab.run.diagnosisrun import DiagnosisRun
from lab.terminal import plain_text


@define(slots=False)
class Measurer(ABC):
    """Measures for a test.

    Attributes:
        store, run: the run and its store.
        failed: a measurement failed.
        hold: keeps a failed board for a person; None: it is not wanted. held: it did.
    """

    store: Store
    run: Run
    failed: bool = False
    hold: Callable[[BoardlabError], None] | None = None
    held: bool = False

    @property
    @abstractmethod
    def title(self) -> str:
        """Description of the run, for the line at its begin."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Return whether all planned and possible measurements are done."""

    def give_back(self) -> None:  # noqa: B027 - most change nothing on the board that outlives its power
        """Undo what was changed on the board."""

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Fail the test with a failure's class and message.

        A host or results that are away end the session of a `lab run`, which goes on later.
        """
        try:
            yield
        except BoardlabError as error:
            if error.transient and error.failure in {*AWAY, "results"} and JOB_VARIABLE in os.environ:
                pytest.exit(
                    plain_text(f"[{error.failure}, fault: {error.fault}] {error}"), returncode=exit_code(error)
                )
            self.failed = True
            if self.hold is not None and error.fault in {"board", "lab"}:
                self.held = True
                self.hold(error)
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
    """Body of a session's fixture: begin and close a run.

    The board is off at the end.

    Args:
        key: where the session keeps the measurer for its summary. record: takes properties for JUnit's XML.

    Raises:
        pytest.exit.Exception: the run cannot be begun, or not be closed: the session must not end as a good one.
    """
    unclosed: BoardlabError | None = None
    try:
        measurer = begin(config, strategy)
    except BoardlabError as error:
        pytest.exit(plain_text(f"error: {error}"), returncode=exit_code(error))
    config.stash[key] = measurer
    write = writer(config)
    if config.option.lab_hold:
        measurer.hold = partial(hold_failed, measurer.store, measurer.run.id, strategy.board)
    write(f"run {measurer.run.id} on {strategy.board}{measurer.title}")
    yield measurer
    with _undisturbed(write):
        try:
            if not measurer.held:
                measurer.give_back()
            if not (measurer.held or config.option.lab_leave_on):
                strategy.transition("off")
        except BoardlabError as error:
            write(f"error: {error}")
        finally:
            try:
                measurer.finish()
            except BoardlabError as error:
                unclosed = error
            else:
                _record(measurer, record, write)
    if unclosed is not None:
        code = exit_code(unclosed) if JOB_VARIABLE in os.environ else pytest.ExitCode.TESTS_FAILED
        pytest.exit(plain_text(f"run {measurer.run.id} is not closed, resume it: {unclosed}"), returncode=code)


def _record(measurer: Measurer, record: Callable[[str, object], None], write: Callable[[str], None]) -> None:
    try:
        record_samples(measurer.store, measurer.run.id, record)
    except BoardlabError as error:
        write(f"error: {error}")


@contextmanager
def _undisturbed(write: Callable[[str], None]) -> Iterator[None]:
    """Protect a session's end from SIGTERM and the first Ctrl-C.

    Else the board would stay on, and the run open.
    """

    def again(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        write("the session ends already and switches its board off; Ctrl-C again leaves the board as it is")

    with handling({signal.SIGTERM: lambda _number, _frame: None, signal.SIGINT: again}):
        yield


# --- A session's run of cycles ---


class CycleRun(Protocol):
    """Run of cycles (lab.run.bootrun.BootRun, lab.run.lowpowerrun.LowPowerRun)."""

    def measure(self, item: str, /) -> None: ...
    def pending(self, item: str, /) -> list[int]: ...
    def missing(self, item: str, /) -> list[str]: ...


@define(slots=False, kw_only=True)
class CycleMeasurer(Measurer):
    """Measures the pending cycles of an item for a test.

    Attributes:
        items: their key in the run's plan: "media" or "modes".
        board: its type in words.
        diagnosis: further boots of each item, which explain its numbers; None: not asked for.
    """

    cycle_run: CycleRun
    items: str
    board: str
    diagnosis: DiagnosisRun | None = None

    @property
    def title(self) -> str:
        return f" ({self.board}), results in {self.store.url}"

    def measure(self, item: str) -> None:
        """Measure an item's pending cycles; a failure fails the test."""
        with self.failing():
            self.cycle_run.measure(item)
        if self.diagnosis is not None:
            try:
                self.diagnosis.measure(item)
            except BoardlabError as error:  # the numbers are there, and do not depend on it
                self.diagnosis.progress.write(f"{item}: its boot time is not explained: {error}")

    def finish(self) -> RunStatus:
        if self.diagnosis is not None:
            self.diagnosis.finish()
        return super().finish()

    def pending(self, item: str) -> list[int]:
        """Cycles without a sample."""
        return self.cycle_run.pending(item)

    def missing(self, item: str) -> list[str]:
        """Metrics of good cycles that an item has no sample of."""
        return self.cycle_run.missing(item)

    def is_complete(self) -> bool:
        return not any(self.pending(item) for item in self.run.plan[self.items])


MeasurerKey = pytest.StashKey[CycleMeasurer]
