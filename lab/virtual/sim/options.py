"""Boards of a bench from the options of `lab virtual up sim`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from lab.errors import ConfigurationError
from lab.virtual.control import BoardSpec
from lab.virtual.sim.backend import SimKind
from lab.virtual.sim.faults import catalogue
from lab.virtual.sim.model import model
from lab.virtual.sim.setup import FLOWS, NORMAL, SimConfig, SimSetup, check

DEFAULT_TYPE = "am62xx_sk"
MOST = 256  # boards in one process; see docs/performance.md for what a machine carries


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
    found: list[BoardSpec] = []
    plans = catalogue.read_scenario(options.scenario) if options.scenario else None
    for board_type in types:
        # A wrong type, release or flow is named before anything starts:
        check(SimSetup(flow=options.flow), model(board_type, options.release or None))
        for number in range(1, options.count + 1):
            name = f"{board_type}-{number}"
            config = _config(options, name, len(found), plans)
            found.append(BoardSpec(name, board_type, SimKind(board_type, config)))
    return tuple(found)


def _config(options: SimOptions, name: str, index: int, plans: catalogue.Scenario | None) -> SimConfig:
    faults = plans.of(name) if plans else ()
    seed = options.seed + index
    try:
        return SimConfig(options.release, seed, options.time_scale, faults, options.flow, options.stock)
    except ValueError as error:
        raise ConfigurationError(f"--time-scale {options.time_scale}: above 0 and at most 10") from error
