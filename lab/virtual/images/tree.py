"""File trees of images, without traces of builder or time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from lab.virtual.images import EPOCH


@frozen
class File:
    """A regular file of an image."""

    content: bytes
    mode: int = 0o644


@frozen
class Link:
    """A symbolic link of an image."""

    target: str


@frozen
class Folder:
    """A folder of an image; parents are made automatically."""

    mode: int = 0o755


Tree = Mapping[str, File | Link | Folder]


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
            case File():
                path.write_bytes(entry.content)
            case Link():
                path.symlink_to(entry.target)
            case Folder():
                path.mkdir(exist_ok=True)
        paths.add(name)
        paths.update(str(above) for above in Path(name).parents)
    for name in sorted(paths, reverse=True):  # children first: making one changes its folder's time
        path = folder / name
        if not path.is_symlink():
            made = tree.get(name, Folder())
            path.chmod(made.mode if not isinstance(made, Link) else 0o777)
        os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)
    return sorted(paths)
