"""A board's runs and failed attempts over time, in one line for its page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

from attrs import frozen
from sqlalchemy import select

from lab.results.listing import ListedRun
from lab.results.models import AttemptRow, RunRow
from lab.results.records import OK, PUBLISHED
from lab.results.store import Store

WIDTH: Final = 1000
HEIGHT: Final = 56
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
class Cross:
    """A failed attempt: where it is, in pixels, which one, and what it says."""

    run_id: int
    attempt_id: int
    x: float
    text: str


@frozen
class Timeline:
    """Runs, failed attempts, and marks of the time: their place in pixels and their text."""

    bars: tuple[Bar, ...]
    crosses: tuple[Cross, ...]
    marks: tuple[tuple[float, str], ...]


def timeline(store: Store, runs: Sequence[ListedRun], now: dt.datetime) -> Timeline | None:
    """The line of these runs of one board, and of what failed in them; None: there are none."""
    shown = [each for each in runs if each.run.kind != PUBLISHED]
    if not shown:
        return None
    begin = min(each.run.started_at for each in shown)
    span_s = max((now - begin).total_seconds(), 1.0)

    def x(at: dt.datetime) -> float:
        return _EDGE + (WIDTH - 2 * _EDGE) * min(1.0, max(0.0, (at - begin).total_seconds() / span_s))

    bars = []
    for each in sorted(shown, key=lambda one: one.run.id):
        run = each.run
        left, right = x(run.started_at), x(run.finished_at or now)
        said = f"run {run.id}, {run.kind}, {run.release}, {run.started_at:%Y-%m-%d %H:%M} UTC: {run.status}, {each.good} of {each.tried} good"
        bars.append(Bar(run.id, left, max(_LEAST, right - left), run.status, said))
    crosses = tuple(
        Cross(run_id, attempt_id, x(at), f"{outcome}, run {run_id}, {at:%Y-%m-%d %H:%M} UTC")
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
