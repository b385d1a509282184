"""A board for tests: a pty that plays given bytes at power on, behind an HTTP power switch like pdudaemon's.

It knows no timing and no boot-mode straps; what misbehaves is written by the test.
"""

from __future__ import annotations

import os
import select
import threading
import tty
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlparse

from attrs import define, field

HEALTHY = (
    b"\r\nU-Boot 2023.01 (test)\r\n\r\nHit any key to stop autoboot:  0 \r\nBoot mode pins: sd \r\n\r\nStarting kernel ...\r\n\r\n"
    b"[    0.000000] Booting Linux on physical CPU 0x0\r\n[    0.000000] Linux version 6.1 (test)\r\n"
    b"[    0.000000] Kernel command line: console=ttyAMA0 bootmedia=sd\r\n[    0.500000] Run /init as init process\r\n"
    b"Root file system of medium sd\r\n\r\nqemu-virt login: "
)


@define(eq=False, slots=False)
class ScriptedBoard:
    """Plays `boots` one after the other, the last one for ever.

    Attributes:
        boots: what the board prints after each power on.
        stuck_relay: off is acknowledged and does nothing: the board goes on answering.
        status: the HTTP status of the power switch.
        on_power: called before each power command is answered, with "on" or "off".
    """

    boots: list[bytes] = field(factory=lambda: [HEALTHY])
    stuck_relay: bool = False
    status: int = 200
    on_power: Callable[[str], None] = field(default=lambda _command: None)
    powered: bool = field(default=False, init=False)
    typed: bytearray = field(factory=bytearray, init=False)
    commands: list[str] = field(factory=list, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _unplugged: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        board = self

        class Switch(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                command = urlparse(self.path).path.rsplit("/", 1)[-1]
                board.on_power(command)
                board.commands.append(command)
                self.send_response(board.status)
                self.end_headers()
                if board.status == 200:
                    board._power(command)

            def log_message(self, *_args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Switch)
        self.power_address = f"127.0.0.1:{self._server.server_port}"
        self._threads = [
            threading.Thread(target=self._server.serve_forever, daemon=True),
            threading.Thread(target=self._listen, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Unplug everything."""
        with self._lock:
            self._unplugged = True
        self._server.shutdown()
        self._server.server_close()
        os.close(self._slave)
        os.close(self._master)

    def say(self, data: bytes) -> None:
        """The board prints something."""
        os.write(self._master, data)

    def _power(self, command: str) -> None:
        if command == "on":
            with self._lock:
                while select.select([self._master], [], [], 0)[0]:
                    self.typed += os.read(self._master, 1024)  # at a board without power, which never answers it
                self.powered = True
            boot = self.boots.pop(0) if len(self.boots) > 1 else self.boots[0]
            self.say(boot)
        elif not self.stuck_relay:
            with self._lock:
                self.powered = False

    def _listen(self) -> None:
        while True:
            try:
                select.select([self._master], [], [])
                with self._lock:
                    if self._unplugged:  # the number may be another board's by now
                        return
                    if not select.select([self._master], [], [], 0)[0]:
                        continue
                    data = os.read(self._master, 1024)
                    self.typed += data
                    if self.powered:
                        self.say(data)  # a living board echoes, and none that was switched off meanwhile
            except (OSError, ValueError):
                return
