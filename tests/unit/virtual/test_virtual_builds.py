"""What a board in QEMU boots, as a build leaves it: block maps that the product reads, and places that its board type names."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from lab import boards
from lab.errors import ConfigurationError
from lab.provision import bmap
from lab.virtual.qemu import debian_board, releases, sifive_u

BLOCK = 4096


def test_a_block_map_has_all_that_is_no_hole_of_the_image(tmp_path: Path) -> None:
    image = tmp_path / "sd.img"
    with image.open("wb") as file:
        file.truncate(64 * BLOCK)
        for block in (0, 1, 40):
            file.seek(block * BLOCK)
            file.write(bytes([block + 1]) * BLOCK)
    found = bmap.parse(releases._block_map(image).encode(), "sd.bmap")
    assert found.image_bytes == 64 * BLOCK
    written = dict(bmap.ranges([image.read_bytes()], found, "sd.bmap"))
    copy = bytearray(64 * BLOCK)
    for offset, data in written.items():
        copy[offset : offset + len(data)] = data
    assert hashlib.sha256(copy).digest() == hashlib.sha256(image.read_bytes()).digest()


def test_an_image_of_nothing_has_an_empty_map(tmp_path: Path) -> None:
    image = tmp_path / "sd.img"
    with image.open("wb") as file:
        file.truncate(8 * BLOCK)
    assert bmap.parse(releases._block_map(image).encode(), "sd.bmap").mapped_bytes in {0, 8 * BLOCK}  # tmpfs, others


def test_the_places_on_the_flash_are_those_of_the_board_type() -> None:
    assert boards.load("sifive_u").media["spi_nor"].parts == sifive_u.FLASH_PARTS


@pytest.mark.parametrize("board_type", ["bpim2u", "sifive_u"])
def test_media_with_an_image_are_those_of_the_board_type(board_type: str) -> None:
    media = boards.load(board_type).media
    assert {name for name, medium in media.items() if medium.image} == set(media) & set(debian_board.DISKS)


def test_a_board_without_builds_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"are: bpim2u, sifive_u"):
        releases.write_builds("qemu-virt", "1", tmp_path / "x", tmp_path, print)
