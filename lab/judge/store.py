"""Verdicts, reviews and mutes in the store; the records are in `lab.judge.records`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen
from sqlalchemy import ColumnElement, Row, func, insert, select
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

LOOK_BACK: Final = dt.timedelta(days=60)  # an older run without a decision will get none
MOST: Final = 500  # numbers; more than that is one cause, which the first of them show
REPORTED: Final[tuple[OutcomeName, ...]] = ("regression", "environment")


def write_verdicts(
    store: Store, run_id: int, verdicts: Sequence[NewVerdict], late_changes: Sequence[tuple[int, NewVerdict]] = ()
) -> None:
    """Replace the verdicts on a run, in one transaction.

    Args:
        late_changes: earlier runs of the same board and kind with changes found late. A change without a verdict
            gets one on its run; `verdicts_with` returns it with the judged run.

    Raises:
        ConfigurationError: no such run.
    """

    def write(session: Session) -> None:
        run = _find(session, run_id)
        before = _rows(session, run_id)
        now = utc_now()
        new: list[dict[str, Any]] = []
        instants = {row.judged_at for row in before.values()}
        series = (RunRow.board_type == run.board_type, RunRow.board == run.board, RunRow.kind == run.kind)
        changed = select(VerdictRow).join(VerdictRow.run).where(*series, VerdictRow.outcome.in_(CALLED))
        reported = [row for row in session.scalars(changed).all() if row.run_id != run_id]
        for row in reported:
            if row.run_id < run_id and row.judged_at in instants:
                row.judged_at = now
        matched = [(run_id, verdict, before.pop(verdict.number, None)) for verdict in verdicts]
        for night, verdict in late_changes:
            if not any(_is_same_change(row, night, verdict) for row in reported):
                matched.append((night, verdict, _rows(session, night).get(verdict.number)))
        for night, verdict, old in matched:
            if old is None:
                new.append({"run_id": night, **_values(verdict, now)})
                continue
            for name, value in _values(verdict, now).items():
                setattr(old, name, value)
        for left in before.values():
            session.delete(left)
        if new:
            names = {row["metric"] for row in new}
            if rates := [metric for metric in RATES.values() if metric.name in names]:  # no sample has defined them
                store_rows.insert_definitions(session, rates)
            session.execute(insert(VerdictRow), new)  # hundreds of a guide; as objects they take three times as long

    store.write(write)


def _rows(session: Session, run_id: int) -> dict[tuple[str, int, Item], VerdictRow]:
    """A run's verdict rows by number."""
    rows = session.scalars(select(VerdictRow).where(VerdictRow.run_id == run_id))
    return {(row.metric, row.version, item_of(row.params)): row for row in rows}


def _is_same_change(row: VerdictRow, run_id: int, change: NewVerdict) -> bool:
    """True if a verdict is on the change found at a run.

    Both are of one number and direction, and the runs in which they may have begun overlap. A drift grows: the later
    verdict on it has the earlier ones in it.
    """
    same = (row.metric, row.version, item_of(row.params), row.direction) == (*change.number, change.direction)
    since, began = row.since_run or row.run_id, change.since_run or run_id
    if change.crept or DRIFT in row.differs:
        return same and change.crept and DRIFT in row.differs and began <= row.run_id and run_id <= row.run_id
    return same and since <= run_id and began <= row.run_id


def verdicts_with(store: Store, run_id: int) -> list[StoredVerdict]:
    """Verdicts on a run, with changes of earlier runs found by it, and open ones that began with it.

    They replace "none" and "unsure" on the same number. Those taken back by later ones are left out.
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
    """The open changes of other runs that a run still shows.

    Args:
        verdicts: on the run; its own changes are left out, and so is what it did not measure.
    """
    own = {verdict.number for verdict in verdicts if verdict.direction}
    measured = {verdict.number for verdict in verdicts if verdict.outcome != "no samples"}
    rates = {metric.name for metric in RATES.values()}  # one that did not move has no verdict
    return [
        verdict
        for verdict in _open_changes(store, run)
        if verdict.number not in own
        and (verdict.since_run or 0) <= run.id
        and (verdict.number in measured or verdict.metric in rates)
    ]


def _open_changes(store: Store, run: Run) -> list[StoredVerdict]:
    """The open regressions and changes of the environment of a run's board and kind, newest run first.

    The newest verdict on a number counts.
    """
    newest: dict[object, StoredVerdict] = {}
    for verdict in read_verdicts(store, board=run.board, outcomes=REPORTED):
        if verdict.open and (verdict.run.board_type, verdict.run.kind) == (run.board_type, run.kind):
            newest.setdefault(verdict.number, verdict)
    return list(newest.values())


def _size(verdict: StoredVerdict) -> float:
    """The verdict's effect; without a size its direction, 1 or -1."""
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
    """Verdicts with the decisions on their runs, newest run first.

    Args:
        run_id, verdict_id, board, boards, metric: only theirs; None or nothing: of all.
        since: earliest start of their runs.
        outcomes: only these; None: all.
        judged_at: only those that were judged at that instant.
        at: the instant for which mutes count; None: now.
        most: only the newest ones; None: all.
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
    store: Store, metric: str, since: dt.datetime, wanted: Sequence[ColumnElement[bool]] = (), most: int = MOST
) -> list[str]:
    """The boards on which a metric moved, the last one first.

    Args:
        since: earliest start of their runs.
        wanted: more conditions on the runs.
        most: verdicts that are read, the newest ones.
    """
    moved = (VerdictRow.metric == metric, VerdictRow.outcome.in_(CALLED), RunRow.started_at >= since)
    query = select(RunRow.board).join(VerdictRow, VerdictRow.run_id == RunRow.id).where(*moved, *wanted)
    rows = store.rows(query.order_by(VerdictRow.run_id.desc(), VerdictRow.id).limit(most))
    return list(dict.fromkeys(row.board for row in rows))


def review(store: Store, run_id: int, decision: Decision, by: str, reason: str) -> Review:
    """Store a person's decision on a run; the newest counts.

    Raises:
        ConfigurationError: no such run.
    """

    def write(session: Session) -> Review:
        _find(session, run_id)
        row = ReviewRow(run_id=run_id, decision=decision, by=by, reason=reason, at=utc_now())
        session.add(row)
        session.flush()
        return _review(row)

    return store.write(write)


def reviews(store: Store) -> dict[int, Review]:
    """The newest decision of each decided run, by run id."""
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
    """Mute some numbers' alerts until an instant.

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
    """All mutes, also those that have ended, the oldest first."""
    return store.read(mutes_of)


def verdicts_of(session: Session, ids: Sequence[int], at: dt.datetime) -> list[StoredVerdict]:
    """The verdicts with these ids in order, as of an instant."""
    query = select(VerdictRow).where(VerdictRow.id.in_(ids))
    rows = session.scalars(query.options(joinedload(VerdictRow.run), joinedload(VerdictRow.definition))).all()
    by_id = {verdict.id: verdict for verdict in _verdicts(session, rows, at)}
    return [by_id[verdict_id] for verdict_id in ids if verdict_id in by_id]


def newest_reviews(session: Session) -> dict[int, Review]:
    """The newest decision by run id."""
    newest = select(func.max(ReviewRow.id)).group_by(ReviewRow.run_id)
    return {row.run_id: _review(row) for row in session.scalars(select(ReviewRow).where(ReviewRow.id.in_(newest)))}


def mutes_of(session: Session) -> list[Mute]:
    """All mutes, the oldest first."""
    return [_mute(row) for row in session.scalars(select(MuteRow).order_by(MuteRow.id))]


def _values(verdict: NewVerdict, now: dt.datetime) -> dict[str, Any]:
    return store_rows.columns_of(verdict) | {
        "differs": {what: list(both) for what, both in verdict.differs.items()},
        "judged_at": now,
    }


def _verdicts(session: Session, rows: Sequence[VerdictRow], at: dt.datetime) -> Iterator[StoredVerdict]:
    """The rows as records.

    They have the decisions on their runs, and what later runs say of them.

    Args:
        at: the instant for which mutes count.
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
    store_rows.whole(row)
    return store_rows.record_of(Review, row)


def _mute(row: MuteRow) -> Mute:
    store_rows.whole(row)
    return store_rows.record_of(Mute, row)


@frozen
class StandingChanges:
    """The standing verdicts.

    Attributes:
        unmuted, muted: the verdicts without and with a mute.
        began: their changes' first runs by id.
        left_out: number of the oldest ones beyond MOST.
    """

    unmuted: tuple[StoredVerdict, ...]
    muted: tuple[StoredVerdict, ...]
    began: Mapping[int, ChangeStart]
    left_out: int


def standing(session: Session, now: dt.datetime, most: int = MOST) -> StandingChanges:
    """Standing regressions and environment changes of the last LOOK_BACK.

    A verdict stands until its run is accepted or rejected, a later run of its board and kind is accepted, or later runs
    take back at least half of the change. A rejected run undoes nothing.
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
    """Ids of the verdicts that no longer stand.

    Later runs have taken the change back, or a later run was accepted.
    """
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
    """Verdicts with a change, newest run first; True: taken back by later runs, or a later run is accepted."""
    accepted: dict[tuple[str, str, str], int] = {}  # the newest accepted run by board type, board and kind
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
        decided = reviews.get(row.run_id)
        if decided is not None and decided.decision == "rejected":  # its change is none, and undoes none
            continue
        number = (*series, row.metric, row.version, tuple(sorted(row.params.items())))
        effect = row.direction if row.effect is None else row.effect
        later_changes, crept = later.setdefault(number, LaterChanges()), DRIFT in row.differs
        is_undone = later_changes.undoes(effect, crept=crept)
        later_changes.add(effect, crept=crept)
        yield row, is_undone or row.run_id < accepted.get(series, 0)
