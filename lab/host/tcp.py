"""TCP connections that detect a vanished peer, and addresses."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import struct
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError

# 30 s without data, then 3 probes of 10 s; or 60,000 ms with unacknowledged data (tcp(7)).
_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


def keep_alive(connection: socket.socket) -> None:
    """Make a connection end within a minute after its peer vanished.

    It also ends if the peer takes no waiting data for a minute. Each piece is sent at once (TCP_NODELAY).
    """
    for level, option, value in _ALIVE:
        connection.setsockopt(level, option, value)


def family_of(address: str) -> socket.AddressFamily:
    """Address family of an IP address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def first_line(receive: Callable[[int], bytes], most_bytes: int) -> bytes:
    """Read the first line of a connection, and no byte behind it.

    It has no line end if the connection ended or the line is too long.

    Args:
        receive: as `recv` of a socket.
    """
    line = b""
    while not line.endswith(b"\n") and len(line) < most_bytes and (more := receive(1)):
        line += more
    return line


_DISCARD: Final = 9  # RFC 863; nothing is sent to it


def is_loopback(host: str) -> bool:
    """True for a loopback address or name: 127.0.0.0/8, ::1, "localhost"."""
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def is_own(host: str) -> bool:
    """True if a name or address leads to this host."""
    if is_loopback(host):
        return True
    try:
        return own_address(host) in {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except (ConfigurationError, OSError):
        return False


def own_address(towards: str) -> str:
    """This host's address towards another one, without sending a packet.

    Raises:
        ConfigurationError: no route to it, or an unknown name.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(towards, _DISCARD, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as asks:
            asks.connect(address)
            return str(asks.getsockname()[0])
    except (OSError, UnicodeError) as error:  # the latter: no name of a host at all, e.g. with two dots in a row
        raise ConfigurationError(
            f"{towards}: this host knows no way there ({getattr(error, 'strerror', None) or error}); `ip route "
            "get` shows it"
        ) from error


# Under /proc/net, proc_net_tcp of the kernel's documents.
_TABLES: Final = {socket.AF_INET: "tcp", socket.AF_INET6: "tcp6"}
_LOCAL, _REMOTE, _UID = 1, 2, 7  # columns


def peer_user(connection: socket.socket, proc: Path = Path("/proc")) -> int | None:
    """User id of the process at a loopback connection's other end.

    None: it is of another host, or ended already.
    """
    if not is_loopback(connection.getpeername()[0]):
        return None
    # Both ends count: another user's connection may have the same port at this one, and a closed one has user 0.
    peer, ours = (
        _in_table(connection.family, *end[:2]) for end in (connection.getpeername(), connection.getsockname())
    )
    for line in (proc / "net" / _TABLES[socket.AddressFamily(connection.family)]).read_text("ascii").splitlines()[1:]:
        columns = line.split()
        if (columns[_LOCAL], columns[_REMOTE]) == (peer, ours):
            return int(columns[_UID])
    return None


def _in_table(family: int, address: str, port: int) -> str:
    """An end of a connection as the kernel's tables write it."""
    packed = socket.inet_pton(family, address.partition("%")[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def may_use(uid: int) -> bool:
    """True for root, this process's user, and the members of its group."""
    if uid in {0, os.getuid()}:
        return True
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return False
    return os.getgid() in os.getgrouplist(user.pw_name, user.pw_gid)


def own_group() -> str:
    """Name or number of this process's group."""
    try:
        return grp.getgrgid(os.getgid()).gr_name
    except KeyError:
        return str(os.getgid())


def connect_unix(path: Path, timeout_s: float | None) -> socket.socket:
    """Connect to a Unix socket.

    Args:
        timeout_s: limit of the connecting and of each later call; None: no limit.

    Raises:
        OSError: no server listens.
    """
    stream = socket.socket(socket.AF_UNIX)
    try:
        stream.settimeout(timeout_s)
        stream.connect(str(path))
    except BaseException:
        stream.close()
        raise
    return stream
