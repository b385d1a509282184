"""Whatever has become of a database: one message that names the file and the mend, and never a traceback."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from atlength import either
from sqlalchemy.exc import SQLAlchemyError

from lab.cli import main
from lab.errors import BoardlabError, LabStableError
from lab.host.clock import utc_now
from lab.results import AttemptRecord, MomentRecord, SampleRecord, Store, open_store
from lab.results.watch import watch

ERRORS, IN_ONE_TEST = either(100, 250), 25


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database with two runs of everything."""
    path = tmp_path_factory.mktemp("sound") / "a.db"
    with open_store(str(path)) as store:
        for status in ("interrupted", "completed"):
            fill(store, status)
    return path.read_bytes()


def fill(store: Store, status: str) -> None:
    run = store.begin_run("boot", "am62xx_sk", "0042", "11.01", plan={"cycles": 3, "media": ["sd"]}, provenance={})
    log = store.artifacts.put(b"U-Boot", kind="console-log")
    for cycle in (1, 2, 3):
        store.record_attempt(
            run.id,
            AttemptRecord(
                cycle=cycle,
                number=1,
                params={"medium": "sd"},
                outcome="ok",
                fault=None,
                transient=None,
                message="",
                started_at=utc_now(),
                duration_s=9.0,
                samples=(SampleRecord("boot.time", {"medium": "sd"}, 2.8, 0.001, frozenset({"simulated"}), 0, 6),),
                artifacts=(log,),
                moments=(MomentRecord("uboot", 1, 1, 6, "U-Boot"),),
            ),
        )
    store.finish_run(run.id, "completed" if status == "completed" else "interrupted")


def read_all(path: Path) -> None:
    """Everything that is read anywhere of a store."""
    with open_store(str(path), busy_timeout_s=0, pause=lambda _s: None) as store:
        for run in store.runs():
            store.contents(run.id)
            store.samples(run.id)
            store.outcomes(run.id)
            store.good_attempts(run.id)
    with watch(str(path)).snapshot() as snapshot:
        ids = [head.id for head in snapshot.heads()]
        assert [
            list(each)
            for each in (
                snapshot.measurements(ids),
                snapshot.tallies(ids),
                snapshot.moments(ids),
                snapshot.params(ids),
            )
        ]
        snapshot.jobs()


def damage(data: bytes, seed: int) -> bytes:
    chance = random.Random(seed)
    damaged = bytearray(data)
    for _ in range(chance.choice((1, 1, 3, 10))):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)


@pytest.mark.parametrize("first", range(0, ERRORS, IN_ONE_TEST))
def test_random_errors_on_the_disk_end_in_one_message_that_names_the_file(
    tmp_path: Path, sound: bytes, first: int
) -> None:
    wrong = {}
    for seed in range(first, first + IN_ONE_TEST):
        path = tmp_path / f"{seed}.db"
        path.write_bytes(damage(sound, seed))
        try:
            read_all(path)
        except BoardlabError as error:
            if str(path) not in str(error) or not str(error).isprintable():
                wrong[seed] = str(error)
        except (Exception, SQLAlchemyError) as error:  # noqa: BLE001 - that none escapes is what is tested
            wrong[seed] = repr(error)
    assert wrong == {}


@pytest.fixture
def database(tmp_path: Path, sound: bytes) -> Iterator[Path]:
    path = tmp_path / "a.db"
    path.write_bytes(sound)
    return path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE runs SET plan = '[1, 2]'", r"expected a JSON object, found \[1, 2\]"),
        ("UPDATE runs SET plan = '{'", "JSONDecodeError"),
        (f"UPDATE runs SET plan = '{'[' * 5000}'", "RecursionError|JSONDecodeError"),  # noqa: S608 - no query of ours
        ("UPDATE runs SET status = 'done'", "run 2 has the status 'done'; known are running"),
        ("UPDATE runs SET started_at = 'yesterday'", "isoformat"),
        ("UPDATE runs SET board = x'ff00'", "expected text, found b'"),
        ("UPDATE attempts SET duration_s = 'long'", "expected a number, found 'long'"),
        ("UPDATE attempts SET duration_s = 9e999", "expected a number, found inf"),
        ("UPDATE attempts SET cycle = 1.5 WHERE cycle = 1", "expected a whole number, found 1.5"),
        ("UPDATE attempts SET outcome = 'silent'", "a failed attempt is the fault of"),
        ("UPDATE attempts SET params = '3'", "expected a JSON object"),
        ("UPDATE samples SET value = 'fast'", "expected a number"),
        ("UPDATE samples SET flags = 7.5", "newer boardlab"),
        ("UPDATE definitions SET better = 'hicher'", "better is 'hicher'"),
        ("DELETE FROM definitions", "definition|NoneType"),
        ("DELETE FROM artifacts", "NoneType"),
        ("ALTER TABLE moments RENAME COLUMN position TO pos", "no such column"),
    ],
)
def test_what_boardlab_never_wrote_is_said_to_be_damage(
    database: Path, change: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA foreign_keys=OFF")
    connection.execute(change)
    connection.commit()
    connection.close()
    with pytest.raises(BoardlabError, match=says):
        read_all(database)
    assert main(["results", "export", "--db", str(database)]) != 0
    assert capsys.readouterr().err.count("\n") == 1


def test_the_mend_of_a_damaged_file_is_a_command(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("UPDATE runs SET plan = '7'")
    connection.commit()
    connection.close()
    with pytest.raises(LabStableError, match=rf"the file is damaged; .* sqlite3 {database} \.recover"):
        read_all(database)
