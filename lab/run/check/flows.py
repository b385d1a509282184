"""Which flow a log may be of, also one that is cut: what speaks against each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from lab.benchmarks.boot import ENDS, MomentLike
from lab.benchmarks.boot.flows import check_foreign, in_order
from lab.boards import NORMAL, BoardType
from lab.console.model import Moment
from lab.errors import BoardlabError


@frozen
class FlowCandidate:
    """A flow.

    Attributes:
        why_not: what speaks against it in what the log has; empty: nothing.
        before, behind: required moments that a log that begins late, or ends early, has not.
    """

    why_not: str
    before: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()


def candidates(
    board: BoardType, moments: Sequence[MomentLike], end: int, ruled_out: Mapping[str, int]
) -> dict[str, FlowCandidate]:
    """Every flow of the board type, the usual one first.

    Args:
        end: where the log ends, in bytes.
        ruled_out: flows that it cannot be, and the lines that show that.
    """
    return {
        name: FlowCandidate(f"line {ruled_out[name]} is of another flow")
        if name in ruled_out
        else _candidate(board, name, moments, end)
        for name in (NORMAL, *board.flows)
    }


def _candidate(board: BoardType, name: str, moments: Sequence[MomentLike], end: int) -> FlowCandidate:
    patterns = board.flow(name)
    came = {moment.name for moment in moments}
    there = [number for number, pattern in enumerate(patterns) if pattern.name in came]
    if not there:
        return FlowCandidate("none of its moments is there")
    first, last = there[0], there[-1]
    behind = tuple(p.name for p in patterns[last + 1 :] if p.required)
    middle = [p for p in patterns[first : last + 1] if p.name not in ENDS]
    before = tuple(p.name for p in patterns[:first] if p.required)
    prompt = next((moment for moment in reversed(moments) if moment.name in ENDS), None)
    ending = [p for p in patterns if p.name in ENDS]
    if prompt is None:
        prompt = Moment(ending[0].name if ending else ENDS[0], max(m.t_ns for m in moments), 0, end, "")
    try:
        if name != NORMAL:
            check_foreign(name, patterns, moments, prompt)
        in_order(board.name, [*middle, *ending], moments, prompt)
    except BoardlabError as error:
        missing = ", ".join(pattern.name for pattern in middle if pattern.required and pattern.name not in came)
        why_not = f"not found: {missing}" if error.failure == "moment_missing" and missing else str(error)
        return FlowCandidate(why_not, before, behind)
    return FlowCandidate("", before, behind)
