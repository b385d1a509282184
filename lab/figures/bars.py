"""Bars on an axis: the stages of a boot, its tree, and the rails of a mode.

Places and lengths are per cent of the axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from lab.figures import COLOURS, Tick, ticks
from lab.metrics import uncertainty
from lab.results.formatting import decimals, format_fixed
from lab.results.listing import Stage


@frozen
class StageKey:
    """A stage of a medium."""

    medium: str
    stage: str


@frozen
class StageRow:
    """A stage: its bar and its length.

    Attributes:
        before: the same of the other run; None where it has no such stage.
        difference: to the other run, ± at 95 %; empty where there is none.
        beyond: whether it is more than both ±.
        moved: "worse" or "better" where the judge says so, "" elsewhere.
    """

    name: str
    left: float
    width: float
    length: str
    before: tuple[float, float] | None
    difference: str
    beyond: bool
    moved: str


@frozen
class Waterfall:
    """The stages of one medium, on a time axis that all media share.

    Attributes:
        axis: in seconds since the first stage's start.
    """

    title: str
    colour: int
    rows: tuple[StageRow, ...]
    axis: tuple[Tick, ...]


def waterfalls(
    stages: Mapping[str, Sequence[Stage]],
    titles: Mapping[str, str],
    before: Mapping[str, Sequence[Stage]] | None = None,
    moved: Mapping[StageKey, str] | None = None,
) -> list[Waterfall]:
    """One for each medium.

    Args:
        titles: medium -> what the page calls it.
        before: the stages of another run.
        moved: "worse" or "better", of those that moved by the judge's word.
    """
    both = [*stages.values(), *((before or {}).get(medium, ()) for medium in stages)]
    ends = [stage.start_s + stage.summary.mean for of_medium in both for stage in of_medium]
    if not stages or max(ends) <= 0:
        return []
    scale = 100 / max(ends)
    axis = tuple(Tick(value * scale, text) for value, text in ticks(0, max(ends), 6))
    charts = []
    for number, (medium, medium_stages) in enumerate(stages.items()):
        earlier = {stage.name: stage for stage in (before or {}).get(medium, ())}
        words = {stage.name: (moved or {}).get(StageKey(medium, stage.name), "") for stage in medium_stages}
        rows = tuple(_row(stage, earlier.get(stage.name), words[stage.name], scale) for stage in medium_stages)
        charts.append(Waterfall(titles.get(medium, medium), number % COLOURS, rows, axis))
    return charts


def _row(stage: Stage, before: Stage | None, moved: str, scale: float) -> StageRow:
    length = stage.summary.mean
    difference, beyond = "", False
    if before is not None:
        bound = uncertainty.combine((stage.summary.uncertainty, before.summary.uncertainty))
        by = length - before.summary.mean
        places = decimals(bound, 0.001)
        text = format_fixed(by, places)
        difference = f"{'+' if float(text) > 0 else ''}{text} ± {format_fixed(bound, places)}"
        beyond = abs(by) > bound
    return StageRow(
        name=stage.name,
        left=stage.start_s * scale,
        width=length * scale,
        length=format_fixed(length, 3),
        before=None if before is None else (before.start_s * scale, before.summary.mean * scale),
        difference=difference,
        beyond=beyond,
        moved=moved,
    )


@frozen
class StackPart:
    """A part of a stacked bar."""

    series: int
    left: float
    width: float
    text: str


@frozen
class StackRow:
    """A stacked bar, and the sum of its parts."""

    name: str
    parts: tuple[StackPart, ...]
    total: str


@frozen
class Stack:
    """Stacked bars of the same series."""

    title: str
    unit: str
    series: tuple[str, ...]
    rows: tuple[StackRow, ...]
    axis: tuple[Tick, ...]


def stack(title: str, unit: str, bars: Mapping[str, Mapping[str, float]]) -> Stack:
    """A bar for each name; its parts, by series, are stacked on each other."""
    series = tuple(dict.fromkeys(name for parts in bars.values() for name in parts))
    longest = max(sum(parts.values()) for parts in bars.values()) or 1.0
    rows = []
    for name, parts in bars.items():
        ends = [sum(list(parts.values())[:number]) for number in range(len(parts))]
        drawn = tuple(
            StackPart(series.index(part), 100 * left / longest, 100 * value / longest, f"{part} {value:.2f} {unit}")
            for left, (part, value) in zip(ends, parts.items(), strict=True)
        )
        rows.append(StackRow(name, drawn, format_fixed(sum(parts.values()), 2)))
    axis = tuple(Tick(100 * value / longest, text) for value, text in ticks(0, longest, 6))
    return Stack(title, unit, series, tuple(rows), axis)


@frozen
class FlameBox:
    """A part of a flame graph, by its place in per cent of the axis; `text` has its time."""

    name: str
    text: str
    colour: int
    left: float
    width: float


@frozen
class Flame:
    """Parts in rows: those of a row are inside those of the row above."""

    title: str
    rows: tuple[tuple[FlameBox, ...], ...]
    axis: tuple[Tick, ...]


@frozen
class FlamePart:
    """A part to draw: row from 0, times in seconds."""

    name: str
    depth: int
    start_s: float
    length_s: float


_NAMED: Final = 4.0  # per cent of the axis, from which on a part has room for its name


def flame(title: str, parts: Sequence[FlamePart], whole_s: float) -> Flame:
    """A flame graph (B. Gregg) on an axis of time; `whole_s` is its end."""
    rows: dict[int, list[FlameBox]] = {}
    for part in parts:
        left, width = 100 * part.start_s / whole_s, 100 * part.length_s / whole_s
        row = rows.setdefault(part.depth, [])
        name = part.name if width >= _NAMED else ""
        text = f"{part.name}: {format_fixed(part.length_s * 1e3, 1)} ms"
        row.append(FlameBox(name, text, len(row) % COLOURS, left, min(width, 100 - left)))
    axis = tuple(Tick(100 * value / whole_s, text) for value, text in ticks(0, whole_s, 6))
    return Flame(title, tuple(tuple(row) for _, row in sorted(rows.items())), axis)
