"""TCP connections that notice when the other end is gone without a word."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


def keep_alive(connection: socket.socket) -> None:
    """Let a connection end within a minute after the other end is gone, and send each piece at once.

    It ends as well when the other end takes nothing for a minute of what waits for it.
    """
    for level, option, value in _ALIVE:
        connection.setsockopt(level, option, value)


def family_of(address: str) -> socket.AddressFamily:
    """Of an IP address as text."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def first_line(receive: Callable[[int], bytes], most_bytes: int) -> bytes:
    """The first line of a connection, and no byte behind it; without its end where the connection ended, or the line has more bytes.

    Args:
        receive: as `recv` of a socket.
    """
    line = b""
    while not line.endswith(b"\n") and len(line) < most_bytes and (more := receive(1)):
        line += more
    return line
