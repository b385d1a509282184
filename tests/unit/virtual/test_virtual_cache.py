from __future__ import annotations

import errno
import json
import multiprocessing
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.errors import LabStableError, LabTransientError
from lab.virtual.images import cache


def silent(_line: str) -> None: ...


def toy(folder: Path) -> Mapping[str, object]:
    (folder / "toy.img").write_bytes(b"toy")
    return {"packages": {"toy": "1"}}


def test_an_image_set_is_built_once_and_its_manifest_tells_what_is_in_it(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(folder: Path) -> Mapping[str, object]:
        built.append(folder)
        return toy(folder)

    first = cache.obtain("toy", "abc", build, root=tmp_path, report=silent)
    assert cache.obtain("toy", "abc", build, root=tmp_path, report=silent) == first
    assert len(built) == 1
    manifest = json.loads((first / cache.MANIFEST).read_text())
    assert manifest["packages"] == {"toy": "1"}
    assert manifest["files"]["toy.img"]["size"] == 3


def test_another_recipe_is_another_set(tmp_path: Path) -> None:
    first = cache.obtain("toy", "abc", toy, root=tmp_path, report=silent)
    assert cache.obtain("toy", "abd", toy, root=tmp_path, report=silent) != first


def test_a_build_removes_sets_of_its_name_that_nobody_asked_for_lately(tmp_path: Path) -> None:
    old, asked = (cache.obtain("toy", recipe, toy, root=tmp_path, report=silent) for recipe in ("abc", "abd"))
    other = cache.obtain("toy-tools", "abc", toy, root=tmp_path, report=silent)
    for path in (old, asked, other):
        os.utime(path, (0, 0))
    assert cache.obtain("toy", "abd", toy, root=tmp_path, report=silent) == asked
    new = cache.obtain("toy", "abe", toy, root=tmp_path, report=silent)
    assert {path for path in tmp_path.iterdir() if path.is_dir()} == {asked, new, other}


def test_a_build_that_fails_leaves_nothing_and_may_be_tried_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> Mapping[str, object]:
        (folder / "half.img").write_bytes(b"half")
        raise LabTransientError("no network")

    with pytest.raises(LabTransientError, match="no network"):
        cache.obtain("toy", "abc", fail, root=tmp_path, report=silent)
    assert [path.name for path in tmp_path.iterdir()] == [".toy.lock"]
    assert (cache.obtain("toy", "abc", toy, root=tmp_path, report=silent) / "toy.img").exists()


def test_what_a_killed_builder_left_is_never_used(tmp_path: Path) -> None:
    left = tmp_path / ".toy-abc.building"
    left.mkdir()
    (left / "old.img").write_bytes(b"half")
    found = cache.obtain("toy", "abc", toy, root=tmp_path, report=silent)
    assert sorted(path.name for path in found.iterdir()) == [cache.MANIFEST, "toy.img"]


def test_a_full_disk_is_one_message_with_a_way_out(tmp_path: Path) -> None:
    def fill(_folder: Path) -> Mapping[str, object]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(LabStableError, match=r"No space.*XDG_CACHE_HOME"):
        cache.obtain("toy", "abc", fill, root=tmp_path, report=silent)


def build_with_note(root: Path, notes: Path) -> None:
    def build(folder: Path) -> Mapping[str, object]:
        (notes / f"{os.getpid()}").write_text("built")
        return toy(folder)

    cache.obtain("toy", "abc", build, root=root, report=silent)


def test_of_several_builders_at_once_one_builds(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    fresh = multiprocessing.get_context("spawn")  # a fork of a process with threads, as numpy has them, may hang
    builders = [fresh.Process(target=build_with_note, args=(tmp_path / "cache", notes)) for _ in range(4)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(60)
        assert builder.exitcode == 0
    assert len(list(notes.iterdir())) == 1


def test_the_recipe_hash_follows_sources_data_and_inputs() -> None:
    same = cache.recipe_hash("lab.virtual.qemu", suite="bookworm")
    assert cache.recipe_hash("lab.virtual.qemu", suite="bookworm") == same
    assert cache.recipe_hash("lab.virtual.qemu", suite="trixie") != same
    assert cache.recipe_hash("lab.virtual.images", suite="bookworm") != same
    with pytest.raises(ModuleNotFoundError, match=r"lab\.virtual\.gone"):
        cache.recipe_hash("lab.virtual.gone")
