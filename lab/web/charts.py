"""The history of a metric, with the releases marked.

There is a series for each board and set of parameters.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import frozen
from sqlalchemy import select

from lab.figures.lines import LineChart, LinePoint, LineSeries, TimeAxis, together
from lab.judge.records import CALLED, StoredVerdict
from lab.judge.text import size
from lab.results.averages import AveragePoint
from lab.results.formatting import label, number
from lab.results.listing import ListedRun
from lab.results.models import AttemptRow, RunRow
from lab.results.records import OK, PUBLISHED
from lab.results.store import Store

_SIZE: Final = (1000.0, 110.0)
_LEAST_RANGE: Final = 0.04  # of the value: what differs by less is drawn as the small change that it is


@frozen
class History:
    """A series of runs.

    Attributes:
        now: the last average with its ±, of a completed run where there is one. changes: what the judge called.
        incomplete: runs that did not complete, e.g. `run 47: of a run that was interrupted`.
    """

    title: str
    now: str
    runs: int
    changes: tuple[str, ...]
    chart: LineChart
    incomplete: tuple[tuple[int, str], ...] = ()


def histories(points: Sequence[AveragePoint], verdicts: Iterable[StoredVerdict] = ()) -> list[History]:
    """The series of these points on one axis of time: what changed first, then by parameters and board.

    Another definition or a virtual board is a series of its own.

    Args:
        verdicts: of this metric, the newest run's first; the runs since which something changed are marked.
    """
    marked: dict[tuple[object, ...], dict[int, str]] = {}
    for verdict in verdicts:
        rejected = verdict.review is not None and verdict.review.decision == "rejected"
        if verdict.outcome in CALLED and verdict.since_run is not None and not rejected:
            changes = marked.setdefault(
                (verdict.run.board_type, verdict.run.board, *_number(verdict.version, verdict.params)), {}
            )
            changes.setdefault(verdict.since_run, f"{verdict.outcome} since run {verdict.since_run}: {size(verdict)}")
    series: dict[tuple[object, ...], list[AveragePoint]] = {}
    for point in points:
        series.setdefault((point.run.board_type, point.run.board, point.average.key), []).append(point)
    begin, end = min(point.run.started_at for point in points), max(point.run.started_at for point in points)
    all_histories = []
    for points_of_series in series.values():
        point = points_of_series[0]
        number = _number(point.average.metric.version, point.average.params)
        all_histories.append(
            _history(points_of_series, marked.get((point.run.board_type, point.run.board, *number), {}), begin, end)
        )
    return sorted(
        all_histories, key=lambda history: (not history.changes, history.title.partition(", ")[2], history.title)
    )


def _number(version: int, params: Mapping[str, str]) -> tuple[int, frozenset[tuple[str, str]]]:
    return version, frozenset(params.items())


def _history(
    points: Sequence[AveragePoint], changes: Mapping[int, str], begin: dt.datetime, end: dt.datetime
) -> History:
    first = points[0].average
    parts = [
        points[0].run.board,
        label(first.params),
        f"definition {first.metric.version}" * (first.metric.version > 1),
    ]
    title = ", ".join(part for part in parts if part)
    span_s = (end - begin).total_seconds()

    def at(when: dt.datetime) -> float:
        return (when - begin).total_seconds() / span_s if span_s else 0.5

    begins = [
        (at(point.run.started_at), point.run.release)
        for before, point in zip([None, *points], points, strict=False)
        if before is None or before.run.release != point.run.release
    ]
    dates = [(at(when), text) for when, text in _marks(begin, end)] or [(at(begin), f"{begin:%Y-%m-%d %H:%M}")]
    chart = together(
        [LineSeries(title, [_point(at(point.run.started_at), point) for point in points])],
        TimeAxis(dates, begins),
        f"{first.metric.name} of {title}, run by run",
        first.metric.unit,
        size=_SIZE,
        least=_LEAST_RANGE,
        changes=[(at(point.run.started_at), changes[point.run.id]) for point in points if point.run.id in changes],
    )
    now = next((point for point in reversed(points) if not point.incomplete), points[-1])
    return History(
        title,
        f"{_value_text(now)}{f', {now.incomplete}' if now.incomplete else ''}",
        len(points),
        tuple(change.text for change in chart.panels[0].changes),
        chart,
        tuple((point.run.id, point.incomplete) for point in points if point.incomplete),
    )


def _point(at: float, point: AveragePoint) -> LinePoint:
    value, about = point.average.value, point.average.uncertainty
    text = f"run {point.run.id}, {point.run.release}: {_value_text(point)}"
    text += f", {point.incomplete}" if point.incomplete else ""
    return LinePoint(at, value, value - about, value + about, text, f"/runs/{point.run.id}", bool(point.incomplete))


def _value_text(point: AveragePoint) -> str:
    average = point.average
    value = number(average.value, average.uncertainty, average.metric)
    return f"{value} ± {number(average.uncertainty, average.uncertainty, average.metric)} {average.metric.unit}"


TIMELINE_WIDTH: Final = 1000
MOST_FAILURES: Final = 200
_EDGE: Final = 8
_LEAST: Final = 3.0  # px of a run, so that a short one can be met
_NAME: Final = 90.0  # px of a release's name
_MARKS: Final = 12  # of the time, at most about so many
_SHORT: Final = tuple(dt.timedelta(minutes=minutes) for minutes in (1, 5, 15))


@frozen
class TimelineBar:
    """A run on the timeline, in pixels, with its tooltip."""

    run_id: int
    x: float
    width: float
    status: str
    text: str


@frozen
class TimelineCross:
    """A failed attempt on the timeline, in pixels, with its tooltip."""

    run_id: int
    attempt_id: int
    x: float
    text: str


@frozen
class Timeline:
    """Runs, failed attempts, time marks and the begins of releases with their texts, in pixels."""

    bars: tuple[TimelineBar, ...]
    crosses: tuple[TimelineCross, ...]
    marks: tuple[tuple[float, str], ...]
    releases: tuple[tuple[float, str], ...]


def timeline(store: Store, runs: Sequence[ListedRun], now: dt.datetime) -> Timeline | None:
    """The timeline of a board's runs; None: there are none."""
    shown = [listed_run for listed_run in runs if listed_run.run.kind != PUBLISHED]
    if not shown:
        return None
    begin = min(listed_run.run.started_at for listed_run in shown)
    span_s = max((now - begin).total_seconds(), 1.0)

    def x(at: dt.datetime) -> float:
        return _EDGE + (TIMELINE_WIDTH - 2 * _EDGE) * min(1.0, max(0.0, (at - begin).total_seconds() / span_s))

    bars = []
    for listed_run in sorted(shown, key=lambda listed_run: listed_run.run.id):
        run = listed_run.run
        left, right = x(run.started_at), x(run.finished_at or now)
        text = (
            f"run {run.id}, {run.kind}, {run.release}, {run.started_at:%Y-%m-%d %H:%M} UTC: {run.status}, "
            f"{listed_run.good} of {listed_run.tried} good"
        )
        bars.append(TimelineBar(run.id, left, max(_LEAST, right - left), run.status, text))
    crosses = tuple(
        TimelineCross(run_id, attempt_id, x(at), f"{outcome}, run {run_id}, {at:%Y-%m-%d %H:%M} UTC")
        for attempt_id, run_id, outcome, at in _read_failures(
            store, [listed_run.run.id for listed_run in shown if listed_run.failed]
        )
    )
    marks = tuple((x(at), text) for at, text in _marks(begin, now))
    return Timeline(
        tuple(bars),
        crosses,
        marks,
        _release_marks([(x(listed_run.run.started_at), listed_run.run.release) for listed_run in shown]),
    )


def _release_marks(runs: Iterable[tuple[float, str]]) -> tuple[tuple[float, str], ...]:
    """Marks at the begin of releases; of meeting names, the newer."""
    shown_releases: list[tuple[float, str]] = []
    first = [
        next(group) for _, group in itertools.groupby(sorted(runs, key=lambda run: run[0]), key=lambda run: run[1])
    ]
    for x, name in reversed(first):
        if not shown_releases or shown_releases[-1][0] - x >= _NAME:
            shown_releases.append((x, name))
    return tuple(reversed(shown_releases))


def _read_failures(store: Store, run_ids: Sequence[int]) -> list[tuple[int, int, str, dt.datetime]]:
    query = select(AttemptRow.id, AttemptRow.run_id, AttemptRow.outcome, AttemptRow.started_at)
    query = query.join(RunRow, RunRow.id == AttemptRow.run_id).where(RunRow.id.in_(run_ids), AttemptRow.outcome != OK)
    rows = store.rows(query.order_by(AttemptRow.id.desc()).limit(MOST_FAILURES))
    return [(row[0], row[1], row[2], row[3]) for row in reversed(rows)]


def _marks(begin: dt.datetime, now: dt.datetime) -> list[tuple[dt.datetime, str]]:
    """The marks of a timeline, in UTC.

    Days for a long one, hours for a short one, minutes for less than two hours.
    """
    span = now - begin
    long = span >= dt.timedelta(days=2)
    step, form = (dt.timedelta(days=1), "%m-%d") if long else (dt.timedelta(hours=1), "%H:%M")
    if span < 2 * step:
        step = next((short for short in _SHORT if span <= _MARKS * short), step)
    step *= max(1, -(-span // (step * _MARKS)))
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + ((begin - midnight) // step + 1) * step
    return [(at + n * step, (at + n * step).strftime(form)) for n in range(max(0, (now - at) // step + 1))]
