"""The results of a simulated lab: boardlab's own connections to an SQLite file, whose locks, losses and full disk are the schedule's.

Yield points are the begin of a transaction, its lock, its commit, and the answer to that: between them nothing can be seen by another
process. One pool serves all processes; a transaction's connection is the process's that began it, and is closed when that is killed.
"""

from __future__ import annotations

import itertools
import re
import shutil
import sqlite3
import tempfile
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from attrs import define, field
from sqlalchemy import Engine, event
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from lab.results import database, open_store
from lab.results.location import Location
from lab.results.store import BUSY_TIMEOUT_S, Store
from support.simulation.media import BOARD_TYPE, EMMC
from support.simulation.nights import BOARDS, START, quiet
from support.simulation.world import Process, World

CONNECT_S: Final = 10.0  # as long as boardlab waits for a server
MOST_LOST: Final = 3  # commits
FULL: Final = "SQLITE_FULL", "database or disk is full"
SYNC_FAILS: Final = "SQLITE_IOERR_FSYNC", "disk I/O error"
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a file system in memory, where there is one
_WRITES: Final = "BEGIN IMMEDIATE"
_CHANGE: Final = re.compile(r"(INSERT INTO|UPDATE) (\w+)(?: SET (.*?) WHERE)?")


def _error(name: str, text: str) -> sqlite3.OperationalError:
    found = sqlite3.OperationalError(text)
    found.sqlite_errorname = name
    return found


def _changes(verb: str, table: str, columns: str) -> set[str]:
    """The changes of a statement: "+jobs" of a new row, "jobs.done" of a column."""
    if verb != "UPDATE":
        return {f"+{table}"}
    return {f"{table}.{column}" for column in re.findall(r"(\w+)=", columns)}


def _take(counts: Counter[str], changed: Collection[str]) -> str | None:
    """The first change that is counted, which is one less then; "" is any."""
    change = next((change for change in ("", *sorted(changed)) if counts[change] > 0), None)
    if change is not None:
        counts[change] -= 1
    return change


class SimulatedCursor(sqlite3.Cursor):
    """A cursor whose transactions begin by the schedule."""

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        connection: Any = self.connection
        if not sql.startswith("BEGIN"):
            if change := _CHANGE.match(sql):
                connection.changed |= _changes(*change.groups(""))
            return super().execute(sql, parameters)
        connection.changed = set()
        connection.results.before_begin(connection, sql)
        super().execute(sql, parameters)
        connection.results.has_begun(sql)
        return self


class SimulatedConnection(sqlite3.Connection):
    """A connection of a simulated process."""

    results: ClassVar[Results]
    owner: Process | None = None
    entry: ConnectionPoolEntry | None = None
    is_closed = False
    number = ""
    changed: set[str]

    def cursor(self, _factory: Any = None) -> sqlite3.Cursor:  # type: ignore[override]
        return super().cursor(SimulatedCursor)

    def commit(self) -> None:
        if not self.is_closed:
            self.results.commit(self, super().commit)

    def rollback(self) -> None:
        if not self.is_closed:
            super().rollback()
            self.results.has_ended(self)

    def close(self) -> None:
        self.is_closed = True
        super().close()
        self.results.has_ended(self)


@define(eq=False)
class Results:
    """The database of all worlds, one after the other.

    Attributes:
        world: the one that uses it now; None: nobody schedules.
        away_until_s: the server does not answer. full_until_s: its disk refuses to write, with `disk_error`.
        recent: of a host that may lose its power, the contents after its last commits.
        is_server: it numbers its transactions, and its clock is so much ahead (clock_s). committed: the numbers of those that were. lost_answers: change, as `_changes` has it -> so many further commits of it succeed without an answer; "": of any. collisions: the same of commits that it refuses. commits: so far.
        outages: change -> how long the database is away from each further commit of it on. deaths: change -> so many further processes are killed behind a commit of it.
        committed_by: the process of the last commit.
    """

    folder: Path
    location: Location
    engine: Engine
    empty: sqlite3.Connection
    history: sqlite3.Connection
    looker: sqlite3.Connection
    world: World | None = None
    writer: SimulatedConnection | None = None
    away_until_s: float = 0.0
    full_until_s: float = 0.0
    disk_error: tuple[str, str] = FULL
    recent: deque[bytes] | None = None
    lost_answers: Counter[str] = field(factory=Counter)
    collisions: Counter[str] = field(factory=Counter)
    is_server: bool = False
    patience_s: float = 0.0
    clock_s: float = 0.0
    numbers: Iterator[int] = field(factory=lambda: itertools.count(1))
    committed: set[str] = field(factory=set)
    commits: int = 0
    committed_by: Process | None = None
    outages: defaultdict[str, list[float]] = field(factory=lambda: defaultdict(list))
    deaths: Counter[str] = field(factory=Counter)
    _open: list[SimulatedConnection] = field(factory=list)

    def store(self) -> Store:
        """A store of a measuring process; its patience is simulated time."""
        assert self.world is not None
        world = self.world
        return Store(self.location, self.engine, world.sleep, patience_s=self.patience_s, now_s=lambda: world.now_s)

    def begin(self, world: World, *, history: bool) -> None:
        """Serve another world; `history`: its tables have nights of before."""
        self.end()
        self._fill(self.history if history else self.empty)
        shutil.rmtree(self.folder / "judge", ignore_errors=True)
        self.world, self.writer, self.committed_by = world, None, None
        self.away_until_s = self.full_until_s = 0.0
        self.calm()
        self.commits = 0
        self.recent = None if self.is_server else deque([self.looker.serialize()], MOST_LOST + 1)
        self.clock_s = 0.0
        self._open.clear()
        self.committed.clear()
        world.on_death.append(self.has_died)

    def _fill(self, source: sqlite3.Connection) -> None:
        """Give the tables the rows of others; a copy of the file would have each connection read its schema anew."""
        tables = [name for (name,) in self.looker.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        self.looker.execute("PRAGMA foreign_keys=OFF")
        self.looker.execute("BEGIN")
        for table in tables:
            self.looker.execute(f"DELETE FROM {table}")  # noqa: S608 - its own name
            rows = source.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
            if rows:
                places = ", ".join("?" * len(rows[0]))
                self.looker.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608
        self.looker.execute("COMMIT")

    def empty_tables(self) -> None:
        """Forget what the last world left."""
        self._fill(self.empty)

    def end(self) -> None:
        """Serve nobody."""
        self.world = None

    def lose_commits(self, count: int) -> None:
        """A loss of power takes the last commits: SQLite's log is not synced at each of them."""
        assert self.recent is not None
        for _ in range(count):
            self.recent.pop()
        data = bytearray(self.recent[-1])
        data[18:20] = (
            b"\x01\x01"  # of no write-ahead log, which a database in memory cannot have (sqlite.org/fileformat.html)
        )
        with closing(sqlite3.connect(":memory:")) as before:
            before.deserialize(bytes(data))
            self._fill(before)

    def calm(self) -> None:
        """Strike no further commit."""
        for strikes in (self.lost_answers, self.collisions, self.deaths, self.outages):
            strikes.clear()

    def keep_commits(self) -> None:
        """Put on the disk all that a person was told of."""
        if self.recent is not None:
            for _ in range(len(self.recent) - 1):
                self.recent.popleft()

    def environment(self, board: str) -> Path:
        """The file of a board's environment."""
        path = self.folder / f"{board}.yaml"
        path.touch()
        return path

    def look(self, sql: str, *values: Any) -> list[Any]:
        """Rows that are committed, read from outside."""
        return self.looker.execute(sql, values).fetchall()

    # --- What a server knows ---

    def transaction_number(self, session: Session) -> str:
        """As lab.results.database has it, of a server."""
        if not self.is_server:
            return ""
        connection: Any = session.connection().connection.dbapi_connection
        connection.number = str(next(self.numbers))
        return str(connection.number)

    def was_committed(self, session: Session, number: str) -> bool:
        """As lab.results.database has it, of a server."""
        session.connection()
        return number in self.committed

    # --- What connections do ---

    def before_begin(self, connection: SimulatedConnection, sql: str) -> None:
        world = self.world
        if world is None or world.current is None:
            return
        world.pause()
        self._reach(world)
        if sql == _WRITES and not world.wait(lambda: self.writer is None, BUSY_TIMEOUT_S):
            raise _error("SQLITE_BUSY", "database is locked")
        connection.owner = world.process
        self._open.append(connection)
        if sql == _WRITES:
            self.writer = connection

    def has_begun(self, sql: str) -> None:
        world = self.world
        if world is None or world.current is None or sql != _WRITES:
            return
        world.pause()

    def commit(self, connection: SimulatedConnection, commit: Any) -> None:
        world = self.world
        if world is None or connection is not self.writer:
            commit()
            self.has_ended(connection)
            return
        world.pause()
        self._break(world, connection.changed)
        self._reach(world)
        if self.full_until_s > world.now_s:
            world.felt[self.disk_error[0]] += 1
            raise _error(*self.disk_error)
        if world.current is not None and _take(self.collisions, connection.changed) is not None:
            world.felt["a collision"] += 1
            world.say("the server refuses its commit")
            raise _error("SQLITE_PROTOCOL", "two transactions collided")
        commit()
        if self.recent is not None:
            self.recent.append(self.looker.serialize())
        self.committed.add(connection.number)
        self.commits += 1
        self.committed_by = world.process if world.current is not None else None
        self.has_ended(connection)
        if self.committed_by is not None and (change := _take(self.deaths, connection.changed)) is not None:
            world.felt[f"a death behind a commit{' of ' * bool(change)}{change}"] += 1
            world.say("is killed behind its commit")
            world.kill(world.process)
        world.pause()
        change = _take(self.lost_answers, connection.changed) if world.current is not None else None
        if change is not None:
            world.felt[f"a commit's answer lost{' of ' * bool(change)}{change}"] += 1
            world.say("the answer to its commit is lost")
            raise _error("SQLITE_PROTOCOL", "the connection broke at a commit")

    def has_ended(self, connection: SimulatedConnection) -> None:
        if self.writer is connection:
            self.writer = None
        connection.owner = None
        if connection in self._open:
            self._open.remove(connection)

    def has_died(self, process: Process) -> None:
        """Its connections are closed, and what it did not commit has not been."""
        for connection in [each for each in self._open if each.owner is process]:
            connection.close()
            if connection.entry is not None:
                connection.entry.invalidate()

    def _break(self, world: World, changed: Collection[str]) -> None:
        """The database goes away at a commit."""
        change = next((change for change in ("", *sorted(changed)) if self.outages.get(change)), None)
        if change is not None and world.current is not None:
            away_s = self.outages[change].pop(0)
            world.felt[f"an outage at a commit{' of ' * bool(change)}{change}"] += 1
            world.say(f"the database does not answer for {away_s:g} s, from its commit on")
            self.away_until_s = world.now_s + away_s

    def _reach(self, world: World) -> None:
        """Raise an error where the process does not reach the database."""
        if world.current is None:
            return
        process = world.process
        gone_s = max(self.away_until_s, process.host.cut_until_s)
        if gone_s > world.now_s:
            world.sleep(min(CONNECT_S, gone_s - world.now_s))
            world.disturb(process, world.now_s)
            world.felt["no answer of the database"] += 1
            raise _error("SQLITE_PROTOCOL", "the server does not answer")


@contextmanager
def results() -> Iterator[Results]:
    """The database, in memory."""
    folder = Path(tempfile.mkdtemp(prefix="boardlab-simulation-", dir=_MEMORY if _MEMORY.is_dir() else None))
    path = folder / "results.db"
    looker, empty, history = (sqlite3.connect(where, isolation_level=None) for where in (path, ":memory:", ":memory:"))
    with open_store(str(path)) as store:
        location = store.location
        looker.backup(empty)
        for board, kind in itertools.product(BOARDS, ("boot", "low_power")):
            quiet(store, kind, BOARD_TYPE, board, EMMC, START)
    looker.backup(history)
    engine = database.create(location, 0.0)

    @event.listens_for(engine, "do_connect")
    def _simulated(_dialect: Any, _record: Any, arguments: Any, options: Any) -> None:
        options["factory"] = SimulatedConnection

    @event.listens_for(engine, "checkout")
    def _checked_out(connection: Any, entry: ConnectionPoolEntry, _proxy: Any) -> None:
        connection.entry = entry

    found = Results(folder, location, engine, empty, history, looker)
    SimulatedConnection.results = found
    try:
        yield found
    finally:
        engine.dispose()
        looker.close()
        shutil.rmtree(folder, ignore_errors=True)
