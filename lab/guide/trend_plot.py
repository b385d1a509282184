"""Series over releases as an SVG file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.errors import ConfigurationError
from lab.guide.show import params
from lab.guide.trend import Trend, span
from lab.judge.labels import release_key
from lab.results import plots

_TOGETHER: Final = 5  # series in one drawing: so many colours differ for everybody
_COLUMNS: Final = 3
_UPRIGHT: Final = 8  # so many names of releases stand beside each other
_ROOM: Final = 0.05  # above and below, of what is drawn


def write(found: Sequence[Trend], path: Path) -> None:
    """Draw series, with their ranges where they have any: a few together, more of them each in a panel of its own.

    An axis spans at least a fifth of its values' middle, and the legend stands below the drawing.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    with plots.style():
        figure = _together(found) if len(found) <= _TOGETHER else _panels(found)
        figure.suptitle(_title(found), fontsize="medium")
        try:
            figure.savefig(path, format="svg", metadata={"Date": None})
        except OSError as error:
            raise ConfigurationError(
                f"{path}: cannot be written: {error.strerror}; choose another path for --svg"
            ) from error


def _together(found: Sequence[Trend]) -> Figure:
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for series, colour in zip(found, plots.colours(len(found)), strict=True):
        _line(axes, series, colour, found)
    _prepare(axes, found, _releases(found))
    axes.set_ylabel(found[0].unit)
    if len(found) > 1:
        figure.legend(loc="outside lower center", fontsize="small", ncols=2)
    return figure


def _panels(found: Sequence[Trend]) -> Figure:
    rows = -(-len(found) // _COLUMNS)
    figure = Figure(figsize=(9, 1.0 + 1.5 * rows), layout="constrained")
    panels = figure.subplots(rows, _COLUMNS, sharex=True, squeeze=False).flat
    for axes, series in zip(panels, found, strict=False):
        _line(axes, series, plots.colours(1)[0], found)
        _prepare(axes, [series], _releases(found))
        axes.set_title(_name(series, found), fontsize="x-small")
    for axes in list(panels)[len(found) :]:
        axes.set_axis_off()
    figure.supylabel(found[0].unit, fontsize="small")
    return figure


def _line(axes: Axes, series: Trend, colour: str, found: Sequence[Trend]) -> None:
    releases = _releases(found)
    x = [releases.index(point.release) for point in series.points]
    y = [point.value for point in series.points]
    below = [point.value - (point.value if point.low is None else point.low) for point in series.points]
    above = [(point.value if point.high is None else point.high) - point.value for point in series.points]
    label = _name(series, found)
    axes.errorbar(x, y, yerr=[below, above], marker="o", markersize=3, capsize=2, color=colour, label=label)
    broken = [(at, value) for at, value, point in zip(x, y, series.points, strict=True) if point.note]
    axes.plot([at for at, _ in broken], [value for _, value in broken], "x", color="#d1242f", markersize=7)


def _prepare(axes: Axes, found: Sequence[Trend], releases: Sequence[str]) -> None:
    bounds = [
        value
        for series in found
        for point in series.points
        for value in (point.value, point.low, point.high)
        if value is not None
    ]
    low, high = span(bounds)
    if high > low:
        axes.set_ylim(low - _ROOM * (high - low), high + _ROOM * (high - low))
    axes.set_xticks(range(len(releases)), releases, rotation=90 if len(releases) > _UPRIGHT else 0, fontsize="small")


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
