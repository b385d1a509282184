"""Where a boot's time goes, arranged for the page: its stages one after the other, and what moved since another run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from lab.metrics import uncertainty
from lab.report.chart import COLOURS, Tick, ticks
from lab.results.figures import decimals, fixed
from lab.results.overview import Stage


@frozen
class StageRow:
    """A stage: where its bar is, in per cent of the time axis, and its length.

    Attributes:
        before: the same of the other run; None where it has no such stage.
        difference: to the other run, ± at 95 %; empty where there is none.
        moved: "worse" or "better" where the difference is beyond both ±, "" elsewhere. Shorter is better.
    """

    name: str
    left: float
    width: float
    length: str
    before: tuple[float, float] | None
    difference: str
    moved: str


@frozen
class Waterfall:
    """The stages of one medium, on a time axis that all media share; `axis` in seconds since the first stage's start."""

    title: str
    colour: int
    rows: tuple[StageRow, ...]
    axis: tuple[Tick, ...]


def waterfalls(
    stages: Mapping[str, Sequence[Stage]],
    titles: Mapping[str, str],
    before: Mapping[str, Sequence[Stage]] | None = None,
) -> list[Waterfall]:
    """One for each medium.

    Args:
        titles: medium -> what the page calls it. before: the stages of another run.
    """
    both = [*stages.values(), *((before or {}).get(medium, ()) for medium in stages)]
    ends = [stage.start_s + stage.summary.mean for found in both for stage in found]
    if not stages or max(ends) <= 0:
        return []
    scale = 100 / max(ends)
    axis = tuple(Tick(value * scale, text) for value, text in ticks(0, max(ends), 6))
    found = []
    for number, (medium, its) in enumerate(stages.items()):
        earlier = {stage.name: stage for stage in (before or {}).get(medium, ())}
        rows = tuple(_row(stage, earlier.get(stage.name), scale) for stage in its)
        found.append(Waterfall(titles.get(medium, medium), number % COLOURS, rows, axis))
    return found


def _row(stage: Stage, before: Stage | None, scale: float) -> StageRow:
    length = stage.summary.mean
    difference, moved = "", ""
    if before is not None:
        bound = uncertainty.combined((stage.summary.uncertainty, before.summary.uncertainty))
        by = length - before.summary.mean
        places = decimals(bound, 0.001)
        sign = "+" if by > 0 else ""
        difference = f"{sign}{fixed(by, places)} ± {fixed(bound, places)}"
        moved = "" if abs(by) <= bound else "worse" if by > 0 else "better"
    return StageRow(
        name=stage.name,
        left=stage.start_s * scale,
        width=length * scale,
        length=fixed(length, 3),
        before=None if before is None else (before.start_s * scale, before.summary.mean * scale),
        difference=difference,
        moved=moved,
    )
