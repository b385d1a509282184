"""Series over releases as an SVG file, drawn by a template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.guide.show import params
from lab.guide.trend import Trend, TrendPoint, span
from lab.judge.labels import release_key
from lab.shown import COLOURS, environment, ticks

_TOGETHER: Final = 5  # series in one drawing: so many colours differ for everybody
_COLUMNS: Final = 3
_ROOM: Final = 0.05  # above and below, of what is drawn
_WIDTH: Final = 800.0  # px, as all below
_LEFT, _RIGHT, _TOP = 62.0, 14.0, 44.0  # beside and above what is drawn: the axis' figures, and the title
_LYING, _UPRIGHT = 48.0, 13.0  # that the name of a release takes beside another one
_UNDER: Final = {False: 20.0, True: 64.0}  # for the names of the releases: lying, upright
_ROW: Final = 18.0  # of the legend
_MOST_TITLE: Final = 44  # characters above a small panel


@frozen
class PlotMark:
    """A number of a release: where its middle and the ends of its range are, in px."""

    x: float
    y: float
    low: float
    high: float
    is_broken: bool
    title: str


@frozen
class Line:
    """A series."""

    colour: str
    name: str
    marks: tuple[PlotMark, ...]


@frozen
class TrendPanel:
    """A drawing with axes.

    Attributes:
        x, y: of its upper left corner. across, up: where the axes have figures, and these.
        upright: the names of the releases are.
    """

    x: float
    y: float
    width: float
    height: float
    title: str
    lines: tuple[Line, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    upright: bool


def write(found: Sequence[Trend], path: Path) -> None:
    """Draw series, with their ranges where they have any: a few together, more of them each in a panel of its own.

    An axis spans at least a fifth of its values' middle, and the legend stands below the drawing.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    panels = _together(found) if len(found) <= _TOGETHER else _panels(found)
    last = panels[-1]
    below = last.y + last.height + _UNDER[last.upright]
    legend = (
        [(line, below + _ROW * row) for row, line in enumerate(last.lines, 1)] if 1 < len(found) <= _TOGETHER else []
    )
    text = (
        environment("lab.guide")
        .get_template("trend.svg.j2")
        .render(
            width=_WIDTH,
            height=below + _ROW * (len(legend) + 0.5),
            title=_title(found),
            unit=found[0].unit,
            panels=panels,
            legend=legend,
        )
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be written: {error.strerror}; choose another path for --svg"
        ) from error


def _together(found: Sequence[Trend]) -> list[TrendPanel]:
    return [_panel(found, found, (_LEFT, _TOP), (_WIDTH - _LEFT - _RIGHT, 300.0), "")]


def _panels(found: Sequence[Trend]) -> list[TrendPanel]:
    width = _WIDTH / _COLUMNS - _LEFT - _RIGHT
    down = 100.0 + 26.0 + _UNDER[_is_upright(_releases(found), width)]
    return [
        _panel(
            [series],
            found,
            (_LEFT + number % _COLUMNS * _WIDTH / _COLUMNS, _TOP + 16.0 + number // _COLUMNS * down),
            (width, 100.0),
            _cut(_name(series, found)),
        )
        for number, series in enumerate(found)
    ]


def _panel(
    drawn: Sequence[Trend], found: Sequence[Trend], corner: tuple[float, float], size: tuple[float, float], title: str
) -> TrendPanel:
    (x, y), (width, height) = corner, size
    releases = _releases(found)
    low, high = span([value for series in drawn for point in series.points for value in _ends(point)])
    low, high = (low, high) if high > low else (low - 1, high + 1)
    low, high = low - _ROOM * (high - low), high + _ROOM * (high - low)

    def down(value: float) -> float:
        return y + height * (high - value) / (high - low)

    places = {release: x + width * (number + 0.5) / len(releases) for number, release in enumerate(releases)}
    upright = _is_upright(releases, width)
    step = -(-round((_UPRIGHT if upright else _LYING) * len(releases)) // round(width))  # each so many have room
    lines = tuple(
        Line(
            COLOURS[number % len(COLOURS)],
            _name(series, found),
            tuple(_mark(point, places[point.release], down, series.unit) for point in series.points),
        )
        for number, series in enumerate(drawn)
    )
    across = tuple((places[release], release) for release in releases[:: max(1, step)])
    up = tuple((down(value), text) for value, text in ticks(low, high, 5 if height > 200 else 3))
    return TrendPanel(x, y, width, height, title, lines, across, up, upright)


def _mark(point: TrendPoint, x: float, down: Callable[[float], float], unit: str) -> PlotMark:
    low, value, high = _ends(point)
    title = f"{point.release}: {point.value:g} {unit}".rstrip()
    return PlotMark(
        x, down(value), down(low), down(high), bool(point.note), f"{title}, {point.note}" if point.note else title
    )


def _ends(point: TrendPoint) -> tuple[float, float, float]:
    """From, middle, to."""
    low = point.value if point.low is None else point.low
    return low, point.value, point.value if point.high is None else point.high


def _is_upright(releases: Sequence[str], width: float) -> bool:
    return len(releases) * _LYING > width


def _releases(found: Sequence[Trend]) -> list[str]:
    return sorted({point.release for series in found for point in series.points}, key=release_key)


def _title(found: Sequence[Trend]) -> str:
    boards = list(dict.fromkeys(series.board for series in found))
    return f"{', '.join(boards)}: {found[0].metric}, {found[0].better} is better"


def _name(series: Trend, beside: Sequence[Trend]) -> str:
    """What tells a series from the others; its board only where there are several."""
    boards = {other.board for other in beside}
    words = [params(series.params), series.definition, series.board if len(boards) > 1 else ""]
    return ", ".join(word for word in words if word) or series.metric


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TITLE else f"{text[: _MOST_TITLE - 1]}…"
