"""The few words of QMP that a power input needs (QEMU: docs/interop/qmp-spec)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket

from lab.errors import LabTransientError

_log = logging.getLogger(__name__)


class Qmp:
    """A QMP connection over a socket; events are logged."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, sock: socket.socket) -> Qmp:
        """Wait for QEMU's greeting and negotiate; takes the socket over.

        Raises:
            LabTransientError: QEMU ended instead.
        """
        qmp = cls(*await asyncio.open_unix_connection(sock=sock))
        try:
            await qmp._message("QMP")
            await qmp.execute("qmp_capabilities")
        except BaseException:
            qmp.close()
            raise
        return qmp

    async def execute(self, command: str) -> None:
        """Run a command and wait until QEMU has done it.

        Raises:
            LabTransientError: QEMU refused it or ended.
        """
        self._writer.write(json.dumps({"execute": command}).encode() + b"\n")
        await self._message("return")

    async def follow(self) -> None:
        """Log events until QEMU ends."""
        with contextlib.suppress(ConnectionError):  # it was killed before it had read all that we said
            while line := await self._reader.readline():
                _log.info("QEMU: %s", line.decode().strip())

    def close(self) -> None:
        """Close the connection; QEMU goes on."""
        self._writer.close()

    async def _message(self, key: str) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await self._reader.readline():
                message = json.loads(line)
                if key in message:
                    return
                if "error" in message:
                    raise LabTransientError(f"QEMU refused: {message['error']['desc']}", failure="virtual_board")
        raise LabTransientError("QEMU ended before the board was powered", failure="virtual_board")
