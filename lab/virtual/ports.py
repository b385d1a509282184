"""TCP ports of the loopback interface: which are free, and who has those that are not."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from pathlib import Path

from lab.errors import ConfigurationError
from lab.virtual.guard import LOOPBACK

_LISTEN = "0A"  # include/net/tcp_states.h
_FIRST = 10_000
_TRIES = 100
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port that nobody has at this moment, and that the kernel gives nobody who asks it for any (ip(7), ip_local_port_range).

    So whoever listens on it later finds it free, unless somebody else has drawn the same one here.
    """
    end = int(_RANGE.read_text(encoding="ascii").split()[0])
    for _ in range(_TRIES if end > _FIRST else 0):
        port = random.randrange(_FIRST, end)  # noqa: S311 - not secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def require_free(port: int, option: str) -> None:
    """Make sure that a server can listen on `port`.

    Raises:
        ConfigurationError: somebody listens there already; the message says who, and that `option` chooses another.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: old connections do not count
        try:
            probe.bind((LOOPBACK, port))
            probe.listen()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ConfigurationError(
                    f"cannot listen on {LOOPBACK}:{port}: {error.strerror}; see {option}"
                ) from error
            raise ConfigurationError(
                f"{LOOPBACK}:{port} is in use by {owner(port)}; stop it, or choose another port with {option} "
                "(0 takes a free one)"
            ) from error


def owner(port: int) -> str:
    """Who listens on `port`, for a message: process and command as far as /proc tells."""
    inodes = set(_listening_inodes(port))
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # another user's, or gone by now
            for descriptor in (folder / "fd").iterdir():
                target = str(descriptor.readlink())
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    return f"process {folder.name} ({command[:80]})"
    return "another user's process"


def _listening_inodes(port: int) -> list[str]:
    inodes = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == _LISTEN and int(columns[1].rpartition(":")[2], 16) == port:
                    inodes.append(columns[9])
    return inodes
