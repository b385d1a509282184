"""What a client looks at before its server opens a port of this host."""

from __future__ import annotations

from pathlib import Path

from lab.console.holders import holders, shared
from lab.console.serialport import is_tty, require_own_pty
from lab.errors import LabStableError


def looked_at(device: Path, server_pid: int) -> Path:
    """The port's absolute path; nobody else reads it, as far as can be seen.

    The link itself stays: it leads to the adapter when that comes back.

    Raises:
        LabTransientError: somebody else reads it, past the server.
        BoardlabError: it is a pty that is somebody else's.
    """
    path = device.absolute()
    path = path.parent.resolve() / path.name
    require_own_pty(path)
    if is_tty(path) and (error := shared(path, {server_pid})) is not None:
        raise error
    return path


def held(error: LabStableError, path: Path, server_pid: int) -> LabStableError:
    """The server's error that a port is in use, with those who hold it."""
    who = ", ".join(map(str, holders(path, {server_pid}))) or "one that this user cannot see"
    return LabStableError(f"{error}: {who}; end it and try again", failure=error.failure)
