"""The results store: a database of runs that commits each attempt as soon as it has ended."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Generic, Self, TypeVar, get_args

from attrs import Factory, define, field, frozen
from sqlalchemy import Engine, Executable, func, select
from sqlalchemy.orm import Session
from sqlalchemy.pool import PoolProxiedConnection

from lab.errors import BoardlabError, ConfigurationError, LabTransientError, TestStableError
from lab.metrics import Measurement, Metric
from lab.results import database, rows, schema, sums
from lab.results.artifacts import ArtifactStore
from lab.results.database import MISREAD, damage_error, guard, guard_contents, misread
from lab.results.location import Location, locate
from lab.results.models import ArtifactRow, AttemptRow, RunRow
from lab.results.records import (
    ArtifactRef,
    Attempt,
    AttemptRecord,
    GoodAttempt,
    Json,
    Run,
    RunContents,
    RunStatus,
    StoredSample,
)
from lab.results.snapshot import StoreSnapshot

BUSY_TIMEOUT_S: Final = 30.0
# Before each further try of a transaction that the database refused for now; on SQLite each try waits BUSY_TIMEOUT_S.
RETRY_PAUSES_S: Final = (0.2, 1.0, 3.0)
_RECENT: Final = 5  # runs that the message of an unknown one lists
_RUNS_WITH_SUMS: Final = 8  # a run's end stores the sums of so many completed runs, its own first
_log = logging.getLogger(__name__)

Result = TypeVar("Result")


@define
class Store:
    """An open store of runs and their results; `open_store` opens one.

    Threads may share it, forked processes may not. Every method raises a BoardlabError with a remedy when the database
    cannot be used: a transient one if it is locked or does not answer (after retries), a stable one if the disk is full
    or the file is damaged.

    Attributes:
        patience_s: how long the database may be away before a method raises. The time counts from the first failure of
            any call; after it each call raises at its first failure, until the database answers again.
        artifacts: the files of attempts.
    """

    location: Location
    _engine: Engine = field(repr=False)  # it shows the URL
    _pause: Callable[[float], None] = field(default=time.sleep)
    _is_read: bool = False  # opened read-only: an error within its block comes from foreign contents
    patience_s: float = 0.0
    _now_s: Callable[[], float] = field(default=time.monotonic)
    _away_since_s: float | None = field(default=None, init=False)
    _thread: threading.local = field(factory=threading.local, init=False, repr=False, eq=False)  # with its `session`
    _reader: Engine = field(init=False, repr=False, default=Factory(lambda self: database.reader(self._engine), True))
    artifacts: ArtifactStore = field(
        init=False,
        default=Factory(
            lambda self: ArtifactStore(self.location.artifacts, self.location.shared, self._pack_of), True
        ),
    )

    @property
    def url(self) -> str:
        """The database's name in messages: a path, or a URL without its password."""
        return self.location.name

    def now(self) -> dt.datetime:
        """Return the time by the clock that all users of this database share (`lab.results.database.now`)."""
        session = getattr(self._thread, "session", None)  # within a transaction: no second connection for it
        return self.read(database.now) if session is None else database.now(session)

    def begin_run(
        self,
        kind: str,
        board_type: str,
        board: str,
        release: str,
        *,
        plan: Json,
        provenance: Json,
        job_id: int | None = None,
    ) -> Run:
        """Begin a run in the status "running".

        Args:
            kind: kind of measurement, e.g. "boot".
            release: label of the software on the board.
            plan: the requested items and cycles; a resumed run must have the same.
            provenance: context of the numbers: host, adapter, clock, hashes of images.
            job_id: the job that it belongs to; None: none.

        Raises:
            TestStableError: the plan or the provenance cannot be written as JSON.
        """

        def begin(session: Session) -> Run:
            row = RunRow(
                kind=kind,
                board_type=board_type,
                board=board,
                release=release,
                status="running",
                plan=rows.json_of("plan", plan),
                provenance=rows.json_of("provenance", provenance),
                started_at=database.now(session),
                job_id=job_id,
            )
            session.add(row)
            session.flush()
            return rows.run(row)

        return self.write(begin)

    def reopen_run(self, run_id: int) -> Run:
        """Reopen an interrupted, failed or killed run, to resume it.

        The caller compares its plan first (`plan_differences`).

        Raises:
            ConfigurationError: there is no such run, or it is completed.
        """

        def reopen(session: Session) -> Run:
            row = _find(session, run_id)
            if row.status == "completed":
                raise ConfigurationError(f"run {run_id} is completed, there is nothing to resume; begin a new run")
            row.status, row.finished_at = "running", None
            return rows.run(row)

        return self.write(reopen)

    def finish_run(self, run_id: int, status: RunStatus) -> None:
        """Set the final status of a run.

        A completed run stays completed: a session that stood still may end after another one has completed its run.

        Raises:
            ConfigurationError: there is no such run.
            TestStableError: there is no such status.
        """
        if status not in get_args(RunStatus):
            raise TestStableError(f"a run ends {', '.join(get_args(RunStatus)[1:])}; got {status!r}")

        def finish(session: Session) -> None:
            row = _find(session, run_id)
            if row.status == "completed":
                return
            row.status = status
            row.finished_at = None if status == "running" else database.now(session)

        self.write(finish)
        if status == "completed":
            self.keep_sums(_RUNS_WITH_SUMS)

    def keep_sums(self, most: int, pause: Callable[[], None] | None = None) -> int:
        """Store the sums (`lab.results.sums`) of completed runs that lack them, the newest first.

        A run whose rows cannot be read gets none: its readers report why.

        Args:
            most: number of runs at most.
            pause: called after each run, to let other writers in.

        Returns:
            The number of runs that have sums now.
        """
        count = 0
        for run_id in self.read(lambda session: sums.lacking(session, most)):
            try:
                self.write(lambda session, run_id=run_id: sums.keep(session, run_id))  # type: ignore[misc]
            except BoardlabError as error:
                _log.info("run %s keeps no sums: %s", run_id, error)
            else:
                count += 1
            if pause is not None:
                pause()
        return count

    def record_attempt(self, run_id: int, record: AttemptRecord) -> int:
        """Commit an attempt with all its parts in one transaction.

        An attempt that the run has already, by its start, is not stored twice. So a commit whose answer was lost can be
        repeated.

        Returns:
            The id of the attempt.

        Raises:
            ConfigurationError: there is no such run.
            TestStableError: the run is completed, the cycle has a good attempt already, or a metric is unknown.
        """

        def insert(session: Session) -> int:
            run = _find(session, run_id)
            if run.status == "completed":
                raise TestStableError(f"run {run_id} is completed; nothing may be added to it")
            return rows.insert_attempt(session, run_id, record)

        return self.write(insert)

    def revise_attempt(self, run_id: int, record: AttemptRecord) -> None:
        """Replace the ± and the flags of a good attempt's samples, and its details.

        Raises:
            ConfigurationError: there is no such run.
            TestStableError: the run is completed, or has no such good attempt.
        """

        def revise(session: Session) -> None:
            if _find(session, run_id).status == "completed":
                raise TestStableError(f"run {run_id} is completed; nothing in it may be changed")
            rows.revise_attempt(session, run_id, record)

        self.write(revise)

    def check_definition(self, metric: Metric) -> None:
        """Require that a lab's metric is declared as in the results, if they have this version of it.

        Raises:
            ConfigurationError: its unit, direction, definition or resolution differs.
        """
        self.read(lambda session: rows.check_definition(session, metric))

    def run(self, run_id: int) -> Run:
        """Return one run.

        Raises:
            ConfigurationError: there is no such run; the message lists the latest ones.
        """
        return self.read(lambda session: rows.run(_find(session, run_id)))

    def runs(self, limit: int | None = None, **columns: str) -> list[Run]:
        """Return runs, the newest first.

        Args:
            limit: number at most; None: all.
            columns: values that the runs must have, e.g. `kind="boot"`.
        """
        newest = select(RunRow).filter_by(**columns).order_by(RunRow.id.desc()).limit(limit)
        return self.read(lambda session: [rows.run(row) for row in session.scalars(newest)])

    def attempts(self, run_id: int) -> list[Attempt]:
        """Return all attempts of a run with their samples, in recorded order."""

        def read(session: Session) -> list[Attempt]:
            _find(session, run_id)
            return rows.attempts(session, run_id)

        return self.read(read)

    def good_attempts(self, run_id: int) -> list[GoodAttempt]:
        """Return a run's good attempts without their samples, in recorded order; much faster than `attempts`."""

        def read(session: Session) -> list[GoodAttempt]:
            _find(session, run_id)
            return rows.good_attempts(session, run_id)

        return self.read(read)

    def artifacts_of(self, run_ids: Collection[int], kind: str) -> dict[int, list[ArtifactRef]]:
        """Return for each of these runs its artifacts of one kind, in recorded order."""
        return self.read(lambda session: rows.artifacts(session, run_ids, kind))

    def _pack_of(self, sha256: str) -> str | None:
        """Return the SHA-256 of the pack that has an artifact; None: it is in none."""
        pack = select(ArtifactRow.pack).where(ArtifactRow.sha256 == sha256)
        return self.read(lambda session: session.scalar(pack))

    def samples(self, run_id: int, metric: str | None = None) -> list[StoredSample]:
        """Return a run's samples in recorded order; `metric` None: of all metrics."""

        def read(session: Session) -> list[StoredSample]:
            _find(session, run_id)
            return rows.samples(session, run_id, metric)

        return self.read(read)

    def measurements(self, run_id: int) -> list[Measurement]:
        """Return a run's measurements in the order of their first sample, each with its samples by cycle."""
        return self.read(lambda session: rows.measurements(session, rows.run(_find(session, run_id))))

    def contents(self, run_id: int) -> RunContents:
        """Return a run with its attempts and measurements, all read at one instant."""

        def read(session: Session) -> RunContents:
            run = rows.run(_find(session, run_id))
            return RunContents(run, rows.attempts(session, run_id), rows.measurements(session, run))

        return self.read(read)

    def outcomes(self, run_id: int) -> dict[str, int]:
        """Return how many attempts of a run had each outcome ("ok" or a failure class)."""
        query = (
            select(AttemptRow.outcome, func.count()).where(AttemptRow.run_id == run_id).group_by(AttemptRow.outcome)
        )
        return {row[0]: row[1] for row in self.rows(query)}

    def hurry(self) -> None:
        """Set the patience to 0, since the program ends and a person waits for that."""
        self.patience_s = 0.0

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Close all connections.

        Raises:
            LabStableError: it was opened read-only, and boardlab did not write its contents.
        """
        self.close()
        if self._is_read and isinstance(error, MISREAD) and not isinstance(error, BoardlabError):
            raise misread(error, self.location) from error

    @contextmanager
    def snapshot(self) -> Iterator[StoreSnapshot]:
        """Open the results at one instant, for several reads; a read that fails within is not repeated."""
        with self._session() as session:
            yield StoreSnapshot(session, self.location)

    def read(self, work: Callable[[Session], Result]) -> Result:
        """Return the result of `work`, which reads at one instant; it is repeated if the connection breaks."""

        def read() -> Result:
            with self._session() as session:
                return self._work(work, session)

        return self._patiently(read)

    def rows(self, query: Executable) -> Sequence[Any]:
        """Return the rows of a query; it is repeated as by `read`."""
        return self.read(lambda session: session.execute(query).all())

    def write(self, work: Callable[[Session], Result]) -> Result:
        """Commit what `work` writes, and return its result.

        `work` is repeated if the database refuses it for now, so it must have no effect outside the session. If the
        answer to a commit was lost, the server is asked first whether the commit succeeded.
        """
        transaction = _SentTransaction[Result]()

        def write() -> Result:
            if transaction.number and self._was_committed(transaction.number):
                return transaction.results[0]
            transaction.number = ""
            with guard(self.location), Session(self._engine) as session, session.begin():
                transaction.results = [self._work(work, session)]
                session.flush()
                transaction.number = database.transaction_number(session)
            return transaction.results[0]

        return self._patiently(write, len(RETRY_PAUSES_S))

    def _work(self, work: Callable[[Session], Result], session: Session) -> Result:
        """Call `work` in a session, which `now` uses meanwhile."""
        before, self._thread.session = getattr(self._thread, "session", None), session
        try:
            return work(session)
        finally:
            self._thread.session = before

    def connection(self) -> PoolProxiedConnection:
        """Return a connection of the driver, to wait for other programs' commits; it raises `driver_error`."""
        return self._engine.raw_connection()

    @property
    def driver_error(self) -> type[Exception]:
        """The class of the database driver's errors."""
        error: type[Exception] = self._engine.dialect.loaded_dbapi.Error
        return error

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """Open a read-only transaction, which sees the database at one instant."""
        try:
            with guard(self.location), Session(self._reader) as session:
                self._patiently(partial(self._connect, session))
                yield session
        except MISREAD as error:  # the block only reads: the rows are not as boardlab writes them
            raise damage_error(error, self.location) from error

    def _connect(self, session: Session) -> None:
        with guard(self.location):
            session.connection()

    def _patiently(self, attempt: Callable[[], Result], retries: int = 0) -> Result:
        """Repeat an attempt after transient errors, for as long as `patience_s` allows.

        Args:
            retries: number of further attempts if `patience_s` is 0.
        """
        failures, first_s = 0, None
        while True:
            try:
                result = attempt()
            except BoardlabError as error:
                if not error.transient:
                    raise
                now_s = self._now_s()
                # Each call has its own first failure: a read may fail again and again after connections that succeed,
                # and these reset `_away_since_s`.
                first_s = now_s if first_s is None else first_s
                self._away_since_s = first_s if self._away_since_s is None else self._away_since_s
                remaining_s = self.patience_s - (now_s - min(first_s, self._away_since_s))
                if remaining_s <= 0 and (self.patience_s or failures >= retries):
                    raise
                if failures == len(RETRY_PAUSES_S):
                    _log.warning("%s (tried again for %.0f s)", error, remaining_s)
            else:
                self._away_since_s = None
                return result
            try:
                self._pause(RETRY_PAUSES_S[min(failures, len(RETRY_PAUSES_S) - 1)])
            except BaseException:  # e.g. Ctrl-C: the program's last writes must not wait again
                self.hurry()
                raise
            failures += 1

    def _was_committed(self, number: str) -> bool:
        """Return True if the server has committed a transaction, and only its answer was lost.

        Raises:
            LabTransientError: the server does not answer, or the transaction has not ended.
        """
        with guard(self.location), Session(self._reader) as session:
            committed = database.was_committed(session, number)
        if committed is None:
            raise LabTransientError(
                f"results in {self.location.name}: the connection broke at a commit, "
                "and the server has not ended it yet; try again",
                failure="results",
            )
        return committed


@define
class _SentTransaction(Generic[Result]):
    """A transaction whose statements were sent, and whose commit may have been.

    Attributes:
        number: its number on the server (`lab.results.database.transaction_number`); empty: not all was sent, or
            SQLite has none.
        results: the result of its work, as the only element.
    """

    number: str = ""
    results: list[Result] = field(factory=list)


def open_store(
    url: str | None = None,
    *,
    create: bool = True,
    migrate: Callable[[str], None] | None = None,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    patience_s: float = 0.0,
    pause: Callable[[float], None] = time.sleep,
) -> Store:
    """Open the results store.

    Args:
        url: a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE; None: $LAB_DB, else the user's data directory.
        create: True: create a missing SQLite file, and the tables of a new database.
        migrate: migrates older results, and gets a report of it. None: older results are refused: hosts without the
            update could no longer use them after a migration. Only measuring programs migrate.
        busy_timeout_s: how long one try waits for SQLite's write lock.
        patience_s: see `Store.patience_s`; it counts once the store is open.
        pause: waits that many seconds between two tries.

    Raises:
        ConfigurationError: the URL or file is wrong, a directory or driver is missing, or another version of boardlab
            has written the database.
        LabError: the database is locked or damaged, or its server does not answer.
    """
    location = locate(url)
    store = Store(
        location,
        database.create(location, busy_timeout_s),
        pause,
        is_read=not create and migrate is None,
        patience_s=patience_s,
    )
    require(store, create=create, migrate=migrate)
    return store


def require(store: Store, *, create: bool, migrate: Callable[[str], None] | None = None) -> None:
    """Create or migrate a store's tables as `open_store`; close the store if that fails."""
    try:
        with guard(store.location):
            schema.make_ready(store._engine, store.location, create=create, migrate=migrate)
    except BoardlabError:
        store.close()
        raise


@define
class SharedStore:
    """One open store for many requests, which reuses compiled queries and a server's connections.

    An SQLite file is opened anew for each transaction, so that a moved or replaced database is noticed.
    """

    _store: Store | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @contextmanager
    def store_at(self, url: str | None, *, create: bool = False) -> Iterator[Store]:
        """Return the open store of a URL; another URL than the last one closes that store.

        Raises:
            BoardlabError: as `open_store`.
        """
        location = locate(url)
        with self._lock:
            last = self._store
            if last is not None and last.location == location:
                store = last
            else:
                store = Store(
                    location,
                    database.create(location, BUSY_TIMEOUT_S, anew=True),
                )
                self._store = store
                if last is not None:
                    last.close()
        require(store, create=create)
        with guard_contents(location):
            yield store


def _find(session: Session, run_id: int) -> RunRow:
    """Return the row of a run.

    Raises:
        ConfigurationError: there is no such run; the message lists the latest ones.
    """
    row = session.get(RunRow, run_id)
    if row is None:
        recent = session.scalars(select(RunRow).order_by(RunRow.id.desc()).limit(_RECENT)).all()
        listed = "; ".join(f"{r.id} ({r.kind}, {r.board_type}, {r.started_at:%Y-%m-%d %H:%M})" for r in recent)
        raise ConfigurationError(
            f"no run {run_id}; " + (f"the latest are: {listed}" if recent else "there are none yet")
        )
    return row


@frozen
class WholeRun:
    """A completed run to record at once, e.g. an imported one; its attributes are those of `Run`.

    Attributes:
        started_at: start of the run; None: the time of recording.
    """

    kind: str
    board_type: str
    board: str
    release: str
    plan: Json
    provenance: Json
    attempts: tuple[AttemptRecord, ...]
    started_at: dt.datetime | None = None


def record_runs(store: Store, runs: Sequence[WholeRun]) -> list[int]:
    """Commit completed runs, all or none.

    Returns:
        The ids of the runs, in their order.

    Raises:
        TestStableError: a metric is unknown, or a plan cannot be written as JSON.
    """

    def write(session: Session) -> list[int]:
        ids, now = [], database.now(session)
        for run in runs:
            row = RunRow(
                **rows.columns_of(run, "plan", "provenance", "attempts", "started_at"),
                status="completed",
                plan=rows.json_of("plan", run.plan),
                provenance=rows.json_of("provenance", run.provenance),
                started_at=run.started_at or now,
                finished_at=run.started_at or now,
            )
            session.add(row)
            session.flush()
            for attempt in run.attempts:
                rows.insert_attempt(session, row.id, attempt)
            ids.append(row.id)
        return ids

    ids = store.write(write)
    store.keep_sums(max(_RUNS_WITH_SUMS, len(ids)))
    return ids
