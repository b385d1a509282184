"""The rails of a board on the bench: its sensors' bus on a Unix socket, its load behind the board's state."""

from __future__ import annotations

import asyncio
import socket

from lab.boards import BoardType
from lab.host.clock import Clock
from lab.virtual.board import Backend, BoardFolder
from lab.virtual.outlet import Outlet
from lab.virtual.rails import i2cserver
from lab.virtual.rails.automation import Automation
from lab.virtual.rails.i2cserver import Wires
from lab.virtual.rails.iiod import Iiod
from lab.virtual.rails.sensors import Rails
from lab.virtual.truth import TruthLog


class BoardRails:
    """The rails of one board; it makes nothing for a type that has none.

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
            self._servers.append(await i2cserver.serve(self._folder.rails, wires))
            self._servers.append(await Iiod(self.rails, self._folder.name, self._clock).serve(self._listening))
            self._automation = Automation(
                self._folder.automation, self.rails, outlet, self._folder.straps, self._bits, self._clock
            )

    def close(self) -> None:
        """Nobody listens any more."""
        for server in self._servers:
            server.close()
        if self._automation is not None:
            self._automation.close()
        self._folder.rails.unlink(missing_ok=True)
