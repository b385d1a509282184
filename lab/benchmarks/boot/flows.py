"""Recognition of a boot's flow by its moments, without expectations."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

from attrs import define, field, frozen

from lab.benchmarks.boot.records import ENDS, START, MomentLike
from lab.boards import NORMAL, BoardType, MomentPattern
from lab.errors import BoardlabError, BoardTransientError


@define
class RuledOut:
    """Collects the flows that a boot's lines rule out or prove.

    Attributes:
        flows: their names.
    """

    board: BoardType
    flows: set[str] = field(factory=set, init=False)
    _past: set[str] = field(factory=set, init=False)  # moments that came
    _proofs: dict[str, Counter[str]] = field(factory=dict, init=False)  # flow -> the lines that show it
    _shows: dict[str, list[str]] = field(init=False)  # flow -> what is in such a line

    @_shows.default
    def _showing(self) -> dict[str, list[str]]:
        markers = self.board.markers  # made anew each time that one asks, and lines are many
        return {name: [m.regex for m in markers if m.name == flow.shown_by] for name, flow in self.board.flows.items()}

    def whole_line(self, line: str) -> None:
        """Take a line."""
        for name, flow in self.board.flows.items():
            if flow.unlike and flow.until not in self._past and re.search(flow.unlike, line):
                self.flows.add(name)
            if any(re.search(regex, line) for regex in self._shows[name]):
                self._proofs.setdefault(name, Counter())[line.strip()] += 1

    def shown(self, name: str) -> bool:
        """True if a flow is proved: neither another nor begun twice."""
        if name == NORMAL or not self.board.flows[name].shown_by:
            return True
        return max(self._proofs.get(name, Counter()).values(), default=0) == 1

    def moment(self, moment: MomentLike) -> None:
        """Take note of a moment."""
        self._past.add(moment.name)


@frozen
class BootFlow:
    """A boot, and the flow that it had.

    Attributes:
        name: `NORMAL`, or one of the board type's flows; of a quiet kernel as `lab.boards.quiet_flow` names it.
        start: the moment that its headline number counts from.
        patterns: the flow's moments.
        order: those that came, the first of each name, and the prompt.
    """

    name: str
    start: str
    patterns: Sequence[MomentPattern]
    order: Sequence[MomentLike]


def recognise(
    board: BoardType, moments: Sequence[MomentLike], prompt: MomentLike, ruled_out: frozenset[str] = frozenset()
) -> BootFlow:
    """The flow whose moments came in order, without others.

    The usual flow is tried first.

    Args:
        ruled_out: impossible flows.

    Raises:
        BoardTransientError: of the usual flow, a required moment is missing, or they came out of order; and no other
            flow fits.
    """
    try:
        return _begun(BootFlow(NORMAL, START, board.moments, in_order(board.name, board.moments, moments, prompt)))
    except BoardTransientError as error:
        why_not = error
    for name, flow in board.flows.items():
        if name in ruled_out:
            continue
        patterns = board.flow(name)
        try:
            check_foreign(name, patterns, moments, prompt)
            order = in_order(board.name, patterns, moments, prompt)
            return _begun(BootFlow(name, flow.start, patterns, order))
        except BoardlabError:
            continue
    raise why_not


def _begun(flow: BootFlow) -> BootFlow:
    """The flow, if the moment came that its number counts from.

    A type may have it as one that need not come.

    Raises:
        BoardTransientError: it did not come.
    """
    if all(moment.name != flow.start for moment in flow.order):
        raise BoardTransientError(
            f"{flow.start} did not come, from which a boot of flow {flow.name} counts; if this board never prints it, "
            "give its type a flow that begins with another moment",
            failure="moment_missing",
        )
    return flow


def check_foreign(
    name: str, patterns: Sequence[MomentPattern], moments: Sequence[MomentLike], prompt: MomentLike
) -> None:
    """Check that no foreign moment came, and none too often.

    Raises:
        BoardTransientError: a moment is foreign, or came too often.
    """
    before = [moment for moment in moments if moment.position <= prompt.position]
    times = {pattern.name: pattern.times for pattern in patterns}
    for moment, count in Counter(moment.name for moment in before if moment.name not in ENDS).items():
        if moment not in times:
            raise BoardTransientError(f"{moment} is no moment of a boot of flow {name}", failure="moment_order")
        if 0 < times[moment] < count:
            raise BoardTransientError(f"{moment} came {count} times in a boot of flow {name}", failure="reset")


def in_order(
    board: str, patterns: Sequence[MomentPattern], moments: Sequence[MomentLike], prompt: MomentLike
) -> list[MomentLike]:
    """The first moment of each name in healthy order, and the prompt.

    Of a text that may come any number of times, the first behind the moment before it, if any, counts: U-Boot also
    reads its environment from a flash that it loads the kernel from later.

    Raises:
        BoardTransientError: a required one is missing, or they came out of order.
    """
    first: dict[str, MomentLike] = {}
    for moment in moments:
        first.setdefault(moment.name, moment)
    first[prompt.name] = prompt
    position = 0
    for pattern in patterns:
        if pattern.name in first and pattern.name not in ENDS:
            if pattern.times == 0:
                later = next((m for m in moments if m.name == pattern.name and m.position > position), None)
                if later is None and not pattern.required:
                    del first[pattern.name]
                    continue
                first[pattern.name] = later or first[pattern.name]
            position = first[pattern.name].position
    order = [
        first[p.name]
        for p in patterns
        if p.name == prompt.name
        or (p.name in first and p.name not in ENDS and first[p.name].position <= prompt.position)
    ]
    missing = [p.name for p in patterns if p.required and first.get(p.name) not in order]
    if missing:
        raise BoardTransientError(
            f"the login prompt came, but not: {', '.join(missing)}. Characters were lost, or the patterns of board "
            f"type {board} do not fit this release (lab console check)",
            failure="moment_missing",
        )
    if any(b.t_ns < a.t_ns or b.position < a.position for a, b in itertools.pairwise(order)):
        raise BoardTransientError(
            "the moments came out of order: " + " ".join(m.name for m in order), failure="moment_order"
        )
    return order
