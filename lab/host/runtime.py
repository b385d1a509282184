"""The runtime folder of console server and clients."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from lab.errors import ConfigurationError

EXIT_TWICE = 3  # of a server that finds another one in the folder
MAX_SOCKET_PATH_BYTES = 107  # sun_path of unix(7), less the final NUL
_ADVICE = "set BOARDLAB_RUNTIME to a folder of your own"


def runtime_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of this user's runtime folder; nothing is created.

    `$BOARDLAB_RUNTIME`, else `$XDG_RUNTIME_DIR/boardlab`, else `/tmp/boardlab-<uid>`.
    """
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
