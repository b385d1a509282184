"""A root file system in memory: a compressed newc cpio archive (kernel: driver-api/early-userspace/buffer-format)."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from virtual.images import tools
from virtual.images.tree import Tree, stage


def build(tree: Tree) -> bytes:
    """The archive of `tree`, owned by root, gzip-compressed.

    Raises:
        ConfigurationError: cpio is not installed.
        LabStableError: cpio failed.
    """
    with tempfile.TemporaryDirectory(prefix="boardlab-initramfs-") as folder:
        names = stage(tree, Path(folder))
        archive = tools.run(
            ["cpio", "--quiet", "--create", "--null", "--format=newc", "--owner=0:0", "--reproducible"],
            cwd=Path(folder),
            stdin="".join(f"{name}\0" for name in names).encode(),
        )
    return gzip.compress(archive, compresslevel=6, mtime=0)
