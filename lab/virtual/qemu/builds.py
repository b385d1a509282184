"""Build outputs of a QEMU board, for `lab release make`."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import evolve, frozen

from lab.errors import ConfigurationError
from lab.virtual.images import cache
from lab.virtual.qemu import bpim2u, packaged, sifive_u
from lab.virtual.qemu.bpim2u import BananaPi
from lab.virtual.qemu.machine import Model
from lab.virtual.qemu.sifive_u import HiFive

_BLOCK_BYTES: Final = 4096
_KERNEL: Final = re.compile(r"linux-image-(\d.*)")
_BMAP: Final = """\
<?xml version="1.0" ?>
<bmap version="2.0">
    <ImageSize>{size}</ImageSize>
    <BlockSize>{block}</BlockSize>
    <BlocksCount>{blocks}</BlocksCount>
    <MappedBlocksCount>{mapped}</MappedBlocksCount>
    <ChecksumType>sha256</ChecksumType>
    <BmapFileChecksum>{checksum}</BmapFileChecksum>
    <BlockMap>
{ranges}    </BlockMap>
</bmap>
"""


@frozen
class Build:
    """A folder of build outputs.

    Attributes:
        images: medium -> the name of its image. kernel: its version, as `uname -r` says it. build_id: of its os-release(5).
    """

    folder: Path
    images: dict[str, str]
    kernel: str
    build_id: str


def write(
    board_type: str, build_id: str, folder: Path, root: Path, report: cache.Report, *, other: bool = False
) -> Build:
    """Write the outputs of a build into `folder`.

    These are an image and its block map per medium with an image, and the parts of a flash.

    Args:
        root: the image cache. other: with another kernel of Debian's, where it has two for the board.

    Raises:
        LabError, ConfigurationError: as of `lab.virtual.qemu.packaged.Software.obtain`; there is no such build of this
            board type.
    """
    folder.mkdir(parents=True)
    if board_type == BananaPi.board_type:
        software = evolve(bpim2u.SOFTWARE, kernel=bpim2u.OTHER_KERNEL) if other else bpim2u.SOFTWARE
        model: Model = BananaPi(with_network=True, build_id=build_id, software=software)
    elif board_type == HiFive.board_type:
        software, board = sifive_u.SOFTWARE, HiFive(with_network=True, build_id=build_id)
        model = board
        for name, content in board.files(software.obtain(root, report), "spi_nor").items():
            (folder / name).write_bytes(content)
    else:
        raise ConfigurationError(f"no builds of {board_type!r}; there are: {BananaPi.board_type}, {HiFive.board_type}")
    made = model.images(root, report)
    names = {}
    for image in sorted(made.glob("*.img")):
        if image.stem in packaged.DISKS:
            names[image.stem] = f"{board_type}-{image.stem}.wic"
            shutil.copyfile(image, folder / names[image.stem])
            (folder / f"{names[image.stem]}.bmap").write_text(_block_map(image), encoding="ascii")
    packages = json.loads((made / cache.MANIFEST).read_text())["packages"]
    (kernel,) = (found[1] for package in packages if (found := _KERNEL.fullmatch(package)))
    return Build(folder, names, kernel, build_id)


def _block_map(image: Path) -> str:
    """bmaptool's map of an image: mapped ranges and their digests."""
    size, ranges, mapped = image.stat().st_size, "", 0
    with image.open("rb") as file:
        for begin, end in _data(file.fileno(), size):
            file.seek(begin * _BLOCK_BYTES)
            digest = hashlib.sha256(file.read((end - begin) * _BLOCK_BYTES)).hexdigest()
            ranges += f'        <Range chksum="{digest}"> {begin}-{end - 1} </Range>\n'
            mapped += end - begin
    text = _BMAP.format(
        size=size,
        block=_BLOCK_BYTES,
        blocks=-(-size // _BLOCK_BYTES),
        mapped=mapped,
        checksum="0" * 64,
        ranges=ranges,
    )
    return text.replace("0" * 64, hashlib.sha256(text.encode()).hexdigest())


def _data(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """The ranges of blocks that hold data (lseek(2), SEEK_DATA)."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                return
            raise
        end = os.lseek(fd, begin, os.SEEK_HOLE)
        yield begin // _BLOCK_BYTES, -(-end // _BLOCK_BYTES)
