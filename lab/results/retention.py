"""Packing and removal of old evidence, and removal of runs, by age or by hand.

The audit log has each removal. These runs are kept at any age: those that a verdict, a review or a written guide refers
to, those of a release under hold, vendors' guides, those in progress, and the newest one, whose number must not be used
again. A pause of the lab that is longer than an age does not count as age: the host's clock may be years ahead.

Rows are deleted in short transactions, so that no measuring program has to wait. An artifact's file is removed after
its row is deleted, or after its pack is in the database.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, field, frozen
from sqlalchemy import ColumnElement, Select, and_, cast, delete, func, or_, select, text
from sqlalchemy.orm import Session, aliased

from lab.errors import ConfigurationError
from lab.results.audit import Audit
from lab.results.backup import failing, in_use
from lab.results.columns import LargeWhole
from lab.results.database import now as now_of
from lab.results.location import Location
from lab.results.models import (
    ArtifactRow,
    AttemptArtifactRow,
    AttemptRow,
    AuditRow,
    JobRow,
    MeasurementRow,
    MomentRow,
    ReviewRow,
    RunRow,
    SampleRow,
    VerdictRow,
)
from lab.results.packs import pack_run, runs_to_pack
from lab.results.records import PUBLISHED, Retention
from lab.results.removal import OTHERS, RECORDINGS, TRACES, files_of, note_files, remove_noted_files
from lab.results.store import Store

GUIDE: Final = "guide"  # action of the audit log for a written guide; `about` names its runs
_QUIET: Final = ("none", "no history", "no samples")  # verdicts that report no change
_FOREVER_DAYS: Final = 3650  # from so many days on no remaining time is shown
_BATCH_S: Final = 0.3  # intended duration of a transaction
# Pause between two transactions. A program that waits for SQLite's lock asks for it at least each 100 ms
# (sqliteDefaultBusyCallback in main.c), so each waiting program gets it before the next transaction.
_GAP_S: Final = 0.12
_LARGEST_BATCH: Final = 1000  # runs of one transaction
_SUMS: Final = 10_000  # older runs that get their sums in one night
_GUIDE_RUNS: Final = 100  # runs in one entry of the audit log


@define
class PruneResult:
    """How much was removed, or would be.

    Attributes:
        runs: number of runs.
        jobs: number of ended jobs without runs.
        samples: number of samples.
        files: part, e.g. "recordings" -> number of files.
        bytes: size of the removed files.
        packed: number of files that were packed.
    """

    runs: int = 0
    jobs: int = 0
    samples: int = 0
    files: dict[str, int] = field(factory=dict)
    bytes: int = 0
    packed: int = 0


WEEK: Final = dt.timedelta(days=7)


@frozen
class StoreSizes:
    """The sizes of the results, by the parts "database" and "artifacts".

    Attributes:
        parts: part -> its bytes.
        week: part -> bytes that the runs of the last seven days have added; the database's are estimated by the share
            of their attempts.
        free: part -> free bytes of its disk; a database on a server is left out.
    """

    parts: Mapping[str, int]
    week: Mapping[str, int]
    free: Mapping[str, int]

    @property
    def days_left(self) -> float:
        """Days until a disk is full, if it grows as in the last week."""
        # Parts with the same free bytes are on one disk, and their growth adds up.
        growth = {
            free: sum(self.week[part] for part in self.free if self.free[part] == free) for free in self.free.values()
        }
        return min((free / added * WEEK.days for free, added in growth.items() if added), default=math.inf)

    @property
    def line(self) -> str:
        """The sizes as text: `database 0.2 GB, artifacts 40.1 GB; 1.1 GB in the last week: room for 210 days`."""
        parts = ", ".join(f"{part} {size / 1e9:.1f} GB" for part, size in self.parts.items())
        left = f": room for {self.days_left:.0f} days" if self.days_left < _FOREVER_DAYS else ""
        return f"{parts}; {sum(self.week.values()) / 1e9:.1f} GB in the last week{left}"


def sizes(session: Session, where: Location) -> StoreSizes:
    """Return the sizes of the results; it reads the rows of all artifacts."""
    # The pages of SQLite are counted, since the file itself lacks those that are still in the log.
    pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    database = session.scalar(text("SELECT pg_database_size(current_database())" if where.path is None else pages))
    since = now_of(session) - WEEK
    lately = AttemptRow.run_id.in_(select(RunRow.id).where(RunRow.finished_at >= since))
    added = session.scalar(_sum_bytes(AttemptArtifactRow.attempt_id.in_(select(AttemptRow.id).where(lately))))
    attempts = session.scalar(select(func.count(AttemptRow.id))) or 1
    share = (session.scalar(select(func.count(AttemptRow.id)).where(lately)) or 0) / attempts
    stored = session.scalar(select(cast(func.sum(ArtifactRow.size), LargeWhole)).where(ArtifactRow.pack.is_(None)))
    folders = {"artifacts": where.artifacts.parent} | ({} if where.path is None else {"database": where.path.parent})
    return StoreSizes(
        {"database": database or 0, "artifacts": stored or 0},
        {"database": round(share * (database or 0)), "artifacts": added or 0},
        {part: shutil.disk_usage(folder).free for part, folder in folders.items() if folder.is_dir()},
    )


def _sum_bytes(links: ColumnElement[bool]) -> Select[Any]:
    """Return the query for the bytes of the files that these links refer to; a packed file counts with its pack."""
    names = select(func.coalesce(ArtifactRow.pack, ArtifactRow.sha256)).join(
        AttemptArtifactRow, AttemptArtifactRow.sha256 == ArtifactRow.sha256
    )
    file = aliased(ArtifactRow)
    return select(cast(func.sum(file.size), LargeWhole)).where(file.sha256.in_(names.where(links)))


def refer(store: Store, runs: Collection[int], name: str, person: str) -> None:
    """Note in the audit log that a written guide has numbers of these runs."""
    ordered = sorted(runs)
    for start in range(0, len(ordered), _GUIDE_RUNS):
        part = ordered[start : start + _GUIDE_RUNS]
        Audit(store).note(GUIDE, person=person, about=f"{name}: runs {', '.join(map(str, part))}")


def prune(
    store: Store,
    retention: Retention,
    *,
    dry_run: bool = False,
    person: str = "",
    pause: Callable[[float], None] = time.sleep,
) -> PruneResult:
    """Remove and pack what has reached its age, in short transactions.

    Args:
        dry_run: True: only count.
        person: for the audit log.
        pause: waits that many seconds between two transactions.

    Raises:
        LabTransientError: a backup is in progress.
    """
    now, removed = store.now(), PruneResult()
    with failing("cannot remove", "nothing but what was told is gone"), in_use(store.artifacts, removing=True):
        parts = (
            ("recordings", retention.recordings, RECORDINGS),
            ("traces", retention.traces, TRACES),
            ("logs", retention.logs, OTHERS),
        )
        if retention.runs:
            before = _cutoff(store, now, retention.runs)
            where = _old(before, retention.hold)
            if dry_run:
                _count_runs(store, where, removed)
                removed.jobs = store.read(lambda session: _count_jobs(session, before, where))
            else:
                _prune_runs(store, where, removed, pause)
                _prune_jobs(store, before, removed, pause)
        for part, days, kinds in parts:
            if not days:
                continue
            where = _old(_cutoff(store, now, days), retention.hold)
            if dry_run:
                _count_files(store, where, part, kinds, removed)
            else:
                _prune_files(store, where, part, kinds, removed, pause)
        if retention.packed:
            run_ids = runs_to_pack(store, _old(now - dt.timedelta(days=retention.packed), ()))
            removed.packed = sum(pack_run(store, run_id, dry_run=dry_run) for run_id in run_ids)
        if not dry_run:
            remove_noted_files(store)
    if not dry_run and (removed.runs or removed.files):
        files = ", ".join(f"{count} {part}" for part, count in removed.files.items())
        Audit(store).note("prune", person=person, about=f"{removed.runs} runs; {files or 'no'} files of others")
    if not dry_run:
        store.keep_sums(_SUMS, lambda: pause(_GAP_S))
    return removed


def delete_run(store: Store, run_id: int, person: str, reason: str) -> PruneResult:
    """Remove a run with all that belongs to it.

    Args:
        person, reason: for the audit log.

    Raises:
        ConfigurationError: there is no such run, something refers to it, it is in progress, or it is the newest.
        LabTransientError: a backup is in progress.
    """
    run, removed = store.run(run_id), PruneResult()
    with failing(f"cannot remove run {run_id}", "it is whole or gone"), in_use(store.artifacts, removing=True):

        def work(session: Session) -> int:
            reasons = [text for text, ids in _reasons_to_keep().items() if run_id in set(session.scalars(ids))]
            run = session.get_one(RunRow, run_id)
            if run_id in _runs_in_guides(session):
                reasons.append("a written guide has its numbers")
            if run.status == "running":
                reasons.append("it is not at its end")
            if run_id == _newest(session):
                reasons.append("it is the newest, and its number must not be used again: delete it after the next run")
            if reasons:
                raise ConfigurationError(f"run {run_id} is kept: {'; '.join(reasons)}")
            note_files(store.artifacts, session, [run_id])
            return _delete(session, [run_id])

        removed.samples, removed.runs = store.write(work), 1
        remove_noted_files(store)
    Audit(store).note("delete", person=person, board=run.board, about=f"run {run_id}: {reason}")
    return removed


def _cutoff(store: Store, now: dt.datetime, days: int) -> dt.datetime:
    """Return the time before which a run is old.

    After a pause of more than `days` all runs before it would be old at once. So their age counts up to the begin of
    the pause only.
    """
    age, ended = dt.timedelta(days=days), RunRow.finished_at

    def read(session: Session) -> dt.datetime:
        until = now
        while True:
            before = until - age
            last_old = session.scalar(select(func.max(ended)).where(ended < before, RunRow.kind != PUBLISHED))
            first_new = session.scalar(
                select(func.min(ended)).where(ended.between(before, until), RunRow.kind != PUBLISHED)
            )
            if last_old is None or (first_new or until) - last_old <= age:
                return before
            until = last_old

    return store.read(read)


def _old(before: dt.datetime, hold: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition of runs that ended before a time, without releases under hold and vendors' guides."""
    ended = and_(RunRow.finished_at.is_not(None), RunRow.finished_at < before)
    held = RunRow.release.in_(hold) if hold else None
    return and_(ended, RunRow.kind != PUBLISHED, *([~held] if held is not None else []))


def _reasons_to_keep(*, thorough: bool = True) -> Mapping[str, Select[Any]]:
    """Return the reasons to keep runs, each with the query for the ids of such runs.

    Args:
        thorough: True: also the reason whose query takes long.
    """
    changed, before, since = VerdictRow.outcome.not_in(_QUIET), aliased(RunRow), aliased(RunRow)
    same = and_(before.board == since.board, before.board_type == since.board_type, before.kind == since.kind)
    last_before = (
        select(func.max(before.id))
        .join(since, and_(same, before.id < since.id))
        .join(VerdictRow, and_(VerdictRow.since_run == since.id, changed))
        .group_by(since.id)
    )
    reasons: dict[str, Select[Any]] = {
        "a verdict is on it": select(VerdictRow.run_id).where(changed),
        "a verdict's change begins with it": select(VerdictRow.since_run).where(
            changed, VerdictRow.since_run.is_not(None)
        ),
        "it was accepted or rejected": select(ReviewRow.run_id),
    }
    return {**reasons, "a verdict compares with it": last_before} if thorough else reasons


def _runs_in_guides(session: Session) -> set[int]:
    """Return the ids of runs whose numbers are in written guides, by the audit log."""
    abouts = session.scalars(select(AuditRow.about).where(AuditRow.action == GUIDE))
    return {int(text) for about in abouts for text in re.findall(r"\d+", about.rpartition("runs ")[2])}


def _newest(session: Session) -> int:
    """Return the id of the newest run; 0: there is none."""
    return session.scalar(select(func.max(RunRow.id))) or 0


def _removable_runs(session: Session, where: ColumnElement[bool]) -> list[int]:
    """Return the ids of the runs that meet a condition and that nothing refers to, in their order."""
    in_guides = _runs_in_guides(session)
    return [run for run in session.scalars(_unreferenced(where, _newest(session))) if run not in in_guides]


def _unreferenced(where: ColumnElement[bool], newest: int, *, thorough: bool = True) -> Select[Any]:
    """Return the query for runs without a reason to keep them, except for written guides."""
    referred = or_(*(RunRow.id.in_(ids) for ids in _reasons_to_keep(thorough=thorough).values()))
    return select(RunRow.id).where(where, RunRow.id < newest, ~referred).order_by(RunRow.id)


def _still_removable(session: Session, where: ColumnElement[bool], runs: Sequence[int]) -> list[int]:
    """Return those runs that have got no verdict and no review since they were chosen."""
    return list(session.scalars(_unreferenced(and_(where, RunRow.id.in_(runs)), _newest(session), thorough=False)))


def _prune_runs(
    store: Store, where: ColumnElement[bool], removed: PruneResult, pause: Callable[[float], None]
) -> None:
    """Remove the runs that meet a condition and that nothing refers to, in batches."""
    for runs in _batches(store, where, pause):

        def work(session: Session, runs: Sequence[int] = runs) -> tuple[int, int]:  # it may be repeated
            removable = _still_removable(session, where, runs)
            note_files(store.artifacts, session, removable)
            return len(removable), _delete(session, removable)

        count, samples = store.write(work)
        removed.runs, removed.samples = removed.runs + count, removed.samples + samples
        remove_noted_files(store)


def _prune_jobs(store: Store, before: dt.datetime, removed: PruneResult, pause: Callable[[float], None]) -> None:
    """Remove the jobs that ended before a time and have no runs any more.

    The newest job stays: its number must not be used again.
    """
    newest = select(func.max(JobRow.id)).scalar_subquery()
    has_runs = select(RunRow.id).where(RunRow.job_id == JobRow.id).exists()
    old = select(JobRow.id).where(JobRow.finished_at < before, JobRow.id < newest, ~has_runs).limit(_LARGEST_BATCH)

    def work(session: Session) -> int:
        jobs = session.scalars(old).all()
        session.execute(delete(JobRow).where(JobRow.id.in_(jobs)))
        return len(jobs)

    while count := store.write(work):
        removed.jobs += count
        pause(_GAP_S)


def _count_jobs(session: Session, before: dt.datetime, where: ColumnElement[bool]) -> int:
    """Return how many jobs ended before a time and lose all their runs.

    Args:
        where: condition of the runs that are removed.
    """
    old = (JobRow.finished_at < before, JobRow.id < select(func.max(JobRow.id)).scalar_subquery())
    runs = session.execute(select(RunRow.id, RunRow.job_id).join(JobRow, JobRow.id == RunRow.job_id).where(*old))
    removable = set(_removable_runs(session, where))
    with_runs = {job_id for run_id, job_id in runs if run_id not in removable}
    return len(set(session.scalars(select(JobRow.id).where(*old))) - with_runs)


def _batches(store: Store, where: ColumnElement[bool], pause: Callable[[float], None]) -> Iterator[Sequence[int]]:
    """Yield removable runs in batches; their size adapts, so that the caller takes about `_BATCH_S` for each."""
    remaining = store.read(lambda session: _removable_runs(session, where))
    size = 1
    while remaining:
        start_s = time.monotonic()
        yield remaining[:size]
        remaining, took_s = remaining[size:], time.monotonic() - start_s
        size = max(1, min(_LARGEST_BATCH, round(size * _BATCH_S / max(took_s, _BATCH_S / 2))))
        if remaining:
            pause(_GAP_S)


def _delete(session: Session, runs: Sequence[int]) -> int:
    """Delete all rows of these runs; return the number of their samples."""
    attempts = select(AttemptRow.id).where(AttemptRow.run_id.in_(runs))
    samples = delete(SampleRow).where(SampleRow.attempt_id.in_(attempts))
    count: int = session.execute(samples).rowcount  # type: ignore[attr-defined]
    session.execute(delete(MomentRow).where(MomentRow.attempt_id.in_(attempts)))
    session.execute(delete(AttemptArtifactRow).where(AttemptArtifactRow.attempt_id.in_(attempts)))
    for model in (AttemptRow, MeasurementRow, VerdictRow):
        session.execute(delete(model).where(model.run_id.in_(runs)))
    session.execute(delete(RunRow).where(RunRow.id.in_(runs)))
    return count


def _count_runs(store: Store, where: ColumnElement[bool], removed: PruneResult) -> None:
    """Count the runs that `_prune_runs` would remove, with their samples."""

    def read(session: Session) -> tuple[int, int]:
        runs, samples = _removable_runs(session, where), 0
        for start in range(0, len(runs), _LARGEST_BATCH):
            of_runs = AttemptRow.run_id.in_(runs[start : start + _LARGEST_BATCH])
            samples += session.scalar(select(func.count(SampleRow.id)).join(SampleRow.attempt).where(of_runs)) or 0
        return len(runs), samples

    removed.runs, removed.samples = store.read(read)


def _prune_files(
    store: Store,
    where: ColumnElement[bool],
    part: str,
    kinds: Sequence[str],
    removed: PruneResult,
    pause: Callable[[float], None],
) -> None:
    """Remove the files of some kinds from the runs that meet a condition and that nothing refers to."""
    for runs in _batches(store, where, pause):

        def work(session: Session, runs: Sequence[int] = runs) -> int:
            removable = _still_removable(session, where, runs)
            note_files(store.artifacts, session, removable, kinds, only=True)
            links = delete(AttemptArtifactRow).where(files_of(removable, kinds))
            return session.execute(links).rowcount  # type: ignore[attr-defined,no-any-return]

        if count := store.write(work):
            removed.files[part] = removed.files.get(part, 0) + count
        removed.bytes += remove_noted_files(store)


def _count_files(
    store: Store, where: ColumnElement[bool], part: str, kinds: Sequence[str], removed: PruneResult
) -> None:
    """Count the files that `_prune_files` would remove, with their bytes."""

    def read(session: Session) -> tuple[int, int]:
        runs, count, size = _removable_runs(session, where), 0, 0
        for start in range(0, len(runs), _LARGEST_BATCH):
            links = files_of(runs[start : start + _LARGEST_BATCH], kinds)
            count += session.scalar(select(func.count()).select_from(AttemptArtifactRow).where(links)) or 0
            size += session.scalar(_sum_bytes(links)) or 0
        return count, size

    count, size = store.read(read)
    if count:
        removed.files[part] = removed.files.get(part, 0) + count
        removed.bytes += size
