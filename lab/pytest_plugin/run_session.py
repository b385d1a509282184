"""A session's run, for tests of all kinds: begin, fail, close."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Generic, TypeVar

import pytest
from attrs import define, field

from lab.benchmarks.cycles import AWAY
from lab.errors import BoardlabError
from lab.host.clock import MonotonicRaw
from lab.host.process import handling
from lab.jobs.records import JOB_VARIABLE
from lab.pytest_plugin.jobs import before_cycle, hold_failed
from lab.pytest_plugin.limits import declarations
from lab.pytest_plugin.runs import STORE_KEY, STRATEGY_KEY, record_samples, writer
from lab.pytest_plugin.session_rules import exit_code
from lab.results import Run, Store
from lab.results.records import RunStatus
from lab.run.diagnosis import DiagnosisRun
from lab.run.engine import CycleRun, RunEngine
from lab.run.progress import Progress
from lab.terminal import plain_text

AnyEngine = TypeVar("AnyEngine", bound=RunEngine)


@define(slots=False)
class RunSession(Generic[AnyEngine]):
    """A session's run, as its tests see it.

    Attributes:
        failed: a measurement failed.
        skipped: items that are not measured in this session.
        hold: keeps a failed board for a person; None: nobody asked for that.
        held: it did.
    """

    engine: AnyEngine
    failed: bool = False
    skipped: set[str] = field(factory=set)
    hold: Callable[[BoardlabError], None] | None = None
    held: bool = False

    @property
    def run(self) -> Run:
        """The session's run."""
        return self.engine.run

    @property
    def store(self) -> Store:
        """The store of the run."""
        return self.engine.store

    @property
    def title(self) -> str:
        """Description of the run, for the line at its begin."""
        return f" ({self.engine.board.type.title}), results in {self.store.url}"

    def give_back(self) -> None:
        """Undo what was changed on the board; most of it does not outlive its power."""

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Fail the test with a failure's class and message.

        A host that is away, or results that cannot be used, end the session of a `lab run`, which goes on later.
        """
        try:
            yield
        except BoardlabError as error:
            message = plain_text(f"[{error.failure}, fault: {error.fault}] {error}")
            is_away = error.failure == "results" or (error.transient and error.failure in AWAY)
            if is_away and JOB_VARIABLE in os.environ:
                pytest.exit(message, returncode=exit_code(error))
            self.failed = True
            if self.hold is not None and error.fault in {"board", "lab"}:
                self.held = True
                self.hold(error)
            pytest.fail(message, pytrace=False)

    def finish(self) -> RunStatus:
        """Close the run in the store; returns its status.

        A run of which everything was skipped has measured nothing: it failed. An item that was skipped after its first
        cycles lacks the others.
        """
        engine = self.engine
        engine.forget_attempts()  # the store knows whether the run is complete
        begun = [
            item for item in engine.items if item not in self.skipped or engine.good_attempts(**{engine.ITEM: item})
        ]
        is_over = not any(engine.pending(item) for item in begun)
        is_complete = is_over and bool(engine.good_attempts())
        status: RunStatus = "completed" if is_complete else "failed" if self.failed or is_over else "interrupted"
        self.store.finish_run(self.run.id, status)
        return status


@define(slots=False)
class CycleRunSession(RunSession[CycleRun[Any]]):
    """Measures the pending cycles of an item for a test.

    Attributes:
        diagnosis: further boots of each item, which explain its numbers; None: not asked for.
    """

    diagnosis: DiagnosisRun | None = None

    def measure(self, item: str) -> None:
        """Measure an item's pending cycles; a failure fails the test."""
        with self.failing():
            self.engine.measure(item)
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
        return self.engine.pending(item)

    def missing(self, item: str) -> list[str]:
        """Metrics of good cycles that an item has no sample of."""
        return self.engine.missing(item)


AnySession = TypeVar("AnySession", bound=RunSession[Any])
CycleSessionKey = pytest.StashKey[CycleRunSession]


def begin_engine(
    engine: type[AnyEngine], config: pytest.Config, run: Run, *, paused: int | None = None, **own: Any
) -> AnyEngine:
    """Begin to measure a run with the session's options.

    Args:
        paused: the run that goes on later where the board is given away; None: this one.
        own: further fields of the engine.
    """
    clock = MonotonicRaw()
    progress = Progress(own.pop("write", writer(config)), clock, total=0)
    begun = engine(
        store=config.stash[STORE_KEY],
        run=run,
        board=config.stash[STRATEGY_KEY],
        progress=progress,
        clock=clock,
        sleep=time.sleep,
        retries=config.option.lab_retries,
        before_cycle=before_cycle(config, run.id if paused is None else paused),
        limits=declarations(config).limits,
        **own,
    )
    progress.total = sum(len(begun.pending(item)) for item in begun.items)
    return begun


def session_of(
    config: pytest.Config,
    key: pytest.StashKey[AnySession],
    begin: Callable[[pytest.Config], AnySession],
    record: Callable[[str, object], None],
) -> Iterator[AnySession]:
    """Body of a session's fixture: begin and close a run.

    The board is off at the end.

    Args:
        key: where the session keeps the run for its summary.
        record: takes properties for JUnit's XML.

    Raises:
        pytest.exit.Exception: the run cannot be begun, or not be closed: the session must not end as a good one.
    """
    strategy = config.stash[STRATEGY_KEY]
    unclosed: BoardlabError | None = None
    try:
        session = begin(config)
    except BoardlabError as error:
        pytest.exit(plain_text(f"error: {error}"), returncode=exit_code(error))
    config.stash[key] = session
    write = writer(config)
    if config.option.lab_hold:
        session.hold = partial(hold_failed, session.store, session.run.id, strategy.board)
    write(f"run {session.run.id} on {strategy.board}{session.title}")
    yield session
    with _protect_from_signals(write):
        try:
            if not session.held:
                session.give_back()
            if not (session.held or config.option.lab_leave_on):
                strategy.transition("off")
        except BoardlabError as error:
            write(f"error: {error}")
        finally:
            try:
                session.finish()
            except BoardlabError as error:
                unclosed = error
            else:
                try:
                    record_samples(session.store, session.run.id, record)
                except BoardlabError as error:
                    write(f"error: {error}")
    if unclosed is not None:
        code = exit_code(unclosed) if JOB_VARIABLE in os.environ else pytest.ExitCode.TESTS_FAILED
        pytest.exit(plain_text(f"run {session.run.id} is not closed, resume it: {unclosed}"), returncode=code)


@contextmanager
def _protect_from_signals(write: Callable[[str], None]) -> Iterator[None]:
    """Protect a session's end from SIGTERM and the first Ctrl-C.

    Else the board would stay on, and the run open.
    """

    def again(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        write("the session ends already and switches its board off; Ctrl-C again leaves the board as it is")

    with handling({signal.SIGTERM: lambda _number, _frame: None, signal.SIGINT: again}):
        yield
