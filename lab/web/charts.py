"""The history of a metric: a series for each board and set of parameters, with the releases marked."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import frozen
from sqlalchemy import select

from lab.judge.records import CALLED, StoredVerdict
from lab.judge.text import size
from lab.results.averages import AveragePoint
from lab.results.formatting import label, number
from lab.results.listing import ListedRun
from lab.results.models import AttemptRow, RunRow
from lab.results.records import OK, PUBLISHED
from lab.results.store import Store

WIDTH: Final = 640
HEIGHT: Final = 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 8, 8, 14, 18
_LEAST_RANGE: Final = 0.04  # of the value: what differs by less is drawn as the small change that it is


@frozen
class HistoryDot:
    """A run's average in the drawing: where its middle and the ends of its ± are, in pixels, and what it says."""

    run_id: int
    x: float
    y: float
    low: float
    high: float
    text: str


@frozen
class Drawn:
    """A series as it is drawn.

    Attributes:
        dots: the oldest first. releases: name and x of the first run of each. scale: the values at the bottom and the top.
        changes: what the judge called, and x of the run since which it holds.
        now: the last average with its ±. unit: of all.
    """

    title: str
    unit: str
    now: str
    scale: tuple[str, str]
    dots: tuple[HistoryDot, ...]
    releases: tuple[tuple[str, float], ...]
    changes: tuple[tuple[str, float], ...]

    @property
    def line(self) -> str:
        """The points of a polyline (SVG)."""
        return " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in self.dots)


def drawn(points: Sequence[AveragePoint], verdicts: Iterable[StoredVerdict] = ()) -> list[Drawn]:
    """The series of these points, by board and parameters; another definition or a virtual board is a series of its own.

    Args:
        verdicts: of this metric, the newest run's first; the runs since which something changed are marked.
    """
    said: dict[tuple[object, ...], dict[int, str]] = {}
    for verdict in verdicts:
        rejected = verdict.review is not None and verdict.review.decision == "rejected"
        if verdict.outcome in CALLED and verdict.since_run is not None and not rejected:
            its = said.setdefault(
                (verdict.run.board_type, verdict.run.board, *_number(verdict.version, verdict.params)), {}
            )
            its.setdefault(verdict.since_run, f"{verdict.outcome} since run {verdict.since_run}: {size(verdict)}")
    series: dict[tuple[object, ...], list[AveragePoint]] = {}
    for point in points:
        series.setdefault((point.board_type, point.board, point.average.key), []).append(point)
    made = []
    for found in series.values():
        point = found[0]
        number = _number(point.average.metric.version, point.average.params)
        made.append(_drawn(found, said.get((point.board_type, point.board, *number), {})))
    return sorted(made, key=lambda one: one.title)


def _number(version: int, params: Mapping[str, str]) -> tuple[int, frozenset[tuple[str, str]]]:
    return version, frozenset(params.items())


def _drawn(points: Sequence[AveragePoint], changes: Mapping[int, str]) -> Drawn:
    first, last = points[0].average, points[-1].average
    lows = [point.average.value - point.average.uncertainty for point in points]
    highs = [point.average.value + point.average.uncertainty for point in points]
    middle = (min(lows) + max(highs)) / 2
    half = max((max(highs) - min(lows)) / 2, abs(middle) * _LEAST_RANGE / 2, math.ulp(1.0))
    bottom, top = middle - half, middle + half

    def y(value: float) -> float:
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (top - value) / (top - bottom)

    step = (WIDTH - _LEFT - _RIGHT) / max(1, len(points) - 1)
    dots = tuple(
        HistoryDot(
            point.run_id,
            _LEFT + at * step,
            y(point.average.value),
            y(lows[at]),
            y(highs[at]),
            f"run {point.run_id}, {point.release}: {_said(point)}",
        )
        for at, point in enumerate(points)
    )
    releases = [
        (point.release, dot.x)
        for before, point, dot in zip([None, *points], points, dots, strict=False)
        if before is None or before.release != point.release
    ]
    changed = tuple((changes[dot.run_id], dot.x) for dot in dots if dot.run_id in changes)
    scale = (number(bottom, 2 * half / 100, last.metric), number(top, 2 * half / 100, last.metric))
    parts = [points[0].board, label(first.params), f"definition {first.metric.version}" * (first.metric.version > 1)]
    title = ", ".join(part for part in parts if part)
    return Drawn(title, last.metric.unit, _said(points[-1]), scale, dots, tuple(releases), changed)


def _said(point: AveragePoint) -> str:
    average = point.average
    value = number(average.value, average.uncertainty, average.metric)
    return f"{value} ± {number(average.uncertainty, average.uncertainty, average.metric)} {average.metric.unit}"


# --- A board's runs and failed attempts over time, in one line for its page ---


TIMELINE_WIDTH: Final = 1000
TIMELINE_HEIGHT: Final = 56
MOST_FAILURES: Final = 200
_EDGE: Final = 8
_LEAST: Final = 3.0  # px of a run, so that a short one can be met
_MARKS: Final = 12  # of the time, at most about so many
_SHORT: Final = tuple(dt.timedelta(minutes=minutes) for minutes in (1, 5, 15))


@frozen
class Bar:
    """A run: where it begins and how long it is, in pixels, and what it says."""

    run_id: int
    x: float
    width: float
    status: str
    text: str


@frozen
class HistoryCross:
    """A failed attempt: where it is, in pixels, which one, and what it says."""

    run_id: int
    attempt_id: int
    x: float
    text: str


@frozen
class Timeline:
    """Runs, failed attempts, and marks of the time: their place in pixels and their text."""

    bars: tuple[Bar, ...]
    crosses: tuple[HistoryCross, ...]
    marks: tuple[tuple[float, str], ...]


def timeline(store: Store, runs: Sequence[ListedRun], now: dt.datetime) -> Timeline | None:
    """The line of these runs of one board, and of what failed in them; None: there are none."""
    shown = [each for each in runs if each.run.kind != PUBLISHED]
    if not shown:
        return None
    begin = min(each.run.started_at for each in shown)
    span_s = max((now - begin).total_seconds(), 1.0)

    def x(at: dt.datetime) -> float:
        return _EDGE + (TIMELINE_WIDTH - 2 * _EDGE) * min(1.0, max(0.0, (at - begin).total_seconds() / span_s))

    bars = []
    for each in sorted(shown, key=lambda one: one.run.id):
        run = each.run
        left, right = x(run.started_at), x(run.finished_at or now)
        said = f"run {run.id}, {run.kind}, {run.release}, {run.started_at:%Y-%m-%d %H:%M} UTC: {run.status}, {each.good} of {each.tried} good"
        bars.append(Bar(run.id, left, max(_LEAST, right - left), run.status, said))
    crosses = tuple(
        HistoryCross(run_id, attempt_id, x(at), f"{outcome}, run {run_id}, {at:%Y-%m-%d %H:%M} UTC")
        for attempt_id, run_id, outcome, at in _failed(store, [each.run.id for each in shown if each.failed])
    )
    return Timeline(tuple(bars), crosses, tuple((x(at), text) for at, text in _marks(begin, now)))


def _failed(store: Store, run_ids: Sequence[int]) -> list[tuple[int, int, str, dt.datetime]]:
    wanted = select(AttemptRow.id, AttemptRow.run_id, AttemptRow.outcome, AttemptRow.started_at)
    wanted = wanted.join(RunRow, RunRow.id == AttemptRow.run_id).where(
        RunRow.id.in_(run_ids), AttemptRow.outcome != OK
    )
    with store._read() as session:
        rows = session.execute(wanted.order_by(AttemptRow.id.desc()).limit(MOST_FAILURES)).all()
    return [(row[0], row[1], row[2], row[3]) for row in reversed(rows)]


def _marks(begin: dt.datetime, now: dt.datetime) -> list[tuple[dt.datetime, str]]:
    """The days of a long line, the hours of a short one, minutes where there are not two hours; all UTC."""
    span = now - begin
    long = span >= dt.timedelta(days=2)
    step, form = (dt.timedelta(days=1), "%m-%d") if long else (dt.timedelta(hours=1), "%H:%M")
    if span < 2 * step:
        step = next((each for each in _SHORT if span <= _MARKS * each), step)
    step *= max(1, -(-span // (step * _MARKS)))
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + ((begin - midnight) // step + 1) * step
    return [(at + n * step, (at + n * step).strftime(form)) for n in range(max(0, (now - at) // step + 1))]
