"""The CAN buses of a bench's boards: a server of socketcand's protocol on loopback.

Its clients are python-can's interface `socketcand`, and others. A bus has the name of its board. Frames go from boards to clients
only, with this host's CLOCK_REALTIME as socketcand takes it from the kernel (https://github.com/linux-can/socketcand,
doc/protocol.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Collection
from typing import Final

from attrs import define, field

from lab.virtual import ports

READY_ID: Final = 0x123  # of the frame by which a board's application says that it is ready
_COMMAND: Final = re.compile(rb"<\s*([^<>]*?)\s*>")
_COMMAND_BYTES: Final = 200
_log = logging.getLogger(__name__)


@define(eq=False)
class SocketCanDaemon:
    """Serves a bus for each board.

    Attributes:
        boards: their names.
    """

    boards: Collection[str]
    _listeners: dict[asyncio.StreamWriter, str] = field(factory=dict, init=False)
    _server: asyncio.Server | None = field(default=None, init=False)

    async def listen(self) -> str:
        """Listen on a free port of loopback. Returns host:port."""
        self._server = await ports.listen(self._serve, (ports.LOOPBACK, 0), limit=_COMMAND_BYTES)
        return "{}:{}".format(*self._server.sockets[0].getsockname()[:2])

    def send(self, board: str, frame: int = READY_ID, data: bytes = b"\x01") -> None:
        """Send a frame to all that listen to a board's bus."""
        text = f"< frame {frame:03X} {time.time():.6f} {data.hex().upper()} >".encode()
        for listener, bus in self._listeners.items():
            if bus == board:
                listener.write(text)

    def close(self) -> None:
        """Send the clients away and stop listening."""
        if self._server is not None:
            self._server.close()
        for listener in self._listeners:
            listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bus = ""
        writer.write(b"< hi >")
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while True:
                command = await reader.readuntil(b">")
                words = (_COMMAND.search(command) or [b"", b""])[1].decode("ascii", errors="replace").split()
                match words:
                    case ["open", name] if name in self.boards:
                        bus, answer = name, "< ok >"
                    case ["rawmode"] if bus:
                        answer = "< ok >"
                    case ["echo"]:
                        answer = "< echo >"
                    case ["open", name]:
                        answer = f"< error no bus {name}; there are {' '.join(self.boards)} >"
                    case _:
                        answer = "< error unknown command >"
                writer.write(answer.encode())
                if words == ["rawmode"] and bus:
                    self._listeners[writer] = bus
                await writer.drain()
        self._listeners.pop(writer, None)
        writer.close()
