"""From the last release to this boardlab and back, each in an environment of its own, over one file of results."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from attrs import frozen
from support.facts import missing_facts
from support.recorded_run import record
from uv import find_uv_bin

from lab.results import open_store
from lab.results.schema import NEWEST

ROOT = Path(__file__).parents[2]
BEFORE = "dd8d9878"  # the last commit with schema 0001_first; it stands in until there is a tag
OLDER = "0001_first"
OURS = ("PYTHONPATH", "VIRTUAL_ENV", "BOARDLAB_", "LAB_", "UV_", "PYTEST_", "COVERAGE_")
RECORD = """
import sys
from lab.results import open_store
from support.recorded_run import record
with open_store(sys.argv[1]) as store:
    for seed in range(3):
        record(store, seed=seed, cycles=2, virtual=False)
"""


def last_release() -> str:
    tags = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return tags.stdout.strip() or BEFORE


def uv(*words: str | Path, cwd: Path, **more: str) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    done = subprocess.run(
        [find_uv_bin(), *words], cwd=cwd, env={**own, **more}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@frozen
class Release:
    """The last release, installed: its environment and its source."""

    venv: Path
    source: Path

    def run(self, name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        own = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
        return subprocess.run(
            [self.venv / "bin" / name, *words],
            cwd=self.source.parent,
            env={**own, "PYTHONPATH": str(self.source / "tests")},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Release:
    root = tmp_path_factory.mktemp("older")
    source, venv = root / "source", root / "venv"
    source.mkdir()
    archive = subprocess.run(["git", "archive", last_release()], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x"], cwd=source, input=archive.stdout, check=True)
    uv("build", "--wheel", "--quiet", "--out-dir", root / "dist", cwd=source, SETUPTOOLS_SCM_PRETEND_VERSION="0.9.0")
    uv("export", "-q", "--frozen", "--no-default-groups", "--no-emit-project", "-o", root / "locked", cwd=source)
    uv("venv", "--quiet", "--python", sys.executable, venv, cwd=root)
    (wheel,) = (root / "dist").glob("*.whl")
    uv("pip", "install", "--quiet", "--python", venv, "-r", root / "locked", wheel, cwd=root)
    shutil.rmtree(source / "lab")  # only the wheel's is left
    return Release(venv, source)


def newer(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([Path(sys.executable).with_name("lab"), *words], capture_output=True, text=True, check=False)


def samples_of(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as opened:
        return opened.execute("SELECT id, value, uncertainty, flags FROM samples ORDER BY id").fetchall()


@pytest.mark.soak
def test_a_store_of_the_last_release_is_upgraded_used_and_put_back(older: Release, tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    made = older.run("python", "-c", RECORD, path)
    assert made.returncode == 0, made.stderr
    (backups := tmp_path / "backups").mkdir()
    assert older.run("lab", "backup", backups, "--db", path).returncode == 0
    samples = samples_of(path)

    # A host that is newer than the results reads nothing of them, and says what to do.
    refused = newer("results", "list", "--db", path)
    assert refused.returncode == 2
    assert f"has schema {OLDER} of an older boardlab" in refused.stderr
    assert "lab results migrate" in refused.stderr
    assert f"from schema {OLDER} to {NEWEST}" in newer("upgrade", "check", "--db", path).stdout

    migrated = newer("results", "migrate", "--db", path)
    assert migrated.returncode == 0, migrated.stderr
    with open_store(str(path)) as store:
        record(store, seed=9, cycles=2, virtual=False)
        assert [run.status for run in store.runs()] == ["completed"] * 4
        assert [measurement.samples for measurement in store.measurements(1)]
    now = samples_of(path)
    assert now[: len(samples)] == samples
    assert len(now) > len(samples)

    # A host that is older than the results is refused by name, and writes nothing.
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    for words in (("results", "list", "--db", path), ("results", "migrate", "--db", path)):
        old = older.run("lab", *words)
        assert old.returncode == 2
        assert not missing_facts(old.stderr, "newer boardlab")
        assert NEWEST in old.stderr
    assert older.run("python", "-c", RECORD, path).returncode != 0
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before

    # Back: the older program's own words.
    subprocess.run(["sh", "-c", old.stderr.partition("stop the services, then ")[2].strip()], check=True)
    listed = older.run("lab", "results", "list", "--db", path)
    assert listed.returncode == 0, listed.stderr
    assert samples_of(path) == samples
    with open_store(f"{path}.newer", create=False) as store:
        assert len(store.runs()) == 4

    # A backup of the older one restores here.
    again = tmp_path / "again.db"
    assert newer("restore", backups, "--db", again).returncode == 0
    assert newer("results", "migrate", "--db", again).returncode == 0
    with open_store(str(again), create=False) as store:
        assert len(store.runs()) == 3
