"""Whether a release file is whole: nobody writes it, or a file that it names, any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError
from lab.provision.release import Image
from lab.provision.releasefile import load

APART_S: Final = 2.0  # between two looks: a copy that goes on has grown, on a slow network, too
PATIENCE_S: Final = 3600.0  # an image of 16 GB at 10 MB/s takes half of it
_State = dict[str, tuple[int, ...] | None]


def settle(path: Path, sleep: Callable[[float], None] = time.sleep, patience_s: float = PATIENCE_S) -> None:
    """Wait until two looks at a release file and at the local files that it names find the same sizes and times.

    A copy that stands still is not told from one that is whole: the digests are for that (`lab.provision.checking`).

    Raises:
        ConfigurationError: it was still written after `patience_s`.
    """
    before, waited_s = _look(path), 0.0
    while True:
        sleep(APART_S)
        waited_s += APART_S
        now = _look(path)
        if now == before:
            return
        if waited_s >= patience_s:
            changed = ", ".join(name for name in now if now[name] != before.get(name))
            raise ConfigurationError(f"{path}: still written after {waited_s:.0f} s ({changed}): look who writes it")
        before = now


def _look(path: Path) -> _State:
    found = {str(path): _state(path)}
    try:
        release = load(path)
    except ConfigurationError:  # wrong, or half of it: its own state says when that changes
        return found
    named = [file.source for file in release.files]
    named += [file.bmap for file in release.files if isinstance(file, Image) and file.bmap]
    return found | {name: _state(Path(name)) for name in named if not name.startswith(("http://", "https://"))}


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
