"""Verdicts, reviews and mutes in the store; the records are in `lab.judge.records`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen
from sqlalchemy import ColumnElement, Row, func, insert, or_, select
from sqlalchemy.orm import Session, joinedload

from lab.errors import ConfigurationError
from lab.host.clock import utc_now
from lab.judge.records import (
    CALLED,
    DRIFT,
    UNSURE,
    ChangeStart,
    Decision,
    LaterChanges,
    Mute,
    NewVerdict,
    OutcomeName,
    Review,
    StoredVerdict,
)
from lab.metrics.rates import RATES
from lab.results import rows as store_rows
from lab.results.history import Item, item_of
from lab.results.models import MuteRow, ReviewRow, RunRow, VerdictRow
from lab.results.records import Run
from lab.results.store import Store, _find

LOOK_BACK: Final = dt.timedelta(days=60)  # an older run without a decision will not get one
MOST: Final = 500  # numbers that are read; so many have one cause, which the first of them show
REPORTED: Final[tuple[OutcomeName, ...]] = ("regression", "environment")  # outcomes that people are told of


def write_verdicts(
    store: Store, run_id: int, verdicts: Sequence[NewVerdict], late_changes: Sequence[tuple[int, NewVerdict]] = ()
) -> None:
    """Replace the verdicts on a run, in one transaction.

    Args:
        late_changes: ids of earlier runs of the same board and kind, each with a change that was found only now. A
            change without a verdict gets one on its run; `verdicts_with` returns it with the judged run.

    Raises:
        ConfigurationError: there is no such run.
    """

    def write(session: Session) -> None:
        run = _find(session, run_id)
        old_rows = _rows(session, run_id)
        now = utc_now()
        series = (RunRow.board_type == run.board_type, RunRow.board == run.board, RunRow.kind == run.kind)
        # Changes of earlier runs that were found with this run stay with it: they get its new instant.
        old_instants = {row.judged_at for row in old_rows.values()}
        late_metrics = {verdict.metric for _, verdict in late_changes}
        concerned = or_(VerdictRow.judged_at.in_(old_instants), VerdictRow.metric.in_(late_metrics))
        changed = select(VerdictRow).join(VerdictRow.run).where(*series, VerdictRow.outcome.in_(CALLED), concerned)
        changed_rows = [row for row in session.scalars(changed).all() if row.run_id != run_id]
        for row in changed_rows:
            if row.run_id < run_id and row.judged_at in old_instants:
                row.judged_at = now
        matched = [(run_id, verdict, old_rows.pop(verdict.number, None)) for verdict in verdicts]
        for changed_run, verdict in late_changes:
            if not any(_is_same_change(row, changed_run, verdict) for row in changed_rows):
                matched.append((changed_run, verdict, _rows(session, changed_run).get(verdict.number)))
        new: list[dict[str, Any]] = []
        for judged_run, verdict, old_row in matched:
            if old_row is None:
                new.append({"run_id": judged_run, **_values(verdict, now)})
                continue
            for name, value in _values(verdict, now).items():
                setattr(old_row, name, value)
        for row in old_rows.values():  # numbers that the run no longer has a verdict on
            session.delete(row)
        if new:
            names = {row["metric"] for row in new}
            if rates := [metric for metric in RATES.values() if metric.name in names]:  # no sample has defined them
                store_rows.insert_definitions(session, rates)
            # As objects the hundreds of verdicts of a guide would take three times as long.
            session.execute(insert(VerdictRow), new)

    store.write(write)


def _rows(session: Session, run_id: int) -> dict[tuple[str, int, Item], VerdictRow]:
    """Return the rows of a run's verdicts by number."""
    rows = session.scalars(select(VerdictRow).where(VerdictRow.run_id == run_id))
    return {(row.metric, row.version, item_of(row.params)): row for row in rows}


def _is_same_change(row: VerdictRow, run_id: int, change: NewVerdict) -> bool:
    """Return True if a stored verdict is on the change that was found at a run.

    Both are of one number and direction, and the runs in which they may have begun overlap. A drift grows, so a later
    verdict on it includes the earlier ones.
    """
    same = (row.metric, row.version, item_of(row.params), row.direction) == (*change.number, change.direction)
    row_since, change_since = row.since_run or row.run_id, change.since_run or run_id
    if change.crept or DRIFT in row.differs:
        both_crept = change.crept and DRIFT in row.differs
        return same and both_crept and change_since <= row.run_id and run_id <= row.run_id
    return same and row_since <= run_id and change_since <= row.run_id


def verdicts_with(store: Store, run_id: int) -> list[StoredVerdict]:
    """Return the verdicts on a run, with changes that were found with it or began with it.

    They are changes of earlier runs that were found when this run was judged, and open changes of later runs that began
    with this one. A change replaces the verdicts "none" and "unsure" on the same number. A change that a later one has
    taken back is left out.
    """
    own = read_verdicts(store, run_id=run_id)
    if not own:
        return []
    run, judged_at = own[0].run, max(verdict.judged_at for verdict in own)
    judged_with_it = read_verdicts(store, board=run.board, outcomes=CALLED, judged_at=judged_at)
    series = (run.board_type, run.kind)
    changes: dict[object, list[StoredVerdict]] = {}
    later: dict[object, LaterChanges] = {}
    for verdict in own:
        if verdict.direction:
            later.setdefault(verdict.number, LaterChanges()).add(_size(verdict), crept=verdict.crept)
    for verdict in judged_with_it:
        if verdict.run.id < run_id and (verdict.run.board_type, verdict.run.kind) == series:
            later_changes = later.setdefault(verdict.number, LaterChanges())
            is_undone = later_changes.undoes(_size(verdict), crept=verdict.crept)
            later_changes.add(_size(verdict), crept=verdict.crept)
            if not is_undone:
                changes.setdefault(verdict.number, []).append(verdict)
    called = {verdict.number for verdict in own if verdict.direction}
    for verdict in _open_changes(store, own[0].run):
        is_later = verdict.run.id > run_id and verdict.since_run == run_id
        if is_later and verdict.number not in called and verdict.number not in changes:
            changes[verdict.number] = [verdict]
    remaining = [verdict for verdict in own if verdict.direction or verdict.number not in changes]
    return [*remaining, *(verdict for verdicts in changes.values() for verdict in verdicts)]


def still_open(store: Store, run: Run, verdicts: Sequence[StoredVerdict]) -> list[StoredVerdict]:
    """Return the open changes of other runs that a run still shows.

    Args:
        verdicts: verdicts on the run; its own changes are left out, and so are numbers that it did not measure.
    """
    own = {verdict.number for verdict in verdicts if verdict.direction}
    measured = {verdict.number for verdict in verdicts if verdict.outcome != "no samples"}
    rates = {metric.name for metric in RATES.values()}  # a failure rate that did not move has no verdict
    return [
        verdict
        for verdict in _open_changes(store, run)
        if verdict.number not in own
        and (verdict.since_run or 0) <= run.id
        and (verdict.number in measured or verdict.metric in rates)
    ]


def _open_changes(store: Store, run: Run) -> list[StoredVerdict]:
    """Return the newest open verdict on each number of a run's board and kind, the newest run first.

    Only regressions and changes of the environment count.
    """
    newest: dict[object, StoredVerdict] = {}
    for verdict in read_verdicts(store, board=run.board, outcomes=REPORTED):
        if verdict.open and (verdict.run.board_type, verdict.run.kind) == (run.board_type, run.kind):
            newest.setdefault(verdict.number, verdict)
    return list(newest.values())


def _size(verdict: StoredVerdict) -> float:
    """Return the verdict's effect; if it has none, its direction: 1 or -1."""
    return verdict.direction if verdict.effect is None else verdict.effect


def read_verdicts(
    store: Store,
    *,
    run_id: int | None = None,
    verdict_id: int | None = None,
    board: str | None = None,
    boards: Collection[str] = (),
    metric: str | None = None,
    since: dt.datetime | None = None,
    outcomes: Iterable[OutcomeName] | None = None,
    judged_at: dt.datetime | None = None,
    at: dt.datetime | None = None,
    most: int | None = None,
) -> list[StoredVerdict]:
    """Read verdicts with the decisions on their runs, the newest run first.

    Args:
        run_id, verdict_id, board, boards, metric: only verdicts of these; None or empty: of all.
        since: only verdicts on runs that began then or later.
        outcomes: only these outcomes; None: all.
        judged_at: only verdicts of that instant.
        at: instant for which mutes count; None: now.
        most: number of verdicts at most; None: all.
    """
    query = select(VerdictRow).join(VerdictRow.run).order_by(VerdictRow.run_id.desc(), VerdictRow.id).limit(most)
    if boards:
        query = query.where(RunRow.board.in_(boards))
    conditions = {
        VerdictRow.run_id: run_id,
        VerdictRow.id: verdict_id,
        VerdictRow.metric: metric,
        VerdictRow.judged_at: judged_at,
        RunRow.board: board,
    }
    query = query.where(*(column == value for column, value in conditions.items() if value is not None))
    if since is not None:
        query = query.where(RunRow.started_at >= since)
    if outcomes is not None:
        query = query.where(VerdictRow.outcome.in_(tuple(outcomes)))
    at = at or utc_now()

    def read(session: Session) -> list[StoredVerdict]:
        rows = session.scalars(query.options(joinedload(VerdictRow.run), joinedload(VerdictRow.definition))).all()
        return list(_verdicts(session, rows, at))

    return store.read(read)


def moved_boards(
    store: Store, metric: str, since: dt.datetime, conditions: Sequence[ColumnElement[bool]] = (), most: int = MOST
) -> list[str]:
    """Return the boards on which a metric moved, the last one first.

    Args:
        since: only runs that began then or later.
        conditions: further conditions on the runs.
        most: number of verdicts that are read at most, the newest ones.
    """
    moved = (VerdictRow.metric == metric, VerdictRow.outcome.in_(CALLED), RunRow.started_at >= since)
    query = select(RunRow.board).join(VerdictRow, VerdictRow.run_id == RunRow.id).where(*moved, *conditions)
    rows = store.rows(query.order_by(VerdictRow.run_id.desc(), VerdictRow.id).limit(most))
    return list(dict.fromkeys(row.board for row in rows))


def review(store: Store, run_id: int, decision: Decision, by: str, reason: str) -> Review:
    """Store a person's decision on a run, which replaces earlier ones.

    Args:
        by: the person.

    Raises:
        ConfigurationError: there is no such run.
    """

    def write(session: Session) -> Review:
        _find(session, run_id)
        row = ReviewRow(run_id=run_id, decision=decision, by=by, reason=reason, at=utc_now())
        session.add(row)
        session.flush()
        return _review(row)

    return store.write(write)


def reviews(store: Store) -> dict[int, Review]:
    """Return the newest decision on each reviewed run, by run id."""
    return store.read(newest_reviews)


def mute(
    store: Store,
    metric: str,
    *,
    board: str | None,
    params: Mapping[str, str],
    until: dt.datetime,
    reason: str,
    by: str,
) -> Mute:
    """Mute the alerts of some numbers until an instant.

    Args:
        metric, board, params: which numbers, see `Mute`.
        by: the person.

    Raises:
        ConfigurationError: that instant is past.
    """
    now = utc_now()
    if until <= now:
        raise ConfigurationError(f"{until:%Y-%m-%d %H:%M} UTC is past; give --until a day to come")

    def write(session: Session) -> Mute:
        row = MuteRow(metric=metric, board=board, params=params, until=until, reason=reason, by=by, at=now)
        session.add(row)
        session.flush()
        return _mute(row)

    return store.write(write)


def mutes(store: Store) -> list[Mute]:
    """Return all mutes, also those that have ended, the oldest first."""
    return store.read(mutes_of)


def verdicts_of(session: Session, ids: Sequence[int], at: dt.datetime) -> list[StoredVerdict]:
    """Return the verdicts with these ids, in their order; `at`: the instant for which mutes count."""
    query = select(VerdictRow).where(VerdictRow.id.in_(ids))
    rows = session.scalars(query.options(joinedload(VerdictRow.run), joinedload(VerdictRow.definition))).all()
    by_id = {verdict.id: verdict for verdict in _verdicts(session, rows, at)}
    return [by_id[verdict_id] for verdict_id in ids if verdict_id in by_id]


def newest_reviews(session: Session) -> dict[int, Review]:
    """Return the newest decision on each reviewed run, by run id."""
    newest = select(func.max(ReviewRow.id)).group_by(ReviewRow.run_id)
    return {row.run_id: _review(row) for row in session.scalars(select(ReviewRow).where(ReviewRow.id.in_(newest)))}


def mutes_of(session: Session) -> list[Mute]:
    """Return all mutes, the oldest first."""
    return [_mute(row) for row in session.scalars(select(MuteRow).order_by(MuteRow.id))]


def _values(verdict: NewVerdict, now: dt.datetime) -> dict[str, Any]:
    """Return the values of a verdict's columns."""
    return store_rows.columns_of(verdict) | {
        "differs": {what: list(both) for what, both in verdict.differs.items()},
        "judged_at": now,
    }


def _verdicts(session: Session, rows: Sequence[VerdictRow], at: dt.datetime) -> Iterator[StoredVerdict]:
    """Yield the records of rows, with the decisions on their runs and whether later runs have replaced them.

    Args:
        at: instant for which mutes count.
    """
    reviews, mutes, latest = newest_reviews(session), mutes_of(session), _latest(session, rows)
    undone = _undone(session, rows)
    for row in rows:
        store_rows.whole(row)
        run, metric = store_rows.run(row.run), store_rows.metric(row.definition)
        crept = DRIFT in row.differs
        number = (run.board_type, run.board, run.kind, row.metric, row.version, item_of(row.params), crept)
        yield store_rows.record_of(
            StoredVerdict,
            row,
            differs={what: (str(was), str(now)) for what, (was, now) in row.differs.items()},
            run=run,
            unit=metric.unit,
            better=metric.better,
            outdated=(crept or row.outcome == UNSURE) and latest.get(number, row.run_id) > row.run_id,
            over=row.id in undone,
            review=reviews.get(row.run_id),
            muted=next((mute for mute in mutes if mute.covers(run.board, row.metric, row.params, at)), None),
        )


def _latest(session: Session, rows: Sequence[VerdictRow]) -> dict[tuple[object, ...], int]:
    """Return the latest judged run of each number on which a row requests a rerun or reports a drift.

    Returns:
        (board type, board, kind, metric, version, parameters, False) -> id of the latest judged run; with True at the
        end, id of the latest run with a verdict on a drift of that number.
    """
    candidates = [row for row in rows if row.outcome == UNSURE or DRIFT in row.differs]
    if not candidates:
        return {}
    number = (RunRow.board_type, RunRow.board, RunRow.kind, VerdictRow.metric, VerdictRow.version, VerdictRow.params)
    later = (
        VerdictRow.run_id >= min(row.run_id for row in candidates),
        VerdictRow.metric.in_({row.metric for row in candidates}),
    )
    judged = select(*number, func.max(VerdictRow.run_id)).join(VerdictRow.run).where(*later).group_by(*number)
    latest: dict[tuple[object, ...], int] = {
        (board_type, board, kind, metric, version, item_of(params), False): run_id
        for board_type, board, kind, metric, version, params, run_id in session.execute(judged)
    }
    called = select(*number, VerdictRow.run_id, VerdictRow.differs).join(VerdictRow.run)
    called = called.where(*later, VerdictRow.outcome.in_(CALLED)).order_by(VerdictRow.run_id)
    for board_type, board, kind, metric, version, params, run_id, differs in session.execute(called):
        if DRIFT in differs:
            latest[board_type, board, kind, metric, version, item_of(params), True] = run_id
    return latest


def _review(row: ReviewRow) -> Review:
    """Return the record of a row."""
    store_rows.whole(row)
    return store_rows.record_of(Review, row)


def _mute(row: MuteRow) -> Mute:
    """Return the record of a row."""
    store_rows.whole(row)
    return store_rows.record_of(Mute, row)


@frozen
class StandingChanges:
    """The verdicts that stand, i.e. that no person and no later run has closed.

    Attributes:
        unmuted, muted: the verdicts without and with a mute.
        began: run id -> first run of their changes.
        left_out: number of older verdicts that were not read.
    """

    unmuted: tuple[StoredVerdict, ...]
    muted: tuple[StoredVerdict, ...]
    began: Mapping[int, ChangeStart]
    left_out: int


def standing(session: Session, now: dt.datetime, most: int = MOST) -> StandingChanges:
    """Return the regressions and environment changes of the last `LOOK_BACK` that stand.

    A verdict stands until its run is accepted or rejected, a later run of its board and kind is accepted, or later runs
    take back at least half of the change. A rejected run takes nothing back.
    """
    reviews = newest_reviews(session)
    ids = [
        row.id
        for row, undone in _changes_since(session, reviews, RunRow.started_at >= now - LOOK_BACK)
        if row.outcome in REPORTED and not undone and row.run_id not in reviews
    ]
    verdicts = verdicts_of(session, ids[:most], now)
    since_runs = {verdict.since_run for verdict in verdicts if verdict.since_run is not None}
    rows = session.execute(select(RunRow.id, RunRow.started_at, RunRow.release).where(RunRow.id.in_(since_runs)))
    return StandingChanges(
        tuple(verdict for verdict in verdicts if verdict.muted is None),
        tuple(verdict for verdict in verdicts if verdict.muted is not None),
        {row.id: ChangeStart(*row) for row in rows},
        max(0, len(ids) - most),
    )


def _undone(session: Session, rows: Sequence[VerdictRow]) -> frozenset[int]:
    """Return the ids of the verdicts whose change later runs have taken back, or after which a run was accepted."""
    reported = [row for row in rows if row.outcome in REPORTED]
    if not reported:
        return frozenset()
    since = (
        RunRow.board.in_({row.run.board for row in reported}),
        VerdictRow.run_id >= min(row.run_id for row in reported),
    )
    return frozenset(row.id for row, undone in _changes_since(session, newest_reviews(session), *since) if undone)


def _changes_since(
    session: Session, reviews: Mapping[int, Review], *conditions: ColumnElement[bool]
) -> Iterator[tuple[Row[Any], bool]]:
    """Yield the verdicts with a change, the newest run first, and whether each is undone.

    It is undone if later runs have taken the change back, or a later run was accepted.
    """
    accepted: dict[tuple[str, str, str], int] = {}  # board type, board and kind -> newest accepted run
    accepted_ids = [run for run, review in reviews.items() if review.decision == "accepted"]
    series_of_run = select(RunRow.id, RunRow.board_type, RunRow.board, RunRow.kind).where(RunRow.id.in_(accepted_ids))
    for run in session.execute(series_of_run.order_by(RunRow.id)):
        accepted[run.board_type, run.board, run.kind] = run.id
    columns = (VerdictRow.id, VerdictRow.run_id, VerdictRow.metric, VerdictRow.version, VerdictRow.params)
    query = select(
        *columns,
        VerdictRow.outcome,
        VerdictRow.direction,
        VerdictRow.effect,
        VerdictRow.differs,
        RunRow.board_type,
        RunRow.board,
        RunRow.kind,
    )
    query = query.join(VerdictRow.run).where(VerdictRow.outcome.in_(CALLED), *conditions)
    later: dict[tuple[Any, ...], LaterChanges] = {}
    for row in session.execute(query.order_by(VerdictRow.run_id.desc(), VerdictRow.id)):
        series = (row.board_type, row.board, row.kind)
        review = reviews.get(row.run_id)
        if review is not None and review.decision == "rejected":  # a rejected run has no change, and undoes none
            continue
        number = (*series, row.metric, row.version, tuple(sorted(row.params.items())))
        effect = row.direction if row.effect is None else row.effect
        later_changes, crept = later.setdefault(number, LaterChanges()), DRIFT in row.differs
        is_undone = later_changes.undoes(effect, crept=crept)
        later_changes.add(effect, crept=crept)
        yield row, is_undone or row.run_id < accepted.get(series, 0)
