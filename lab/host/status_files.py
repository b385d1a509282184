"""Status files in the runtime folder, one JSON file each."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Final, TypeVar

from attrs import AttrsInstance, asdict, frozen

# A program that switches an outlet or samples rails writes one; the exporter reads it later. Neither waits for
# anybody, and a file survives the program that wrote it.


OUTLETS: Final = "outlets"  # folders in the runtime folder
RAILS: Final = "rails"
SAMPLERS: Final = "samplers"

Record = TypeVar("Record", bound=AttrsInstance)


@frozen
class OutletStatus:
    """An outlet of a power switch.

    Of a PDU as pdudaemon names it, or the port of an Automation Interface.

    Attributes:
        server: host:port of that pdudaemon, or the host of another switch; empty: this host's own. Two pdudaemons may
            have a PDU of the same name.
        command: the last one, "on" or "off".
        at: its time, seconds since 1970.
        duration_s: until the switch answered, or until we gave up.
        commands, failures: their numbers so far.
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
        rate_hz: recent samples per second.
        samples, gaps: their numbers so far.
        at: time of writing, seconds since 1970.
    """

    board: str
    rail: str
    rate_hz: float
    samples: int
    gaps: int
    at: float


@frozen
class SamplerStatus:
    """A running sampler of rails; viewers read its growing trace.

    Attributes:
        trace: path of the file.
        holder: the process that samples, or records another host's samples, as `lab.host.process` has it.
        ahead_ns: lead of the trace's clock over this host's.
    """

    board: str
    trace: str
    holder: str
    ahead_ns: int = 0


def write(folder: Path, name: str, record: AttrsInstance) -> None:
    """Write the status of `name`; an unwritable folder is ignored.

    So is another user's folder: it could contain links to files of ours.
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
    """Remove the status of `name`, unless it has changed since."""
    path = _path(folder, name)
    with contextlib.suppress(OSError, ValueError):
        if json.loads(path.read_text(encoding="utf-8")) == asdict(record):
            path.unlink()


def read_all(folder: Path, kind: type[Record]) -> list[Record]:
    """Read all valid statuses of a folder."""
    import cattrs  # noqa: PLC0415 - a tenth of a second, and few read these

    statuses = []
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, cattrs.BaseValidationError):
            statuses.append(cattrs.structure(json.loads(path.read_text(encoding="utf-8")), kind))
    return statuses


def _path(folder: Path, name: str) -> Path:
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"


def _is_ours(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
