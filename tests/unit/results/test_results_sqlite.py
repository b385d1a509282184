"""Where the results lie, and what is said when an SQLite file cannot be used."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session
from support.facts import missing_facts
from support.jobbook import Steady

from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.results import Run, Store, database, open_store
from lab.results.snapshot import watch
from lab.results.store import SharedStore


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAB_DB", "LAB_ARTIFACTS", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)


def begin(store: Store) -> Run:
    return store.begin_run("boot", "am62xx_sk", "0042", "11.01", plan={}, provenance={})


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program in the middle of a transaction."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


def test_without_a_url_results_lie_in_the_users_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with open_store() as store:
        begin(store)
        ref = store.artifacts.put(b"log", kind="console-log")
    assert (tmp_path / "data/boardlab/results.db").is_file()
    assert store.artifacts.path(ref.sha256).is_relative_to(tmp_path / "data/boardlab/artifacts")


def test_without_that_variable_they_lie_under_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    open_store().close()
    assert (tmp_path / ".local/share/boardlab/results.db").is_file()


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_the_environment_names_the_database_as_a_path_or_as_a_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("LAB_DB", form.format(tmp_path / "mine.db"))
    with open_store() as store:
        assert store.url == str(tmp_path / "mine.db")
    assert (tmp_path / "mine.db").is_file()


def test_artifacts_lie_beside_the_database_or_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(str(tmp_path / "a.db")) as store:
        assert store.artifacts.root == tmp_path / "artifacts"
    monkeypatch.setenv("LAB_ARTIFACTS", str(tmp_path / "elsewhere"))
    with open_store(str(tmp_path / "a.db")) as store:
        assert store.artifacts.root == tmp_path / "elsewhere"


def test_a_relative_path_stays_what_it_meant_when_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("a.db") as store:
        run = begin(store)
        monkeypatch.chdir("/")
        assert store.run(run.id) == run
    assert (tmp_path / "a.db").is_file()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://lab@db/results", "results cannot be kept in 'mysql'; give a path, sqlite:///PATH or postgresql://"),
        ("postgresql+asyncpg://lab@db/x", "results cannot be kept in 'postgresql\\+asyncpg'"),
        ("postgresql://lab@db:port/x", "not the URL of a results database"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite://results.db", "three slashes|names no file"),
        ("sqlite:///a.db?mode=ro", "no options"),
        ("://", "not the URL of a results database"),
    ],
)
def test_a_wrong_url_is_explained(url: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        open_store(url)


def test_a_missing_directory_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"mkdir -p {tmp_path}/missing$"):
        open_store(str(tmp_path / "missing" / "a.db"))


def test_a_directory_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"directory.*/results\.db"):
        open_store(str(tmp_path))


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"These are my notes, not a database.\n" * 100)
    with pytest.raises(ConfigurationError, match=r"a\.db: .* not a database"):
        open_store(str(path))
    assert path.read_bytes().startswith(b"These are my notes")


def test_a_damaged_database_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with open_store(str(path)) as store:
        for _ in range(50):
            begin(store)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(LabStableError, match="malformed") as caught:
        open_store(str(path)).runs()
    assert not missing_facts(str(caught.value), "restore a copy", "sqlite3 ", ".recover")


def test_reading_does_not_create_a_database(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no results in .*exist"):
        open_store(str(tmp_path / "typo.db"), create=False)
    assert list(tmp_path.iterdir()) == []


LOSE_RIGHTS = """
import os, sys
from pathlib import Path
from lab.errors import ConfigurationError
from lab.results import open_store

path = Path(sys.argv[1])
store = open_store(str(path))
begin = lambda: store.begin_run("boot", "x", "x", "x", plan={}, provenance={})
begin()
store.close()
path.chmod(0o444)
path.parent.chmod(int(sys.argv[2], 8))
if os.getuid() == 0:  # root may do anything, so be nobody
    os.setuid(65534)
try:
    begin()
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("555", "attempt to write a readonly database: this user may not write it or the directory"),
        ("000", "unable to open database file: it does not exist (now), or this user may not open it or write in"),
    ],
)
def test_a_database_that_this_user_has_no_right_to_is_explained(mode: str, says: str) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own directories are closed to nobody
        folder = Path(name) / "others"
        folder.mkdir()
        folder.parent.chmod(0o755)
        command = [sys.executable, "-c", LOSE_RIGHTS, str(folder / "a.db"), mode]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        folder.chmod(0o755)
    assert f"results in {folder}/a.db: {says} {folder}" in answer


def test_no_file_is_made_where_one_was_moved_away(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    shared = SharedStore()
    with shared.store_at(str(path), create=True) as store:
        run = begin(store)
    with shared.store_at(str(path)) as store:
        away = path.rename(tmp_path / "away.db")
        with pytest.raises(ConfigurationError, match="does not exist"):
            store.runs()
        assert not path.exists()
        away.rename(path)
        assert store.runs() == [run]


def test_a_watcher_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/results.db"
    with open_store(url) as store:
        run = begin(store)
        with pytest.raises(ConfigurationError, match=r"readonly"), watch(url).snapshot() as snapshot:
            snapshot.rows(text("DELETE FROM runs"))
        assert store.runs() == [run]


def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with open_store(str(path), busy_timeout_s=0) as store:
        run = begin(store)
        with locked(path):
            assert store.runs() == [run]
            with open_store(str(path), busy_timeout_s=0) as other:
                assert other.run(run.id) == run


def test_a_lock_that_is_released_in_time_costs_only_a_retry(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_store(str(path)).close()
    with locked(path) as other:
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                other.execute("COMMIT")

        with open_store(str(path), busy_timeout_s=0, pause=pause) as store:
            run = begin(store)
            assert store.runs() == [run]
    assert len(pauses) == 2


def test_a_lock_that_is_never_released_ends_in_a_transient_error_that_says_who_to_look_for(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_store(str(path)).close()
    pauses: list[float] = []
    with locked(path), open_store(str(path), busy_timeout_s=0, pause=pauses.append) as store:
        with pytest.raises(LabTransientError, match=f"locked.*fuser {path}"):
            begin(store)
        assert store.runs() == []
    assert 2 <= len(pauses) <= 5
    assert sum(pauses) < 10


def test_a_measuring_program_waits_for_results_that_are_away_as_long_as_its_patience_and_no_longer(
    tmp_path: Path, steady: Steady
) -> None:
    """After it each call fails at once, until the results are back."""
    path = tmp_path / "a.db"
    open_store(str(path)).close()
    with open_store(str(path), busy_timeout_s=0, patience_s=300.0, pause=steady.pause) as store:
        store._now_s = steady
        with locked(path) as other:
            steady.at[12.0] = lambda: other.execute("COMMIT")
            run = begin(store)
        assert 12.0 <= steady.now_s < 20.0
        with locked(path):
            began_s = steady.now_s
            with pytest.raises(LabTransientError, match="database is locked"):
                begin(store)
            ended_s = steady.now_s
            assert 300.0 <= ended_s - began_s < 310.0
            with pytest.raises(LabTransientError, match="database is locked"):
                store.finish_run(run.id, "failed")
            assert steady.now_s == ended_s
        assert begin(store).id > run.id
        with locked(path) as other:
            steady.at[steady.now_s + 200.0] = lambda: other.execute("COMMIT")
            store.finish_run(run.id, "failed")


def test_a_read_whose_connection_breaks_within_it_is_begun_anew(tmp_path: Path, steady: Steady) -> None:
    breaks = [LabTransientError("the connection broke")] * 5

    def read(session: Session) -> int:
        if breaks:
            raise breaks.pop()
        return session.execute(text("SELECT 1")).scalar_one()

    with open_store(str(tmp_path / "a.db"), patience_s=300.0, pause=steady.pause) as store:
        assert store.read(read) == 1
        breaks.extend([LabTransientError("the connection breaks in each query")] * 1000)
        store._now_s = steady
        with pytest.raises(LabTransientError, match="in each query"):
            store.read(read)
        assert 300.0 <= steady.now_s < 330.0


def test_a_program_that_is_to_end_waits_for_no_results(tmp_path: Path, steady: Steady) -> None:
    path = tmp_path / "a.db"
    open_store(str(path)).close()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with open_store(str(path), busy_timeout_s=0, patience_s=300.0, pause=steady.pause) as store, locked(path):
        steady.at[30.0] = interrupted
        with pytest.raises(KeyboardInterrupt):
            begin(store)
        interrupted_s = steady.now_s
        with pytest.raises(LabTransientError, match="database is locked"):
            begin(store)
        assert steady.now_s - interrupted_s < 10.0


def fill(store: Store) -> None:
    for _ in range(10_000):
        begin(store)


def test_a_full_disk_keeps_what_was_recorded_before(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with open_store(str(path)) as store:
        run = begin(store)
        with store._engine.connect() as connection:  # SQLite's own way to be full at a known size
            connection.exec_driver_sql("PRAGMA max_page_count = 40")
        with pytest.raises(LabStableError, match=r"disk is full.*intact"):
            fill(store)
    with open_store(str(path)) as store:
        assert len(store.runs()) > 10
        assert store.run(run.id) == run


def test_postgresql_without_its_driver_names_the_extra() -> None:
    program = (
        "import sys\n"
        "sys.modules['psycopg'] = None  # as if it were not installed\n"
        "from lab.cli import main\n"
        "sys.exit(main(['results', 'list', '--db', 'postgresql://lab@localhost/results']))\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert answer.returncode == 2
    assert answer.stderr.count("\n") == 1
    assert "pip install 'boardlab[postgresql]'" in answer.stderr


class Cursor:
    """Refuses so many times."""

    def __init__(self, refusals: int, code: int = sqlite3.SQLITE_BUSY) -> None:
        self.refusals, self.code = refusals, code
        self.said: list[str] = []

    def execute(self, statement: str) -> None:
        self.said.append(statement)
        if len(self.said) <= self.refusals:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self.code
            raise error


def test_a_new_database_that_another_program_prepares_is_waited_for() -> None:
    cursor = Cursor(2, sqlite3.SQLITE_BUSY_SNAPSHOT)
    database._turn_to_wal(cursor)
    assert cursor.said == ["PRAGMA journal_mode=WAL"] * 3


def test_what_is_not_busy_or_never_ends_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sqlite3.OperationalError):
        database._turn_to_wal(Cursor(1, sqlite3.SQLITE_IOERR))
    monkeypatch.setattr(database, "WAL_PATIENCE_S", 0.0)
    with pytest.raises(sqlite3.OperationalError):
        database._turn_to_wal(Cursor(100_000))
