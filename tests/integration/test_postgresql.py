"""The store on a real PostgreSQL server: the same promises as on SQLite, and what is said when the server fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text
from support.atlength import LONG
from support.postgresql_cluster import PASSWORD, Cluster, cluster
from support.recorded_run import record
from support.store_writers import WRITERS, assert_nothing_is_lost, write_all_at_once

from exporters.results import ResultsReader
from lab.cli import main
from lab.errors import ConfigurationError, LabTransientError
from lab.judge.latest import Reference
from lab.judge.store import review
from lab.results import Store, open_store
from lab.results.snapshot import watch

PROMISES = ("store", "sums", "verdicts", "standing", "jobs", "changes", "reservations", "retention")
UNIT_TESTS = Path(__file__).resolve().parents[1] / "unit" / "results"


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def database(server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new database."""
    monkeypatch.setenv("LAB_ARTIFACTS", str(tmp_path / "artifacts"))
    name = f"test_{uuid.uuid4().hex}"
    administer(server, f"CREATE DATABASE {name}")
    return server.url.replace("/postgres", f"/{name}")


def administer(server: Cluster, statement: str) -> None:
    engine = create_engine(server.url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


def begin(store: Store) -> int:
    return store.begin_run("boot", "am62xx_sk", "0042", "11.01", plan={}, provenance={}).id


def test_a_reading_command_makes_no_tables_and_the_migrating_one_does(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert main(["results", "list", "--db", database]) == 2
        assert "it has no tables" in capsys.readouterr().err
    assert main(["results", "migrate", "--db", database]) == 0
    assert main(["results", "list", "--db", database]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("no runs yet in")


@pytest.mark.longer
def test_the_store_keeps_all_its_promises_here_too(server: Cluster) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *(str(UNIT_TESTS / f"test_results_{name}.py") for name in (PROMISES if LONG else PROMISES[:2])),
    ]
    answer = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "LAB_TEST_SERVER": server.url}
    )
    assert answer.returncode == 0, answer.stdout
    assert " passed" in answer.stdout


@pytest.mark.longer
def test_many_programs_open_a_new_database_and_write_at_once_and_nothing_is_lost(database: str) -> None:
    assert write_all_at_once(database) == [0] * WRITERS
    assert_nothing_is_lost(database)


def test_the_commands_take_its_url_and_never_show_its_password(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(database) as store:
        record(store, cycles=2)
        assert PASSWORD not in store.url
    page = tmp_path / "run.html"
    assert main(["results", "list", "--db", database]) == 0
    assert main(["results", "show", "1", "--log", "--db", database]) == 0
    assert main(["report", "1", "-o", str(page), "--db", database]) == 0
    assert main(["results", "show", "2", "--db", database]) == 2
    said = capsys.readouterr()
    assert "qemu-virt login:   <- login at " in said.out
    assert PASSWORD not in said.out + said.err + page.read_text()


def test_a_restarted_server_costs_a_retry_and_no_result(server: Cluster, database: str) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            server.start()

    with open_store(database, pause=pause) as store:
        first = begin(store)
        server.stop()
        second = begin(store)
        assert [run.id for run in store.runs()] == [second, first]
    assert len(pauses) == 2


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_commit_without_an_answer_counts_once(
    database: str, is_committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(database, pause=lambda _s: None) as store:
        dialect = store._engine.dialect
        commit, lost = dialect.do_commit, ["an answer"]

        def breaks(connection: Any) -> None:
            if is_committed or not lost:
                commit(connection)
            if lost:
                connection.driver_connection.close()
                raise psycopg.OperationalError(f"server closed the connection unexpectedly, without {lost.pop()}")

        monkeypatch.setattr(dialect, "do_commit", breaks)
        first, second = begin(store), begin(store)
        assert [run.id for run in store.runs()] == [second, first]
        assert not lost


def test_a_server_that_is_gone_is_a_transient_error_without_a_password(server: Cluster, database: str) -> None:
    pauses: list[float] = []
    with open_store(database, pause=pauses.append) as store:
        server.stop()
        try:
            with pytest.raises(LabTransientError, match=r"server.*not answer") as raised:
                begin(store)
        finally:
            server.start()
        assert PASSWORD not in str(raised.value)
        assert begin(store) > 0
    assert pauses


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((PASSWORD, "wrong"), "password authentication failed.*mend user, password and database in the URL"),
        (("/postgres", "/nowhere"), '"nowhere" does not exist.*createdb NAME'),
        (("lab:", "nobody:"), "results in postgresql://nobody:\\*\\*\\*@127"),
    ],
)
def test_a_url_that_the_server_refuses_is_explained(server: Cluster, change: tuple[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        open_store(server.url.replace(*change))


def test_a_role_that_may_not_create_tables_is_explained(server: Cluster, database: str) -> None:
    administer(server, "CREATE ROLE reader LOGIN PASSWORD 'reader'")
    with pytest.raises(ConfigurationError, match=r"grant.*CREATE"):
        open_store(database.replace(f"lab:{PASSWORD}", "reader:reader"))


def test_the_old_name_of_the_scheme_is_understood(database: str) -> None:
    with open_store(database.replace("postgresql://", "postgres://")) as store:
        assert begin(store) == 1


def test_a_run_is_judged_and_exported_here_too(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(database) as store:
        for _ in range(2):
            run = record(store, cycles=3)
        review(store, 1, "accepted", "alice", "")
    assert main(["judge", "compare", str(run.id), "--against", "11.1", "--all", "--json", "--db", database]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {number["verdict"] for number in document["numbers"]} == {"noise"}
    assert {tuple(number["runs"]) for number in document["numbers"]} == {(1,)}
    view = ResultsReader(watch(database)).read()
    with watch(database).snapshot() as snapshot:
        assert snapshot.labels() == ["11.01"]
    assert {change.kind for change in view.changes} == {Reference.BASELINE}
    assert [(each.release, each.builds, each.labels) for each in view.builds] == [("11.01", 1, 1)]
