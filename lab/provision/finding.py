"""Which release file is meant: a path, or the newest one of a folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError
from lab.provision.release import SUFFIX, Release
from lab.provision.releasefile import load
from lab.redaction import redacted

NEWEST: Final = "newest in "


def folder_of(text: str) -> str:
    """The folder of "newest in FOLDER"; empty: it is a path."""
    return text.removeprefix(NEWEST).strip() if text.startswith(NEWEST) else ""


def files_in(folder: Path) -> list[Path]:
    """The release files of a folder, the one that was written first first.

    Hidden ones are left out (an editor's locks, a draft), and those that cannot be looked at: deleted in this moment, links to nothing.
    """
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError):
            if not path.name.startswith("."):
                found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found)]


def find(text: str, board_type: str, base: Path) -> Release:
    """The release that an option means.

    Args:
        text: a path, or "newest in FOLDER": of the release files there that are for the board type, the one that was written last.
        base: where relative paths begin.

    Raises:
        ConfigurationError: there is no such file or folder, or the file is wrong.
    """
    if "://" in text:
        raise ConfigurationError(
            f"{redacted(text)}: a release file lies on the lab host; fetch it, and give its path. The files that it names may be URLs"
        )
    folder = folder_of(text)
    if not folder:
        return load(base / text)
    place = base / folder
    if not place.is_dir():
        raise ConfigurationError(
            f"{text}: there is no folder {place}; `lab release make` writes release files into one"
        )
    files = files_in(place)
    for path in reversed(files):
        release = load(
            path
        )  # a newest one that is wrong is an error: an older one would be measured in its place, unnoticed
        if board_type in release.boards:
            return release
    raise ConfigurationError(
        f"{text}: no release file there is for {board_type}" + (f" ({len(files)} are for others)" if files else "")
    )
