"""The board, software and equipment behind a written guide's numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from attrs import field, frozen

from lab import boards
from lab.judge.builds import board_software
from lab.results.listing import Overview
from lab.results.records import Attempt

_TITLES: Final = {  # of the versions that a boot named (lab.benchmarks.versions)
    "sysfw": "System firmware",
    "dm_firmware": "DM firmware",
    "tf_a": "TF-A",
    "optee": "OP-TEE",
    "uboot": "U-Boot",
    "kernel": "Linux",
}
_SHORT: Final = {
    "sysfw": re.compile(r"'([^']+)'"),
    "dm_firmware": re.compile(r"'([^']+)'"),
    "uboot": re.compile(r"U-Boot (\S+)"),
    "kernel": re.compile(r"Linux version (\S+)"),
}
_OS_NAME: Final = re.compile(r'PRETTY_NAME="?([^";]+)')
_ROOT: Final = "Root file system"
_MEDIA: Final = {"sd": "SD card", "emmc": "eMMC device"}


@frozen
class MeasuredSetup:
    """Board, software and equipment by a run's own records; empty: unknown.

    Attributes:
        board: revision, silicon and security state as the boot named them, in one text.
        software: component -> version.
        media: medium -> the device in it, e.g. {"sd": "SD card SR32G"}.
        clock_mhz: of the processor while it measured.
    """

    board: str = ""
    software: Mapping[str, str] = field(factory=dict)
    media: Mapping[str, str] = field(factory=dict)
    clock_mhz: float | None = None


def of_run(run: Overview) -> MeasuredSetup:
    """The setup of a run, from its good attempts."""
    good = [attempt for attempt in run.attempts if attempt.ok]
    named = run.software
    chip = " ".join(filter(None, (named.get("silicon"), named.get("security"))))
    board = named.get("board_revision") or named.get("device_tree", "")
    facts = {name: str(value) for a in good for name, value in dict(a.details.get("setup") or {}).items()}
    clock = re.fullmatch(r"(\d+(?:\.\d+)?) MHz", facts.get("clock", ""))
    return MeasuredSetup(
        " ".join(filter(None, (board, chip and f"({chip})"))),
        dict(_software(good, named, facts)),
        dict(_media(run.run.board_type, facts)),
        float(clock[1]) if clock else None,
    )


def _software(
    good: Sequence[Attempt], named: Mapping[str, str], facts: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for name, title in _TITLES.items():
        if text := named.get(name):
            match = _SHORT[name].search(text) if name in _SHORT else None
            yield title, match[1] if match else text
    names = (_OS_NAME.search(str(board_software(a.details).get("os_release", ""))) for a in good)
    if found := next(filter(None, names), None):
        yield _ROOT, found[1]
    for name, version in sorted(facts.items()):
        if name.startswith("tool "):
            yield name.removeprefix("tool "), version


def _media(board_type: str, facts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if board_type not in boards.names():
        return
    known = {device: medium for each in boards.load(board_type).evidence for device, medium in each.media.items()}
    for name, value in sorted(facts.items()):
        medium = known.get(name.removeprefix("card ")) if name.startswith("card ") else None
        if medium in _MEDIA:
            yield medium, f"{_MEDIA[medium]} {value}"


# --- A column of the guide ---


def module_of(board_type: str, setups: Iterable[MeasuredSetup], clock_mhz: float | None) -> tuple[str, str]:
    """(Name, description) of a board in the table of modules."""
    known = list(setups)
    model = boards.load(board_type) if board_type in boards.names() else None
    name = model.title if model else board_type
    clock = clock_mhz or next((each.clock_mhz for each in known if each.clock_mhz), None)
    text = " and ".join(dict.fromkeys(each.board for each in known if each.board)) or name
    if clock:
        text += f" with ARM running at {f'{clock / 1000:g}GHz' if clock >= 1000 else f'{clock:g}MHz'}"
    if model and model.identity and model.identity.memory:
        text += f", {model.identity.memory}"
    return name, text


def software_of(setups: Iterable[MeasuredSetup]) -> dict[str, str]:
    """Component -> its versions."""
    found: dict[str, dict[str, None]] = {}
    for each in setups:
        for name, version in each.software.items():
            found.setdefault(name, {})[version] = None
    return {name: " and ".join(versions) for name, versions in found.items()}
