"""Artifacts that hosts share: here a folder, by the interface that an S3-compatible store has, too (tests/system)."""

from __future__ import annotations

import datetime as dt
import fcntl
import hashlib
import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from attrs import frozen
from sqlalchemy.orm import Session
from support.killed_steps import ends_at
from support.recorded_run import record

from lab.cli import main
from lab.errors import ConfigurationError, LabStableError
from lab.farm import runner
from lab.farm.checks import results as result_checks
from lab.redaction import redact
from lab.results import artifacts, location, open_store, packs, retention
from lab.results.artifacts import ArtifactStore
from lab.results.backup import in_use
from lab.results.location import ARTIFACTS_VARIABLE, DATABASE_VARIABLE, SHARED_VARIABLE, locate
from lab.results.models import RunRow
from lab.results.records import Retention

LOG = b"Starting kernel ...\r\n" * 40


class Farm:
    """Two hosts that share a folder."""

    def __init__(self, folder: Path) -> None:
        self.there = folder / "there"
        self.there.mkdir()
        self.one, self.two = (ArtifactStore(folder / name, f"file://{self.there}") for name in ("one", "two"))

    def files(self) -> list[Path]:
        return [path for path in self.there.rglob("*") if path.is_file()]


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    return Farm(tmp_path)


def test_keeping_an_artifact_asks_nobody_and_bringing_it_lets_others_read_it(farm: Farm) -> None:
    ref = farm.one.put(LOG, kind="console-log")
    assert (farm.files(), farm.one.list_marked()) == ([], [ref.sha256])
    with pytest.raises(LabStableError, match=r"not.*uploaded it yet"):
        farm.two.read(ref.sha256)
    assert artifacts.upload(farm.one) == artifacts.UploadResult(1, len(LOG))
    assert farm.one.local(ref.sha256) == LOG, "it stays here, too"
    assert farm.one.list_marked() == []
    assert farm.two.read(ref.sha256) == LOG
    assert farm.two.path(ref.sha256).read_bytes() == LOG, "it is kept where it was read"
    assert farm.two.list_marked() == []


def test_what_cannot_be_brought_stays_and_is_brought_later(farm: Farm) -> None:
    refs = [farm.one.put(data, kind="k") for data in (b"1", b"2")]
    farm.there.rmdir()
    farm.there.write_bytes(b"no folder")
    location.at.cache_clear()
    with pytest.raises((LabStableError, ConfigurationError)):
        artifacts.upload(farm.one)
    assert farm.one.list_marked() == sorted(ref.sha256 for ref in refs)
    assert [farm.one.read(ref.sha256) for ref in refs] == [b"1", b"2"]
    farm.there.unlink()
    farm.there.mkdir()
    assert artifacts.upload(farm.one).count == 2


def test_a_damaged_artifact_is_neither_brought_nor_believed(farm: Farm) -> None:
    good, bad = farm.one.put(LOG, kind="k"), farm.one.put(b"2", kind="k")
    path = farm.one.path(bad.sha256)
    path.chmod(0o644)
    path.write_bytes(b"3")
    said: list[str] = []
    assert artifacts.upload(farm.one, say=said.append).count == 1
    assert "is damaged" in said[0]
    assert farm.one.list_marked() == [bad.sha256]
    (there,) = farm.files()
    there.chmod(0o644)
    there.write_bytes(b"other")
    with pytest.raises(LabStableError, match="is damaged"):
        farm.two.read(good.sha256)
    assert not farm.two.path(good.sha256).exists()


def test_what_was_kept_before_it_was_shared_is_brought_when_all_is_asked_for(farm: Farm) -> None:
    before = ArtifactStore(farm.one.root).put(LOG, kind="k")
    after = farm.one.put(b"2", kind="k")
    assert artifacts.upload(farm.one).count == 1
    assert artifacts.upload(farm.one, everything=True).count == 1
    assert artifacts.upload(farm.one, everything=True).count == 0
    assert {farm.two.read(ref.sha256) for ref in (before, after)} == {LOG, b"2"}


def test_what_cannot_be_marked_is_kept_all_the_same(farm: Farm, caplog: pytest.LogCaptureFixture) -> None:
    farm.one.root.mkdir()
    farm.one.marks.touch()
    ref = farm.one.put(LOG, kind="k")
    assert farm.one.read(ref.sha256) == LOG
    assert "lab results upload --all" in caplog.text
    with pytest.raises(LabStableError, match=r"user whose folder"):
        artifacts.upload(farm.one)
    farm.one.marks.unlink()
    assert artifacts.upload(farm.one, everything=True).count == 1


def test_one_process_of_a_host_brings_them(farm: Farm) -> None:
    farm.one.put(LOG, kind="k")
    with (farm.one.marks / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert artifacts.upload(farm.one).busy
    assert artifacts.upload(farm.one).count == 1


@pytest.mark.parametrize("url", ["s3://key:s3cret@bucket/x", "https://bucket", "/srv/artifacts", "file://host"])
def test_an_address_has_no_password_and_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str) -> None:
    monkeypatch.setenv(SHARED_VARIABLE, url)
    with pytest.raises(ConfigurationError, match="expected s3://BUCKET") as caught:
        locate(str(tmp_path / "results.db"))
    assert "s3cret" not in str(caught.value)
    assert redact(url) in str(caught.value)


def test_after_a_job_a_process_brings_what_it_measured(
    farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DATABASE_VARIABLE, str(tmp_path / "results.db"))
    monkeypatch.setenv(SHARED_VARIABLE, farm.one.shared)
    with open_store() as store:
        assert runner.start_upload(store) is None
        ref = store.artifacts.put(LOG, kind="k")
        (waits,) = [each for each in result_checks.results(None) if each.subject == "artifacts"]
        assert waits.said == f"1 are not yet in {farm.one.shared}"
        child = runner.start_upload(store)
        assert child is not None
        assert child.wait(120) == 0, (store.artifacts.marks / runner.LOG).read_text()
        assert store.artifacts.list_marked() == []
        assert farm.two.read(ref.sha256) == LOG
        store.artifacts.put(b"2", kind="k")
    assert main(["results", "upload", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "to": farm.one.shared,
        "brought": 1,
        "bytes": 1,
        "left": 0,
        "busy": False,
    }
    monkeypatch.delenv(SHARED_VARIABLE)
    assert main(["results", "upload"]) == 2
    assert "artifacts are not shared" in capsys.readouterr().err


def test_the_files_of_a_run_are_one_object_that_other_hosts_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.setenv(SHARED_VARIABLE, f"file://{there}")
    monkeypatch.setenv(ARTIFACTS_VARIABLE, str(tmp_path / "one"))

    def files(folder: Path) -> list[Path]:
        return [path for path in folder.glob("[0-9a-f][0-9a-f]/*") if path.is_file()]

    with open_store(str(tmp_path / "results.db")) as store:
        run = record(store, cycles=1)
        names = {ref.sha256 for each in store.attempts(run.id) for ref in each.artifacts}
        before = {name: store.artifacts.read(name) for name in names}
        with in_use(store.artifacts):  # a backup goes on
            assert packs.upload(store).count == 1
        assert len(files(there)) == 1
        assert len(files(store.artifacts.root)) == len(names) + 1
        assert packs.upload(store).count == 0
        assert (len(files(store.artifacts.root)), store.artifacts.list_marked()) == (1, [])
        goes_on = record(store, cycles=1, finish=False, seed=2)
        loose = {ref.sha256 for each in store.attempts(goes_on.id) for ref in each.artifacts} - names
        assert packs.upload(store).count == len(loose)
        store.finish_run(goes_on.id, "completed")
        assert retention.prune(store, Retention()).packed == 0
        with Session(store._engine) as session, session.begin():
            session.get_one(RunRow, goes_on.id).finished_at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        assert retention.prune(store, Retention(packed=30)).packed == len(loose)
        assert len(files(there)) == 1 + len(loose), "their pack is not there yet"
        assert packs.upload(store).count == 1
        assert len(files(there)) == len(files(store.artifacts.root)) == 2
    monkeypatch.setenv(ARTIFACTS_VARIABLE, str(tmp_path / "two"))
    with open_store(str(tmp_path / "results.db"), create=False) as other:
        assert {name: other.artifacts.read(name) for name in names} == before
        assert len(files(other.artifacts.root)) == 1


@frozen
class PlainFolder:
    """A shared store in the process itself."""

    files: ArtifactStore

    def get(self, sha256: str) -> bytes | None:
        return self.files.local(sha256)

    def put(self, sha256: str, data: bytes) -> None:
        assert self.files.put(data, kind="").sha256 == sha256

    def remove(self, sha256: str) -> None:
        self.files.path(sha256).unlink(missing_ok=True)


@pytest.mark.parametrize("full", [False, True])
def test_a_kill_or_a_full_disk_at_any_step_of_an_upload_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, full: bool
) -> None:
    there = ArtifactStore(tmp_path / "there")
    monkeypatch.setenv(SHARED_VARIABLE, f"file://{there.root}")
    monkeypatch.setattr(
        location, "at", lambda _url: PlainFolder(there)
    )  # threads of the library do not outlive a fork
    path = str(tmp_path / "results.db")
    with open_store(path) as store:
        record(store, cycles=1)
        before = {ref.sha256: store.artifacts.read(ref.sha256) for each in store.attempts(1) for ref in each.artifacts}

    def work() -> None:
        with open_store(path) as own:
            packs.upload(own)

    step = 1
    while (status := ends_at(step, work, full=full)) in ({1} if full else {-signal.SIGKILL}):
        with open_store(path) as store:
            assert {name: store.artifacts.read(name) for name in before} == before
        step += 1
    assert (status, step > 3) == (0, True)
    work()
    with open_store(path) as store:
        assert (len(store.artifacts.hashes()), store.artifacts.list_marked()) == (1, [])
        assert {name: store.artifacts.read(name) for name in before} == before
    assert len(there.hashes()) == 1


def test_files_that_cannot_be_packed_are_uploaded_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = ArtifactStore(tmp_path / "there")
    monkeypatch.setenv(SHARED_VARIABLE, f"file://{there.root}")
    monkeypatch.setattr(location, "at", lambda _url: PlainFolder(there))
    with open_store(str(tmp_path / "results.db")) as store:
        record(store, cycles=1)
        (store.artifacts.root / ".to-remove").touch()  # where a note of them belongs
        said: list[str] = []
        names = store.artifacts.list_marked()
        with suppress(LabStableError):
            packs.upload(store, say=said.append)
        assert "cannot pack" in said[0]
        assert there.hashes() == names


def test_without_sharing_the_library_is_not_loaded(tmp_path: Path) -> None:
    code = "import sys; from lab.results import open_store; s = open_store(sys.argv[1]); s.artifacts.put(b'1', kind='k'); print('obstore' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "results.db"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_an_artifact_that_is_about_to_be_kept_stays_marked(farm: Farm) -> None:
    name = hashlib.sha256(LOG).hexdigest()
    farm.one.mark(name)  # as another job of this host does, before it writes the artifact
    assert artifacts.upload(farm.one) == artifacts.UploadResult(0, 0)
    farm.one.put(LOG, kind="console-log")
    assert artifacts.upload(farm.one) == artifacts.UploadResult(1, len(LOG))


def test_a_place_that_does_not_answer_is_not_asked_for_each_artifact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = [0.0], list[float]()

    def silent(*_args: object) -> None:
        asked.append(now[0])
        now[0] += took
        raise OSError("no answer")

    monkeypatch.setattr("obstore.get", silent)
    store = location.at(f"file://{tmp_path}")._store
    there = location.Shared("s3://lab/artifacts", store, store, lambda: now[0])

    def read() -> None:
        with pytest.raises(LabStableError, match="no answer"):
            there.get(hashlib.sha256(LOG).hexdigest())

    took = 1.0  # it refuses one, which says nothing of the next
    read()
    read()
    assert asked == [0, 1]
    took = 10.0
    read()
    read()
    assert asked == [0, 1, 2]
    now[0] = 60.0
    read()
    assert asked == [0, 1, 2, 60]


def test_who_reads_waits_ten_seconds_for_a_store_and_who_brings_something_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    there = location.at.__wrapped__("s3://lab/artifacts")
    reader, writer = there._reader, there._store
    assert reader.client_options["read_timeout"] == "10s"
    assert reader.retry_config["retry_timeout"].total_seconds() == 10
    assert "read_timeout" not in writer.client_options
