"""Old runs go, except those that a verdict, a review, a written guide or a hold needs."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve
from sqlalchemy import update
from sqlalchemy.orm import Session
from support.facts import missing_facts
from support.jobbook import ORDER
from support.killed_steps import ends_at
from support.recorded_run import record

from lab.cli import main
from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError
from lab.jobs.queue import JobQueue
from lab.judge.records import NewVerdict
from lab.judge.store import review, write_verdicts
from lab.results import Store, backup, open_store, packs, removal, retention
from lab.results.artifacts import ArtifactStore
from lab.results.audit import Audit
from lab.results.backup import back_up, in_use, restore, verify
from lab.results.location import locate
from lab.results.models import AttemptArtifactRow, JobRow, RunRow
from lab.results.records import Retention
from lab.results.retention import StoreSizes, prune

NOW = dt.datetime.now(dt.UTC)
YEAR = Retention(runs=365)
ALL = Retention(recordings=30, traces=30, logs=30, runs=365)
OTHER = "b9"  # a board that is measured all year


@pytest.fixture
def store(store: Store) -> Store:
    measured_all_year(store)
    return store


def measured_all_year(store: Store) -> None:
    """A lab without a pause: another board has runs without attempts."""
    times = [NOW - dt.timedelta(days=days) for days in range(360, 0, -20)]
    store.write(
        lambda session: session.add_all(
            RunRow(
                kind="boot",
                board_type="am62xx_sk-fs",
                board=OTHER,
                release="11.01",
                status="completed",
                plan={},
                provenance={},
                started_at=at,
                finished_at=at,
            )
            for at in times
        )
    )


def add(store: Store, *, days: int, release: str = "11.01", board: str = "b1") -> int:
    """A run that ended so many days ago, with artifacts as old."""
    run = record(store, cycles=1, seed=days, release=release, board=board).id
    with Session(store._engine) as session, session.begin():
        row = session.get_one(RunRow, run)
        row.started_at = row.finished_at = NOW - dt.timedelta(days=days)
    for name in store.artifacts.hashes():
        os.utime(store.artifacts.path(name), times=(0, 0))
    return run


def runs(store: Store) -> list[int]:
    return sorted(run.id for run in store.runs() if run.board != OTHER)


def linked(store: Store) -> set[str]:
    return store.read(lambda session: {row.sha256 for row in session.query(AttemptArtifactRow)})


def verdict(store: Store, run: int, outcome: str = "regression", since: int | None = None) -> None:
    write_verdicts(store, run, [NewVerdict("boot.time", 1, {"medium": "sd"}, outcome, 1, since, 9, 0.1, 0.05, 0.2)])  # type: ignore[arg-type]


def test_old_runs_go_with_all_that_is_theirs_and_the_audit_says_so(store: Store) -> None:
    old, new = add(store, days=400), add(store, days=3)
    verdict(store, old, "none")
    wanted = prune(store, YEAR, dry_run=True)
    assert runs(store) == [old, new]
    removed = prune(store, YEAR, person="boardlab")
    assert (removed.runs, removed.samples) == (wanted.runs, wanted.samples) == (1, 27)
    assert runs(store) == [new]
    assert set(store.artifacts.hashes()) == linked(store)
    assert store.contents(new).attempts
    (entry,) = Audit(store).entries(action="prune")
    assert entry.person == "boardlab"
    assert not missing_facts(entry.about, "1 runs", "no files")
    assert prune(store, YEAR).runs == 0


def test_a_transaction_that_is_repeated_counts_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    add(store, days=400)
    new, last, plain = add(store, days=3), add(store, days=2), Store.write

    def collide(store: Store, work: Callable[[Session], object]) -> object:
        with Session(store._engine) as session:
            work(session)
            session.rollback()
        return plain(store, work)

    monkeypatch.setattr(Store, "write", collide)
    removed = prune(store, YEAR)
    assert (removed.runs, removed.samples) == (1, 27)
    removed = retention.delete_run(store, new, "ada", "wrong card")
    assert (removed.runs, removed.samples, runs(store)) == (1, 27, [last])


def test_old_jobs_go_with_their_runs_and_the_newest_stays(store: Store) -> None:
    book = JobQueue(store, "host/boot/1", lambda _holder: False)
    without, whose_run_stays, waiting, newest = (started_and_ended(book, ended=each) for each in (1, 1, 0, 1))
    add(store, days=3)
    with Session(store._engine) as session, session.begin():
        session.execute(update(RunRow).values(job_id=whose_run_stays))
    wanted, removed = prune(store, YEAR, dry_run=True), prune(store, YEAR)
    with pytest.raises(ConfigurationError, match=f"no job j{without}"):
        book.job(without)
    assert removed.jobs == wanted.jobs == 1
    assert [book.job(number).id for number in (whose_run_stays, waiting, newest)] == [2, 3, 4]


def started_and_ended(book: JobQueue, *, ended: int) -> int:
    """A job of 400 days ago, that waits where it did not end."""
    job = book.enqueue(ORDER)
    if ended:
        book.finish(job.id, "completed")
        with Session(book.store._engine) as session, session.begin():
            session.get_one(JobRow, job.id).finished_at = NOW - dt.timedelta(days=400)
    return job.id


@pytest.mark.parametrize("days", [800, 20_000])
def test_a_clock_that_is_years_ahead_removes_no_more_than_a_right_one(
    store: Store, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """Nor where that clock has already stamped runs, as those of its first night."""
    old, before, last = add(store, days=400), add(store, days=365 - 30), add(store, days=3)
    ahead = NOW + dt.timedelta(days=days)
    monkeypatch.setattr(retention, "now_of", lambda _session: ahead)
    monkeypatch.setattr(Store, "now", lambda _store: ahead)
    for night in (0, -1, -2):
        assert prune(store, YEAR).runs == (night == 0)
        assert runs(store)[:2] == [before, last]
        add(store, days=night - days + 1)
    assert store.contents(before).attempts
    assert old not in runs(store)


@pytest.mark.parametrize("why", ["verdict", "since", "compared", "review", "guide", "hold", "running", "newest"])
def test_a_run_that_something_needs_stays_whatever_its_age(store: Store, why: str) -> None:
    compared, old = add(store, days=401), add(store, days=400, release="10.01" if why == "hold" else "11.01")
    last = add(store, days=399)
    wanted, kept = ALL, {old, last}
    match why:
        case "verdict":
            verdict(store, old)
        case "since" | "compared":
            verdict(store, last, since=old)
            kept |= {compared}  # the run that the change is from
        case "review":
            review(store, old, "accepted", "ada", "good")
        case "guide":
            retention.refer(store, [old, 99], "11.01", "ada")
        case "hold":
            wanted = Retention(30, 30, 30, 365, ["10.01"])
        case "running":
            with Session(store._engine) as session, session.begin():
                row = session.get_one(RunRow, old)
                row.status, row.finished_at = "running", None
        case "newest":
            kept = {last}
    before = {run: store.contents(run) for run in kept}
    prune(store, wanted)
    assert set(runs(store)) == kept
    for run in kept - {last}:
        assert store.contents(run) == before[run]
        assert all(store.artifacts.local(ref.sha256) for each in store.attempts(run) for ref in each.artifacts)


def test_old_recordings_go_and_the_numbers_stay(store: Store) -> None:
    old, new = add(store, days=40), add(store, days=3)
    before = store.measurements(old)
    wanted = prune(store, Retention(recordings=30), dry_run=True)
    removed = prune(store, Retention(recordings=30))
    assert removed.files == wanted.files == {"recordings": 3}
    assert removed.bytes == wanted.bytes > 0
    assert store.measurements(old) == before
    assert [each.artifacts for each in store.attempts(old)] == [()] * 3
    assert all(each.artifacts for each in store.attempts(new))
    assert set(store.artifacts.hashes()) == linked(store)


def test_a_file_that_two_runs_share_stays_for_the_other(store: Store) -> None:
    old, new = add(store, days=40), add(store, days=3)
    shared = store.attempts(new)[0].artifacts[0]
    link = AttemptArtifactRow(attempt_id=store.attempts(old)[0].id, kind="console-index", sha256=shared.sha256)
    store.write(lambda session: session.add(link))
    prune(store, Retention(recordings=30))
    assert store.artifacts.local(shared.sha256) is not None


def test_a_file_that_was_found_again_just_now_stays_until_its_attempt_is_committed(store: Store) -> None:
    old = add(store, days=40)
    add(store, days=3)
    ref = store.attempts(old)[0].artifacts[0]
    data = store.artifacts.read(ref.sha256)
    store.artifacts.put(data, kind="console-log")  # by a job that measures, and has not committed yet
    prune(store, Retention(recordings=30))
    assert store.artifacts.local(ref.sha256) == data
    os.utime(store.artifacts.path(ref.sha256), times=(0, 0))
    prune(store, Retention(recordings=30))
    assert store.artifacts.local(ref.sha256) is None


@pytest.mark.parametrize("full", [False, True])
def test_a_kill_or_a_full_disk_at_any_step_is_mended_by_the_next_prune(tmp_path: Path, *, full: bool) -> None:
    path = tmp_path / "results.db"
    with open_store(str(path)) as store:
        measured_all_year(store)
        add(store, days=400)
        add(store, days=40)
        add(store, days=20)
        new = add(store, days=3)
        whole = store.contents(new)

    def work() -> None:
        with open_store(str(path)) as own:
            prune(own, evolve(ALL, packed=10))

    step = 1
    while (status := ends_at(step, partial(work), full=full)) in ({1} if full else {-signal.SIGKILL}):
        with open_store(str(path)) as store:
            assert all(store.artifacts.read(name) for name in linked(store))
        step += 1
    assert (status, step > 3) == (0, True)
    work()
    with open_store(str(path)) as store:
        (pack,) = set(store.artifacts.hashes()) - linked(store)
        assert {store.artifacts.pack_of(name) for name in linked(store)} == {None, pack}
        assert set(store.artifacts.hashes()) == {store.artifacts.pack_of(name) or name for name in linked(store)}
        assert store.contents(new) == whole
        assert not list((store.artifacts.root / ".to-remove").iterdir())


# --- Packs ---


PACKED = Retention(packed=30)


def texts(store: Store) -> dict[str, bytes]:
    return {name: store.artifacts.read(name) for name in linked(store)}


def pack_of(store: Store, run: int) -> str:
    """The one pack of a run, which is on the disk without its files."""
    names = {ref.sha256 for each in store.attempts(run) for ref in each.artifacts}
    (pack,) = {store.artifacts.pack_of(name) for name in names}
    assert pack is not None
    assert names.isdisjoint(store.artifacts.hashes())
    return pack


def test_the_files_of_an_old_run_become_one_and_are_read_as_before(store: Store) -> None:
    old, new = add(store, days=40), add(store, days=3)
    verdict(store, old)
    before, contents = texts(store), store.contents(old)
    stored = store.read(lambda session: retention.sizes(session, store.location)).parts["artifacts"]
    wanted = prune(store, PACKED, dry_run=True)
    assert set(store.artifacts.hashes()) == linked(store)
    assert prune(store, PACKED).packed == wanted.packed == 3
    assert (texts(store), store.contents(old)) == (before, contents)
    assert set(store.artifacts.hashes()) == {
        pack_of(store, old),
        *(ref.sha256 for each in store.attempts(new) for ref in each.artifacts),
    }
    sizes = store.read(lambda session: retention.sizes(session, store.location))
    files = [path.stat().st_size for path in store.artifacts.root.rglob("*") if path.is_file()]
    assert sizes.parts["artifacts"] == sum(files) < stored
    assert prune(store, PACKED).packed == 0


def test_a_pack_goes_with_the_last_file_in_it(store: Store) -> None:
    old, other, _ = add(store, days=40), add(store, days=20), add(store, days=3)
    shared = store.attempts(old)[0].artifacts[0].sha256
    link = AttemptArtifactRow(attempt_id=store.attempts(other)[0].id, kind="console-index", sha256=shared)
    store.write(lambda session: session.add(link))
    prune(store, PACKED)
    os.utime(store.artifacts.path(pack_of(store, old)), times=(0, 0))
    retention.delete_run(store, old, "ada", "wrong card")
    assert b"login" in store.artifacts.read(shared)
    retention.delete_run(store, other, "ada", "wrong card")
    assert set(store.artifacts.hashes()) == linked(store)


def test_old_recordings_go_out_of_their_packs(store: Store) -> None:
    old = add(store, days=40)
    add(store, days=3)
    prune(store, PACKED)
    os.utime(store.artifacts.path(pack_of(store, old)), times=(0, 0))
    wanted = prune(store, Retention(recordings=30), dry_run=True)
    removed = prune(store, Retention(recordings=30))
    assert removed.files == wanted.files == {"recordings": 3}
    assert removed.bytes == wanted.bytes > 0
    assert set(store.artifacts.hashes()) == linked(store)


def test_a_damaged_file_stays_out_of_the_pack_and_a_damaged_pack_is_told(store: Store) -> None:
    old = add(store, days=40)
    add(store, days=3)
    bad, *good = sorted({ref.sha256 for each in store.attempts(old) for ref in each.artifacts})
    path = store.artifacts.path(bad)
    path.chmod(0o600)
    path.write_bytes(b"bad blocks")
    assert prune(store, PACKED).packed == 2
    assert path.read_bytes() == b"bad blocks"
    pack = store.artifacts.path(str(store.artifacts.pack_of(good[0])))
    pack.chmod(0o600)
    pack.write_bytes(pack.read_bytes()[:100])
    with pytest.raises(LabStableError, match=f"{good[0]} .*pack {pack}"):
        store.artifacts.read(good[0])


def test_a_packed_log_is_shown_with_its_place(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    old = add(store, days=40)
    add(store, days=3)
    prune(store, PACKED)
    url = str(store.location.url.render_as_string(hide_password=False))
    assert main(["results", "show", str(old), "--log", "--db", url]) == 0
    shown = capsys.readouterr().out
    assert "Starting kernel" in shown
    assert f"{store.artifacts.path(pack_of(store, old))} (zip): " in shown


def test_a_backup_has_the_packs_and_its_restore_all_files(store: Store, tmp_path: Path) -> None:
    old = add(store, days=40)
    add(store, days=3)
    before = texts(store)
    (tmp_path / "backups").mkdir()
    back_up(store, tmp_path / "backups", (), at=NOW)
    prune(store, PACKED)
    pack = pack_of(store, old)
    made, copied = back_up(store, tmp_path / "backups", (), keep=1, at=NOW + dt.timedelta(days=1))
    assert copied.count == 1
    assert set(ArtifactStore(tmp_path / "backups" / "artifacts").hashes()) == set(store.artifacts.hashes())
    assert (verify(made).count, verify(made).missing) == (len(store.artifacts.hashes()), [])
    target = locate(str(tmp_path / "new.db"))
    restore(made, evolve(target, artifacts=tmp_path / "new"))
    again = ArtifactStore(tmp_path / "new", pack_of=store.artifacts.pack_of)
    assert {name: again.read(name) for name in before} == before
    assert pack in again.hashes()


def test_what_is_packed_while_a_backup_copies_is_in_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = add(store, days=40)
    add(store, days=3)
    (tmp_path / "backups").mkdir()
    copy = backup._copy_database

    def and_pack(store: Store, path: Path) -> str:
        digest = copy(store, path)
        assert packs.pack_run(store, old) == 3  # as an upload on another host does
        removal.remove_noted_files(store)
        pack_of(store, old)
        return digest

    monkeypatch.setattr(backup, "_copy_database", and_pack)
    made, _ = back_up(store, tmp_path / "backups", ())
    assert (list(made.missing), verify(made).missing) == ([], [])


def test_a_prune_waits_for_no_backup_and_a_backup_for_no_prune(store: Store) -> None:
    with in_use(store.artifacts), pytest.raises(LabTransientError, match="try again"):
        prune(store, YEAR)


# --- The commands ---


def test_a_run_is_deleted_by_hand_with_an_entry_in_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    db = str(tmp_path / "results.db")
    with open_store(db) as store:
        wrong, told, last = (add(store, days=days) for days in (3, 2, 1))
        verdict(store, told)
        assert main(["results", "delete", str(wrong), "--reason", "wrong card", "--db", db]) == 0
        assert runs(store) == [told, last]
        (entry,) = Audit(store).entries(action="delete")
        assert (entry.about, entry.board) == ("run 1: wrong card", "b1")
        capsys.readouterr()
        for run, why in ((told, "a verdict is on it"), (last, "it is the newest"), (99, "no run 99")):
            assert main(["results", "delete", str(run), "--reason", "x", "--db", db]) == 2
            assert why in capsys.readouterr().err
        assert runs(store) == [told, last]


def test_farm_yaml_says_what_a_prune_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    db = str(tmp_path / "results.db")
    with open_store(db) as store:
        measured_all_year(store)
        add(store, days=400)
        last = add(store, days=3)
        assert main(["results", "prune", "--db", db]) == 2
        assert "retention" in capsys.readouterr().err
        Path("farm.yaml").write_text("backup: {to: /mnt/backup}\nretention: {runs: 365}\n")
        assert main(["results", "prune", "--dry-run", "--json", "--db", db]) == 0
        assert json.loads(capsys.readouterr().out)["runs"] == 1
        assert main(["results", "prune", "--db", db]) == 0
        assert runs(store) == [last]
    Path("farm.yaml").write_text("retention: {runs: 365}\n")
    assert main(["results", "prune", "--db", db]) == 2
    assert "`backup` names no folder" in capsys.readouterr().err


def test_a_program_that_waits_for_the_lock_gets_it_between_two_transactions_of_a_prune(store: Store) -> None:
    for days in (402, 401, 400, 3):
        add(store, days=days)
    pauses: list[float] = []
    assert prune(store, YEAR, pause=pauses.append).runs == 3
    assert pauses
    assert min(pauses) > 0.1, "a waiting SQLite sleeps for 100 ms"


def test_a_written_guide_keeps_the_runs_of_its_numbers(store: Store, tmp_path: Path) -> None:
    with pytest.raises((ConfigurationError, BoardlabError)):
        retention.delete_run(store, 99, "ada", "there is none")
    used: Collection[int] = range(1, 251)
    retention.refer(store, used, "11.01", "ada")
    assert store.read(retention._runs_in_guides) == set(used)


# --- Sizes ---


def test_the_sizes_are_those_of_the_database_and_of_the_artifacts_and_the_week_has_its_own(store: Store) -> None:
    add(store, days=30)
    old = {path for path in store.artifacts.root.rglob("*") if path.is_file()}
    add(store, days=3)
    files = {path: path.stat().st_size for path in store.artifacts.root.rglob("*") if path.is_file()}
    found = store.read(lambda session: retention.sizes(session, store.location))
    assert found.parts["artifacts"] == sum(files.values())
    assert found.parts["database"] > 10_000
    assert found.week["artifacts"] == sum(size for path, size in files.items() if path not in old) > 0
    assert found.week["database"] == round(found.parts["database"] / 2)
    assert "artifacts" in found.free


def test_the_room_is_for_so_many_days_as_the_disk_that_fills_first_has() -> None:
    parts = {"database": 3 * 10**9, "artifacts": 40 * 10**9}
    week = {"database": 7 * 10**8, "artifacts": 7 * 10**9}
    apart = StoreSizes(parts, week, {"database": 10**9, "artifacts": 200 * 10**9})
    assert apart.days_left == 10
    assert not missing_facts(apart.line, "3.0 GB", "40.0 GB", "7.7 GB", "week", "10 days")
    assert StoreSizes(parts, week, {"database": 11 * 10**9, "artifacts": 11 * 10**9}).days_left == 10, "one disk"
    idle = StoreSizes(parts, {"database": 0, "artifacts": 0}, {"artifacts": 10**9})
    assert not missing_facts(idle.line, "3.0 GB", "40.0 GB", "0.0 GB", "week")
