"""TCP ports of loopback: the free ones, their owners, their allowed users.

The user who runs the bench, and root, may use its ports. Loopback keeps other machines out, not other users; but
the kernel knows whose the socket at the other end of a loopback connection is. A socket that its program has closed
belongs to nobody: kernels before 6.16 call it root's, so a client that is gone is refused in any case.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import random
import socket
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import psutil
from attrs import frozen

from lab.errors import ConfigurationError

_FIRST = 10_000
_TRIES = 100
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A free port outside the kernel's ephemeral range.

    See ip(7), ip_local_port_range.

    So it stays free for a later listener, unless another call has drawn the same one.
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
    """Listener on `port` for a message: process and command."""
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid is not None:
            with contextlib.suppress(psutil.Error):  # gone by now
                command = " ".join(psutil.Process(connection.pid).cmdline())
                return f"process {connection.pid} ({command[:80]})"
    return "another user's process"


# --- Access to the bench's ports ---


LOOPBACK: Final = "127.0.0.1"
_ROOT: Final = 0
_READ_BYTES: Final = 1 << 16  # asyncio's own limit of a line

# linux/inet_diag.h, linux/sock_diag.h and linux/netlink.h; sock_diag(7)
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_NO_COOKIE: Final = 0xFFFFFFFF
_HEADER: Final = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_REQUEST: Final = struct.Struct("=BBBxI")  # inet_diag_req_v2: family, protocol, extensions, states
_PORTS: Final = struct.Struct("!HH")  # inet_diag_sockid: ports, addresses, interface and cookie
_REST_OF_ID: Final = struct.Struct("=III")
_MESSAGE: Final = struct.Struct("=16x4x48x3I2I")  # inet_diag_msg: expires, queues, uid, inode
_ADDRESS_BYTES: Final = 16

_TABLE: Final = Path("/proc/net/tcp")  # a last resort: it takes milliseconds, the question above a hundredth of one

_log = logging.getLogger(__name__)

Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
Address = tuple[str, int]


@frozen
class Owner:
    """Owner of a socket.

    Attributes:
        uid: the user who made it.
        inode: of the socket; 0: no program has it open any more.
    """

    uid: int
    inode: int

    def may_use(self, uid: int) -> bool:
        """Return whether the owner may use a server of `uid`."""
        return self.inode != 0 and self.uid in {uid, _ROOT}


def peer_owner(connection: socket.socket) -> Owner | None:
    """Owner of a loopback connection's other end; None: it is gone."""
    try:
        peer, here = connection.getpeername(), connection.getsockname()
        owner = ask_kernel(peer, here) or find_in_table(_TABLE.read_text(encoding="ascii"), peer, here)
        connection.getpeername()  # still connected, so what was found is this peer's and not a successor's on its port
    except OSError:
        return None
    return owner


def ask_kernel(local: Address, remote: Address) -> Owner | None:
    """Owner of the TCP socket (IPv4) with these ends.

    None: there is none, or this kernel does not answer.
    """
    places = b"".join(socket.inet_aton(host).ljust(_ADDRESS_BYTES, b"\0") for host, _ in (local, remote))
    body = (
        _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF)
        + _PORTS.pack(local[1], remote[1])
        + places
        + _REST_OF_ID.pack(0, _NO_COOKIE, _NO_COOKIE)
    )
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
            kernel.send(_HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0) + body)
            answer = kernel.recv(1 << 12)
    except OSError:  # built without CONFIG_INET_DIAG
        return None
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:  # an error: no such socket, or no module that knows
        return None
    _, _, _, uid, inode = _MESSAGE.unpack_from(answer)
    return Owner(uid, inode)


def find_in_table(table: str, local: Address, remote: Address) -> Owner | None:
    """The same from the text of /proc/net/tcp (proc(5))."""
    wanted = [_as_in_table(local), _as_in_table(remote)]
    for line in table.splitlines()[1:]:
        columns = line.split()
        if columns[1:3] == wanted:
            return Owner(uid=int(columns[7]), inode=int(columns[9]))
    return None


async def listen(
    connected: Connected, where: Address | socket.socket, *, refusal: bytes = b"", limit: int = _READ_BYTES
) -> asyncio.Server:
    """Serve clients of our own user and of root only.

    It works as asyncio.start_server; others are sent away.

    Args:
        where: an address of loopback and a port, 0: a free one; or a socket that is bound.
        refusal: answer to the others.

    Raises:
        OSError: the port is in use.
    """
    strangers: set[Owner | None] = set()

    async def admit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        owner = peer_owner(writer.get_extra_info("socket"))
        if owner is not None and owner.may_use(os.getuid()):
            try:
                await connected(reader, writer)
            except asyncio.CancelledError:  # the program ends; the log's last line is its reason, not this client
                writer.transport.abort()
            return
        stranger = None if owner is None or owner.inode == 0 else Owner(owner.uid, 1)
        if stranger not in strangers:  # once: a stranger must not fill the disk either
            strangers.add(stranger)
            who = "a client that left at once" if stranger is None else f"user {stranger.uid}"
            _log.warning("port %d: refused %s; only user %d and root may use it", _port(writer), who, os.getuid())
        with contextlib.suppress(ConnectionError):
            writer.write(refusal)
            await writer.drain()
        writer.close()

    if isinstance(where, socket.socket):
        return await asyncio.start_server(admit, sock=where, limit=limit)
    return await asyncio.start_server(admit, *where, limit=limit)


def _port(writer: asyncio.StreamWriter) -> int:
    return int(writer.get_extra_info("sockname")[1])


def _as_in_table(address: Address) -> str:
    host, port = address
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"
