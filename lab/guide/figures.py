"""The figures of a written guide: boots by board type, boot stages, rail powers, chapters over releases."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import frozen
from matplotlib.figure import Figure

from lab.guide import layout
from lab.guide.entries import GuideEntry, GuideRelease
from lab.metrics import Sample, by_name, summarise
from lab.results import plots
from lab.results.listing import Overview

_Key = tuple[str, str, frozenset[tuple[str, str]]]

_BOOT = "Boot-time Measurement"
_POWER = "Low Power Performance"
_WIDTH_IN = 9.0
_LEAST_NUMBERS = 3  # that a chapter must share with the oldest release


def of_release(release: GuideRelease, runs: Sequence[Overview]) -> dict[str, list[tuple[str, str]]]:
    """Top chapter -> its figures with captions.

    Args:
        runs: what was measured here; published numbers have no cycles.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    types: dict[str, list[Overview]] = {}
    for run in runs:
        types.setdefault(run.run.board_type, []).append(run)
    boots = [figure for members in types.values() for figure in _boots(members)]
    if boots:
        found[_BOOT] = boots
    rails = [e for e in release.entries if e.metric == "power.rail" and e.value]
    if rails:
        found.setdefault(_POWER, []).append((rail_power(rails), "Power of the supply rails by mode"))
    return found


def _boots(runs: Sequence[Overview]) -> Iterator[tuple[str, str]]:
    """The boots of a board type: of one run cycle by cycle, of several a strip for each board; and the stages of one of them."""
    measured = [(run, m) for run in runs for m in run.measurements if m.metric.name == "boot.time"]
    if len({run.run.id for run, _ in measured}) == 1:
        run = measured[0][0]
        series = [plots.PlotSeries(m.params.get("medium", ""), m.samples, summarise(m.samples)) for _, m in measured]
        yield _named(plots.strip_plot(series, "s"), run), f"Boot time of each cycle, {_where(run)}"
    elif measured:
        media: dict[str, dict[str, list[Sample]]] = {}
        for run, m in measured:
            media.setdefault(m.params.get("medium", ""), {}).setdefault(run.run.board, []).extend(m.samples)
        drawn = {
            medium: [RangeStrip(board, samples) for board, samples in sorted(boards.items())]
            for medium, boards in sorted(media.items())
        }
        count = len({run.run.board for run, _ in measured})
        caption = f"Boot time of each cycle, {count} board{'s' * (count != 1)} of {runs[0].run.board_type}"
        yield _named(draw(drawn, "s"), measured[0][0]), caption
    staged = [run for run in runs if run.stages]
    if staged:
        typical = sorted(staged, key=_length_s)[len(staged) // 2]
        which = f", the middle one of {len(staged)} runs" if len(staged) > 1 else ""
        yield _named(plots.waterfall(typical.stages, {}), typical), f"Stages of the boot, {_where(typical)}{which}"


def _where(run: Overview) -> str:
    return f"run {run.run.id}, {run.run.board}"


def _length_s(run: Overview) -> float:
    """How long its longest boot takes."""
    return max(stage.start_s + stage.summary.mean for stages in run.stages.values() for stage in stages)


def rail_power(rails: Sequence[GuideEntry]) -> str:
    """Rails stacked on each other, one bar for each board and mode."""
    bars = list(dict.fromkeys((e.board, e.params.get("mode", "")) for e in rails))
    names = list(dict.fromkeys(e.params.get("rail", "") for e in rails))
    values = {(e.board, e.params.get("mode", ""), e.params.get("rail", "")): e.value or 0.0 for e in rails}
    with plots.style():
        figure = Figure(figsize=(_WIDTH_IN, 0.9 + 0.35 * len(bars)), layout="constrained")
        axes = figure.add_subplot()
        left = [0.0] * len(bars)
        for name, colour in zip(names, plots.colours(len(names)), strict=True):
            widths = [values.get((*bar, name), 0.0) for bar in bars]
            alpha = 1.0 if names.index(name) < 5 else 0.5  # the colours repeat after five
            axes.barh(range(len(bars)), widths, left=left, color=colour, alpha=alpha, label=name)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        axes.set_yticks(range(len(bars)), [f"{board}\n{mode}" for board, mode in bars])
        axes.invert_yaxis()
        axes.set_xlabel("mW")
        figure.legend(loc="outside lower center", fontsize="small", ncols=4)
        return plots.svg(figure, "rails", "Power of the supply rails by mode")


def chapters_over_releases(releases: Sequence[GuideRelease]) -> str:
    """A line for each chapter: the median of its numbers against the oldest release; empty with one release."""
    if len(releases) < 2:
        return ""
    first = _numbers(releases[0])
    lines: dict[str, list[tuple[int, float]]] = {}
    for position, release in enumerate(releases[1:], start=1):
        changes: dict[str, list[float]] = {}
        for key, (chapter, value, is_higher_better) in _numbers(release).items():
            if key in first and first[key][1] > 0 and value > 0:
                change = math.log(value / first[key][1])
                changes.setdefault(chapter, []).append(change if is_higher_better else -change)
        for chapter, found in changes.items():
            if len(found) >= _LEAST_NUMBERS:
                lines.setdefault(chapter, [(0, 1.0)]).append((position, math.exp(statistics.median(found))))
    if not lines:
        return ""
    with plots.style():
        figure = Figure(figsize=(_WIDTH_IN, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for (chapter, points), colour in zip(lines.items(), plots.colours(len(lines)), strict=True):
            dashes = "-" if list(lines).index(chapter) < 5 else "--"  # the colours repeat after five
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                dashes,
                marker="o",
                markersize=3,
                color=colour,
                label=chapter,
            )
        axes.axhline(1.0, color="0.6", linewidth=0.6)
        axes.set_xticks(range(len(releases)), [release.name for release in releases])
        axes.set_ylabel("median, above 1 is better")
        figure.legend(loc="outside lower center", fontsize="small", ncols=3)
        return plots.svg(figure, "releases", "Each chapter over the releases")


def _numbers(release: GuideRelease) -> Mapping[_Key, tuple[str, float, bool]]:
    """(Board, metric, parameters) -> (chapter, value, whether higher is better), without broken runs and parameters."""
    found: dict[_Key, tuple[str, float, bool]] = {}
    for entry in release.entries:
        place = layout.load().place(entry.metric, entry.params)
        if (
            place is None
            or entry.value is None
            or entry.evidence.note
            or entry.metric.endswith((".datagram", "cpu_load"))
        ):
            continue
        key = (entry.board, entry.metric, frozenset(entry.params.items()))
        found[key] = (place.chapter[0], entry.value, by_name(entry.metric).better == "higher")
    return found


def _named(svg: str, run: Overview) -> str:
    """The same figure with ids of its own: a page may hold several runs."""
    return (
        svg.replace('id="', f'id="r{run.run.id}-')
        .replace("url(#", f"url(#r{run.run.id}-")
        .replace('href="#', f'href="#r{run.run.id}-')
    )


# --- The boards of a type beside each other: each board's boots as a strip of dots, one panel a medium ---


_STRIP_WIDTH_IN: Final = 9.0
_STRIP_IN: Final = 0.24
_LANES: Final = 5  # beside each other, so that equal values do not hide each other
_LANE: Final = 0.09  # of a strip's height


@frozen
class RangeStrip:
    """All samples of a board on a medium."""

    board: str
    samples: Sequence[Sample]


def draw(media: Mapping[str, Sequence[RangeStrip]], unit: str) -> str:
    """Every sample a dot; a bar for the mean and its ±. The boards are in the same order in all panels."""
    boards = list(dict.fromkeys(strip.board for strips in media.values() for strip in strips))
    with plots.style():
        figure = Figure(figsize=(_STRIP_WIDTH_IN, 1.0 + _STRIP_IN * len(boards)), layout="constrained")
        panels = figure.subplots(1, len(media), sharey=True, squeeze=False)[0]
        for axes, (medium, strips), colour in zip(panels, media.items(), plots.colours(len(media)), strict=True):
            for strip in strips:
                at = boards.index(strip.board)
                lanes = [at + _LANE * (number % _LANES - _LANES // 2) for number in range(len(strip.samples))]
                values = [sample.value for sample in strip.samples]
                axes.plot(values, lanes, "o", markersize=2.5, alpha=0.5, color=colour, markeredgewidth=0)
                summary = summarise(strip.samples)
                axes.errorbar(
                    summary.mean, at, xerr=summary.uncertainty, marker="|", markersize=9, capsize=2, color=colour
                )
            axes.set_title(medium, fontsize="medium")
            axes.set_xlabel(unit)
        panels[0].set_yticks(range(len(boards)), boards)
        panels[0].invert_yaxis()
        return plots.svg(figure, "strips", "Each boot of each board, by medium, with the mean and its uncertainty")
