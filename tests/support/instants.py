"""A board that says one instant by a pin, a CAN frame, its network and its console at once.

The kernel here has neither gpio-sim nor vcan. The pin is on the socket of `support.gpiod_lines`; the frame goes through python-can's own
client of socketcand, whose server this is.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import define, field


@define(eq=False)
class InstantBoard:
    """The board; its console is the end of a pty that the test opened.

    Attributes:
        folder: of the chip's socket. line: of the chip. frame: the frame's id.
    """

    folder: Path
    console: int
    line: int = 17
    frame: int = 0x123
    spread_ns: int = field(default=0, init=False)
    _pins: list[socket.socket] = field(factory=list, init=False)
    _buses: list[socket.socket] = field(factory=list, init=False)
    _chip: socket.socket = field(init=False)
    _can: socket.socket = field(init=False)
    _net: socket.socket = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._chip = socket.socket(socket.AF_UNIX)
        self._chip.bind(str(self.folder / "chip"))
        self._chip.listen()
        self._can = socket.create_server(("127.0.0.1", 0))
        self._net = socket.socket()
        self._net.bind(("127.0.0.1", 0))
        for server, take in ((self._chip, self._pins.append), (self._can, self._welcome)):
            threading.Thread(target=self._serve, args=(server, take), daemon=True).start()

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses for `measure.answers`."""
        host, port = self._can.getsockname()
        return {
            "app.pin": f"gpio://{self.folder}/chip/{self.line}",
            "app.frame": f"can://can0/{self.frame:x}?interface=socketcand&host={host}&port={port}",
            "app.port": f"tcp://127.0.0.1:{self._net.getsockname()[1]}",
        }

    def wait(self) -> None:
        """Wait until the pin and the bus are listened to."""
        ends = time.monotonic() + 20
        while not (self._pins and self._buses):
            assert time.monotonic() < ends, "nobody listens to the board"
            time.sleep(0.001)

    def fire(self, text: bytes) -> None:
        """The instant; before it come edges and frames of others. A busy host tears it apart by `spread_ns`."""
        before, wall = time.monotonic_ns() - 5_000_000, time.time() - 0.005
        self._send(self._pins, f"{self.line + 1} rising {before}\n{self.line} falling {before}\n")
        self._send(self._buses, f"< frame {self.frame + 1:03X} {wall:.6f} 00 >")
        began_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        edge, wall = time.monotonic_ns(), time.time()
        os.write(self.console, text)
        self._net.listen()
        self.spread_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - began_ns
        self._send(self._pins, f"{self.line} rising {edge}\n")
        self._send(self._buses, f"< frame {self.frame:03X} {wall:.6f} 01 >")

    def close(self) -> None:
        """End everything."""
        for each in (self._chip, self._can, self._net, *self._pins, *self._buses):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self, server: socket.socket, take: object) -> None:
        with contextlib.suppress(OSError):
            while True:
                take(server.accept()[0])  # type: ignore[operator]

    def _welcome(self, bus: socket.socket) -> None:
        bus.sendall(b"< hi >")
        for _ in ("open", "rawmode"):
            bus.recv(200)
            bus.sendall(b"< ok >")
        self._buses.append(bus)

    @staticmethod
    def _send(listeners: list[socket.socket], text: str) -> None:
        for each in listeners:
            each.sendall(text.encode())


@contextlib.contextmanager
def instant_board(folder: Path, console: int) -> Iterator[InstantBoard]:
    """The board; it is closed at the end."""
    board = InstantBoard(folder, console)
    try:
        yield board
    finally:
        board.close()
