"""The history of a metric, with releases and changes marked, and a board's line of time."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import frozen
from sqlalchemy import select

from lab.farm.status import name_key
from lab.figures.lines import LineChart, LinePoint, LineSeries, TimeAxis, together
from lab.judge.records import CALLED, StoredVerdict
from lab.judge.text import size
from lab.results.averages import AveragePoint
from lab.results.formatting import label, number
from lab.results.listing import ListedRun
from lab.results.models import AttemptRow, RunRow
from lab.results.records import OK, PUBLISHED
from lab.results.store import Store

_SIZE: Final = (1000.0, 300.0)
_LEAST_RANGE: Final = 0.04  # of the value: what differs by less is drawn as the small change that it is
MOST_SERIES: Final = 24  # of a chart: more are told apart by nobody


@frozen
class Step:
    """A change of a series that the judge called.

    Attributes:
        run_id: since which.
        size: e.g. `+24 % ± 1 %`.
    """

    run_id: int
    release: str
    outcome: str
    size: str


@frozen
class History:
    """A series of runs: a board's, with its parameters.

    Attributes:
        now: the last average with its ±, of a completed run where there is one.
        steps: what the judge called, of runs that are shown.
        incomplete: runs that did not complete, e.g. `run 47: of a run that was interrupted`.
    """

    title: str
    board: str
    points: Sequence[AveragePoint]
    now: str
    steps: tuple[Step, ...] = ()
    incomplete: tuple[tuple[int, str], ...] = ()


def histories(points: Sequence[AveragePoint], verdicts: Iterable[StoredVerdict] = ()) -> list[History]:
    """The series of these points: what changed first, then by parameters and board.

    Another definition or a virtual board is a series of its own.

    Args:
        verdicts: of this metric, the newest run's first; the runs since which something changed are marked.
    """
    called: dict[tuple[object, ...], dict[int, StoredVerdict]] = {}
    for verdict in verdicts:
        rejected = verdict.review is not None and verdict.review.decision == "rejected"
        if verdict.outcome in CALLED and verdict.since_run is not None and not rejected:
            of_series = called.setdefault(
                (verdict.run.board_type, verdict.run.board, verdict.version, _items(verdict.params)), {}
            )
            of_series.setdefault(verdict.since_run, verdict)
    series: dict[tuple[object, ...], list[AveragePoint]] = {}
    for point in points:
        series.setdefault((point.run.board_type, point.run.board, point.average.key), []).append(point)
    all_histories = []
    for series_points in series.values():
        run, average = series_points[0].run, series_points[0].average
        verdict_of = called.get((run.board_type, run.board, average.metric.version, _items(average.params)), {})
        all_histories.append(_history(series_points, verdict_of))
    return sorted(
        all_histories,
        key=lambda history: (not history.steps, history.title.partition(", ")[2], name_key(history.title)),
    )


def chart(shown: Sequence[History]) -> LineChart:
    """Series of one unit in one chart, on one scale and one axis of time."""
    points = [point for history in shown for point in history.points]
    metric = points[-1].average.metric
    begin, end = min(point.run.started_at for point in points), max(point.run.started_at for point in points)
    span_s = (end - begin).total_seconds()

    def at(when: dt.datetime) -> float:
        return (when - begin).total_seconds() / span_s if span_s else 0.5

    begins: dict[str, float] = {}
    for point in sorted(points, key=lambda point: point.run.started_at):
        begins.setdefault(point.run.release, at(point.run.started_at))
    dates = [(at(when), text) for when, text in _marks(begin, end)] or [(at(begin), f"{begin:%Y-%m-%d %H:%M}")]
    lines = [
        LineSeries(history.title, [_point(at(point.run.started_at), point, history) for point in history.points])
        for history in shown
    ]
    axis = TimeAxis(dates, [(place, release) for release, place in begins.items()])
    title = f"{metric.name}, run by run"
    return together(lines, axis, title, metric.unit, size=_SIZE, least=_LEAST_RANGE, legend=False)


def _items(params: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(params.items())


def _history(points: Sequence[AveragePoint], verdict_of: Mapping[int, StoredVerdict]) -> History:
    first = points[0].average
    parts = [
        points[0].run.board,
        label(first.params),
        f"definition {first.metric.version}" * (first.metric.version > 1),
    ]
    now = next((point for point in reversed(points) if not point.incomplete), points[-1])
    return History(
        ", ".join(part for part in parts if part),
        points[0].run.board,
        points,
        f"{_value_text(now)}{f', {now.incomplete}' if now.incomplete else ''}",
        tuple(
            Step(point.run.id, point.run.release, verdict.outcome, size(verdict))
            for point in points
            if (verdict := verdict_of.get(point.run.id)) is not None
        ),
        tuple((point.run.id, point.incomplete) for point in points if point.incomplete),
    )


def _point(at: float, point: AveragePoint, history: History) -> LinePoint:
    value, about, run = point.average.value, point.average.uncertainty, point.run
    text = f"{history.title}: run {run.id}, {run.release}: {_value_text(point)}"
    text += f", {point.incomplete}" if point.incomplete else ""
    step = next((f"{step.size}, {step.release}" for step in history.steps if step.run_id == run.id), "")
    text += f"; {step}" if step else ""
    return LinePoint(at, value, value - about, value + about, text, f"/runs/{run.id}", bool(point.incomplete), step)


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
