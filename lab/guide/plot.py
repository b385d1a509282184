"""Trends as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from lab.errors import ConfigurationError
from lab.guide.show import params
from lab.guide.trend import Trend


def trends(found: Sequence[Trend], path: Path) -> None:
    """Draw series over releases, with their ranges where they have any.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    releases = list(dict.fromkeys(point.release for series in found for point in series.points))
    for series in found:
        x = [releases.index(point.release) for point in series.points]
        y = [point.value for point in series.points]
        below = [point.value - (point.value if point.low is None else point.low) for point in series.points]
        above = [(point.value if point.high is None else point.high) - point.value for point in series.points]
        axes.errorbar(x, y, yerr=[below, above], marker="o", capsize=3, label=params(series.params) or series.metric)
    axes.set_xticks(range(len(releases)), releases)
    axes.set_ylabel(f"{found[0].metric} [{found[0].unit}]")
    axes.set_title(f"{found[0].board}: {found[0].metric}, {found[0].better} is better")
    if len(found) > 1:
        axes.legend(fontsize="small")
    try:
        figure.savefig(path, format="svg")
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be written: {error.strerror}; choose another path for --svg"
        ) from error
