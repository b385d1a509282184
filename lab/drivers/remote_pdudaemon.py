"""A pdudaemon on the loopback of another host, reached through ssh.

An order that is given up must not come late: the network comes back, a new connection is made and the board switched on, and then the
old connection's bytes arrive and switch it off. So each order has a connection of its own: ssh sends its bytes only when the other host
has answered to that (RFC 4254, section 5.1).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import requests
from attrs import define, field
from requests import PreparedRequest
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import NewConnectionError

from lab.host.ssh import SshLink
from lab.host.tcp import connected

Connect = Callable[[float | None], socket.socket]


@define
class RemotePdudaemon:
    """Requests to a pdudaemon of another host, through ssh.

    The socket belongs to this user alone: a forwarded TCP port would be open to every user of this host.

    Attributes:
        at: host:port there.
    """

    link: SshLink
    at: str
    session: requests.Session
    _generation: str = field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self.session.headers["Connection"] = "close"
        self.reconnected()

    def prepare(self) -> None:
        """Note the connection of ssh before a request is timed."""
        self._generation = self.link.generation()

    def reconnected(self) -> bool:
        """Return whether ssh had to connect anew.

        The old connection was cut, or hung and was ended.

        Raises:
            LabTransientError: there is none now.
        """
        local = self.link.forwarded(self.at)
        self.session.mount(f"http://{self.at}", _ConnectAdapter(partial(connected, local), self.at))
        return self.link.generation() != self._generation


class _Connection(HTTPConnection):
    connected: Connect

    def _new_conn(self) -> socket.socket:
        timeout = self.timeout
        try:
            return self.connected(timeout if isinstance(timeout, (int, float)) else None)
        except OSError as error:
            raise NewConnectionError(self, str(error.strerror or error)) from error


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection
    connected: Connect

    def _new_conn(self) -> Any:
        connection: Any = super()._new_conn()
        connection.connected = self.connected
        return connection

    def _put_conn(self, conn: Any) -> None:
        """End the connection, as the server may close it at any time.

        A server that does not announce that may keep the connection for a further request, or end it during that.
        """
        if conn is not None:
            conn.close()


class _ConnectAdapter(HTTPAdapter):
    """Sends each request of a session over a connection of its own.

    Args:
        connect: makes one, within so many seconds; it raises OSError where nobody answers.
        address: host:port where the server listens, for the header Host: some refuse any other, since a page in a browser could send it.
    """

    def __init__(self, connect: Connect, address: str) -> None:
        super().__init__()
        host, _, port = address.rpartition(":")
        self._pool = _Pool(host, int(port))
        self._pool.connected = connect

    def get_connection_with_tls_context(
        self,
        request: PreparedRequest,
        verify: bool | str | None,
        proxies: Mapping[str, str] | None = None,
        cert: Any = None,
    ) -> Any:
        """Return the pool of the ssh connection."""
        return self._pool
