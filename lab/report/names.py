"""How the page calls a board, its media and its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from attrs import define

from lab import boards
from lab.metrics import Metric
from lab.results.figures import label
from lab.results.records import Run


@define(slots=False)
class Names:
    """How the page calls the board and its media; by their bare names where this boardlab has no such board type."""

    run: Run

    @cached_property
    def board(self) -> str:
        """The board type's title."""
        return boards.load(self.run.board_type).title if self._known else self.run.board_type

    @cached_property
    def virtual(self) -> str:
        """What the virtual board runs on."""
        return boards.load(self.run.board_type).soc if self._known else self.run.board_type

    @cached_property
    def media(self) -> dict[str, str]:
        """Medium -> title."""
        if not self._known:
            return {}
        return {name: medium.title for name, medium in boards.load(self.run.board_type).media.items()}

    @property
    def kind(self) -> str:
        """What the run measured."""
        return {"boot": "Boot time"}.get(self.run.kind, self.run.kind.replace("_", " ").capitalize())

    @property
    def rows(self) -> str:
        """What distinguishes the numbers of a table."""
        return "Boot medium" if self.run.kind == "boot" else "Measured"

    def of(self, params: Mapping[str, str]) -> str:
        """A title for what these parameters mean."""
        return self.media.get(label(params), label(params))

    @property
    def _known(self) -> bool:
        return self.run.board_type in boards.names()


def title_of(metric: Metric) -> str:
    """A metric's name for a reader: "boot.power_on_to_prompt" is "Power on to prompt", "boot.time" "Boot time",
    "lpm.deep_sleep.resume_kernel" "Deep sleep, resume kernel"."""
    room, _, name = metric.name.partition(".")
    words = f"{room} {name}" if name == "time" else name
    return words.replace(".", ", ").replace("_", " ").capitalize()
