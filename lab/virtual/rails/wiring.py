"""The rails of a board on the bench: load, sensors, I2C bus.

The bus is a Unix socket with messages as the kernel's I2C_RDWR has them, and chips that answer. A request is `<H` (bytes
that follow), then for each message `<BBH` (address, 1 for a read, length) and, for a write, its bytes. The answer is
`<Hi` (bytes of data that follow, 0 or the negative errno) and what was read.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from lab.boards import BoardType
from lab.host.clock import Clock
from lab.virtual.board import Backend, BoardFolder
from lab.virtual.outlet import Outlet
from lab.virtual.rails.automation import Automation
from lab.virtual.rails.iiod import Iiod
from lab.virtual.rails.sensors import Rails
from lab.virtual.truth_log import TruthLog


class BoardRails:
    """Rails of one board, or nothing for a type without.

    Attributes:
        rails: None where the board type has none.
        iiod: host:port of its iiod; empty without rails.
    """

    def __init__(self, board: BoardType, folder: BoardFolder, backend: Backend, truth: TruthLog, clock: Clock) -> None:
        self.rails: Rails | None = None
        self.iiod = ""
        self._folder = folder
        self._clock = clock
        self._bits = board.boot_mode_bits
        self._servers: list[asyncio.Server] = []
        self._automation: Automation | None = None
        if not board.rails:
            return
        self.rails = Rails(board, backend.release, backend.seed, backend.troubles, truth.note)
        backend.state_hook = self.rails.enter
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.iiod = "{}:{}".format(*self._listening.getsockname()[:2])

    @property
    def address(self) -> str:
        """The socket's path; empty without rails."""
        return "" if self.rails is None else str(self._folder.rails)

    @property
    def automation(self) -> str:
        """The link to the Automation Interface's pty; empty without rails."""
        return "" if self.rails is None else str(self._folder.automation)

    async def start(self, outlet: Outlet) -> None:
        """Listen. `outlet` is what the Automation Interface switches.

        Raises:
            OSError: the socket cannot be made, e.g. since its path is too long.
        """
        if self.rails is not None:
            wires = Wires(self.rails.chip_at, self._clock)
            self._servers.append(await serve(self._folder.rails, wires))
            self._servers.append(await Iiod(self.rails, self._folder.name, self._clock).serve(self._listening))
            self._automation = Automation(
                self._folder.automation, self.rails, outlet, self._folder.straps, self._bits, self._clock
            )

    def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()
        if self._automation is not None:
            self._automation.close()
        self._folder.rails.unlink(missing_ok=True)


# --- The I2C bus ---


_LENGTH: Final = struct.Struct("<H")
_MESSAGE: Final = struct.Struct("<BBH")
_ANSWER: Final = struct.Struct("<Hi")


class SimulatedChip(Protocol):
    """A chip with 16-bit registers."""

    def write(self, register: int, value: int, now_ns: int) -> bool:
        """Write a register; False: no such register."""
        ...

    def read(self, register: int, now_ns: int) -> int | None:
        """Read a register; None: no such register."""
        ...


class Wires:
    """The bus: its chips and their register pointers.

    Args:
        chip_at: the chip that answers at an address now; None: none does.
    """

    def __init__(self, chip_at: Callable[[int], SimulatedChip | None], clock: Clock) -> None:
        self._chip_at = chip_at
        self._clock = clock
        self._pointers: dict[int, int] = {}

    def transfer(self, body: bytes) -> bytes:
        """Carry out the messages of one request; returns the answer."""
        now_ns = self._clock.now_ns()
        read = bytearray()
        place = 0
        try:
            while place < len(body):
                address, reads, length = _MESSAGE.unpack_from(body, place)
                place += _MESSAGE.size
                chip = self._chip_at(address)
                if chip is None:
                    return _ANSWER.pack(0, -errno.ENXIO)
                if reads:
                    value = chip.read(self._pointers.get(address, 0), now_ns)
                    if value is None:
                        return _ANSWER.pack(0, -errno.EIO)
                    read += value.to_bytes(2, "big")[:length].ljust(length, b"\xff")
                    continue
                data = body[place : place + length]
                place += length
                if not self._written(chip, address, data, now_ns):
                    return _ANSWER.pack(0, -errno.EIO)
        except struct.error:
            return _ANSWER.pack(0, -errno.EINVAL)
        return _ANSWER.pack(len(read), 0) + read

    def _written(self, chip: SimulatedChip, address: int, data: bytes, now_ns: int) -> bool:
        if data:
            self._pointers[address] = data[0]
        return len(data) < 3 or chip.write(data[0], int.from_bytes(data[1:3], "big"), now_ns)


class _Connection(asyncio.Protocol):
    """A master on the bus."""

    def __init__(self, wires: Wires) -> None:
        self._wires = wires
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _LENGTH.size and self._transport is not None:
            end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            body, self._received = self._received[_LENGTH.size : end], self._received[end:]
            self._transport.write(self._wires.transfer(body))


async def serve(path: Path, wires: Wires) -> asyncio.Server:
    """Listen on a Unix socket, in place of an older one.

    The path goes through /proc, so that it may be longer than the 107 bytes of a socket's address.
    """
    path.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        address = f"/proc/self/fd/{folder}/{path.name}"
        # From Python 3.13 on asyncio removes the file at the end, by its path of a folder that is closed by then
        kept: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        return await asyncio.get_running_loop().create_unix_server(lambda: _Connection(wires), address, **kept)
    finally:
        os.close(folder)
