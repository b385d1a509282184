"""Connections over a socket of this host's file system."""

from __future__ import annotations

import socket
from pathlib import Path


def connected(path: Path, timeout_s: float | None) -> socket.socket:
    """A new connection; the limit stays its own.

    Raises:
        OSError: nobody listens there.
    """
    stream = socket.socket(socket.AF_UNIX)
    try:
        stream.settimeout(timeout_s)
        stream.connect(str(path))
    except BaseException:
        stream.close()
        raise
    return stream
