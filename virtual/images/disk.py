"""A disk image: an MBR partition table and one bootable ext4 partition."""

from __future__ import annotations

import tempfile
from pathlib import Path

from virtual.images import EPOCH, tools
from virtual.images.tree import Tree, stage

_MIB = 1 << 20
_SECTOR_BYTES = 512
_UUID = "b0a2d1ab-0000-4000-8000-{:012x}"


def build(path: Path, tree: Tree, *, size_mib: int, identity: int) -> None:
    """Write a disk image of `size_mib` MiB to `path`.

    Args:
        identity: makes the identifiers of the disk and its file system; different disks of a board need others.

    Raises:
        ConfigurationError: e2fsprogs or fdisk is not installed.
        LabStableError: one of them failed, e.g. since the tree does not fit.
    """
    uuid = _UUID.format(identity)
    with tempfile.TemporaryDirectory(prefix="boardlab-disk-") as folder:
        names = stage(tree, Path(folder))
        with path.open("wb") as image:
            image.truncate(size_mib * _MIB)
        table = f"label: dos\nlabel-id: {0xB0A20000 + identity:#x}\nstart={_MIB // _SECTOR_BYTES}, type=83, bootable\n"
        tools.run(["sfdisk", "--quiet", path], stdin=table.encode())
        tools.run(
            [
                "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-O", "^has_journal,^metadata_csum",
                "-L", "boot", "-U", uuid, "-d", folder,
                "-E", f"offset={_MIB},hash_seed={uuid},root_owner=0:0,lazy_itable_init=0,nodiscard",
                path, f"{(size_mib - 1) * 1024}k",
            ],
            env={"E2FSPROGS_FAKE_TIME": str(EPOCH)},
        )  # fmt: skip
    _anonymous(path, names)


def _anonymous(path: Path, names: list[str]) -> None:
    """mke2fs takes owner, ctime and atime from the files it copies; make them root's and EPOCH's."""
    fields = {"uid": "0", "gid": "0", **dict.fromkeys(("atime", "ctime", "mtime", "crtime"), f"@{EPOCH}")}
    inodes = ["<2>", "<11>"] + [f"/{name}" for name in names if name != "."]  # the root and lost+found
    script = "".join(
        f'set_inode_field "{inode}" {field} {value}\n' for inode in inodes for field, value in fields.items()
    )
    tools.run(
        ["debugfs", "-w", "-f", "-", f"{path}?offset={_MIB}"],
        stdin=script.encode(),
        env={"E2FSPROGS_FAKE_TIME": str(EPOCH)},
    )
