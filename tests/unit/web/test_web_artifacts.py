"""A run's page on a host that did not measure it: its logs come later than its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests
from support import recorded_run
from support.web_serving import serving

from lab.results import artifacts, open_store
from lab.results.artifacts import ArtifactStore
from lab.results.location import ARTIFACTS_VARIABLE, SHARED_VARIABLE
from lab.web.site import Site, UncachedPage

NOT_YET = "may not have uploaded it yet"
OF_A_LOG = "Booting Linux on physical CPU"


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    """A run in a database that two hosts share, and its logs as the host that measured it keeps them; the test is on the other one."""
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.setenv(SHARED_VARIABLE, f"file://{there}")
    monkeypatch.setenv(ARTIFACTS_VARIABLE, str(tmp_path / "one"))
    with open_store(str(tmp_path / "results.db")) as store:
        recorded_run.record(store, virtual=False, cycles=1)
        found = store.artifacts
    monkeypatch.setenv(ARTIFACTS_VARIABLE, str(tmp_path / "two"))
    return found


def test_a_page_made_before_its_logs_were_brought_shows_them_afterwards(
    measured: ArtifactStore, tmp_path: Path
) -> None:
    site = Site(str(tmp_path / "results.db"), runtime=tmp_path / "runtime", folder=tmp_path)
    with serving(site) as url:
        before = requests.get(f"{url}/runs/1", timeout=60)
        assert (before.status_code, NOT_YET in before.text, OF_A_LOG in before.text) == (200, True, False)
        artifacts.upload(measured)
        after = requests.get(f"{url}/runs/1", timeout=60)
        assert (after.status_code, NOT_YET in after.text, OF_A_LOG in after.text) == (200, False, True)


def test_only_a_page_that_misses_nothing_is_kept(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")):
        pass
    site, pages = Site(str(tmp_path / "results.db")), iter([UncachedPage("missing"), "whole", "never made"])
    assert [site.page(("run", "1"), lambda _store: next(pages)) for _ in range(3)] == ["missing", "whole", "whole"]
