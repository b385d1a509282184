"""A lab with one board, which an environment describes, and a site of it with users."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import recorded_run, web_people
from support.web_people import BOARD, GuardedSite, Time
from support.web_serving import serving

from lab.results import open_store
from lab.web.site import Site


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results."""
    folder = tmp_path_factory.mktemp("measured")
    with open_store(str(folder / "results.db")) as store:
        recorded_run.record(store, virtual=False, cycles=1)
    return folder


@pytest.fixture
def guarded(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedSite]:
    shutil.copytree(measured, tmp_path, dirs_exist_ok=True)
    (tmp_path / "envs").mkdir()
    env = f"targets: {{main: {{drivers: {{BoardStrategy: {{board_type: am62xx_sk, board: {BOARD}}}}}}}}}\n"
    (tmp_path / "envs" / "one.yaml").write_text(env)
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path)
    time = Time()
    site = Site(str(tmp_path / "results.db"), runtime=tmp_path / "runtime", folder=tmp_path)
    with serving(site, access=web_people.access(tmp_path, time)) as url:
        yield GuardedSite(url, tmp_path, time)
