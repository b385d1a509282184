"""What a simulated board of a bench is told: a JSON file in its folder."""

from __future__ import annotations

import json
from pathlib import Path

import cattrs
from attrs import asdict, field, frozen, validators

from lab.errors import ConfigurationError, LabStableError
from lab.virtual.sim.setup import FLOWS, NORMAL, SimSetup

FILE = "sim.json"


@frozen
class SimConfig:
    """How a board is simulated.

    Attributes:
        release: of its board type; empty: the newest.
        seed: of all its chance. Two boards with the same seed do the same.
        time_scale: factor on all waiting but that for the UARTs, above 0; 1 is the real board's pace.
        faults: planned ones, as `lab.virtual.sim.faults.plan` writes them.
        flow, stock: see `lab.virtual.sim.setup.SimSetup`.
    """

    release: str = ""
    seed: int = 0
    time_scale: float = field(default=1.0, validator=[validators.gt(0.0), validators.le(10.0)])
    faults: tuple[dict[str, str], ...] = ()
    flow: str = field(default=NORMAL, validator=validators.in_(FLOWS))
    stock: bool = False

    @property
    def setup(self) -> SimSetup:
        """How the board was set up."""
        return SimSetup(flow=self.flow, stock=self.stock)


def save(folder: Path, config: SimConfig) -> None:
    """Write the configuration into a board's folder.

    Raises:
        LabStableError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / FILE).write_text(json.dumps(asdict(config), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise LabStableError(f"{folder / FILE}: cannot be written: {error.strerror}", failure="disk") from error


def load(folder: Path) -> SimConfig:
    """A board's configuration; the defaults where it was never told any.

    Raises:
        ConfigurationError: the file is wrong.
    """
    path = folder / FILE
    if not path.exists():
        return SimConfig()
    try:
        return cattrs.Converter(forbid_extra_keys=True).structure(json.loads(path.read_text("utf-8")), SimConfig)
    except (OSError, ValueError, cattrs.BaseValidationError) as error:
        raise ConfigurationError(f"{path}: {error}; `lab virtual up sim` writes it anew") from error
