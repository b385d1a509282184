"""HTTP over connections that somebody else makes, with `requests`: for a server that ssh or TLS leads to."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from requests import PreparedRequest
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import NewConnectionError

Connect = Callable[[float | None], socket.socket]


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
        """End it: a server that says nothing of that may keep it for a further request, or end it while that is sent."""
        if conn is not None:
            conn.close()


class ConnectAdapter(HTTPAdapter):
    """All requests of a session that it is mounted for go over connections of one kind, each over one of its own.

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
        request: PreparedRequest,  # noqa: ARG002 - the base's signature
        verify: bool | str | None,  # noqa: ARG002
        proxies: Mapping[str, str] | None = None,  # noqa: ARG002
        cert: Any = None,  # noqa: ARG002
    ) -> Any:
        """See the base."""
        return self._pool
