"""The small line of a board's last boot times, for its tile: read once for each run that ended, and kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, TypeAlias

from attrs import define, field, frozen

from lab.errors import BoardlabError
from lab.farm.status import BoardNow
from lab.results import listing
from lab.results.averages import Average
from lab.results.formatting import label, number
from lab.results.store import Store

WIDTH: Final = 120
HEIGHT: Final = 20
_EDGE: Final = 2.0
_AT_ONCE: Final = 25  # boards of a look: that of a large lab stays short, and the next one goes on
_LEAST_RANGE: Final = 0.02  # of the value: what differs by less is drawn as the small change that it is
# Of a board's last run; one that was resumed and ended again has another end.
_State: TypeAlias = tuple[int, str, dt.datetime | None]


@frozen
class Spark:
    """A board's last boot times.

    Attributes:
        points: of a polyline (SVG), `WIDTH` by `HEIGHT`, the oldest run first. text: the same for who does not see it, e.g.
            "sd, last 12: 5.91 to 6.02 s".
    """

    points: str
    text: str


@define
class Sparks:
    """The lines of all boards."""

    _kept: dict[str, tuple[_State, Spark | None]] = field(factory=dict, init=False)

    def of(
        self, boards: Sequence[BoardNow], store: Callable[[], AbstractContextManager[Store]]
    ) -> Mapping[str, Spark]:
        """Board -> its line; of a large lab, the first looks have it of some boards only. Results that cannot be read leave it as it was.

        Args:
            store: opens the results; called where a run has ended since the last look.
        """
        last = {each.board: each.last.run for each in boards if each.last is not None}
        states: dict[str, _State] = {board: (run.id, run.status, run.finished_at) for board, run in last.items()}
        new = [board for board, state in states.items() if self._kept.get(board, (None,))[0] != state][:_AT_ONCE]
        if new:
            try:
                with store() as opened:
                    found = listing.boots(opened, new)
            except BoardlabError:
                new = []
            for board in new:
                self._kept[board] = (states[board], spark(found[board]) if board in found else None)
        return {board: line for board, (_, line) in self._kept.items() if line is not None}


def spark(boots: Sequence[Average]) -> Spark:
    """The line of these boot times, the oldest first."""
    values = [boot.value for boot in boots]
    low, high, last = min(values), max(values), boots[-1]
    middle, half = (low + high) / 2, max((high - low) / 2, abs(low + high) / 2 * _LEAST_RANGE / 2, 1e-9)
    step = (WIDTH - 2 * _EDGE) / max(1, len(values) - 1)
    heights = [HEIGHT / 2 - (HEIGHT / 2 - _EDGE) * (value - middle) / half for value in values]
    points = [f"{_EDGE + at * step:.1f},{height:.1f}" for at, height in enumerate(heights)]
    ends = [number(value, last.uncertainty, last.metric) for value in (low, high)]
    between = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    what = label(last.params)
    return Spark(" ".join(points), f"{what}{', ' if what else ''}last {len(values)}: {between} {last.metric.unit}")
