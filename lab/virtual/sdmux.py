"""SD multiplexer: the card's image is in one place only.

It is at the board, at the host or between the two.

It is one file that is moved, so a writer at another place finds no file there. No program may have it open while it is
moved: neither a powered board nor a program at the host that still writes.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError, LabStableError
from lab.virtual.board import BoardFolder

BOARD, HOST, OFF = "dut", "host", "off"  # the words of the program usbsdmux
_CARD: Final = "sd"


def host_image(folder: BoardFolder) -> Path:
    """The card while it is at the host."""
    return folder.sdmux / f"{_CARD}.img"


def position(folder: BoardFolder) -> str:
    """Position of the card.

    Raises:
        ConfigurationError: the board has no card.
    """
    found = [place for place, path in _places(folder).items() if path.exists()]
    if len(found) != 1:
        raise ConfigurationError(f"{folder.name} has {len(found)} cards; `lab virtual up --fresh` gives it one")
    return found[0]


def is_away(folder: BoardFolder) -> bool:
    """Return whether the card is away from the board."""
    return any(path.exists() for place, path in _places(folder).items() if place != BOARD)


def switch(folder: BoardFolder, place: str, *, is_on: bool) -> None:
    """Move the card.

    Raises:
        ConfigurationError: there is no such place, or no card.
        LabStableError: the board has power, or somebody has the card open.
    """
    places = _places(folder)
    if place not in places:
        raise ConfigurationError(f"expected {', '.join(places)}; got {place[:20]!r}")
    now = position(folder)
    if now == place:
        return
    if is_on and BOARD in {now, place}:
        raise LabStableError(f"{folder.name} is on: its card is not taken away or put in; switch it off first")
    _expect_unused(places[now])
    try:
        places[place].parent.mkdir(parents=True, exist_ok=True)
        places[now].rename(places[place])
    except OSError as error:
        raise LabStableError(
            f"{places[place]}: the card cannot be moved there: {error.strerror}; free space there, or see who owns it",
            failure="multiplexer_failed",
        ) from error


def _places(folder: BoardFolder) -> dict[str, Path]:
    return {BOARD: folder.medium(_CARD), HOST: host_image(folder), OFF: folder.sdmux / f"{_CARD}.off.img"}


def _expect_unused(path: Path) -> None:
    """Make sure that no program has the file open.

    A lease for writing needs that (fcntl(2), F_SETLEASE).
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            why = "somebody has the card open, perhaps still writes it"
        else:
            why = (
                f"whether somebody has the card open cannot be told ({error.strerror}); it must be a file of your own, on a "
                "file system that knows leases (ext4, XFS, Btrfs, tmpfs): `lab virtual up --dir` on another one"
            )
        raise LabStableError(f"{path}: {why}; it is not moved", failure="multiplexer_failed") from error
