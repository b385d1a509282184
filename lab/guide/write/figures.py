"""Figures of a written guide: boots, stages, rail powers, chapters over releases."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from markupsafe import Markup

from lab.figures import drawn
from lab.figures.bars import stack, waterfalls
from lab.figures.lines import LinePoint, LineSeries, apart, together
from lab.figures.strips import CycleSeries, board_strips, cycle_strip
from lab.guide import layout
from lab.guide.compare.trend import Trend, TrendPoint
from lab.guide.write.entries import GuideEntry, GuideRelease
from lab.guide.write.terminal import params
from lab.judge.labels import release_key
from lab.metrics import Sample, by_name, summarise
from lab.metrics.catalogue import BOOT_TIME
from lab.results.listing import Overview

_Key = tuple[str, str, frozenset[tuple[str, str]]]

_BOOT = "Boot-time Measurement"
_POWER = "Low Power Performance"
_LEAST_NUMBERS = 3  # that a chapter must share with the oldest release


def of_release(release: GuideRelease, runs: Sequence[Overview]) -> dict[str, list[tuple[Markup, str]]]:
    """Top chapter -> its figures with captions.

    Args:
        runs: what was measured here; published numbers have no cycles.
    """
    found: dict[str, list[tuple[Markup, str]]] = {}
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


def _boots(runs: Sequence[Overview]) -> Iterator[tuple[Markup, str]]:
    """The boots of a board type, and the stages of one run.

    One run is drawn cycle by cycle; of several there is a strip for each board.
    """
    measured = [(run, m) for run in runs for m in run.measurements if m.metric.name == BOOT_TIME.name]
    if len({run.run.id for run, _ in measured}) == 1:
        run = measured[0][0]
        series = [
            CycleSeries(m.params.get("medium", ""), m.metric, m.samples, summarise(m.samples)) for _, m in measured
        ]
        yield drawn("strip", cycle_strip(series, shared=True)), f"Boot time of each cycle, {_where(run)}"
    elif measured:
        media: dict[str, dict[str, list[Sample]]] = {}
        for run, m in measured:
            media.setdefault(m.params.get("medium", ""), {}).setdefault(run.run.board, []).extend(m.samples)
        count = len({run.run.board for run, _ in measured})
        caption = f"Boot time of each cycle, {count} board{'s' * (count != 1)} of {runs[0].run.board_type}"
        title = "Each boot of each board, with the mean and its ± below"
        yield drawn("boards", board_strips(title, measured[0][1].metric, dict(sorted(media.items())))), caption
    staged = [run for run in runs if run.stages]
    if staged:
        typical = sorted(staged, key=_length_s)[len(staged) // 2]
        which = f", the middle one of {len(staged)} runs" if len(staged) > 1 else ""
        bars = Markup("\n").join(drawn("waterfall", each) for each in waterfalls(typical.stages, {}))
        yield bars, f"Stages of the boot, {_where(typical)}{which}"


def _where(run: Overview) -> str:
    return f"run {run.run.id}, {run.run.board}"


def _length_s(run: Overview) -> float:
    """The length of the longest boot, in s."""
    return max(stage.start_s + stage.summary.mean for stages in run.stages.values() for stage in stages)


def rail_power(rails: Sequence[GuideEntry]) -> Markup:
    """Rails stacked on each other, one bar for each board and mode."""
    bars: dict[str, dict[str, float]] = {}
    for entry in rails:
        mode, rail = entry.params.get("mode", ""), entry.params.get("rail", "")
        bars.setdefault(f"{entry.board} {mode}", {})[rail] = entry.value or 0.0
    return drawn("stack", stack("Power of the supply rails by mode", "mW", bars))


def chapters_over_releases(releases: Sequence[GuideRelease]) -> Markup:
    """Each chapter's median ratio to the oldest release; empty with one."""
    if len(releases) < 2:
        return Markup("")
    first = _numbers(releases[0])
    names = [release.name for release in releases]
    lines: dict[str, list[LinePoint]] = {}
    for position, release in enumerate(releases[1:], start=1):
        changes: dict[str, list[float]] = {}
        for key, (chapter, value, is_higher_better) in _numbers(release).items():
            if key in first and first[key][1] > 0 and value > 0:
                change = math.log(value / first[key][1])
                changes.setdefault(chapter, []).append(change if is_higher_better else -change)
        for chapter, found in changes.items():
            if len(found) >= _LEAST_NUMBERS:
                points = lines.setdefault(chapter, [_point(0, 1.0, chapter, names[0])])
                points.append(_point(position, math.exp(statistics.median(found)), chapter, release.name))
    if not lines:
        return Markup("")
    series = [LineSeries(chapter, points) for chapter, points in lines.items()]
    title = "Each chapter over the releases"
    return drawn("lines", together(series, names, title, "median, above 1 is better", level=1.0))


def _point(at: int, ratio: float, chapter: str, release: str) -> LinePoint:
    return LinePoint(at, ratio, ratio, ratio, f"{chapter}, {release}: {ratio:.3f}")


def _numbers(release: GuideRelease) -> Mapping[_Key, tuple[str, float, bool]]:
    """The numbers of a release that a chapter can compare.

    (Board, metric, parameters) -> (chapter, value, higher is better); broken runs and parameters are left out.
    """
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


# --- Series over releases, as a file ---


_TOGETHER: Final = 5  # series in one drawing: so many colours differ for everybody


def trends(found: Sequence[Trend]) -> Markup:
    """Series with their ranges as SVG.

    A few stand together; more of them stand each in a panel of its own.
    """
    releases = sorted({point.release for one in found for point in one.points}, key=release_key)
    series = [
        LineSeries(_name(one, found), [_trend_point(point, releases, one.unit) for point in one.points])
        for one in found
    ]
    boards = list(dict.fromkeys(one.board for one in found))
    title = f"{', '.join(boards)}: {found[0].metric}, {found[0].better} is better"
    if len(found) <= _TOGETHER:
        return drawn("lines", together(series, releases, title, found[0].unit, headed=True), True)
    return drawn("lines", apart(series, releases, title, found[0].unit), True)


def _trend_point(point: TrendPoint, releases: Sequence[str], unit: str) -> LinePoint:
    text = f"{point.release}: {point.value:g} {unit}".rstrip()
    return LinePoint(
        releases.index(point.release),
        point.value,
        point.value if point.low is None else point.low,
        point.value if point.high is None else point.high,
        f"{text}, {point.note}" if point.note else text,
        is_broken=bool(point.note),
    )


def _name(series: Trend, beside: Sequence[Trend]) -> str:
    """The name of a series among the others.

    The board is in it only where there are several.
    """
    boards = {other.board for other in beside}
    words = [params(series.params), series.definition, series.board if len(boards) > 1 else ""]
    return ", ".join(word for word in words if word) or series.metric
