"""The rails of a board on the bench: its sensors' bus on a Unix socket, its load behind the board's state."""

from __future__ import annotations

import asyncio

from lab.boards import BoardType
from lab.clock import Clock
from virtual.board import Backend, BoardFolder
from virtual.rails import i2cserver
from virtual.rails.i2cserver import Wires
from virtual.rails.sensors import Rails
from virtual.truth import TruthLog


class BoardRails:
    """The rails of one board; it makes nothing for a type that has none.

    Attributes:
        rails: None where the board type has none.
    """

    def __init__(self, board: BoardType, folder: BoardFolder, backend: Backend, truth: TruthLog, clock: Clock) -> None:
        self.rails: Rails | None = None
        self._folder = folder
        self._clock = clock
        self._servers: list[asyncio.Server] = []
        if not board.rails:
            return
        self.rails = Rails(board, backend.release, backend.seed, backend.troubles, truth.note)
        backend.state_hook = self.rails.enter

    @property
    def address(self) -> str:
        """The socket's path; empty without rails."""
        return "" if self.rails is None else str(self._folder.rails)

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the socket cannot be made, e.g. since its path is too long.
        """
        if self.rails is not None:
            wires = Wires(self.rails.chip_at, self._clock)
            self._servers.append(await i2cserver.serve(self._folder.rails, wires))

    def close(self) -> None:
        """Nobody listens any more."""
        for server in self._servers:
            server.close()
        self._folder.rails.unlink(missing_ok=True)
