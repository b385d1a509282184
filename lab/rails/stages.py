"""The energy of each stage of a boot: a trace cut at the console's moments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from attrs import frozen

from lab.rails.model import PhasePower
from lab.rails.phase import cut
from lab.rails.trace import Trace


class StageMoment(Protocol):
    """What is needed of a moment of the console (lab.console.model.Moment)."""

    @property
    def name(self) -> str: ...
    @property
    def t_ns(self) -> int: ...
    @property
    def uncertainty_ns(self) -> int: ...


@frozen
class StagePower:
    """What a board drew from one moment of its console to the next.

    Attributes:
        start, end: the names of the moments.
    """

    start: str
    end: str
    power: PhasePower


def stages(trace: Trace, moments: Sequence[StageMoment]) -> list[StagePower]:
    """The stages that lie in the trace, in order, each with the uncertainties of its two moments."""
    first_ns, last_ns = trace.span_ns
    inside = [moment for moment in moments if first_ns <= moment.t_ns <= last_ns]
    return [
        StagePower(
            begin.name,
            end.name,
            cut(trace, begin.t_ns, end.t_ns, begin.uncertainty_ns, end.uncertainty_ns),
        )
        for begin, end in pairwise(inside)
        if end.t_ns > begin.t_ns
    ]
