"""Pieces of an image in files that a board fetches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import LabStableError
from lab.provision.writers.linux import spool
from lab.provision.writers.planning import WritePiece


def pieces(*spans: tuple[int, int]) -> Iterator[WritePiece]:
    for offset, count in spans:
        yield WritePiece(0, None, offset, os.urandom(count), first=offset == 0)


def test_pieces_that_follow_each_other_are_one_file_until_it_is_full(tmp_path: Path) -> None:
    made = list(pieces((0, 4), (4, 4), (8, 4), (100, 4), (104, 1)))
    found = list(spool(made, tmp_path, 8, 8))
    assert [(each.offset, each.bytes) for each in found] == [(0, 8), (8, 4), (100, 5)]
    data = b"".join(piece.data for piece in made)
    assert b"".join(each.path.read_bytes() for each in found) == data


def test_files_grow_so_that_the_first_one_is_told_of_early(tmp_path: Path) -> None:
    found = spool(pieces(*((offset, 4) for offset in range(0, 100, 4))), tmp_path, 8, 32)
    assert [each.bytes for each in found] == [8, 16, 32, 32, 12]


def test_no_more_than_three_files_lie_there(tmp_path: Path) -> None:
    most = 0
    for each in spool(pieces(*((offset, 8) for offset in range(0, 80, 8))), tmp_path, 8, 8):
        most = max(most, len(list(tmp_path.iterdir())))
        each.path.unlink()
    assert 1 <= most <= 3
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "0").symlink_to("/dev/full")
    with pytest.raises(LabStableError, match=r"No space left.*400 MB") as caught:
        list(spool(pieces((0, 4)), tmp_path))
    assert caught.value.failure == "disk"
