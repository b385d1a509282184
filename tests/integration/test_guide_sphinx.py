"""Sphinx, which the vendor builds its guides with, builds ours without a warning."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import guide_family
import pytest
import recorded_run

from lab.guide import importing, writing
from lab.results import open_store

RELEASES = dict(zip(guide_family.NAMES, ("11.01", "09.02", "6.3", "09.03", "10.00"), strict=True))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The five guides through the store, and a release that was measured here."""
    folder = tmp_path_factory.mktemp("written")
    found: dict[str, Path] = {}
    with open_store(str(folder / "results.db")) as store:
        for name, path in guide_family.family(folder).items():
            board = "am62xx_sk-fs" if name == "am62x-11.01.rst" else None
            importing.import_guide(store, path, RELEASES[name], board, dt.datetime.now(dt.UTC))
            (found[name],) = writing.write(store, RELEASES[name], (), folder / "out", ["rst"])
    with open_store(str(folder / "measured.db")) as store:
        recorded_run.record(store, virtual=False, cycles=1)
        (found["measured"],) = writing.write(store, "11.01", (), folder / "measured", ["rst"])
    return found


@pytest.mark.parametrize("name", [*guide_family.NAMES, "measured"])
def test_sphinx_builds_a_written_guide_without_a_warning(
    written: Mapping[str, Path], name: str, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text('project = "guide"\n')
    (source / "index.rst").write_text(written[name].read_text())
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-n", "-W", "--keep-going", source, tmp_path / "html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "html" / "index.html").exists()
