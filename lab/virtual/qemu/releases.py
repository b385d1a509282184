"""Releases and build outputs of a QEMU board, as files."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from lab.errors import ConfigurationError
from lab.virtual.images import cache, filetree
from lab.virtual.qemu import bpim2u, debian_board, recipe, sifive_u
from lab.virtual.qemu.bpim2u import BananaPi
from lab.virtual.qemu.machine import QemuModel
from lab.virtual.qemu.sifive_u import HiFive
from lab.virtual.ramlinux import image as ramlinux_image

OTHER: Final = "other"
FIRST: Final = "first"
_KERNELS: Final = {FIRST: recipe.KERNEL_META, OTHER: recipe.OTHER_KERNEL_META}
_IMAGE: Final = re.compile(r"linux-image-(\d.*)")


def write(folder: Path, name: str, root: Path, report: cache.Report, *, kernel: str = FIRST) -> Path:
    """Write a release and its files into `folder`; returns NAME.yaml.

    Args:
        root: the image cache.
        kernel: FIRST or OTHER: Debian's usual kernel, or its cloud kernel of the same version.

    Raises:
        LabError, ConfigurationError: as of `lab.virtual.qemu.recipe.obtain`.
    """
    images = recipe.obtain(root, report, with_network=True, kernel_meta=_KERNELS[kernel])
    files = folder / name
    files.mkdir(parents=True)
    with (images / "sd.img").open("rb") as image, gzip.open(files / "sd.img.gz", "wb", compresslevel=1) as packed:
        shutil.copyfileobj(image, packed)
    shutil.copyfile(images / "emmc.img", files / "emmc.img")
    ram = obtain(root, report)
    stages = [_copied(ram / name, files) for name in (KERNEL, INITRAMFS)]
    flash = (images / f"{recipe.FLASH}.img").read_bytes()
    facts = json.loads((images / cache.MANIFEST).read_text())
    parts = [_part(files, name, flash, *where) for name, where in facts["flash"].items()]
    media: dict[str, Any] = {
        medium: {
            "image": {
                "source": f"{name}/{file}",
                "sha256": _sha256(files / file),
                "size": (images / f"{medium}.img").stat().st_size,
            }
        }
        for medium, file in (("sd", "sd.img.gz"), ("emmc", "emmc.img"))
    }
    text = json.dumps(
        {
            "boards": ["qemu-virt"],
            "media": {**media, recipe.FLASH: {"parts": parts}},
            "recovery": {"ram": stages},
            "identity": {"kernel": rf"\b{re.escape(_version(facts['packages']))}\b"},
        },
        indent=2,
    )
    path = folder / f"{name}.yaml"
    path.write_text(text + "\n", encoding="utf-8")  # JSON is YAML
    return path


def _part(files: Path, name: str, flash: bytes, offset: int, count: int) -> dict[str, Any]:
    (files / name).write_bytes(flash[offset : offset + count])
    return {"name": name, "source": f"{files.name}/{name}", "sha256": _sha256(files / name), "to": {"offset": offset}}


def _copied(path: Path, files: Path) -> dict[str, Any]:
    shutil.copyfile(path, files / path.name)
    return {"name": path.name, "source": f"{files.name}/{path.name}", "sha256": _sha256(path)}


def _version(packages: Iterable[str]) -> str:
    found = [match[1] for name in packages if (match := _IMAGE.fullmatch(name))]
    return found[0]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- Linux in a qemu-virt's memory ---
# It is the kernel of its media, with the root file system that real boards get, too.


KERNEL: Final = "Image"
INITRAMFS: Final = ramlinux_image.FILE.format(recipe.ARCHITECTURE)


def obtain(root: Path, report: cache.Report) -> Path:
    """The folder with KERNEL and INITRAMFS, built when missing; raises as `lab.virtual.qemu.recipe.obtain`."""
    packages, kernel = ramlinux_image.programs(root, recipe.ARCHITECTURE, report), recipe.sources(root, report)
    facts = [json.loads((each / cache.MANIFEST).read_text()) for each in (packages, kernel)]

    def fill(folder: Path) -> Mapping[str, object]:
        tree = ramlinux_image.tree(packages, {**recipe.media_modules(kernel), **recipe.network_modules(kernel)})
        (folder / INITRAMFS).write_bytes(filetree.build(tree))
        shutil.copyfile(kernel / "Image", folder / KERNEL)
        return {"packages": facts[0]["packages"] | facts[1]["packages"], "mirror": facts[0]["mirror"]}

    made_by = (
        "lab.virtual.images",
        "lab.virtual.ramlinux",
        __name__,
        recipe.__name__,
        "lab.virtual.qemu.rootfs",
        "lab.virtual.qemu.data",
    )
    named = cache.recipe_hash(*made_by, sources=[each["files"] for each in facts])
    return cache.obtain("qemu-virt-ram", named, fill, root=root, report=report)


# --- Build outputs of a QEMU board, for `lab release make` ---


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
class BuildFolder:
    """A folder of build outputs.

    Attributes:
        images: medium -> the name of its image.
        kernel: its version, as `uname -r` says it.
        build_id: of its os-release(5).
    """

    folder: Path
    images: dict[str, str]
    kernel: str
    build_id: str


def write_builds(
    board_type: str, build_id: str, folder: Path, root: Path, report: cache.Report, *, other: bool = False
) -> BuildFolder:
    """Write the outputs of a build into `folder`.

    These are an image and its block map per medium with an image, and the parts of a flash.

    Args:
        root: the image cache.
        other: with another kernel of Debian's, where it has two for the board.

    Raises:
        LabError, ConfigurationError: as of `lab.virtual.qemu.debian_board.Software.obtain`; there is no such build of this
            board type.
    """
    folder.mkdir(parents=True)
    if board_type == BananaPi.board_type:
        software = evolve(bpim2u.SOFTWARE, kernel=bpim2u.OTHER_KERNEL) if other else bpim2u.SOFTWARE
        model: QemuModel = BananaPi(with_network=True, build_id=build_id, software=software)
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
        if image.stem in debian_board.DISKS:
            names[image.stem] = f"{board_type}-{image.stem}.wic"
            shutil.copyfile(image, folder / names[image.stem])
            (folder / f"{names[image.stem]}.bmap").write_text(_block_map(image), encoding="ascii")
    packages = json.loads((made / cache.MANIFEST).read_text())["packages"]
    (kernel,) = (found[1] for package in packages if (found := _KERNEL.fullmatch(package)))
    return BuildFolder(folder, names, kernel, build_id)


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
