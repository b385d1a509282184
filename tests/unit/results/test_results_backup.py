"""A backup while the lab measures, and its restore: nothing is lost, whatever ends between."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import resource
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve
from sqlalchemy.exc import OperationalError
from support.killed_steps import ends_at
from support.recorded_run import record

from exporters.farm.schedules import Backups
from lab.cli import main
from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError
from lab.farm.checks.results import last_backup
from lab.host.clock import utc_now
from lab.results import Store, backup, database, open_store, transfer
from lab.results.artifacts import ArtifactStore
from lab.results.audit import Audit
from lab.results.location import locate
from lab.results.snapshot import watch

FIRST = dt.datetime(2026, 11, 27, 2, tzinfo=dt.UTC)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store on SQLite with two runs, in a folder of its own."""
    monkeypatch.delenv("LAB_ARTIFACTS", raising=False)
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "runtime"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host").mkdir()
    (tmp_path / "backups").mkdir()
    with open_store(str(tmp_path / "host" / "results.db")) as store:
        for seed in (1, 2):
            record(store, cycles=1, seed=seed)
        yield store


def back_up(store: Store, folder: Path, day: int = 0, keep: int = 7, files: tuple[Path, ...] = ()) -> backup.Backup:
    return backup.back_up(store, folder, files, keep, FIRST + dt.timedelta(days=day))[0]


def digests(store: Store) -> dict[str, str]:
    with database.reader(store._engine).connect() as connection:
        return transfer.digests(connection)


def all_of(store: Store) -> dict[str, str]:
    """Digests of all tables, and of all artifacts by their own bytes."""
    names = store.artifacts.hashes()
    assert all(store.artifacts.local(name) is not None for name in names)
    return {**digests(store), "files": " ".join(names)}


def restored(folder: Path, to: Path) -> dict[str, str]:
    to.mkdir(exist_ok=True)
    backup.restore(backup.find_backup(folder), locate(str(to / "results.db")))
    with open_store(str(to / "results.db"), create=False) as store:
        return all_of(store)


def test_what_is_restored_is_the_same_by_digest(lab: Store, tmp_path: Path) -> None:
    before = all_of(lab)
    back_up(lab, tmp_path / "backups")
    lab.close()
    shutil.rmtree(tmp_path / "host")
    assert restored(tmp_path / "backups", tmp_path / "host") == before


def test_a_run_that_goes_on_meanwhile_is_in_the_backup_up_to_an_attempt(lab: Store, tmp_path: Path) -> None:
    stop, day = threading.Event(), 0

    def measure() -> int:
        seed = 10
        with open_store(str(lab.location.path)) as own:
            while not stop.is_set():
                record(own, cycles=1, seed=seed, finish=False)
                seed += 1
        return seed

    folder = tmp_path / "backups"
    with ThreadPoolExecutor(1) as pool:
        measuring = pool.submit(measure)
        try:
            first = back_up(lab, folder)
            while back_up(lab, folder, day := day + 1).runs <= first.runs + 1:
                assert not measuring.done()
        finally:
            stop.set()
        assert measuring.result() > 10
    for made in backup.backups(folder):
        assert not made.missing
        assert not backup.verify(made).missing
        with closing(sqlite3.connect(made.path / "results.db")) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert copy.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_second_backup_writes_only_new_artifacts_and_the_oldest_goes_with_its_own(
    lab: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    old = lab.artifacts.put(b"of a run that was deleted since", kind="console-log").sha256
    with lab._engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO artifacts (sha256, size) VALUES (?, 31)", (old,))
    back_up(lab, folder)
    with lab._engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM artifacts WHERE sha256 = ?", (old,))
    record(lab, cycles=1, seed=3)
    made, copied = backup.back_up(lab, folder, (), 2, FIRST + dt.timedelta(days=1))
    assert (copied.count, made.runs) == (
        len(lab.artifacts.hashes()) - backup.find_backup(folder / "20261127T020000Z").artifacts,
        3,
    )
    assert old in ArtifactStore(folder / "artifacts").hashes()
    back_up(lab, folder, day=2, keep=2)
    assert [each.path.name for each in backup.backups(folder)] == ["20261129T020000Z", "20261128T020000Z"]
    assert old not in ArtifactStore(folder / "artifacts").hashes()
    assert not any(backup.verify(each).missing for each in backup.backups(folder))


def test_a_kill_at_any_step_of_a_backup_leaves_the_earlier_one_and_the_next_is_whole(
    lab: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    back_up(lab, folder)
    record(lab, cycles=1, seed=3)
    before, path = all_of(lab), str(lab.location.path)
    lab.close()

    def work(step: int) -> None:
        with open_store(path) as store:
            back_up(store, folder, step, keep=1)

    steps = _every_step(work, lambda: backup.verify(backup.find_backup(folder)))
    assert steps > 10
    assert len(list(folder.iterdir())) == 2  # one backup, and the artifacts
    assert restored(folder, tmp_path / "new") == before


def test_a_kill_at_any_step_of_a_restore_is_mended_by_the_next_one(lab: Store, tmp_path: Path) -> None:
    before = all_of(lab)
    back_up(lab, tmp_path / "backups")
    made, target = backup.find_backup(tmp_path / "backups"), tmp_path / "new" / "results.db"
    target.parent.mkdir()
    steps = _every_step(lambda _step: backup.restore(made, locate(str(target))), lambda: None)
    assert steps > 10
    with open_store(str(target), create=False) as store:
        assert all_of(store) == before


def _every_step(work: Callable[[int], object], between: Callable[[], object]) -> int:
    """Kill the work at its first step, its second ..., until it ends by itself."""
    step = 1
    while (status := ends_at(step, partial(work, step))) == -signal.SIGKILL:
        between()
        step += 1
    assert status == 0
    return step


@pytest.mark.parametrize("step", [1, 2, 3, 5, 8, 13, 15, 17])
def test_a_disk_that_fills_at_any_step_of_a_backup_costs_only_that_backup(
    lab: Store, tmp_path: Path, step: int
) -> None:
    folder = tmp_path / "backups"
    back_up(lab, folder)
    record(lab, cycles=1, seed=3)
    path = str(lab.location.path)

    def work() -> None:
        with open_store(path) as store:
            back_up(store, folder, 1)

    assert ends_at(step, work, full=True) == 1
    assert [each.path.name for each in backup.backups(folder)] == ["20261127T020000Z"]
    work()
    assert backup.verify(backup.find_backup(folder)).missing == []


def test_a_backup_that_cannot_keep_an_artifact_speaks_of_the_backup_not_of_a_run(lab: Store, tmp_path: Path) -> None:
    (folder := tmp_path / "backups" / backup.ARTIFACTS).write_text("a file in its place")
    with pytest.raises(LabStableError, match=r"earlier backups.*intact") as caught:
        back_up(lab, folder.parent)
    assert "resume" not in str(caught.value)


@pytest.mark.parametrize("way", ["backup", "restore"])
def test_a_database_that_does_not_fit_is_told_with_the_folder(lab: Store, tmp_path: Path, way: str) -> None:
    folder, target = tmp_path / "backups", tmp_path / "new"
    target.mkdir()
    if way == "restore":
        back_up(lab, folder)
        made = backup.find_backup(folder)
    work = (
        partial(back_up, lab, folder)
        if way == "backup"
        else lambda: backup.restore(made, locate(str(target / "results.db")))
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))  # a disk with so much room for a file
    try:
        with pytest.raises(LabStableError, match=str(folder if way == "backup" else "cannot restore")) as caught:
            work()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "damaged" not in str(caught.value)
    assert [path.name for path in folder.glob("2*")] == ([] if way == "backup" else ["20261127T020000Z"])
    assert not (target / "results.db").exists()


def test_a_damaged_artifact_is_named_and_all_else_restored(lab: Store, tmp_path: Path) -> None:
    made = back_up(lab, tmp_path / "backups")
    name = lab.artifacts.hashes()[0]
    path = ArtifactStore(tmp_path / "backups" / "artifacts").path(name)
    path.chmod(0o600)
    path.write_bytes(b"bad blocks")
    assert backup.verify(made).missing == [name]
    (tmp_path / "new").mkdir()
    copied = backup.restore(made, locate(str(tmp_path / "new" / "results.db")))
    assert (copied.missing, copied.count) == ([name], made.artifacts - 1)


def test_a_file_of_a_backup_stays_below_the_folder_that_is_asked_for(lab: Store, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    made = back_up(lab, tmp_path / "backups", files=(tmp_path / "one",))
    outside = evolve(made, files=[evolve(made.files[0], path="/../../evil")])
    assert backup.write_files(outside, tmp_path / "a" / "b") == [tmp_path / "a" / "b" / "evil"]
    assert not (tmp_path / "evil").exists()


def test_an_artifact_that_is_damaged_here_does_not_spread(
    lab: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = lab.artifacts.hashes()[0]
    lab.artifacts.path(name).chmod(0o600)
    lab.artifacts.path(name).write_bytes(b"bad blocks")
    assert back_up(lab, tmp_path / "backups").missing == [name]
    assert name not in ArtifactStore(tmp_path / "backups" / "artifacts").hashes()
    assert main(["backup", str(tmp_path / "backups"), "--db", str(lab.location.path)]) != 0
    assert name in capsys.readouterr().err


def test_a_damaged_database_is_not_restored(lab: Store, tmp_path: Path) -> None:
    made = back_up(lab, tmp_path / "backups")
    with (made.path / "results.db").open("r+b") as file:
        file.seek(5000)
        file.write(b"\xff")
    (tmp_path / "new").mkdir()
    with pytest.raises(LabStableError, match="is damaged"):
        backup.restore(made, locate(str(tmp_path / "new" / "results.db")))
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("name", ["results.db", "results.db-wal"])
def test_a_restore_replaces_nothing(lab: Store, tmp_path: Path, name: str) -> None:
    made = back_up(lab, tmp_path / "backups")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / name).write_bytes(b"another")
    with pytest.raises(ConfigurationError, match=f"results already.*{name}"):
        backup.restore(made, locate(str(tmp_path / "new" / "results.db")))
    assert (tmp_path / "new" / name).read_bytes() == b"another"


def test_two_backups_at_once_do_not_mix(lab: Store, tmp_path: Path) -> None:
    with backup._flock(tmp_path / "backups", fcntl.LOCK_EX), pytest.raises(LabTransientError, match="try again"):
        back_up(lab, tmp_path / "backups")


def test_the_backup_of_a_newer_boardlab_is_refused_by_name(lab: Store, tmp_path: Path) -> None:
    made = back_up(lab, tmp_path / "backups")
    manifest = made.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace(made.schema, "9999_later").replace(made.boardlab, "9.1"))
    with pytest.raises(ConfigurationError, match=r"boardlab 9\.1"):
        backup.restore(backup.find_backup(tmp_path / "backups"), locate(str(tmp_path / "new.db")))


# --- The commands ---


def test_a_backup_on_the_command_line_is_in_the_audit_with_its_files_and_comes_back(
    lab: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "am62x.yaml").write_text("targets: {}\n")
    (tmp_path / "config" / "boardlab").mkdir(parents=True)
    users = tmp_path / "config" / "boardlab" / "web-users.json"
    users.write_text('{"users": {}}')
    users.chmod(0o600)
    recordings = tmp_path / "runtime" / "recordings" / "older" / "ttyUSB0"
    recordings.mkdir(parents=True)
    (recordings / "2026.log").write_bytes(b"U-Boot")
    db = str(lab.location.path)
    assert main(["backup", "backups", "--db", db, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert {Path(each["path"]).name for each in made["files"]} == {"am62x.yaml", "web-users.json", "2026.log"}
    (entry,) = Audit(lab).entries(action="backup")
    assert (entry.outcome, entry.about) == ("done", "backups")
    counts = f"{made['artifacts']} artifacts and 3 files"
    assert main(["restore", "backups", "--dry-run"]) == 0
    assert counts in capsys.readouterr().out
    assert main(["restore", "backups", "--files", "new"]) == 0
    there = tmp_path / "new" / str(users).lstrip("/")
    assert (there.read_text(), there.stat().st_mode & 0o777) == ('{"users": {}}', 0o600)
    there.write_text("another")
    assert main(["restore", "backups", "--files", "new"]) == 2
    assert there.read_text() == "another"
    assert main(["restore", "backups", "--db", "new.db"]) == 0
    assert "2 runs are in" in capsys.readouterr().out


def test_a_backup_that_fails_is_in_the_audit_too(lab: Store, tmp_path: Path) -> None:
    assert main(["backup", "nowhere", "--db", str(lab.location.path)]) == 2
    (entry,) = Audit(lab).entries(action="backup")
    assert "no such folder" in entry.outcome


def test_without_a_folder_the_command_says_which_it_needs(lab: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup"]) == 2
    assert "backup: {to: DIR}" in capsys.readouterr().err
    with pytest.raises(BoardlabError, match="no complete backup"):
        backup.find_backup(Path("backups"))


# --- An old backup ---


def test_the_exporter_and_the_doctor_know_the_last_complete_backup(lab: Store, tmp_path: Path) -> None:
    db, collector = str(lab.location.path), Backups(watch(str(lab.location.path)))

    def told() -> tuple[list[float], str]:
        _, last = collector.read()
        (finding,) = last_backup(db)
        return [sample.value for sample in last.samples], finding.level

    assert told() == ([], "bad")
    before = FIRST - dt.timedelta(days=9)
    Audit(lab, lambda: before).note(backup.ACTION, person="boardlab")
    Audit(lab).note(backup.ACTION, person="boardlab", outcome="cannot back up")
    assert told() == ([before.timestamp()], "bad")
    made = utc_now()
    Audit(lab, lambda: made).note(backup.ACTION, person="boardlab")
    assert told() == ([made.timestamp()], "ok")


def test_a_backup_of_a_server_onto_a_full_disk_says_nothing_of_runs(
    lab: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_ends: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise OperationalError("INSERT", {}, error)

    monkeypatch.setattr(transfer, "copy", full)
    with (
        lab._engine.connect() as server,
        pytest.raises(LabStableError, match=r"disk is full.*intact") as refused,
    ):
        backup._copy_rows_to_file(server, tmp_path / "copy.db")
    assert "resume" not in str(refused.value)
