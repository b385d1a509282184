"""Simulated boards of a bench: their kind, and the options of `lab virtual up sim`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from lab import boards
from lab.errors import ConfigurationError
from lab.host.clock import Clock
from lab.virtual import straps
from lab.virtual.board import Backend, BoardAccess, BoardFolder, BoardSpec
from lab.virtual.sim import environment, setup
from lab.virtual.sim.backend import SimBackend
from lab.virtual.sim.faults import catalogue
from lab.virtual.sim.model import model, serial_number
from lab.virtual.sim.setup import FLOWS, NORMAL, SimConfig, SimSetup
from lab.virtual.uart import UartAdapter

DEFAULT_TYPE = "am62xx_sk"
MOST = 256  # boards in one process; see docs/performance.md for what a machine carries


class SimKind:
    """A `lab.virtual.board.BoardKind` for one board type.

    Args:
        settings: of each board; None leaves what stands in its folder.
    """

    def __init__(self, board_type: str, settings: SimConfig | None = None) -> None:
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


@frozen
class SimOptions:
    """Options of the simulated boards.

    Attributes:
        types: board types; there are `count` boards of each.
        seed: of the first board; each further one has the next number.
        scenario: the file with the faults.
        flow, stock: see `lab.virtual.sim.setup.SimSetup`.
    """

    types: Sequence[str]
    count: int
    release: str
    seed: int
    time_scale: float
    scenario: Path | None = None
    flow: str = NORMAL
    stock: bool = False


def board_specs(options: SimOptions) -> tuple[BoardSpec, ...]:
    """The boards: `TYPE-1`, `TYPE-2` and so on for each type.

    Raises:
        ConfigurationError: an option is wrong.
    """
    types = options.types or [DEFAULT_TYPE]
    if not 1 <= options.count * len(types) <= MOST:
        raise ConfigurationError(f"--count {options.count}: 1 to {MOST} boards in all")
    if options.flow not in FLOWS:
        raise ConfigurationError(f"--flow {options.flow!r}: there are: {', '.join(FLOWS)}")
    specs: list[BoardSpec] = []
    plans = catalogue.read_scenario(options.scenario) if options.scenario else None
    for board_type in types:
        # A wrong type, release or flow is named before anything starts:
        model(board_type, options.release or None).check(SimSetup(flow=options.flow))
        for number in range(1, options.count + 1):
            name = f"{board_type}-{number}"
            config = _config(options, name, len(specs), plans)
            specs.append(BoardSpec(name, board_type, SimKind(board_type, config)))
    return tuple(specs)


def _config(options: SimOptions, name: str, index: int, plans: catalogue.Scenario | None) -> SimConfig:
    faults = plans.of(name) if plans else ()
    seed = options.seed + index
    try:
        return SimConfig(options.release, seed, options.time_scale, faults, options.flow, options.stock)
    except ValueError as error:
        raise ConfigurationError(f"--time-scale {options.time_scale}: above 0 and at most 10") from error
