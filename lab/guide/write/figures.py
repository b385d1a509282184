"""Figures of a written guide: boots, stages, rail powers, chapters over releases."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from markupsafe import Markup

from lab.figures import draw
from lab.figures.bars import stack, waterfalls
from lab.figures.lines import LinePoint, LineSeries, apart, together
from lab.figures.strips import CycleSeries, board_strips, cycle_strip
from lab.guide import layout
from lab.guide.catalogue import params_text
from lab.guide.compare.trend import Trend, TrendPoint
from lab.guide.write.entries import GuideRelease
from lab.judge.labels import release_key
from lab.metrics import Sample, by_name, summarise
from lab.metrics.catalogue import BOOT_TIME
from lab.results.listing import Overview

_Key = tuple[str, str, frozenset[tuple[str, str]]]

_BOOT = "Boot-time Measurement"
_POWER = "Low Power Performance"
_LEAST_NUMBERS = 3  # that a chapter must share with the oldest release
_TOGETHER: Final = 5  # series in one drawing: so many colours differ for everybody


def draw_release(release: GuideRelease, runs: Sequence[Overview]) -> dict[str, list[tuple[Markup, str]]]:
    """Top chapter -> its figures with captions.

    Args:
        runs: what was measured here; published numbers have no cycles.
    """
    figures: dict[str, list[tuple[Markup, str]]] = {}
    types: dict[str, list[Overview]] = {}
    for run in runs:
        types.setdefault(run.run.board_type, []).append(run)
    if boots := [figure for members in types.values() for figure in _draw_boots(members)]:
        figures[_BOOT] = boots
    if rails := [e for e in release.entries if e.metric == "power.rail" and e.value]:
        caption = "Power of the supply rails by mode"
        bars: dict[str, dict[str, float]] = {}  # board and mode -> rail -> power
        for entry in rails:
            mode, rail = entry.params.get("mode", ""), entry.params.get("rail", "")
            bars.setdefault(f"{entry.board} {mode}", {})[rail] = entry.value or 0.0
        figures.setdefault(_POWER, []).append((draw("stack", stack(caption, "mW", bars)), caption))
    return figures


def _draw_boots(runs: Sequence[Overview]) -> Iterator[tuple[Markup, str]]:
    """The boots of a board type, and the stages of one run.

    One run is drawn cycle by cycle; of several there is a strip for each board.
    """
    measured = [(run, m) for run in runs for m in run.measurements if m.metric.name == BOOT_TIME.name]
    if len({run.run.id for run, _ in measured}) == 1:
        series = [
            CycleSeries(m.params.get("medium", ""), m.metric, m.samples, summarise(m.samples)) for _, m in measured
        ]
        figure = draw("strip", cycle_strip(series, shared=True))
        yield figure, f"Boot time of each cycle, {_run_name(measured[0][0])}"
    elif measured:
        media: dict[str, dict[str, list[Sample]]] = {}
        for run, m in measured:
            media.setdefault(m.params.get("medium", ""), {}).setdefault(run.run.board, []).extend(m.samples)
        count = len({run.run.board for run, _ in measured})
        title = "Each boot of each board, with the mean and its ± below"
        figure = draw("boards", board_strips(title, measured[0][1].metric, dict(sorted(media.items()))))
        yield figure, f"Boot time of each cycle, {count} board{'s' * (count != 1)} of {runs[0].run.board_type}"
    staged = sorted((run for run in runs if run.stages), key=_longest_boot_s)
    if staged:
        typical = staged[len(staged) // 2]
        which = f", the middle one of {len(staged)} runs" if len(staged) > 1 else ""
        bars = Markup("\n").join(draw("waterfall", waterfall) for waterfall in waterfalls(typical.stages, {}))
        yield bars, f"Stages of the boot, {_run_name(typical)}{which}"


def _run_name(run: Overview) -> str:
    return f"run {run.run.id}, {run.run.board}"


def _longest_boot_s(run: Overview) -> float:
    return max(stage.start_s + stage.summary.mean for stages in run.stages.values() for stage in stages)


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
        for chapter, logs in changes.items():
            if len(logs) >= _LEAST_NUMBERS:
                points = lines.setdefault(chapter, [_point(0, 1.0, chapter, names[0])])
                points.append(_point(position, math.exp(statistics.median(logs)), chapter, release.name))
    if not lines:
        return Markup("")
    series = [LineSeries(chapter, points) for chapter, points in lines.items()]
    title = "Each chapter over the releases"
    return draw("lines", together(series, names, title, "median, above 1 is better", level=1.0))


def _point(at: int, ratio: float, chapter: str, release: str) -> LinePoint:
    return LinePoint(at, ratio, ratio, ratio, f"{chapter}, {release}: {ratio:.3f}")


def _numbers(release: GuideRelease) -> Mapping[_Key, tuple[str, float, bool]]:
    """The numbers of a release that a chapter can compare.

    (Board, metric, parameters) -> (chapter, value, higher is better); broken runs and parameters are left out.
    """
    numbers: dict[_Key, tuple[str, float, bool]] = {}
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
        numbers[key] = (place.chapter[0], entry.value, by_name(entry.metric).better == "higher")
    return numbers


def draw_trends(trends: Sequence[Trend]) -> Markup:
    """Series with their ranges as SVG.

    A few stand together; more of them stand each in a panel of its own.
    """
    releases = sorted({point.release for trend in trends for point in trend.points}, key=release_key)
    series = [
        LineSeries(_series_name(trend, trends), [_trend_point(point, releases, trend.unit) for point in trend.points])
        for trend in trends
    ]
    boards = list(dict.fromkeys(trend.board for trend in trends))
    title = f"{', '.join(boards)}: {trends[0].metric}, {trends[0].better} is better"
    if len(trends) <= _TOGETHER:
        return draw("lines", together(series, releases, title, trends[0].unit, headed=True), True)
    return draw("lines", apart(series, releases, title, trends[0].unit), True)


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


def _series_name(series: Trend, beside: Sequence[Trend]) -> str:
    """The name of a series among the others.

    The board is in it only where there are several.
    """
    boards = {other.board for other in beside}
    parts = [params_text(series.params), series.definition, series.board if len(boards) > 1 else ""]
    return ", ".join(filter(None, parts)) or series.metric
