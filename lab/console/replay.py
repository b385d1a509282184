"""Re-timing a recording: the same code as live, with today's patterns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from attrs import asdict, frozen

from lab.boards import BoardType
from lab.console.model import Interval, LineTiming, interval
from lab.console.moments import find_moments
from lab.console.printk import PrintkFit, fit_printk
from lab.console.recording import Recording
from lab.errors import ConfigurationError
from lab.metrics import Moment


@frozen
class Replay:
    """A recording's boot: moments, gaps and the kernel's clock.

    Attributes:
        board: the type whose patterns were used.
        gaps: number of places where bytes may be missing.
        lateness_max_ns: the largest evidence of a late stamp.
        printk: None where the kernel's times cannot be fitted.
    """

    board: str
    timing: LineTiming
    moments: tuple[Moment, ...]
    gaps: int
    lateness_max_ns: int
    printk: PrintkFit | None

    def since_first(self) -> list[Interval]:
        """For each moment, the time since the first one."""
        return [interval(self.moments[0], moment) for moment in self.moments]

    def since_previous(self) -> list[Interval]:
        """Intervals from each previous moment; the first one's is 0."""
        return [interval(a, b) for a, b in itertools.pairwise((*self.moments[:1], *self.moments))]

    def document(self) -> dict[str, object]:
        """The boot as a JSON document; times in seconds, ± beside them."""
        moments = [
            {
                **asdict(moment),
                "since_first_s": first.seconds,
                "since_previous_s": previous.seconds,
                "uncertainty_s": first.uncertainty_s,
            }
            for moment, first, previous in zip(self.moments, self.since_first(), self.since_previous(), strict=True)
        ]
        return {**asdict(self), "moments": moments}


def replay(recording: Recording, board: BoardType) -> Replay:
    """Find a board type's moments, and fit the kernel's times.

    Raises:
        ConfigurationError: the recording is damaged.
    """
    events = list(recording.events())
    timing = recording.meta.timing
    return Replay(
        board=board.name,
        timing=timing,
        moments=tuple(find_moments(events, board.markers, timing)),
        gaps=sum(1 for _ in recording.gaps()),
        lateness_max_ns=max((late.lateness_ns for late in recording.lateness()), default=0),
        printk=fit_printk(events, timing),
    )


def guess_board(recording: Recording, boards: Sequence[BoardType]) -> BoardType:
    """Return the board type that fits the recording best.

    The share of a flow's moments that the recording has decides; where it is equal, the host name in its text.

    Raises:
        ConfigurationError: none has any.
    """
    events = list(recording.events())

    def share(board: BoardType) -> float:
        names = {moment.name for moment in find_moments(events, board.markers, recording.meta.timing)}
        flows = (board.moments, *(board.flow(name) for name in board.flows))
        return max(len(names & {moment.name for moment in flow}) / max(1, len(flow)) for flow in flows)

    def names_board(board: BoardType) -> bool:
        return board.identity is not None and board.identity.hostname.encode() in recording.log

    shares = {board.name: share(board) for board in boards}
    best = max(boards, key=lambda board: (shares[board.name], names_board(board)))
    if shares[best.name] == 0:
        raise ConfigurationError(
            f"{recording.where}: no moment of any board type in it; is it the console of a boot? "
            f"The types are: {', '.join(board.name for board in boards)}"
        )
    return best
