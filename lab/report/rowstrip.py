"""The small figure in a row of a verdict: a run's number beside those that it is compared with, on one axis."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from lab.judge.baseline import JudgedNumber
from lab.results.formatting import number, with_uncertainty

WIDTH: Final = 120
_EDGE: Final = 5.0


@frozen
class RowStrip:
    """The averages of the runs before as dots above, this run's with its ± below, and the ± of the number before as a band.

    Attributes:
        before: where the dots are across, in pixels of `WIDTH`. now: where this run's is; reach: both ends of its ±.
        band: both ends of the band. text: the same for who does not see it.
    """

    before: tuple[float, ...]
    now: float
    reach: tuple[float, float]
    band: tuple[float, float]
    text: str


def row_strip(each: JudgedNumber) -> RowStrip | None:
    """The figure of a number; None where there is nothing to compare it with."""
    average, old = each.average, each.baseline
    if old is None:
        return None
    value, about = average.value, average.uncertainty
    ends = (old.value - old.uncertainty, old.value + old.uncertainty, value - about, value + about)
    low, high = min(*old.values, *ends), max(*old.values, *ends)

    def x(at: float) -> float:
        share = (at - low) / (high - low) if high > low else 0.5
        return round(_EDGE + (WIDTH - 2 * _EDGE) * share, 1)

    range_ = [number(end, old.uncertainty, average.metric) for end in (min(old.values), max(old.values))]
    between = range_[0] if range_[0] == range_[1] else f"{range_[0]} to {range_[1]}"
    runs = "1 run" if len(old.values) == 1 else f"{len(old.values)} runs"
    now = with_uncertainty(value, about, average.metric)
    return RowStrip(
        tuple(map(x, old.values)),
        x(value),
        (x(value - about), x(value + about)),
        (x(ends[0]), x(ends[1])),
        f"{runs} before: {between} {average.metric.unit}; now {now}",
    )
