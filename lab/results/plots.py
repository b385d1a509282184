"""A run's figures as SVG for a page: the same bytes for the same numbers, readable on light and on dark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import matplotlib as mpl
from attrs import field, frozen
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lab.metrics import Flag, Sample, Summary, uncertainty
from lab.results.overview import Stage

_WIDTH_IN: Final = 9.0
_INK: Final = "#010203"  # stands for the page's own text colour, which matplotlib cannot name
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # Okabe & Ito, safe for colour-blind readers
_FAILED: Final = "#d1242f"
_BETTER: Final = "#1a7f37"
_LINK: Final = "at:"  # begins the links of a figure, so that they are told from its own references
_HOST_IN: Final = 0.8  # the host's panel
_BINS: Final = 14  # of the distribution beside the cycles
_ROOM: Final = 1.3  # so much higher than the widest series is each panel


@frozen
class Series:
    """The cycles of one medium.

    Attributes:
        title: how the page calls the medium.
        failed: cycle of each failed attempt.
        links: cycle -> the element of the page that has its evidence, and what the link is called.
        busy: cycle -> share of the host's processors' time that was used meanwhile, 0 to 1.
        changed: first cycle after the series moved; None where it did not.
    """

    title: str
    samples: Sequence[Sample]
    summary: Summary
    failed: Sequence[int]
    links: Mapping[int, tuple[str, str]] = field(factory=dict)
    busy: Mapping[int, float] = field(factory=dict)
    changed: int | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """From the lowest to the highest value, with their ±."""
        return min(s.value - s.uncertainty for s in self.samples), max(s.value + s.uncertainty for s in self.samples)


def strip_plot(series: Sequence[Series], unit: str) -> str:
    """Each cycle a dot with its error bar over the mean and its ±, and the distribution beside it; a cross where an attempt failed.

    All panels have the same scale, so that the media's spreads can be compared.
    """
    with style():
        heights = [1.45] * len(series) + [_HOST_IN] * any(one.busy for one in series)
        figure = Figure(figsize=(_WIDTH_IN, 0.5 + sum(heights)), layout="constrained")
        panels = figure.subplots(
            len(heights), 2, sharex="col", sharey="row", squeeze=False, width_ratios=(8, 1), height_ratios=heights
        )
        height = _ROOM * max(high - low for low, high in (one.bounds for one in series))
        for (axes, beside), one, colour in zip(panels[: len(series)], series, colours(len(series)), strict=True):
            _strip(axes, one, colour, unit)
            _distribution(beside, one, colour)
            low, high = one.bounds
            if height > 0:
                axes.set_ylim((low + high - height) / 2, (low + high + height) / 2)
        if len(heights) > len(series):
            _host(panels[-1, 0], series)
            panels[-1, 1].set_axis_off()
            panels[-2, 1].tick_params(labelbottom=True)
        last = max(cycle for one in series for cycle in (*one.failed, *(s.cycle for s in one.samples)))
        step = max(1, round(last / 10))
        panels[-1, 0].set_xlim(0.3, last + 0.7)
        panels[-1, 0].set_xticks(range(step, last + 1, step))
        panels[-1, 0].set_xlabel("cycle")
        panels[len(series) - 1, 1].set_xlabel("cycles")
        figure.align_ylabels(panels[:, 0])
        return svg(figure, "strip", "Each cycle's value with its uncertainty, by medium, and their distribution")


def waterfall(
    stages: Mapping[str, Sequence[Stage]],
    titles: Mapping[str, str],
    before: Mapping[str, Sequence[Stage]] | None = None,
) -> str:
    """When each stage begins on the average, and how long it takes; one panel a medium on a common time axis.

    Args:
        before: the stages of another run; each stage then tells its difference, ± at 95 %.
    """
    with style():
        heights = [len(found) + 1.6 for found in stages.values()]
        figure = Figure(figsize=(_WIDTH_IN, 0.5 + 0.2 * sum(heights)), layout="constrained")
        panels = figure.subplots(len(stages), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (medium, found), colour in zip(panels, stages.items(), colours(len(stages)), strict=True):
            earlier = {stage.name: stage for stage in (before or {}).get(medium, ())}
            _bars(axes, found, colour, titles.get(medium, medium), earlier)
        end_s = max(stage.start_s + stage.summary.mean for found in stages.values() for stage in found)
        panels[-1].set_xlim(0, end_s * (1.3 if before else 1.09))  # room for the last bar's figures
        panels[-1].set_xlabel("seconds since power on, mean over cycles")
        return svg(figure, "waterfall", "Start and length of each boot stage, by medium")


@contextmanager
def style() -> Iterator[None]:
    """matplotlib's own defaults with ours, whatever this user's matplotlibrc says."""
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


def _strip(axes: Axes, one: Series, colour: str, unit: str) -> None:
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
        dots = axes.scatter(
            [s.cycle for s in some],
            [s.value for s in some],
            s=20,
            linewidths=1.2,
            edgecolors=colour,
            facecolors="none" if flagged else colour,
            zorder=3,
        )
        if one.links:
            dots.set_urls([_LINK + "|".join(one.links[s.cycle]) if s.cycle in one.links else None for s in some])
    if one.changed is not None:
        axes.axvline(one.changed - 0.5, color=_FAILED, linewidth=1, linestyle="--")
    if one.failed:  # matplotlib's layout stumbles over an empty line
        floor = [0.05] * len(one.failed)  # of the panel's height: a failed attempt has no value
        at_floor = axes.get_xaxis_transform()
        axes.plot(one.failed, floor, "x", color=_FAILED, markersize=6, transform=at_floor, clip_on=False)
    axes.set_title(one.title, loc="left", fontsize=9, fontweight="bold")
    axes.set_ylabel(unit)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.grid(axis="y", color=_INK, alpha=0.12, linewidth=0.5)


def _host(axes: Axes, series: Sequence[Series]) -> None:
    """How busy the host was in each cycle."""
    for one, colour in zip(series, colours(len(series)), strict=True):
        cycles = sorted(one.busy)
        axes.plot(cycles, [100 * one.busy[cycle] for cycle in cycles], color=colour, linewidth=1, alpha=0.8)
    axes.set_ylim(0, 100)
    axes.set_yticks((0, 50, 100))
    axes.set_ylabel("%")
    axes.set_title("Host busy, % of its processors' time", loc="left", fontsize=9, fontweight="bold")
    axes.grid(axis="y", color=_INK, alpha=0.12, linewidth=0.5)


def _distribution(axes: Axes, one: Series, colour: str) -> None:
    axes.hist([s.value for s in one.samples], bins=_BINS, orientation="horizontal", color=colour, alpha=0.55)
    axes.tick_params(axis="y", length=0, labelleft=False)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))


def _bars(axes: Axes, stages: Sequence[Stage], colour: str, title: str, before: Mapping[str, Stage]) -> None:
    rows = range(len(stages))
    axes.barh(rows, [s.summary.mean for s in stages], left=[s.start_s for s in stages], height=0.62, color=colour)
    for row, stage in zip(rows, stages, strict=True):
        axes.annotate(
            f"{stage.summary.mean:.3f} s{_difference(stage, before.get(stage.name))}",
            (stage.start_s + stage.summary.mean, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=_judged(stage, before.get(stage.name)),
        )
    axes.set_yticks(rows, [s.name for s in stages])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(stages) - 0.4, -0.6)
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
    axes.grid(axis="x", color=_INK, alpha=0.12, linewidth=0.5)
    axes.set_axisbelow(True)


def _difference(stage: Stage, before: Stage | None) -> str:
    if before is None:
        return ""
    bound = uncertainty.combined((stage.summary.uncertainty, before.summary.uncertainty))
    return f"  ({stage.summary.mean - before.summary.mean:+.3f} ± {bound:.3f} s)"


def _judged(stage: Stage, before: Stage | None) -> str:
    """The colour of a difference: only one beyond both ± has one. Shorter is better."""
    if before is None:
        return _INK
    bound = uncertainty.combined((stage.summary.uncertainty, before.summary.uncertainty))
    moved = stage.summary.mean - before.summary.mean
    return _INK if abs(moved) <= bound else _FAILED if moved > 0 else _BETTER


def colours(count: int) -> list[str]:
    """A colour for each of several series; they repeat after five."""
    return [_COLOURS[i % len(_COLOURS)] for i in range(count)]


def svg(figure: Figure, name: str, title: str) -> str:
    """The figure as an element for a page: as wide as its place, with ids of its own, and named for who cannot see."""
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    role = "group" if f'href="{_LINK}' in text else "img"  # what is inside a picture cannot be reached
    text = re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", rf'<svg \1 role="{role}" aria-label="{title}">', text, count=1
    )
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = text.replace("xlink:href", "href").replace(_INK, "currentColor").strip()
    return re.sub(
        rf'<a href="{_LINK}([^"|]*)\|([^"]*)"[^>]*>', r'<a href="#\1" aria-label="\2"><title>\2</title>', text
    )
