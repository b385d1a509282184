"""The schema: what is known of it without Alembic, and who migrates results of an older boardlab."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text
from support import recorded_run
from support.facts import missing_facts
from support.killed_steps import ends_at
from support.older_schema import NEWER, OLDER, newer_program, raw

from lab import package_data
from lab.cli import main
from lab.errors import BoardlabError, ConfigurationError, LabStableError, NoResultsError
from lab.farm.checks.registry import UPGRADE, CheckTarget, examine
from lab.jobs import lease
from lab.results import Store, database, open_store, schema
from lab.results.location import locate
from lab.results.schema import NEWEST, _config
from lab.results.snapshot import watch
from lab.results.store import SharedStore

ROOT = Path(__file__).resolve().parents[3]
REFUSED = [
    ["results", "list"],
    ["results", "show", "1"],
    ["results", "export"],
    ["results", "recordings", "1"],
    ["results", "upload"],
    ["judge", "run", "1"],
    ["judge", "list"],
    ["judge", "show", "1"],
    ["judge", "compare", "1"],
    ["judge", "accept", "1"],
    ["report", "1", "-o", "report.html"],
    ["jobs", "list"],
    ["jobs", "show", "j1"],
    ["jobs", "cancel", "j1"],
    ["reserve"],
    ["reserve", "b1", "--reason", "x"],
    ["health"],
    ["guide", "trend", "boot.time", "--board", "b1"],
    ["guide", "write", "--release", "11.01"],
    ["release", "list", str(ROOT / "releases")],
    ["status"],
    ["doctor"],
]

LIST = """
import sys
from lab.cli import main
assert main(["results", "list", "--db", sys.argv[1]]) == 0
heavy = {"alembic", "numpy", "scipy", "matplotlib", "labgrid", "lab.console", "lab.guide", "lab.boards"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


def test_the_newest_revision_is_that_of_the_migrations() -> None:
    assert ScriptDirectory.from_config(_config()).get_heads() == [NEWEST]


def test_a_list_of_runs_loads_no_migrations_and_nothing_else_that_it_does_not_need(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path / 'results.db'}").close()
    listed = subprocess.run(
        [sys.executable, "-c", LIST, str(tmp_path / "results.db")], capture_output=True, text=True, check=False
    )
    assert listed.returncode == 0, listed.stderr


@pytest.fixture
def older(database: str, tmp_path: Path) -> Iterator[str]:
    """Results as an older boardlab left them."""
    with open_store(database) as store:
        recorded_run.record(store, virtual=False, cycles=1)
    with newer_program(tmp_path / "versions"):
        yield database


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A file of such results."""
    path = tmp_path / "results.db"
    with open_store(str(path)) as store:
        recorded_run.record(store, virtual=False, cycles=1)
    with newer_program(tmp_path / "versions"):
        yield path


def state(database: str) -> tuple[str, set[str]]:
    with raw(database) as connection:
        (version,) = connection.execute(text("SELECT version_num FROM boardlab_schema")).one()
        return version, set(inspect(connection).get_table_names())


def runs(store: Store) -> int:
    return len(store.runs())


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: " ".join(words[:2]))
def test_no_command_but_those_that_measure_migrates_and_each_says_what_to_do(
    words: list[str], older: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "runtime"))
    before = state(older)
    code = main([*words, "--db", older])
    said = capsys.readouterr()
    shown = " ".join((said.out + said.err).split())
    assert OLDER in shown
    assert "lab results migrate" in shown
    assert code != 0 or words == ["status"], "the status of a lab has more than its results"
    assert state(older) == before
    assert list(tmp_path.glob(f"*.{OLDER}*")) == []


def test_the_site_and_the_exporter_migrate_nothing_and_say_what_to_do(older: str) -> None:
    before = state(older)
    for create in (False, True):
        with pytest.raises(BoardlabError, match="lab results migrate"), SharedStore().store_at(older, create=create):
            pass
    with pytest.raises(BoardlabError, match="lab results migrate"), watch(older).snapshot():
        pass
    assert state(older) == before


def test_lab_run_migrates_with_a_line_that_names_both_schemas(older: str) -> None:
    said = list[str]()
    with lease.open_results(older, 0.0, said.append) as store:
        assert runs(store) == 1
    (line,) = said
    assert OLDER in line
    assert NEWER in line
    assert state(older)[0] == NEWER
    with lease.open_results(older, 0.0, said.append):
        assert len(said) == 1, "once"


def test_the_command_migrates_sqlite_and_leaves_a_whole_copy_beside_it(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.chmod(0o640)
    before = state(f"sqlite:///{path}")
    assert main(["results", "migrate", "--db", str(path)]) == 0
    copy = tmp_path / f"results.db.{OLDER}"
    assert str(copy) in capsys.readouterr().out
    assert (state(f"sqlite:///{copy}"), copy.stat().st_mode & 0o777) == (before, 0o640)
    with contextlib.closing(sqlite3.connect(copy)) as kept:
        assert kept.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert kept.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    with open_store(str(path), create=False) as store:
        assert runs(store) == 1
    assert main(["results", "migrate", "--db", str(path)]) == 0
    assert NEWER in capsys.readouterr().out
    assert sorted(each.name for each in tmp_path.glob("results.db.*")) == [copy.name]


def test_a_copy_that_is_there_already_stays(path: Path, tmp_path: Path) -> None:
    earlier = tmp_path / f"results.db.{OLDER}"
    earlier.write_text("of another time")
    with open_store(str(path), migrate=lambda _line: None):
        pass
    assert earlier.read_text() == "of another time"
    assert (tmp_path / f"results.db.{OLDER}-2").exists()


def test_a_migration_that_fails_or_cannot_be_copied_changes_nothing_and_leaves_nothing(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(f"sqlite:///{path}")

    def fails(*_given: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(command, "upgrade", fails)
        with pytest.raises(BoardlabError):
            open_store(str(path), migrate=lambda _line: None)
    with monkeypatch.context() as patched:
        patched.setattr(schema.sqlite3, "connect", fails)  # type: ignore[attr-defined]
        with pytest.raises(LabStableError, match="cannot be copied"):
            schema._copy_beside(database.create(locate(str(path)), 1.0), path, OLDER)
    assert state(f"sqlite:///{path}") == before
    assert [each.name for each in tmp_path.glob("results.db.*") if OLDER in each.name] == []


@pytest.mark.parametrize("full", [False, True], ids=["killed", "full disk"])
def test_a_migration_that_ends_at_any_step_is_mended_by_the_next_one(
    path: Path, tmp_path: Path, *, full: bool
) -> None:
    status, step = -1, 0
    while status:
        step += 1
        (folder := tmp_path / str(step)).mkdir()
        own = Path(shutil.copy(path, folder))
        status = ends_at(step, lambda own=own: open_store(str(own), migrate=lambda _: None).close(), full=full)  # type: ignore[misc]
        assert status in {0, 1 if full else -signal.SIGKILL}
        with open_store(str(own), migrate=lambda _: None) as store:
            assert runs(store) == 1
        assert state(f"sqlite:///{own}")[0] == NEWER
        with contextlib.closing(sqlite3.connect(folder / f"results.db.{OLDER}")) as copy:
            assert copy.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    assert step > 3, "a copy is made, and it gets its name at the end"


def test_a_command_that_reads_makes_no_tables_in_an_empty_database(tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(NoResultsError, match="it has no tables"):
        open_store(str(empty), create=False)
    with raw(f"sqlite:///{empty}") as connection:
        assert inspect(connection).get_table_names() == []


def test_a_program_of_before_the_migration_names_the_copy_that_can_be_put_back(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with open_store(str(path)) as store:
        recorded_run.record(store, virtual=False, cycles=1)
    with newer_program(tmp_path / "versions"), open_store(str(path), migrate=lambda _: None) as store:
        store.begin_run("boot", "x", "later", "11.02", plan={}, provenance={})
    with pytest.raises(ConfigurationError, match=f"newer boardlab.*{OLDER}") as caught:
        open_store(str(path))
    command = str(caught.value).partition("stop the services, then ")[2]
    subprocess.run(["sh", "-c", command], check=True)
    with open_store(str(path), create=False) as store:
        assert [run.board for run in store.runs()] == ["SK-AM62-0042"]
    with newer_program(tmp_path / "again"), open_store(f"{path}.newer", create=False) as store:
        assert len(store.runs()) == 2


def test_an_upgrade_is_told_before_it_is_made(older: str, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    for name in (package_data.STRATEGIES, package_data.TESTS):
        shutil.copytree(package_data.folder(name), lab / name)
    (lab / "tests_perf" / "test_boot.py").write_text("# of an older boardlab\n")
    (lab / "tests_perf" / "test_low_power.py").unlink()
    before = state(older)
    found = {each.subject: each for each in examine(CheckTarget(older, folder=lab), UPGRADE) if each.area == "upgrade"}
    assert f"from schema {OLDER} to {NEWER}" in found["results"].said
    assert found["tests_perf/test_boot.py"].level == "doubtful"
    assert "test_low_power.py" in found["tests_perf"].said
    assert set(found) == {"results", "tests_perf/test_boot.py", "tests_perf"}
    assert state(older) == before


def test_without_anything_to_change_an_upgrade_is_well(database: str, tmp_path: Path) -> None:
    shutil.copytree(package_data.folder(package_data.STRATEGIES), tmp_path / package_data.STRATEGIES)
    open_store(database).close()
    assert [
        each.level for each in examine(CheckTarget(database, folder=tmp_path), UPGRADE) if each.area == "upgrade"
    ] == ["ok", "ok"]


def test_the_command_of_an_upgrade_says_what_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "runtime"))
    path = tmp_path / "results.db"
    open_store(str(path)).close()
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE boardlab_schema SET version_num = '9999'")
    assert main(["upgrade", "check", "--db", str(path), "--json"]) == 1
    assert not missing_facts(capsys.readouterr().out, r"9999 of a newer boardlab")
