"""Small files by which one program tells others how something is: one JSON file a thing, replaced as a whole.

Who switches an outlet or samples rails writes one, and forgets it; the exporter reads what is there. Nobody waits for
anybody, and a file survives the program that wrote it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Final, TypeVar

import cattrs
from attrs import AttrsInstance, asdict, frozen

OUTLETS: Final = "outlets"  # folders in the runtime folder
RAILS: Final = "rails"
SAMPLERS: Final = "samplers"

Record = TypeVar("Record", bound=AttrsInstance)


@frozen
class OutletStatus:
    """An outlet of a power switch: of a PDU as pdudaemon names it, or the port of an Automation Interface.

    Attributes:
        server: host:port of that pdudaemon, or the host of another switch; empty: this host's own. Two pdudaemons may
            have a PDU of the same name.
        command: the last one, "on" or "off". at: when it was given, seconds since 1970.
        duration_s: until the switch answered, or until we gave up.
        commands, failures: how many so far.
    """

    server: str
    pdu: str
    outlet: str
    command: str
    at: float
    duration_s: float
    commands: int
    failures: int


@frozen
class RailStatus:
    """A sensor of one rail of a board.

    Attributes:
        rate_hz: samples per second, lately. samples, gaps: how many so far.
        at: when this was written, seconds since 1970.
    """

    board: str
    rail: str
    rate_hz: float
    samples: int
    gaps: int
    at: float


@frozen
class SamplerStatus:
    """A sampler of a board's rails that is at work: who looks on reads its trace while it grows.

    Attributes:
        trace: path of the file. holder: the process that samples, or writes down what another host's samples, as `lab.host.process` has it.
        ahead_ns: so much the clock of the trace is ahead of this host's.
    """

    board: str
    trace: str
    holder: str
    ahead_ns: int = 0


def write(folder: Path, name: str, record: AttrsInstance) -> None:
    """Tell how `name` is. A folder that cannot be written is no reason to fail: nobody is told, that is all.

    Nor is one that is not ours: its owner could have put links into it that lead to files of ours.
    """
    path = _path(folder, name)
    aside = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        if not _is_ours(folder.parent):  # the runtime folder, which who owns it makes for one user
            return
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_ours(folder):
            return
        try:
            aside.write_text(json.dumps(asdict(record)), encoding="utf-8")
            aside.replace(path)
        except OSError:
            aside.unlink(missing_ok=True)  # the disk is full: half a file is of no use, nor an empty one
            raise


def forget(folder: Path, name: str, record: AttrsInstance) -> None:
    """Take back what was told of `name`, unless somebody told something else since."""
    path = _path(folder, name)
    with contextlib.suppress(OSError, ValueError):
        if json.loads(path.read_text(encoding="utf-8")) == asdict(record):
            path.unlink()


def read_all(folder: Path, kind: type[Record]) -> list[Record]:
    """What was told in that folder, without files that are no such record."""
    found = []
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, cattrs.BaseValidationError):
            found.append(cattrs.structure(json.loads(path.read_text(encoding="utf-8")), kind))
    return found


def _path(folder: Path, name: str) -> Path:
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"


def _is_ours(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
