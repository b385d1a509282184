"""Lines over releases or runs, in pixels: points with their ranges, together in one panel or each series in its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from attrs import evolve, frozen

from lab.figures import COLOURS, Tick, ticks

_COLUMNS: Final = 3  # of small panels
_EDGE: Final = 8.0  # px of an axis of time before its first and behind its last point
_ROOM: Final = 0.05  # above and below, of what is drawn
_LEFT, _RIGHT = 62.0, 14.0  # beside what is drawn: the axis' figures
_HEAD, _UNIT = 44.0, 20.0  # above what is drawn: the title and the unit, the unit alone
_LYING, _UPRIGHT = 48.0, 13.0  # that a name takes beside another one
_UNDER: Final = {False: 20.0, True: 64.0}  # for the names below the axis: lying, upright
_ROW: Final = 18.0  # of the legend
_STEP: Final = (170.0, 14.0)  # px that the text of a step takes, across and up
_MOST_TITLE: Final = 44  # characters above a small panel
LEAST_SPAN: Final = 0.2  # of an axis, of the values' middle


@frozen
class TimeAxis:
    """An axis of time; a place on it is a share of its length, 0 to 1.

    Attributes:
        dates: places with the text below them.
        begins: places where something begins, e.g. a release, with the text above them.
    """

    dates: Sequence[tuple[float, str]]
    begins: Sequence[tuple[float, str]] = ()


@frozen
class LinePoint:
    """A number.

    Attributes:
        at: its place on the axis, counted from 0, or a share of a `TimeAxis`.
        low, high: its range or its ±.
        href: where it leads; empty: nowhere.
        step: what changed here, e.g. `+24 % ± 1 %`; empty: nothing that somebody called.
    """

    at: float
    value: float
    low: float
    high: float
    title: str
    href: str = ""
    is_broken: bool = False
    step: str = ""


@frozen
class LineSeries:
    """Numbers that a line joins."""

    name: str
    points: Sequence[LinePoint]


@frozen
class LineMark:
    """A point as it is drawn.

    Attributes:
        step: the text of its step; empty: none, or another one stands there.
    """

    x: float
    y: float
    low: float
    high: float
    point: LinePoint
    step: str = ""


@frozen
class Line:
    """A series as it is drawn; `dashed` where its colour stands a second time."""

    colour: int
    dashed: bool
    name: str
    marks: tuple[LineMark, ...]

    @property
    def joined(self) -> tuple[LineMark, ...]:
        """The points that the line joins: it passes by those that do not count."""
        return tuple(mark for mark in self.marks if not mark.point.is_broken)


@frozen
class LinePanel:
    """A drawing with axes.

    Attributes:
        x, y: of its upper left corner.
        across, up: the figures of the axes; an empty one had no room.
        upright: those below the axis are.
        ruled: whether each figure below the axis has a line, since a part of the axis begins there.
        level: y of a line across; None: none.
        begins: x and text of what begins there, for an axis of time; None: another axis.
    """

    x: float
    y: float
    width: float
    height: float
    title: str
    lines: tuple[Line, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    upright: bool
    ruled: bool
    level: float | None = None
    begins: tuple[Tick, ...] | None = None


@frozen
class LineChart:
    """Panels with one unit; `legend` has each line's place down."""

    title: str
    unit: str
    headed: bool
    width: float
    height: float
    panels: tuple[LinePanel, ...]
    legend: tuple[tuple[Line, float], ...]

    @property
    def links(self) -> bool:
        """True if a point leads somewhere."""
        return any(mark.point.href for panel in self.panels for line in panel.lines for mark in line.marks)


def span(values: Sequence[float], least: float = LEAST_SPAN) -> tuple[float, float]:
    """Range of an axis for values.

    It is their span, at least this share of their middle.

    So a change of two percent looks smaller than a doubling.
    """
    low, high = min(values, default=0.0), max(values, default=0.0)
    middle, half = (low + high) / 2, max((high - low) / 2, least / 2 * abs(low + high) / 2)
    return middle - half, middle + half


def together(
    series: Sequence[LineSeries],
    axis: Sequence[str] | TimeAxis,
    title: str,
    unit: str,
    *,
    size: tuple[float, float] = (800.0, 300.0),
    headed: bool = False,
    least: float = LEAST_SPAN,
    level: float | None = None,
    legend: bool = True,
) -> LineChart:
    """All series in one panel.

    Args:
        axis: the name of each place (empty: none), or an axis of time.
        size: width of the chart, and height of its panel.
        headed: the title is drawn, too.
        least: see `span`.
        level: a value with a line across.
        legend: several series have one.
    """
    corner = (_LEFT, _HEAD if headed else _UNIT)
    panel = _panel(series, axis, corner, (size[0] - _LEFT - _RIGHT, size[1]), "", least, level)
    below = panel.y + panel.height + _UNDER[panel.upright]
    lines = panel.lines if legend and len(series) > 1 else ()
    height = below + (_ROW * (len(lines) + 0.5) if lines or headed else 0)
    rows = tuple((line, below + _ROW * row) for row, line in enumerate(lines, 1))
    return LineChart(title, unit, headed, size[0], height, (panel,), rows)


def apart(series: Sequence[LineSeries], axis: Sequence[str], title: str, unit: str) -> LineChart:
    """Each series in a small panel of its own."""
    whole, height = 800.0, 100.0
    width = whole / _COLUMNS - _LEFT - _RIGHT
    down = height + 26.0 + _UNDER[_is_upright(axis, width)]
    panels = [
        _panel(
            [line],
            axis,
            (_LEFT + number % _COLUMNS * whole / _COLUMNS, _HEAD + 16.0 + number // _COLUMNS * down),
            (width, height),
            line.name if len(line.name) <= _MOST_TITLE else f"{line.name[: _MOST_TITLE - 1]}…",
        )
        for number, line in enumerate(series)
    ]
    below = panels[-1].y + height + _UNDER[panels[-1].upright]
    return LineChart(title, unit, True, whole, below + _ROW / 2, tuple(panels), ())


def _panel(
    series: Sequence[LineSeries],
    axis: Sequence[str] | TimeAxis,
    corner: tuple[float, float],
    size: tuple[float, float],
    title: str,
    least: float = LEAST_SPAN,
    level: float | None = None,
) -> LinePanel:
    (x, y), (width, height) = corner, size
    ends = [end for line in series for point in line.points for end in (point.low, point.value, point.high)]
    low, high = span(ends if level is None else [*ends, level], least)
    low, high = (low, high) if high > low else (low - 1, high + 1)
    low, high = low - _ROOM * (high - low), high + _ROOM * (high - low)

    def down(value: float) -> float:
        return y + height * (high - value) / (high - low)

    def across(at: float) -> float:
        if isinstance(axis, TimeAxis):
            return x + _EDGE + (width - 2 * _EDGE) * at
        return x + width * (at + 0.5) / len(axis)

    texts: list[tuple[float, float]] = []

    def draw(point: LinePoint) -> LineMark:
        mark = LineMark(across(point.at), down(point.value), down(point.low), down(point.high), point)
        if not point.step or any(abs(mark.x - x) < _STEP[0] and abs(mark.y - y) < _STEP[1] for x, y in texts):
            return mark
        texts.append((mark.x, mark.y))
        return evolve(mark, step=point.step)

    if isinstance(axis, TimeAxis):
        upright, ruled = False, False
        names = _name_places(axis.dates, across, _LYING)
        begins = _name_places(axis.begins, across, _LYING)
    else:
        upright, ruled = _is_upright(axis, width), not all(axis)
        names = _name_places(
            [(at, name) for at, name in enumerate(axis) if name], across, _UPRIGHT if upright else _LYING
        )
        begins = None
    return LinePanel(
        x,
        y,
        width,
        height,
        title,
        tuple(
            Line(
                number % COLOURS,
                number >= COLOURS,
                line.name,
                tuple(draw(point) for point in line.points),
            )
            for number, line in enumerate(series)
        ),
        names,
        tuple(Tick(down(value), text) for value, text in ticks(low, high, 5 if height > 200 else 3)),
        upright,
        ruled,
        None if level is None else down(level),
        begins,
    )


def _name_places(
    places: Iterable[tuple[float, str]], across: Callable[[float], float], room: float
) -> tuple[Tick, ...]:
    """The places with their names; those without room are empty."""
    named_ticks, free = [], -math.inf
    for at, name in places:
        named_ticks.append(Tick(across(at), name if across(at) >= free else ""))
        free = across(at) + room if named_ticks[-1].text else free
    return tuple(named_ticks)


def _is_upright(axis: Sequence[str], width: float) -> bool:
    return all(axis) and len(axis) * _LYING > width
