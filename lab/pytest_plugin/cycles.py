"""A session's run of cycles: its tests measure one item after the other, a medium or a mode."""

from __future__ import annotations

from typing import Protocol

import pytest
from attrs import define

from lab.pytest_plugin.measuring import Measurer


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
