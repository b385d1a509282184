from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabStableError
from lab.virtual import straps


def test_new_straps_are_low(tmp_path: Path) -> None:
    straps.create(tmp_path / "straps", 3)
    assert straps.read(tmp_path / "straps", 3) == 0


def test_creating_again_keeps_the_levels(tmp_path: Path) -> None:
    straps.create(tmp_path, 2)
    straps.path(tmp_path, 1).write_text("1\n")
    straps.create(tmp_path, 2)
    assert straps.read(tmp_path, 2) == 2


@given(word=st.integers(0, 255))
def test_bit_0_is_the_lowest_bit(tmp_path_factory: pytest.TempPathFactory, word: int) -> None:
    folder = tmp_path_factory.mktemp("straps")
    for bit in range(8):
        straps.path(folder, bit).write_text(f"{word >> bit & 1}\n")
    assert straps.read(folder, 8) == word


@pytest.mark.parametrize("content", [b"", b"2\n", b"on\n", b"01", b"\xff\xfe"])
def test_a_strap_that_is_neither_0_nor_1_is_refused_with_its_file(tmp_path: Path, content: bytes) -> None:
    straps.create(tmp_path, 1)
    straps.path(tmp_path, 0).write_bytes(content)
    with pytest.raises(LabStableError, match=r"bit0: .*0 or 1.*0 or 1"):
        straps.read(tmp_path, 1)


def test_a_missing_strap_is_refused_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(LabStableError, match=r"bit0: .*read"):
        straps.read(tmp_path, 1)
