"""A UART on a TCP port of loopback: raw bytes both ways.

It is for clients that take no pty (labgrid's NetworkSerialPort).

The server is a reader of the UART's pty, as ser2net is of a real adapter: it opens the pty while a client is there,
and shares it with nobody. So pacing, adapter faults and the truth log are the same on both ways.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from pathlib import Path

from lab.errors import LabStableError
from lab.virtual import ports

_PIECE_BYTES = 4096
_log = logging.getLogger(__name__)


class TcpUart:
    """Serves the pty behind `device` to one client at a time."""

    def __init__(self, device: Path) -> None:
        self._device = device
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def listen(self, port: int) -> str:
        """Listen on this port of loopback, 0: a free one. Returns host:port.

        Raises:
            LabStableError: somebody else has the port.
        """
        try:
            self._server = await ports.listen(self._serve, (ports.LOOPBACK, port))
        except OSError as error:
            raise LabStableError(
                f"{self._device}: cannot listen on {ports.LOOPBACK}:{port}: {error.strerror}; choose other ports with --tcp-port",
                failure="tcp_port",
            ) from error
        return "{}:{}".format(*self._server.sockets[0].getsockname()[:2])

    async def close(self) -> None:
        """Send the client away and stop listening."""
        if self._server is not None:
            self._server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._clients.add(task)
        try:
            with contextlib.closing(writer), contextlib.suppress(asyncio.CancelledError):
                await self._lend(reader, writer)
        except OSError as error:  # no adapter, somebody else reads it, or the adapter or the client went away
            _log.info("%s: %s", self._device, error.strerror)
        finally:
            self._clients.discard(task)

    async def _lend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fd = os.open(self._device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ways = [asyncio.ensure_future(way) for way in (self._to_client(fd, writer), self._to_board(reader, fd))]
            try:
                done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
            for way in done:
                way.result()
        finally:
            os.close(fd)

    async def _to_client(self, fd: int, writer: asyncio.StreamWriter) -> None:
        while True:
            await self._ready(fd, writing=False)
            data = os.read(fd, _PIECE_BYTES)
            if not data:  # a hang-up: the adapter was unplugged
                return
            writer.write(data)
            await writer.drain()  # a client that does not read loses bytes, as any slow reader of the pty

    async def _to_board(self, reader: asyncio.StreamReader, fd: int) -> None:
        while data := await reader.read(_PIECE_BYTES):
            while data:
                await self._ready(fd, writing=True)
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(fd, data) :]

    async def _ready(self, fd: int, *, writing: bool) -> None:
        ready = asyncio.Event()
        if writing:
            self._loop.add_writer(fd, ready.set)
        else:
            self._loop.add_reader(fd, ready.set)
        try:
            await ready.wait()
        finally:
            if writing:
                self._loop.remove_writer(fd)
            else:
                self._loop.remove_reader(fd)
