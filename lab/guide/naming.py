"""What a guide is of, where no table names a board: the device in its list of modules, its title, its file's name or folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from lab.guide.model import Guide

# A device as vendors name theirs: some letters, a number, perhaps more letters. What else is spelled so is no device.
_DEVICE = re.compile(
    r"(?<![a-z0-9])([a-z]{1,4}(?!(?:19|20)\d\d)\d{2,4}[a-z]{0,3}\d?[a-z]?)(?![a-z0-9])", re.IGNORECASE
)
_NO_DEVICE = re.compile(
    r"(?:v|r|rev|rc|ver|sdk|psdk|run|git|py|utf|page|part|file|test|tmp|ch|sec|h|id|ext|usb|ddr|mp|md|db)\d.*", re.I
)
_FOLDERS = 3  # above the file


@frozen
class Named:
    """A name and where it was found: "given", "modules", "title", "file name" or "folder"."""

    name: str
    source: str


def device(guide: Guide, path: Path) -> Named | None:
    """The device that all tables of a guide are of, if the nearest place that names one names just one."""
    for text, source in _places(guide, path):
        found = {match.lower() for match in _DEVICE.findall(text) if not _NO_DEVICE.fullmatch(match)}
        if len(found) == 1:
            return Named(found.pop(), source)
    return None


def _places(guide: Guide, path: Path) -> Iterator[tuple[str, str]]:
    yield " ".join(module.name for module in guide.modules), "modules"
    yield guide.title, "title"
    yield path.stem.replace("_", " "), "file name"
    for folder in path.resolve().parts[-2 : -2 - _FOLDERS : -1]:
        yield folder.replace("_", " "), "folder"
