"""A run's figures as reproducible SVG for a guide, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import matplotlib as mpl
from attrs import frozen
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lab.metrics import Flag, Sample, Summary
from lab.results.listing import Stage
from lab.shown import COLOURS

_WIDTH_IN: Final = 9.0
_INK: Final = "#010203"  # stands for the page's own text colour, which matplotlib cannot name
_BINS: Final = 14  # of the distribution beside the cycles
_ROOM: Final = 1.3  # so much higher than the widest series is each panel


@frozen
class PlotSeries:
    """The cycles of one medium.

    Attributes:
        title: the page's name of the medium.
    """

    title: str
    samples: Sequence[Sample]
    summary: Summary

    @property
    def bounds(self) -> tuple[float, float]:
        """From the lowest to the highest value, with their ±."""
        return min(s.value - s.uncertainty for s in self.samples), max(s.value + s.uncertainty for s in self.samples)


def strip_plot(series: Sequence[PlotSeries], unit: str) -> str:
    """Each cycle as a dot with error bar, beside the distribution.

    All panels have the same scale, so that the media's spreads can be compared.
    """
    with style():
        figure = Figure(figsize=(_WIDTH_IN, 0.5 + 1.45 * len(series)), layout="constrained")
        panels = figure.subplots(len(series), 2, sharex="col", sharey="row", squeeze=False, width_ratios=(8, 1))
        height = _ROOM * max(high - low for low, high in (one.bounds for one in series))
        for (axes, beside), one, colour in zip(panels, series, colours(len(series)), strict=True):
            _strip(axes, one, colour, unit)
            _distribution(beside, one, colour)
            low, high = one.bounds
            if height > 0:
                axes.set_ylim((low + high - height) / 2, (low + high + height) / 2)
        last = max(s.cycle for one in series for s in one.samples)
        step = max(1, round(last / 10))
        panels[-1, 0].set_xlim(0.3, last + 0.7)
        panels[-1, 0].set_xticks(range(step, last + 1, step))
        panels[-1, 0].set_xlabel("cycle")
        panels[-1, 1].set_xlabel("cycles")
        figure.align_ylabels(panels[:, 0])
        return svg(figure, "strip", "Each cycle's value with its uncertainty, by medium, and their distribution")


def waterfall(stages: Mapping[str, Sequence[Stage]], titles: Mapping[str, str]) -> str:
    """Average begin and length of each stage, a panel per medium."""
    with style():
        heights = [len(found) + 1.6 for found in stages.values()]
        figure = Figure(figsize=(_WIDTH_IN, 0.5 + 0.2 * sum(heights)), layout="constrained")
        panels = figure.subplots(len(stages), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (medium, found), colour in zip(panels, stages.items(), colours(len(stages)), strict=True):
            _bars(axes, found, colour, titles.get(medium, medium))
        end_s = max(stage.start_s + stage.summary.mean for found in stages.values() for stage in found)
        panels[-1].set_xlim(0, end_s * 1.09)  # room for the last bar's figures
        panels[-1].set_xlabel("seconds since power on, mean over cycles")
        return svg(figure, "waterfall", "Start and length of each boot stage, by medium")


@contextmanager
def style() -> Iterator[None]:
    """Our style over matplotlib's defaults, without the user's matplotlibrc."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "svg.hashsalt": "boardlab",
                "svg.fonttype": "none",
                "text.parse_math": False,  # a "$" in a medium's title is a "$"
                "font.size": 8.5,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.edgecolor": _INK,
                "axes.labelcolor": _INK,
                "axes.linewidth": 0.6,
                "text.color": _INK,
                "xtick.color": _INK,
                "ytick.color": _INK,
            }
        )
        yield


def _strip(axes: Axes, one: PlotSeries, colour: str, unit: str) -> None:
    mean, bound = one.summary.mean, one.summary.uncertainty
    axes.axhspan(mean - bound, mean + bound, color=colour, alpha=0.15, linewidth=0)
    axes.axhline(mean, color=colour, linewidth=0.8, alpha=0.7)
    for flagged in (False, True):
        some = [s for s in one.samples if bool(s.flags - {Flag.SIMULATED}) is flagged]
        axes.errorbar(
            [s.cycle for s in some],
            [s.value for s in some],
            [s.uncertainty for s in some],
            fmt="none",
            ecolor=colour,
            elinewidth=1,
            capsize=2,
        )
        axes.scatter(
            [s.cycle for s in some],
            [s.value for s in some],
            s=20,
            linewidths=1.2,
            edgecolors=colour,
            facecolors="none" if flagged else colour,
            zorder=3,
        )
    axes.set_title(one.title, loc="left", fontsize=9, fontweight="bold")
    axes.set_ylabel(unit)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.grid(axis="y", color=_INK, alpha=0.12, linewidth=0.5)


def _distribution(axes: Axes, one: PlotSeries, colour: str) -> None:
    axes.hist([s.value for s in one.samples], bins=_BINS, orientation="horizontal", color=colour, alpha=0.55)
    axes.tick_params(axis="y", length=0, labelleft=False)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))


def _bars(axes: Axes, stages: Sequence[Stage], colour: str, title: str) -> None:
    rows = range(len(stages))
    axes.barh(rows, [s.summary.mean for s in stages], left=[s.start_s for s in stages], height=0.62, color=colour)
    for row, stage in zip(rows, stages, strict=True):
        axes.annotate(
            f"{stage.summary.mean:.3f} s",
            (stage.start_s + stage.summary.mean, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
        )
    axes.set_yticks(rows, [s.name for s in stages])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(stages) - 0.4, -0.6)
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
    axes.grid(axis="x", color=_INK, alpha=0.12, linewidth=0.5)
    axes.set_axisbelow(True)


def colours(count: int) -> list[str]:
    """A colour for each of several series; they repeat after five."""
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def svg(figure: Figure, name: str, title: str) -> str:
    """The figure as an accessible SVG element with its own ids."""
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", rf'<svg \1 role="img" aria-label="{title}">', text, count=1
    )
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    return text.replace("xlink:href", "href").replace(_INK, "currentColor").strip()
