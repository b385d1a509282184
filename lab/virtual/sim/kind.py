"""Kind of virtual board behind every simulated board type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lab import boards
from lab.host.clock import Clock
from lab.virtual import straps
from lab.virtual.board import Backend, BoardAccess, BoardFolder
from lab.virtual.sim import environment, setup
from lab.virtual.sim.backend import SimBackend
from lab.virtual.sim.model import serial_number
from lab.virtual.uart import UartAdapter


class SimKind:
    """A `lab.virtual.board.BoardKind` for one board type.

    Args:
        settings: of each board; None leaves what stands in its folder.
    """

    def __init__(self, board_type: str, settings: setup.SimConfig | None = None) -> None:
        self._board_type = board_type
        self._settings = settings

    def prepare(self, folder: BoardFolder, *, fresh: bool, report: Callable[[str], None]) -> None:
        """Write settings and straps; the straps select the first medium."""
        if self._settings is not None:
            setup.save(folder.path, self._settings)
        board = boards.load(self._board_type)
        first = next(iter(board.media.values())).boot_mode
        straps.begin(folder.straps, board.boot_mode_bits, first, fresh=fresh)

    def backend(self, folder: BoardFolder, adapters: Mapping[str, UartAdapter], clock: Clock) -> Backend:
        return SimBackend(self._board_type, setup.load(folder.path), adapters, clock)

    def environment(self, place: BoardAccess) -> str:
        return environment.of_board(self._board_type, place, serial_number(setup.load(place.folder.path).seed))
