"""Modules, software and conditions behind a written guide's numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from attrs import field, frozen

from lab import boards
from lab.guide import layout
from lab.guide.write.entries import GuideEntry
from lab.judge.builds import board_software
from lab.results.listing import Overview
from lab.results.records import PUBLISHED, Attempt, Run

_TITLES: Final = {  # of the versions that a boot named (lab.benchmarks.versions)
    "sysfw": "System firmware",
    "dm_firmware": "DM firmware",
    "tf_a": "TF-A",
    "optee": "OP-TEE",
    "uboot": "U-Boot",
    "kernel": "Linux",
}
# The part of such a text that a guide prints; others are printed whole.
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


def read_setup(run: Overview) -> MeasuredSetup:
    """The setup of a run, from its good attempts."""
    good = [attempt for attempt in run.attempts if attempt.ok]
    versions = run.software
    chip = " ".join(filter(None, (versions.get("silicon"), versions.get("security"))))
    board = versions.get("board_revision") or versions.get("device_tree", "")
    facts = {name: str(value) for a in good for name, value in dict(a.details.get("setup") or {}).items()}
    clock = re.fullmatch(r"(\d+(?:\.\d+)?) MHz", facts.get("clock", ""))
    return MeasuredSetup(
        " ".join(filter(None, (board, chip and f"({chip})"))),
        dict(_software(good, versions, facts)),
        dict(_media(run.run.board_type, facts)),
        float(clock[1]) if clock else None,
    )


def _software(
    good: Sequence[Attempt], versions: Mapping[str, str], facts: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield each component with its version.

    They are those that the boot named, the root file system, and the tools of the sections.
    """
    for name, title in _TITLES.items():
        if text := versions.get(name):
            match = _SHORT[name].search(text) if name in _SHORT else None
            yield title, match[1] if match else text
    names = (_OS_NAME.search(str(board_software(a.details).get("os_release", ""))) for a in good)
    if os_name := next(filter(None, names), None):
        yield _ROOT, os_name[1]
    for name, version in sorted(facts.items()):
        if name.startswith("tool "):
            yield name.removeprefix("tool "), version


def _media(board_type: str, facts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each medium with the card in it.

    The board type says which of the kernel's devices is which medium.
    """
    if board_type not in boards.names():
        return
    medium_of = {
        device: medium for proof in boards.load(board_type).evidence for device, medium in proof.media.items()
    }
    for name, value in sorted(facts.items()):
        medium = medium_of.get(name.removeprefix("card ")) if name.startswith("card ") else None
        if medium in _MEDIA:
            yield medium, f"{_MEDIA[medium]} {value}"


@frozen
class BoardColumn:
    """A board of a written guide, with the runs behind its numbers.

    Attributes:
        runs: those with its numbers, newest first.
        setups: by run, of the runs that gave measured numbers, oldest first.
        failures: what is left out since cycles failed.
    """

    board: str
    runs: tuple[Run, ...]
    entries: tuple[GuideEntry, ...]
    setups: Mapping[int, MeasuredSetup]
    failures: tuple[str, ...]


def modules_of(columns: Iterable[BoardColumn]) -> tuple[tuple[str, str], ...]:
    """(Name, description) of each evaluation module."""
    modules: list[tuple[str, str]] = []
    for column in columns:
        if column.setups:
            modules.append(_measured_module(column))
        for run in column.runs:
            module = run.provenance.get("module")
            if module and module["name"] not in {name for name, _ in modules}:
                modules.append((module["name"], module["description"]))
    return tuple(modules)


def _measured_module(column: BoardColumn) -> tuple[str, str]:
    """Name and description of a measured board, as vendors print them."""
    board_type = next(run.board_type for run in column.runs if run.kind != PUBLISHED)
    model = boards.load(board_type) if board_type in boards.names() else None
    name = model.title if model else board_type
    setups = column.setups.values()
    clocks_mhz = [e.value for e in column.entries if e.metric == "cpu.clock" and e.evidence.samples and e.value]
    clocks_mhz += [setup.clock_mhz for setup in setups if setup.clock_mhz]
    text = " and ".join(dict.fromkeys(setup.board for setup in setups if setup.board)) or name
    if clocks_mhz:
        clock = clocks_mhz[0]
        text += f" with ARM running at {f'{clock / 1000:g}GHz' if clock >= 1000 else f'{clock:g}MHz'}"
    if model and model.identity and model.identity.memory:
        text += f", {model.identity.memory}"
    return name, text


def software_of(columns: Iterable[BoardColumn]) -> dict[str, dict[str, str]]:
    """Component -> board -> its versions."""
    software: dict[str, dict[str, str]] = {}
    for column in columns:
        versions: dict[str, dict[str, None]] = {}
        for setup in column.setups.values():
            for component, version in setup.software.items():
                versions.setdefault(component, {})[version] = None
        for component, names in versions.items():
            software.setdefault(component, {})[column.board] = " and ".join(names)
    return software


def conditions_of(columns: Sequence[BoardColumn]) -> dict[str, tuple[str, ...]]:
    """Top chapter -> conditions, prefixed with their boards unless they concern all.

    They are the devices of the media that measured numbers used, and what the imported guides state.
    """
    stated: dict[str, dict[str, dict[str, None]]] = {}  # top chapter -> text -> boards
    present: dict[str, set[str]] = {}  # top chapter -> boards with numbers
    for column in columns:
        texts: list[tuple[str, str]] = []
        for entry in column.entries:
            place = layout.load().place(entry.metric, entry.params) or entry.origin
            top = next(iter(place.chapter), "") if place else ""
            present.setdefault(top, set()).update([column.board] if top else [])
            setup = column.setups.get(entry.evidence.run_id)
            device = setup.media.get(entry.params.get("medium", "")) if setup else None
            if device and top:
                texts.append((top, device))
        for run in column.runs:
            for top, statements in (run.provenance.get("conditions") or {}).items():
                texts += [(top, statement) for statement in statements]
        for top, text in texts:
            stated.setdefault(top, {}).setdefault(text, {})[column.board] = None
    return {
        top: tuple(
            text if present.get(top, set()).issubset(names) else f"{', '.join(names)}: {text}"
            for text, names in texts_of_chapter.items()
        )
        for top, texts_of_chapter in stated.items()
    }
