"""What a measured boot is worth beside the truth log of its board."""

from __future__ import annotations

import enum
import itertools
from bisect import bisect_left
from collections.abc import Sequence

from attrs import field, frozen

from lab.boards import BoardType
from lab.console import Chunk, LineTiming, find_moments
from lab.virtual.truth import Truth

START, ENDS = "starting_kernel", ("login", "shell")
BOOT_TIME = "boot.time"
AROUND_S = 0.1  # so near to "Starting kernel" and to the prompt a freeze counts as around it
# A flag that says that the time itself may be wrong.
TIME_FLAGS = frozenset({"clock_disagrees", "console_overrun", "uncertain"})
STAGES = ("SPL", "U-Boot", "countdown", "around Starting kernel", "kernel", "around the prompt", "after the prompt")
TELLING_BYTES = (
    512  # of a board, that come too soon when a pause ends: 44 ms of the line, more than a busy host is late
)


class Verdict(enum.StrEnum):
    """What became of a boot."""

    INSIDE = "inside ±"
    FLAGGED = "flagged"
    REFUSED = "refused"
    BESIDE = "just beside"
    UNSEEN = "unseen"
    WRONG = "WRONG"


@frozen
class Number:
    """One number of an attempt.

    Attributes:
        metric, stage: which it is; only stages of a boot have the second.
    """

    metric: str
    stage: str
    value_s: float
    uncertainty_s: float
    flags: frozenset[str]


@frozen
class Judged:
    """A number beside the truth. `slack_s`: the truth is not known better, since the line's process was held up."""

    number: Number
    true_s: float
    slack_s: float

    @property
    def excess_s(self) -> float:
        """How far it is outside its ±; negative: inside."""
        return abs(self.number.value_s - self.true_s) - self.number.uncertainty_s - self.slack_s

    @property
    def flagged(self) -> bool:
        """Whether it says itself that it may be wrong."""
        return bool(self.number.flags & TIME_FLAGS)

    def wrong(self, slack_s: float = 0.0) -> bool:
        """Outside its ± by more than that, without a word."""
        return self.excess_s > slack_s and not self.flagged


@frozen
class Marker:
    """When a moment's last byte left the UART, between `t_ns` and so much later."""

    name: str
    t_ns: int
    slack_ns: int = 0


@frozen
class TrueBoot:
    """One boot as it was.

    Attributes:
        on_ns: when the power came.
        markers: the first of each moment, in the order of the board type.
    """

    on_ns: int
    markers: tuple[Marker, ...] = field(converter=tuple)
    _truth: Truth = field(repr=False)

    def said_bytes(self, begin_ns: int, end_ns: int) -> int:
        """How much left the UART in that time."""
        positions, left_ns = range(len(self._truth.data)), self._truth.left_ns
        return bisect_left(positions, end_ns, key=left_ns) - bisect_left(positions, begin_ns, key=left_ns)

    def find(self, *names: str) -> Marker | None:
        """The first that has one of these names."""
        return next((marker for marker in self.markers if marker.name in names), None)

    def stage(self, t_ns: int) -> str:
        """Where the boot was then, one of STAGES."""
        around_ns = round(AROUND_S * 1e9)
        start, prompt = self.find(START), self.find(*ENDS)
        if prompt is not None and t_ns > prompt.t_ns + around_ns:
            return STAGES[6]
        if prompt is not None and t_ns > prompt.t_ns - around_ns:
            return STAGES[5]
        if start is not None and abs(t_ns - start.t_ns) <= around_ns:
            return STAGES[3]
        if start is not None and t_ns > start.t_ns:
            return STAGES[4]
        uboot, countdown = self.find("uboot"), self.find("autoboot")
        if countdown is not None and t_ns > countdown.t_ns:
            return STAGES[2]
        return STAGES[1] if uboot is not None and t_ns > uboot.t_ns else STAGES[0]


def true_boots(board: BoardType, truth: Truth) -> list[TrueBoot]:
    """Every power cycle of a truth log, in order."""
    ons = [event.t_ns for event in truth.power if event.state == "on"]
    # When the bytes came is asked of the truth below: here it is only where in the stream the patterns match.
    places = find_moments([Chunk(0, 0, truth.data)], board.moments, LineTiming(board.console.speed_bd))
    markers = [Marker(m.name, truth.left_ns(m.position - 1), truth.delay_ns(m.position - 1)) for m in places]
    order = [pattern.name for pattern in board.moments]
    boots = []
    for on_ns, end_ns in itertools.pairwise([*ons, 1 << 62]):
        first: dict[str, Marker] = {}
        for marker in markers:
            if on_ns <= marker.t_ns < end_ns:
                first.setdefault(marker.name, marker)
        boots.append(TrueBoot(on_ns, tuple(sorted(first.values(), key=lambda m: order.index(m.name))), truth))
    return boots


def judge(board: BoardType, boot: TrueBoot, numbers: Sequence[Number]) -> list[Judged]:
    """Each number of the boot beside the truth."""
    return [_judged(board, boot, number) for number in numbers]


def _judged(board: BoardType, boot: TrueBoot, number: Number) -> Judged:
    power, end = Marker("power", boot.on_ns), boot.find(*ENDS)
    begin: Marker | None = power
    if number.metric == BOOT_TIME:
        begin = boot.find(START)
    elif number.metric == "boot.stage":
        came = [pattern for pattern in board.moments if pattern.stage and boot.find(pattern.name)]
        place = [pattern.stage for pattern in came].index(number.stage)
        begin, end = (boot.find(came[place - 1].name) if place else power), boot.find(came[place].name)
    assert begin is not None, number
    assert end is not None, number
    return Judged(number, (end.t_ns - begin.t_ns) / 1e9, max(begin.slack_ns, end.slack_ns) / 1e9)


def verdict(judged: Sequence[Judged], slack_s: float, *, seen: bool) -> Verdict:
    """Of a boot that gave these numbers: the worst of them counts. Flags count where they are needed, and on the boot time.

    Args:
        slack_s: what is outside its ± by less is just beside it. seen: something could have told of what happened.
    """
    if any(one.wrong(slack_s) for one in judged):
        return Verdict.WRONG if seen else Verdict.UNSEEN
    if any(one.wrong() for one in judged):
        return Verdict.BESIDE
    said = any(one.flagged and (one.excess_s > 0 or one.number.metric == BOOT_TIME) for one in judged)
    return Verdict.FLAGGED if said else Verdict.INSIDE
