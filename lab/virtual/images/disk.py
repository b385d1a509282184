"""Disk images: MBR, a bootable ext4 partition, and perhaps others."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from lab.virtual.images import EPOCH, tools
from lab.virtual.images.filetree import Tree, stage

_MIB = 1 << 20
_SECTOR_BYTES = 512
_UUID = "b0a2d1ab-0000-4000-8000-{:012x}"


def build(
    path: Path, tree: Tree, *, size_mib: int, identity: int, more: Sequence[Path | int] = (), start_mib: int = 1
) -> None:
    """Write a disk image with `tree` in its first partition.

    Args:
        start_mib: where the first partition begins.
        more: at most three further partitions: the file of an image that one holds, or how many MiB of nothing.
        identity: makes the identifiers of the disk and its file system; different disks of a board need others.

    Raises:
        ConfigurationError: e2fsprogs or fdisk is not installed.
        LabStableError: one of them failed, e.g. since the tree does not fit.
    """
    uuid = _UUID.format(identity)
    with tempfile.TemporaryDirectory(prefix="boardlab-disk-") as folder:
        names = stage(tree, Path(folder))
        table = f"label: dos\nlabel-id: {0xB0A20000 + identity:#x}\n"
        starts = _starts(start_mib, size_mib, more)
        with path.open("wb") as image:
            image.truncate(starts[-1] * _MIB)
        for number, (start, end) in enumerate(pairwise(starts)):
            sectors = [mib * _MIB // _SECTOR_BYTES for mib in (start, end - start)]
            table += "start={}, size={}, type=83".format(*sectors) + (", bootable\n" if number == 0 else "\n")
        tools.run(["sfdisk", "--quiet", path], stdin=table.encode())
        for start, part in zip(starts[1:], more, strict=False):
            if isinstance(part, Path):
                seek = f"seek={start}"
                tools.run(["dd", f"if={part}", f"of={path}", "bs=1M", seek, "conv=notrunc,sparse", "status=none"])
        tools.run(
            [
                "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-O", "^has_journal,^metadata_csum",
                "-L", "boot", "-U", uuid, "-d", folder,
                "-E", f"offset={start_mib * _MIB},hash_seed={uuid},root_owner=0:0,lazy_itable_init=0,nodiscard",
                path, f"{(size_mib - start_mib) * 1024}k",
            ],
            env={"E2FSPROGS_FAKE_TIME": str(EPOCH)},
        )  # fmt: skip
    _anonymous(path, names, start_mib)


def patch(path: Path, parts: Mapping[int, bytes]) -> None:
    """Write bytes at offsets of an image, e.g. a boot loader."""
    with path.open("r+b") as image:
        for offset, content in parts.items():
            image.seek(offset)
            image.write(content)


def file_system(path: Path, folder: Path) -> None:
    """Write an ext4 file system of `folder`, as small as possible.

    Raises as `build`.
    """
    used_kib = int(tools.run(["du", "--summarize", "--block-size=1K", "--apparent-size", folder]).split()[0])
    inodes = sum(1 for _ in folder.rglob("*"))
    size_kib = used_kib * 11 // 10 + inodes * 4 + 8 * 1024
    options = ["-O", "^has_journal", "-E", "root_owner=0:0,lazy_itable_init=0"]
    tools.run(["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", *options, "-d", folder, path, f"{size_kib}k"])


def _starts(start_mib: int, size_mib: int, more: Sequence[Path | int]) -> list[int]:
    """Begin of each partition and the last end, in MiB."""
    sizes = [part if isinstance(part, int) else -(-part.stat().st_size // _MIB) for part in more]
    return list(accumulate([size_mib - start_mib, *sizes], initial=start_mib))


def _anonymous(path: Path, names: list[str], start_mib: int) -> None:
    """Make owner and times of copied files root's and EPOCH's.

    mke2fs takes them from the files.
    """
    fields = {"uid": "0", "gid": "0", **dict.fromkeys(("atime", "ctime", "mtime", "crtime"), f"@{EPOCH}")}
    inodes = ["<2>", "<11>"] + [f"/{name}" for name in names if name != "."]  # the root and lost+found
    script = "".join(
        f'set_inode_field "{inode}" {field} {value}\n' for inode in inodes for field, value in fields.items()
    )
    tools.run(
        ["debugfs", "-w", "-f", "-", f"{path}?offset={start_mib * _MIB}"],
        stdin=script.encode(),
        env={"E2FSPROGS_FAKE_TIME": str(EPOCH)},
    )
