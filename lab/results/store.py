"""The results store: commits every attempt as it is taken."""

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
_RECENT: Final = 5
_OLDER: Final = 8  # runs of which a run's end keeps the sums, its own first
_log = logging.getLogger(__name__)

Result = TypeVar("Result")


@define
class Store:
    """Runs and their results; threads may share it, forks may not.

    Make one with `open_store`.

    Every method raises a BoardlabError with a remedy when the database cannot be used: transient if it is locked or
    does not answer (after retries), stable if the disk is full or the file is damaged.

    Attributes:
        patience_s: how long a database may be away before a method raises. It is counted from the first failure, so
            all calls share it: after it each call raises at its first failure, until the database answers again.
    """

    location: Location
    _engine: Engine = field(repr=False)  # it shows the URL
    _pause: Callable[[float], None] = field(default=time.sleep)
    _is_read: bool = False  # it was opened to look at, so an error within its block is of what it holds
    patience_s: float = 0.0
    _now_s: Callable[[], float] = field(default=time.monotonic)
    _away_since_s: float | None = field(default=None, init=False)
    _thread: threading.local = field(factory=threading.local, init=False, repr=False, eq=False)  # `session`: its own
    _reader: Engine = field(init=False, repr=False, default=Factory(lambda self: database.reader(self._engine), True))
    artifacts: ArtifactStore = field(
        init=False,
        default=Factory(
            lambda self: ArtifactStore(self.location.artifacts, self.location.shared, self._pack_of), True
        ),
    )

    @property
    def url(self) -> str:
        """The database's name for people: a path, or URL without password."""
        return self.location.name

    def now(self) -> dt.datetime:
        """The shared clock's time; see `lab.results.database.now`."""
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
        """Begin a run in the status "running"; `job_id`: its job."""

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
        """Reopen an interrupted, failed or killed run; see `plan_differences`.

        Raises:
            ConfigurationError: no such run, or it is completed.
        """

        def reopen(session: Session) -> Run:
            row = _find(session, run_id)
            if row.status == "completed":
                raise ConfigurationError(f"run {run_id} is completed, there is nothing to resume; begin a new run")
            row.status, row.finished_at = "running", None
            return rows.run(row)

        return self.write(reopen)

    def finish_run(self, run_id: int, status: RunStatus) -> None:
        """Set the final status of a run; a completed one keeps it.

        A session that stood still may end after another has completed its run.

        Raises:
            ConfigurationError: no such run.
            TestStableError: no such status.
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
            self.keep_sums(_OLDER)

    def keep_sums(self, most: int, pause: Callable[[], None] | None = None) -> int:
        """Keep the sums of the newest completed runs that lack them; return their number.

        A run whose rows cannot be read is left without: its readers say why.
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
        """Commit an attempt with all its parts at once; return its id.

        Recording the same attempt (by its start) again returns the same id, so a commit whose answer was lost can be
        repeated.

        Raises:
            ConfigurationError: no such run.
            TestStableError: the run is completed, the cycle has a good attempt already, or the metric is unknown.
        """

        def insert(session: Session) -> int:
            run = _find(session, run_id)
            if run.status == "completed":
                raise TestStableError(f"run {run_id} is completed; nothing may be added to it")
            return rows.insert_attempt(session, run_id, record)

        return self.write(insert)

    def revise_attempt(self, run_id: int, record: AttemptRecord) -> None:
        """Replace the ± and flags of a good attempt's samples, and its details.

        Raises:
            ConfigurationError: no such run.
            TestStableError: the run is completed, or has no such good attempt.
        """

        def revise(session: Session) -> None:
            if _find(session, run_id).status == "completed":
                raise TestStableError(f"run {run_id} is completed; nothing in it may be changed")
            rows.revise_attempt(session, run_id, record)

        self.write(revise)

    def check_definition(self, metric: Metric) -> None:
        """Refuse a lab's metric that the results have otherwise.

        Raises:
            ConfigurationError: another unit, direction, definition or resolution of the same version.
        """
        self.read(lambda session: rows.check_definition(session, metric))

    def run(self, run_id: int) -> Run:
        """One run.

        Raises:
            ConfigurationError: no such run; the message lists recent ones.
        """
        return self.read(lambda session: rows.run(_find(session, run_id)))

    def runs(self, limit: int | None = None, **columns: str) -> list[Run]:
        """Runs, the newest first; at most `limit` of them.

        Args:
            columns: values that they have, e.g. `kind="boot"`.
        """
        newest = select(RunRow).filter_by(**columns).order_by(RunRow.id.desc()).limit(limit)
        return self.read(lambda session: [rows.run(row) for row in session.scalars(newest)])

    def attempts(self, run_id: int) -> list[Attempt]:
        """All attempts of a run, in recorded order."""

        def read(session: Session) -> list[Attempt]:
            _find(session, run_id)
            return rows.attempts(session, run_id)

        return self.read(read)

    def good_attempts(self, run_id: int) -> list[GoodAttempt]:
        """A run's good attempts in short; much quicker than `attempts`."""

        def read(session: Session) -> list[GoodAttempt]:
            _find(session, run_id)
            return rows.good_attempts(session, run_id)

        return self.read(read)

    def artifacts_of(self, run_ids: Collection[int], kind: str) -> dict[int, list[ArtifactRef]]:
        """Artifacts of a kind by run, in recorded order, without samples."""
        return self.read(lambda session: rows.artifacts(session, run_ids, kind))

    def _pack_of(self, sha256: str) -> str | None:
        pack = select(ArtifactRow.pack).where(ArtifactRow.sha256 == sha256)
        return self.read(lambda session: session.scalar(pack))

    def samples(self, run_id: int, metric: str | None = None) -> list[StoredSample]:
        """A run's samples, of one metric or all, in recorded order."""

        def read(session: Session) -> list[StoredSample]:
            _find(session, run_id)
            return rows.samples(session, run_id, metric)

        return self.read(read)

    def measurements(self, run_id: int) -> list[Measurement]:
        """A run's numbers in order of appearance, with samples by cycle."""
        return self.read(lambda session: rows.measurements(session, rows.run(_find(session, run_id))))

    def contents(self, run_id: int) -> RunContents:
        """A run with its attempts and measurements, at one instant."""

        def read(session: Session) -> RunContents:
            run = rows.run(_find(session, run_id))
            return RunContents(run, rows.attempts(session, run_id), rows.measurements(session, run))

        return self.read(read)

    def outcomes(self, run_id: int) -> dict[str, int]:
        """Number of a run's attempts by outcome ("ok" or failure class)."""
        query = (
            select(AttemptRow.outcome, func.count()).where(AttemptRow.run_id == run_id).group_by(AttemptRow.outcome)
        )
        return {row[0]: row[1] for row in self.rows(query)}

    def hurry(self) -> None:
        """End the patience: the program ends, and a person waits for that."""
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
        """The results at one instant, for several reads; within it no read is repeated."""
        with self._session() as session:
            yield StoreSnapshot(session, self.location)

    def read(self, work: Callable[[Session], Result]) -> Result:
        """The result of `work`, which reads at one instant; it is repeated where the connection breaks within it."""

        def read() -> Result:
            with self._session() as session:
                return self._work(work, session)

        return self._patiently(read)

    def rows(self, query: Executable) -> Sequence[Any]:
        """The rows of a query, as `read`."""
        return self.read(lambda session: session.execute(query).all())

    def write(self, work: Callable[[Session], Result]) -> Result:
        """Commit what `work` writes, and return its result.

        It is repeated where the database refuses it for now; a commit whose answer was lost is looked up first.
        """
        sent = _Sent[Result]()

        def write() -> Result:
            if sent.number and self._was_committed(sent.number):
                return sent.results[0]
            sent.number = ""
            with guard(self.location), Session(self._engine) as session, session.begin():
                sent.results = [self._work(work, session)]
                session.flush()
                sent.number = database.transaction_number(session)
            return sent.results[0]

        return self._patiently(write, len(RETRY_PAUSES_S))

    def _work(self, work: Callable[[Session], Result], session: Session) -> Result:
        before, self._thread.session = getattr(self._thread, "session", None), session
        try:
            return work(session)
        finally:
            self._thread.session = before

    def connection(self) -> PoolProxiedConnection:
        """A bare connection, to wait with for what others commit; its errors are `driver_error`."""
        return self._engine.raw_connection()

    @property
    def driver_error(self) -> type[Exception]:
        """The class of the database driver's errors."""
        error: type[Exception] = self._engine.dialect.loaded_dbapi.Error
        return error

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """A read-only transaction of one instant."""
        try:
            with guard(self.location), Session(self._reader) as session:
                self._patiently(partial(self._connect, session))
                yield session
        except MISREAD as error:  # only readout stands between: rows that are not as boardlab writes them
            raise damage_error(error, self.location) from error

    def _connect(self, session: Session) -> None:
        with guard(self.location):
            session.connection()

    def _patiently(self, attempt: Callable[[], Result], retries: int = 0) -> Result:
        """Attempt again after transient errors: within the patience, without one so many times."""
        failures, first_s = 0, None
        while True:
            try:
                result = attempt()
            except BoardlabError as error:
                if not error.transient:
                    raise
                now_s = self._now_s()
                first_s = now_s if first_s is None else first_s  # a read may fail behind a connection that succeeds
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
            except BaseException:  # e.g. Ctrl-C: what is to be noted at the end waits no longer
                self.hurry()
                raise
            failures += 1

    def _was_committed(self, number: str) -> bool:
        """True if a server committed it, and only the answer was lost.

        Raises:
            LabTransientError: the server does not answer, or does not know yet.
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
class _Sent(Generic[Result]):
    """A transaction of which everything was sent but its commit.

    Attributes:
        number: see `lab.results.database.transaction_number`; empty: none, or not everything was sent.
        results: its return value, once it is committed.
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
    """Open the results.

    Args:
        url: a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE; None: $LAB_DB, else the user's data directory.
        create: create a missing SQLite file, and the tables of a new database.
        migrate: of measuring programs: older results are migrated, and it gets the report. None: older results are
            refused, since hosts without the update could no longer use them.
        busy_timeout_s: limit of one try for SQLite's write lock.
        patience_s: of the store, once it is open.
        pause: waits that many seconds between tries.

    Raises:
        ConfigurationError: a bad URL or file, a missing directory or driver, or a database of another boardlab.
        LabError: the database is locked, damaged, or its server does not answer.
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
    """Check that a store is usable, as `open_store`; else close it."""
    try:
        with guard(store.location):
            schema.make_ready(store._engine, store.location, create=create, migrate=migrate)
    except BoardlabError:
        store.close()
        raise


@define
class SharedStore:
    """One store for many requests: queries and connections are reused.

    SQLite's file is opened anew for each transaction, to notice a moved or replaced database.
    """

    _store: Store | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @contextmanager
    def store_at(self, url: str | None, *, create: bool = False) -> Iterator[Store]:
        """The opened store; errors as of `lab.results.store.open_store`."""
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
    """A complete run to record; attributes as of `Run`; without `started_at` it is of now."""

    kind: str
    board_type: str
    board: str
    release: str
    plan: Json
    provenance: Json
    attempts: tuple[AttemptRecord, ...]
    started_at: dt.datetime | None = None


def record_runs(store: Store, runs: Sequence[WholeRun]) -> list[int]:
    """Commit completed runs, all or none; return their ids.

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
    store.keep_sums(max(_OLDER, len(ids)))
    return ids
