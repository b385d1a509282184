"""Root file systems in memory: compressed newc cpio archives.

Kernel: driver-api/early-userspace/buffer-format.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from lab.virtual.images import tools
from lab.virtual.images.tree import Tree, stage

_CHARACTER_DEVICE = 0o020000
_CONSOLE = (5, 1)  # Documentation/admin-guide/devices.txt


def build(tree: Tree) -> bytes:
    """The archive of `tree` with /dev/console, owned by root, gzip-compressed.

    The kernel gives its console to the first program only where there is a node of it; making one takes root, so that
    is a second archive behind the first, which the kernel reads as well.

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
    device = _entry("dev/console", _CHARACTER_DEVICE | 0o600, _CONSOLE) + _entry("TRAILER!!!", 0, (0, 0))
    return gzip.compress(archive + device, compresslevel=6, mtime=0)


def _entry(name: str, mode: int, device: tuple[int, int]) -> bytes:
    """Header of a newc entry: fourteen hexadecimal numbers and the name."""
    path = name.encode() + b"\0"
    numbers = [0, mode, 0, 0, 1, 0, 0, 0, 0, *device, len(path), 0]
    entry = b"070701" + b"".join(b"%08X" % number for number in numbers) + path
    return entry + bytes(-len(entry) % 4)
