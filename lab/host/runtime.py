"""The runtime folder of console server and clients."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from attrs import AttrsInstance, asdict, frozen

from lab.errors import ConfigurationError

EXIT_TWICE = 3  # of a server that finds another one in the folder
MAX_SOCKET_PATH_BYTES = 107  # sun_path of unix(7), less the final NUL
_ADVICE = "set BOARDLAB_RUNTIME to a folder of your own"


def runtime_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """`$BOARDLAB_RUNTIME`, else `$XDG_RUNTIME_DIR/boardlab`, else `/tmp/boardlab-<uid>`. Nothing is created."""
    if own := environ.get("BOARDLAB_RUNTIME"):
        return Path(own).absolute()
    if session := environ.get("XDG_RUNTIME_DIR"):
        return Path(session).absolute() / "boardlab"
    return Path(f"/tmp/boardlab-{os.getuid()}")  # noqa: S108  (its owner and mode are checked before it is used)


def prepare(runtime: Path) -> Path:
    """Create the folder for this user alone, or check it.

    Raises:
        ConfigurationError: it cannot be created, belongs to another user, is open to others, or its path is too long
            for a socket.
    """
    try:
        runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{runtime}: cannot be created: {error.strerror}; {_ADVICE}") from error
    check_owner(runtime)
    path = socket_path(runtime)
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise ConfigurationError(
            f"{path}: longer than the {MAX_SOCKET_PATH_BYTES} bytes that a socket's path may have; "
            "set BOARDLAB_RUNTIME to a shorter one"
        )
    recordings_dir(runtime).mkdir(mode=0o700, exist_ok=True)
    return runtime


def check_owner(runtime: Path) -> None:
    """Check that the folder is this user's alone.

    Clients check too: another user's server could send anything.

    Raises:
        ConfigurationError: it belongs to another user, is open to others, is no folder, or is missing.
    """
    try:
        status = runtime.lstat()
    except OSError as error:
        raise ConfigurationError(f"{runtime}: {error.strerror}; {_ADVICE}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigurationError(f"{runtime}: not a folder; {_ADVICE}")
    if status.st_uid != os.getuid():
        raise ConfigurationError(f"{runtime}: belongs to user {status.st_uid}, not to {os.getuid()}; {_ADVICE}")
    if status.st_mode & 0o077:
        raise ConfigurationError(
            f"{runtime}: others may enter it (mode {stat.S_IMODE(status.st_mode):o}); chmod 700 it, or {_ADVICE}"
        )


def socket_path(runtime: Path) -> Path:
    """The server's socket."""
    return runtime / "console.sock"


def log_path(runtime: Path) -> Path:
    """The server's log."""
    return runtime / "console.log"


def lock_path(runtime: Path) -> Path:
    """The server's lock file with its process id."""
    return runtime / "console.lock"


def server_pid(runtime: Path) -> int:
    """The server's last process id; 0: none ever."""
    try:
        return int(lock_path(runtime).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def recordings_dir(runtime: Path) -> Path:
    """The folder of live recordings."""
    return runtime / "recordings"


# --- Status files, one JSON file each ---
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
