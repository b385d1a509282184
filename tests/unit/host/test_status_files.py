"""Status files are written where nobody else has a say, or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from lab.host import status_files
from lab.host.status_files import OutletStatus

STATUS = OutletStatus("lab1:16421", "rack1", "3", "on", 1000.0, 0.2, 40, 2)


def plant(folder: Path, victim: Path) -> None:
    """What another user would put there: a link where the status is about to be written."""
    folder.mkdir(parents=True, exist_ok=True)
    victim.write_text("precious")
    name = hashlib.sha256(b"rack1/3").hexdigest()[:16]
    (folder / f"{name}.{os.getpid()}").symlink_to(victim)


def written(runtime: Path) -> list[OutletStatus]:
    status_files.write(runtime / status_files.OUTLETS, "rack1/3", STATUS)
    return status_files.read_all(runtime / status_files.OUTLETS, OutletStatus)


def test_a_status_is_found_by_its_reader(tmp_path: Path) -> None:
    assert written(tmp_path) == [STATUS]


def test_nothing_is_written_into_a_folder_that_others_may_write(tmp_path: Path) -> None:
    runtime, victim = tmp_path / "boardlab-1000", tmp_path / "victim"
    plant(runtime / status_files.OUTLETS, victim)
    runtime.chmod(0o777)
    assert written(runtime) == []
    assert victim.read_text() == "precious"


def test_nothing_is_written_into_a_folder_inside_that_others_may_write(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    plant(tmp_path / status_files.OUTLETS, victim)
    (tmp_path / status_files.OUTLETS).chmod(0o770)
    assert written(tmp_path) == []
    assert victim.read_text() == "precious"


def test_nothing_is_written_through_a_link_in_the_runtime_folders_place(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "boardlab-1000").symlink_to(tmp_path / "elsewhere")
    assert written(tmp_path / "boardlab-1000") == []
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_nothing_is_written_into_another_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    assert written(tmp_path) == []


def test_what_could_not_be_told_leaves_no_file(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    folder = tmp_path / status_files.OUTLETS
    status_files.write(folder, "rack1/3", STATUS)
    (told,) = folder.iterdir()
    told.unlink()
    told.mkdir()  # refuses to be replaced, as a full disk refuses to be written
    status_files.write(folder, "rack1/3", STATUS)
    assert list(folder.iterdir()) == [told]
