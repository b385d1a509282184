"""What becomes a file's name is no path."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from lab.results import ArtifactStore
from lab.results.artifacts import write_recordings
from lab.results.records import CONSOLE_INDEX, CONSOLE_LOG, Attempt

AT = dt.datetime(2026, 3, 2, 9, 30, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("init", "name"),
    [("/bin/sh", "run7-sd-_bin_sh-cycle3-attempt1"), ("x/../../../evil", "run7-sd-x_.._.._.._evil-cycle3-attempt1")],
)
def test_a_recording_lies_in_the_folder_whatever_its_parameters_are(tmp_path: Path, init: str, name: str) -> None:
    artifacts = ArtifactStore(tmp_path / "artifacts")
    refs = tuple(artifacts.put(kind.encode(), kind=kind) for kind in (CONSOLE_LOG, CONSOLE_INDEX))
    params = {"medium": "sd", "init": init}
    attempt = Attempt(3, 1, params, "ok", None, None, "", AT, 1.0, artifacts=refs, id=1, run_id=7)
    folder = tmp_path / "deep" / "down" / "recordings"
    assert write_recordings([attempt], artifacts, folder) == [folder / f"{name}.log"]
    assert sorted(path.name for path in folder.iterdir()) == [f"{name}.idx", f"{name}.log"]
    assert {path.name for path in tmp_path.iterdir()} == {"artifacts", "deep"}
