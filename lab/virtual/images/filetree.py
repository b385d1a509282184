"""A file tree that becomes an image, and the initramfs of one."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from lab.virtual.images import EPOCH, tools


@frozen
class RegularFile:
    """A regular file of an image."""

    content: bytes
    mode: int = 0o644


@frozen
class Symlink:
    """A symbolic link of an image."""

    target: str


@frozen
class Directory:
    """A folder of an image; parents are made automatically."""

    mode: int = 0o755


Tree = Mapping[str, RegularFile | Symlink | Directory]


def stage(tree: Tree, folder: Path) -> list[str]:
    """Lay `tree` out under an empty `folder`.

    Returns all relative paths, sorted, "." first.

    Modes do not depend on the umask; all times are EPOCH.
    """
    paths = {"."}
    for name, entry in sorted(tree.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        match entry:
            case RegularFile():
                path.write_bytes(entry.content)
            case Symlink():
                path.symlink_to(entry.target)
            case Directory():
                path.mkdir(exist_ok=True)
        paths.add(name)
        paths.update(str(above) for above in Path(name).parents)
    for name in sorted(paths, reverse=True):  # children first: making one changes its folder's time
        path = folder / name
        if not path.is_symlink():
            made = tree.get(name, Directory())
            path.chmod(made.mode if not isinstance(made, Symlink) else 0o777)
        os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)
    return sorted(paths)


# --- Root file systems in memory: compressed newc cpio archives ---
# Kernel: driver-api/early-userspace/buffer-format.


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
