"""HTTP to a socket of this host's file system, with `requests`: for a server that ssh forwards to it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from requests import PreparedRequest
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import NewConnectionError


class _Connection(HTTPConnection):
    path: Path

    def _new_conn(self) -> socket.socket:
        stream = socket.socket(socket.AF_UNIX)
        timeout = self.timeout
        stream.settimeout(timeout if isinstance(timeout, (int, float)) else None)
        try:
            stream.connect(str(self.path))
        except OSError as error:
            stream.close()
            raise NewConnectionError(self, f"{self.path}: {error.strerror or error}") from error
        return stream


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection
    path: Path

    def _new_conn(self) -> Any:
        connection: Any = super()._new_conn()
        connection.path = self.path
        return connection


class UnixAdapter(HTTPAdapter):
    """All requests of a session that it is mounted for go to one socket.

    Args:
        address: host:port where the server listens, for the header Host: some refuse any other, since a page in a browser could send it.
    """

    def __init__(self, path: Path, address: str) -> None:
        super().__init__()
        host, _, port = address.rpartition(":")
        self._pool = _Pool(host, int(port))
        self._pool.path = path

    def get_connection_with_tls_context(
        self,
        request: PreparedRequest,  # noqa: ARG002 - the base's signature
        verify: bool | str | None,  # noqa: ARG002
        proxies: Mapping[str, str] | None = None,  # noqa: ARG002
        cert: Any = None,  # noqa: ARG002
    ) -> Any:
        """See the base."""
        return self._pool
