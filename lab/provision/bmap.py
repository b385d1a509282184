"""Block maps of bmaptool: mapped blocks of an image, with checksums.

The format: https://github.com/yoctoproject/bmaptool (BmapCreate.py), versions 1.3 to 2.0.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final
from xml.etree import ElementTree as ET

from attrs import frozen

from lab.provision.errors import ImageDamagedError

MAX_BYTES: Final = 64 * 1024 * 1024  # of a map; one of 8 GiB with every second block mapped has 60 MB
_CHECKSUM_SIZES: Final = {"sha1": 40, "sha256": 64}


@frozen
class BlockRange:
    """A range of mapped blocks, from first to last.

    checksum: hexadecimal; empty: the map has none.
    """

    first: int
    last: int
    checksum: str = ""


@frozen
class Bmap:
    """A block map.

    Attributes:
        image_bytes: the whole image, unpacked.
        block_bytes: of a block.
        mapped_bytes: of all ranges: what is written.
        kind: of its checksums, "sha256" or "sha1".
    """

    image_bytes: int
    block_bytes: int
    ranges: list[BlockRange]
    kind: str

    @property
    def mapped_blocks(self) -> int:
        """Number of blocks in all ranges."""
        return sum(blocks.last - blocks.first + 1 for blocks in self.ranges)

    @property
    def mapped_bytes(self) -> int:
        """Number of mapped bytes."""
        return sum(stop - start for start, stop in map(self.span, self.ranges))

    def span(self, blocks: BlockRange) -> tuple[int, int]:
        """First byte of a range, and the byte after it.

        The image may end within its last block.
        """
        return blocks.first * self.block_bytes, min((blocks.last + 1) * self.block_bytes, self.image_bytes)


def parse(data: bytes, name: str) -> Bmap:
    """Read a block map and check its own checksum.

    Args:
        name: how a message calls it.

    Raises:
        ImageDamagedError: it is none, is inconsistent, or was changed.
    """
    if len(data) > MAX_BYTES:
        raise ImageDamagedError(f"{name}: {len(data)} bytes; at most {MAX_BYTES} are read. Is it a block map?")
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ImageDamagedError(f"{name}: has a DOCTYPE, as no block map has. Make it again: bmaptool create IMAGE")
    try:
        # As text, whatever encoding the file claims: in another one the lines above would not have seen a DOCTYPE.
        root = ET.fromstring(data.decode("utf-8"))  # noqa: S314 - no entities, see above
        block_map = _read(root)
        counted = {tag: _int(root, tag) for tag in ("BlocksCount", "MappedBlocksCount")}
    except (ET.ParseError, ValueError, AttributeError, TypeError) as error:
        raise ImageDamagedError(f"{name}: no block map ({error}). Make it again: bmaptool create IMAGE") from error
    _check_itself(root, data, block_map.kind, name)
    there = {
        "BlocksCount": -(-block_map.image_bytes // block_map.block_bytes),
        "MappedBlocksCount": block_map.mapped_blocks,
    }
    for tag, count in counted.items():
        if count != there[tag]:
            raise ImageDamagedError(
                f"{name}: {tag} says {count}, and the map has {there[tag]}: a part of the image would not be written. "
                "Make it again: bmaptool create IMAGE"
            )
    return block_map


def ranges(chunks: Iterable[bytes], bmap: Bmap, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the mapped data: (byte offset in the image, data), in order.

    Memory holds one chunk at a time.

    A range's checksum is known at its end, after its data were given out: the caller writes on, and learns of it by
    the error.

    Raises:
        ImageDamagedError: the image ends too early or late, or a range has another checksum.
    """
    position, remaining = 0, iter(bmap.ranges)
    current = next(remaining, None)
    digest = hashlib.new(bmap.kind)
    for chunk in chunks:
        begin, position = position, position + len(chunk)
        while current is not None:
            start, stop = bmap.span(current)
            low, high = max(start, begin), min(stop, position)
            if low < high:
                piece = chunk[low - begin : high - begin]
                digest.update(piece)
                yield low, piece
            if stop > position:
                break
            if current.checksum and digest.hexdigest() != current.checksum:
                raise ImageDamagedError(
                    f"{name}: blocks {current.first} to {current.last} are not those of its block map. Take image and "
                    "map of one build, or leave the map out"
                )
            current, digest = next(remaining, None), hashlib.new(bmap.kind)
    if position != bmap.image_bytes:
        raise ImageDamagedError(
            f"{name}: {position} bytes, and its block map is of an image of "
            f"{bmap.image_bytes}. Take image and map of one build"
        )


def _read(root: ET.Element) -> Bmap:
    version = root.get("version", "")
    if root.tag != "bmap" or not re.fullmatch(r"(1\.[34]|2\.\d+)", version):
        raise ValueError(f"version {version[:20]!r}, expected 1.3 to 2.x")
    size, block = _int(root, "ImageSize"), _int(root, "BlockSize")
    kind = _string(root, "ChecksumType") or "sha1"
    if kind not in _CHECKSUM_SIZES or size <= 0 or block <= 0:
        raise ValueError(f"checksum {kind[:20]!r}, {size} bytes, blocks of {block}")
    block_ranges, after = [], 0
    for element in root.iterfind("BlockMap/Range"):
        first, _, last = (element.text or "").strip().partition("-")
        checksum = (element.get("chksum") or element.get("sha1") or "").lower()
        blocks = BlockRange(int(first), int(last or first), checksum)
        if not after <= blocks.first <= blocks.last or blocks.first * block >= size or blocks.last * block >= size:
            raise ValueError(f"range {blocks.first}-{blocks.last} is out of order, or beyond the image")
        if checksum and not re.fullmatch(f"[0-9a-f]{{{_CHECKSUM_SIZES[kind]}}}", checksum):
            raise ValueError(f"range {blocks.first}-{blocks.last} has no {kind} checksum")
        after = blocks.last + 1
        block_ranges.append(blocks)
    return Bmap(size, block, block_ranges, kind)


def _check_itself(root: ET.Element, data: bytes, kind: str, name: str) -> None:
    own = (_string(root, "BmapFileChecksum") or _string(root, "BmapFileSHA1")).lower()
    if not own:
        return
    blank = data.replace(own.encode(), b"0" * len(own), 1)
    if hashlib.new(kind, blank).hexdigest() != own:
        raise ImageDamagedError(f"{name}: the map was changed after it was made. Make it again: bmaptool create IMAGE")


def _string(root: ET.Element, tag: str) -> str:
    return (root.findtext(tag) or "").strip()


def _int(root: ET.Element, tag: str) -> int:
    return int(_string(root, tag))
