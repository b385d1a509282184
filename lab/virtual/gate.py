"""The gate before pdudaemon, which obeys whoever reaches its port, and listens on nothing but TCP.

Clients, labgrid's own driver too, ask at the gate; it lets in the user of the bench (`lab.virtual.guard`). Behind it pdudaemon
knows the power switch under a secret name, a new one each time it starts: who comes to its own port finds no switch there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from attrs import frozen

from lab.errors import LabStableError
from lab.virtual import guard, http

PATIENCE_S: Final = 10.0  # pdudaemon starts within a second or two; who asks meanwhile waits
_POLL_S: Final = 0.05
_PIECE_BYTES: Final = 4096
_log = logging.getLogger(__name__)


@frozen
class House:
    """What is behind the gate: pdudaemon's port, and how it calls the power switch."""

    port: int = 0
    pdu: str = ""

    async def answers(self) -> bool:
        """Whether pdudaemon listens."""
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(guard.LOOPBACK, self.port)
            writer.close()
            return True
        return False


class Gate:
    """Passes on what our user asks, and what pdudaemon answers.

    Attributes:
        house: where pdudaemon is now.
    """

    def __init__(self, port: int, pdu: str, boards: Sequence[str]) -> None:
        """
        Args:
            port: of loopback, where to listen. pdu: the name of the power switch for clients.
            boards: the boards at its outlets 1, 2 and so on; a client may name one as `PDU/BOARD`, port 1.
        """
        self.house = House()
        self._port, self._pdu, self._boards = port, pdu, boards
        self._server: asyncio.Server | None = None

    async def open(self) -> str:
        """Listen. Returns host:port.

        Raises:
            LabStableError: somebody else has the port.
        """
        where = (guard.LOOPBACK, self._port)
        try:
            self._server = await guard.listen(self._serve, where, refusal=http.refusal(), limit=http.REQUEST_BYTES)
        except OSError as error:
            raise LabStableError(
                f"cannot listen on {guard.LOOPBACK}:{self._port}: {error.strerror}; choose another port with --pdu-port",
                failure="pdudaemon",
            ) from error
        return "{}:{}".format(*self._server.sockets[0].getsockname())

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(http.REQUEST_S):
                request = http.parse(await reader.readuntil(b"\r\n\r\n"))
            if isinstance(request, http.JsonResponse):
                writer.write(http.encoded(request))
            elif request.body is not None:
                writer.write(http.encoded(http.JsonResponse(HTTPStatus.METHOD_NOT_ALLOWED, {"error": "expected GET"})))
            elif (wrong := self._unknown(request.query)) is not None:
                writer.write(http.encoded(wrong))
            else:
                await self._ask(request.path, request.query, writer)
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.info("a client of pdudaemon got no answer: %r", error)
        finally:
            writer.close()

    def _unknown(self, query: Mapping[str, str]) -> http.JsonResponse | None:
        """The answer to a client that names a board which the bench has not."""
        pdu, slash, board = query.get("hostname", "").partition("/")
        if pdu != self._pdu or not slash or (board in self._boards and query.get("port", "1") == "1"):
            return None
        there = ", ".join(f"{self._pdu}/{name}" for name in self._boards)
        said = f"no outlet {query.get('port', '')} of {pdu}/{board} on this bench: it has outlet 1 of {there}"
        return http.JsonResponse(HTTPStatus.NOT_FOUND, {"error": said})

    def _inside(self, query: Mapping[str, str]) -> dict[str, str]:
        """The question as pdudaemon understands it."""
        pdu, _, board = query.get("hostname", "").partition("/")
        if pdu != self._pdu:
            return dict(query)
        outlet = {"port": str(self._boards.index(board) + 1)} if board else {}
        return {**query, "hostname": self.house.pdu, **outlet}

    async def _ask(self, path: str, query: Mapping[str, str], client: asyncio.StreamWriter) -> None:
        reader, writer = await self._enter()
        try:
            named = self._inside(query)
            target = f"{path}?{urlencode(named)}" if named else path
            head = f"GET {target} HTTP/1.1\r\nHost: {guard.LOOPBACK}:{self.house.port}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode("ascii"))
            while piece := await reader.read(_PIECE_BYTES):
                client.write(piece)
        finally:
            writer.close()

    async def _enter(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    return await asyncio.open_connection(guard.LOOPBACK, self.house.port)
                except ConnectionRefusedError:
                    await asyncio.sleep(_POLL_S)
