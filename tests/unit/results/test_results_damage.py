"""Whatever has become of a database: one message that names the file and the mend, and never a traceback."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import SQLAlchemyError
from support import farm_scrape
from support.atlength import either

from lab.cli import main
from lab.errors import BoardlabError, LabStableError
from lab.host.clock import utc_now
from lab.jobs.listing import active_jobs
from lab.results import AttemptRecord, Moment, SampleRecord, Store, open_store
from lab.results.listing import overview
from lab.results.snapshot import watch
from lab.results.store import SharedStore

pytestmark = pytest.mark.longer

ERRORS, IN_ONE_TEST = either(50, 250), 25


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
                moments=(Moment("uboot", 1, 1, 6, "U-Boot"),),
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
        active_jobs(snapshot)


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
    with pytest.raises(LabStableError, match=f"sqlite3 {database} \\.recover"):
        read_all(database)


STAGELESS = """UPDATE measurements SET params = json_remove(params, '$.stage') WHERE id =
    (SELECT min(id) FROM measurements WHERE metric = 'boot.stage')"""
COMMANDS = (
    *("results list", "results list --json", "results show 1", "results show 1 --json", "results show 1 --log"),
    *("results export --json", "results export --csv", "results recordings 1 -o {folder}/recordings"),
    *("report 1 -o {folder}/1.html", "jobs list", "jobs show 1", "judge list --all", "judge show 5", "judge stats"),
    *(
        "judge compare 1",
        "judge compare 5",
        "guide write --release 11.01 -o {folder}",
        "health --json",
        "status --json",
    ),
    "guide trend boot.time --board qemu-1",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database with boots and their stages, power, benchmarks, jobs, verdicts and checks, in which nothing must be there."""
    folder = tmp_path_factory.mktemp("whole")
    farm_scrape.everything(folder)
    connection = sqlite3.connect(folder / "results.db")
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE type = 'table'")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    return (folder / "results.db").read_bytes()


def asked(path: Path, command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What is wrong with how a command ends: with a traceback, or badly without a message."""
    try:
        code = main([*command.format(folder=path.parent).split(), "--db", str(path)])
    except Exception as error:  # noqa: BLE001 - that none escapes is what is tested
        return f"{command}: {error!r}"
    said = capsys.readouterr()
    message = said.err.strip() or said.out.strip()
    return "" if not code or (message and message.replace("\n", "").isprintable()) else f"{command}: {code}: {said}"


@pytest.mark.parametrize(
    ("change", "command"),
    [
        (STAGELESS, "results show 1"),
        (STAGELESS, "report 1 -o {folder}/1.html"),
        ("DELETE FROM definitions", "judge compare 5"),
        ("UPDATE attempts SET details = 'null'", "judge compare 5"),
        ("UPDATE samples SET uncertainty = NULL; UPDATE measurements SET sums = NULL", "judge compare 1"),
        (
            "UPDATE samples SET uncertainty = 'x' WHERE id = 1; UPDATE measurements SET sums = NULL",
            "judge compare 1",
        ),
        ("UPDATE measurements SET sums = '20 x 1.0 1.0 0' WHERE sums IS NOT NULL", "judge compare 1"),
        ("UPDATE measurements SET sums = '{}' WHERE sums IS NOT NULL", "judge compare 1"),
        ("UPDATE attempts SET params = NULL", "results export --json"),
    ],
)
def test_a_command_that_reads_what_boardlab_never_wrote_names_the_file_and_the_mend(
    tmp_path: Path, whole: bytes, change: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(whole)
    connection = sqlite3.connect(path)
    connection.executescript(change)
    connection.commit()
    connection.close()
    assert main([*command.format(folder=tmp_path).split(), "--db", str(path)]) == 1
    said = capsys.readouterr().err
    assert f"sqlite3 {path} .recover" in said
    assert said.count("\n") == 1


def mutate(value: Any, dice: random.Random) -> Any:
    """A JSON value in which something is another, or missing."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(sorted(value))
        rest = {name: each for name, each in value.items() if name != key}
        return rest if dice.random() < 0.3 else {**rest, key: mutate(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.8:
        place = dice.randrange(len(value))
        return [*value[:place], mutate(value[place], dice), *value[place + 1 :]]
    return dice.choice([None, 1, -1.5, "x", "", [], {}, [1], {"a": 1}, True])


def harm(path: Path, dice: random.Random) -> str:
    """Delete rows, or make values NULL, another type's, or JSON of another shape; returns what was done."""
    connection = sqlite3.connect(path)
    # A damaged disk asks no trigger, neither the audit's.
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    tables = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    tables = [name for name in tables if connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone()]  # noqa: S608
    tables.remove("boardlab_schema")
    columns = {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in tables}
    json_columns = [
        (t, c)
        for t in tables
        for c in columns[t]
        if c in {"plan", "provenance", "params", "details", "options", "sums", "summary"}
        and (t, c) != ("measurements", "sums")  # numbers in a text
    ]
    table = dice.choice(tables)
    column = dice.choice([name for name in columns[table] if name != "id"])  # only whole numbers go into that
    where = f"WHERE rowid % {dice.choice((1, 2, 5))} = 0"
    match dice.randrange(5):
        case 0:
            change = f"DELETE FROM {table} {where}"  # noqa: S608 - no query of ours
        case 1:
            change = f"UPDATE OR IGNORE {table} SET {column} = NULL {where}"  # noqa: S608
        case 2:
            value = dice.choice(
                ["'{}'", "'[]'", "3", "'\"x\"'", "'null'", "'{\"a\": {}}'", "''", "-1", "1.5", "9e999", "x'ff'"]
            )
            change = f"UPDATE OR IGNORE {table} SET {column} = {value} {where}"  # noqa: S608
        case _:
            table, column = dice.choice(json_columns)
            seed = dice.random()
            connection.create_function(
                "mutated",
                1,
                lambda text: json.dumps(mutate(json.loads(text), random.Random(seed))),
                deterministic=True,
            )
            change = f"UPDATE OR IGNORE {table} SET {column} = mutated({column}) {where} AND {column} IS NOT NULL"  # noqa: S608
    connection.execute(change)
    connection.commit()
    connection.close()
    return change


HARMS = either(8, 240)


@pytest.mark.parametrize("first", range(0, HARMS, 8))
def test_commands_that_read_harmed_results_end_without_a_traceback(
    tmp_path: Path, whole: bytes, first: int, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = []
    for seed in range(first, first + 8):
        dice = random.Random(seed)
        path = tmp_path / f"{seed}.db"
        path.write_bytes(whole)
        change = harm(path, dice)
        wrong += [(change, said) for command in dice.sample(COMMANDS, 4) if (said := asked(path, command, capsys))]
    assert wrong == []


def test_what_only_looks_on_for_long_is_told_the_same(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(whole)
    connection = sqlite3.connect(path)
    connection.execute(STAGELESS)
    connection.commit()
    connection.close()
    with (
        pytest.raises(LabStableError, match=r"KeyError.*\.recover.*listing\.py"),
        SharedStore().store_at(str(path)) as store,
    ):
        overview(store, 1).stages  # noqa: B018
    with pytest.raises(LabStableError, match=r"ZeroDivisionError.*\.recover"), watch(str(path)).snapshot() as snapshot:
        len(snapshot.heads()) / 0


def test_an_error_of_a_program_that_measures_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(KeyError), open_store(str(tmp_path / "a.db")):
        raise KeyError
