"""A session's run of cycles, as its tests see it: they measure one item after the other, a medium or a mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from attrs import define

from lab.errors import BoardlabError
from lab.pytest_plugin.runs import record_samples, writer
from lab.results import Run, Store
from lab.results.records import RunStatus
from lab.shown import plain_text


class CycleRun(Protocol):
    """What measures (lab.run.bootrun.BootRun, lab.run.lowpowerrun.LowPowerRun)."""

    @property
    def store(self) -> Store: ...
    @property
    def run(self) -> Run: ...
    def measure(self, item: str, /) -> None: ...
    def pending(self, item: str, /) -> list[int]: ...


@define
class CycleMeasurer:
    """What a test gets: measures the pending cycles of an item, and fails without a traceback.

    Attributes:
        items: where the run's plan names them: "media" or "modes".
    """

    cycle_run: CycleRun
    items: str
    failed: bool = False

    @property
    def store(self) -> Store:
        """Where the run is kept."""
        return self.cycle_run.store

    @property
    def run(self) -> Run:
        """The run in the store."""
        return self.cycle_run.run

    def measure(self, item: str) -> None:
        """Measure the pending cycles of one item; a failure fails the test with its class and message."""
        try:
            self.cycle_run.measure(item)
        except BoardlabError as error:
            self.failed = True
            pytest.fail(plain_text(f"[{error.failure}, fault: {error.fault}] {error}"), pytrace=False)

    def pending(self, item: str) -> list[int]:
        """Cycles without a sample."""
        return self.cycle_run.pending(item)

    def finish(self) -> RunStatus:
        """Close the run in the store; returns its status."""
        complete = not any(self.pending(item) for item in self.run.plan[self.items])
        status: RunStatus = "completed" if complete else "failed" if self.failed else "interrupted"
        self.store.finish_run(self.run.id, status)
        return status


MeasurerKey = pytest.StashKey[CycleMeasurer]
Begin = Callable[[pytest.Config, Any], CycleMeasurer]


def session_of(
    config: pytest.Config, strategy: Any, key: MeasurerKey, begin: Begin, record: Callable[[str, object], None]
) -> Iterator[CycleMeasurer]:
    """The body of a session's fixture: begin the run; at the end switch the board off and close the run.

    Args:
        key: where the session keeps the measurer for its summary. record: takes properties for JUnit's XML.
    """
    try:
        measurer = begin(config, strategy)
    except BoardlabError as error:
        pytest.exit(plain_text(f"error: {error}"), returncode=int(pytest.ExitCode.USAGE_ERROR))
    config.stash[key] = measurer
    write = writer(config)
    write(f"run {measurer.run.id} on {strategy.board} ({strategy.type.title}), results in {measurer.store.url}")
    yield measurer
    try:
        if not config.option.leave_on:
            strategy.transition("off")
    except BoardlabError as error:
        write(f"error: {error}")
    try:
        measurer.finish()
        record_samples(measurer.store, measurer.run.id, record)
    except BoardlabError as error:
        write(f"error: {error}")
