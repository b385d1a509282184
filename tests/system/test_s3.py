"""Artifacts shared by S3's protocol: obstore against moto's server on loopback in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import recorded_run
from support.s3server import BUCKET, running_s3
from support.tool_environment import programs_of

from lab.cli import main
from lab.errors import LabStableError
from lab.farm import runner
from lab.results import artifacts, location, open_store
from lab.results.artifacts import ArtifactStore
from lab.results.location import SHARED_VARIABLE
from lab.virtual.ports import free_port

pytestmark = pytest.mark.soak

LOG = b"Starting kernel ...\r\n" * 4000
URL = f"s3://{BUCKET}/artifacts"
SECRET = "the-secret-of-a-test"  # noqa: S105 - moto takes any


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = programs_of("moto[server,s3]==5.2.5") / "moto_server"
    with running_s3(program, tmp_path_factory.mktemp("s3") / "log") as address:
        yield address


@pytest.fixture(autouse=True)
def aws(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    given = {"ENDPOINT_URL": server, "ALLOW_HTTP": "true", "REGION": "us-east-1"}
    for name, value in {**given, "ACCESS_KEY_ID": "lab", "SECRET_ACCESS_KEY": SECRET}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    location.at.cache_clear()
    yield server
    location.at.cache_clear()


def test_what_one_host_brings_another_reads_verified(tmp_path: Path) -> None:
    one, two = ArtifactStore(tmp_path / "one", URL), ArtifactStore(tmp_path / "two", URL)
    refs = [one.put(data, kind="k") for data in (LOG, b"", b"2")]
    assert artifacts.upload(one).count == 3
    assert [two.read(ref.sha256) for ref in refs] == [LOG, b"", b"2"]
    assert artifacts.upload(one, everything=True).count == 0
    assert artifacts.upload(two, everything=True).count == 0
    sha256 = refs[0].sha256
    location.at(URL).put(sha256, b"other")
    with pytest.raises(LabStableError, match="is damaged"):
        ArtifactStore(tmp_path / "three", URL).read(sha256)
    with pytest.raises(LabStableError, match=r"not.*brought it yet"):
        two.read("ab" * 32)


def test_a_store_that_is_away_costs_nothing_that_was_measured_and_tells_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    one = ArtifactStore(tmp_path / "one", URL)
    ref = one.put(LOG, kind="k")
    for action in (lambda: artifacts.upload(one), lambda: ArtifactStore(tmp_path / "two", URL).read(ref.sha256)):
        with pytest.raises(LabStableError) as caught:
            action()
        assert URL in str(caught.value)
        assert SECRET not in str(caught.value)
    assert (one.list_marked(), one.read(ref.sha256)) == ([ref.sha256], LOG)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    location.at.cache_clear()
    assert artifacts.upload(one).count == 1


def test_a_bucket_that_is_not_there_is_said(tmp_path: Path) -> None:
    one = ArtifactStore(tmp_path / "one", "s3://nobody/artifacts")
    one.put(LOG, kind="k")
    with pytest.raises(LabStableError, match=r"s3://nobody/artifacts"):
        artifacts.upload(one)


def test_the_site_and_the_commands_of_another_host_read_what_a_job_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both hosts have the same database, as PostgreSQL is, and folders of their own."""
    monkeypatch.setenv(SHARED_VARIABLE, URL)
    monkeypatch.setenv("LAB_DB", str(tmp_path / "results.db"))
    monkeypatch.setenv("LAB_ARTIFACTS", str(tmp_path / "here"))
    with open_store() as store:
        recorded_run.record(store)
        child = runner.start_upload(store)
        assert child is not None
        assert child.wait(300) == 0, (store.artifacts.marks / runner.LOG).read_text()
        run = store.runs()[0].id
    monkeypatch.setenv("LAB_ARTIFACTS", str(tmp_path / "elsewhere"))
    assert main(["results", "show", str(run), "--log"]) == 0
    assert "console log" in capsys.readouterr().out
    done = subprocess.run(
        [Path(sys.executable).with_name("lab"), "report", str(run), "-o", tmp_path / "report.html"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert SECRET not in (tmp_path / "report.html").read_text()
    assert not any(SECRET.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
