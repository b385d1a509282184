"""Setup of a board, and its file.

`SimSetup` goes beyond its type and release: its boot flow, and settings of U-Boot and firmware.
`SimConfig` is the JSON file in the board's folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import cattrs
from attrs import Factory, asdict, evolve, field, frozen, validators

from lab.errors import ConfigurationError, LabStableError

NORMAL, FALCON, SBL = "normal", "falcon", "sbl"
FLOWS = (NORMAL, FALCON, SBL)


@frozen
class SimSetup:
    """Choices at the setup of a board or build of its software.

    Attributes:
        flow: "normal": SPL, TF-A, SPL, U-Boot, kernel; "falcon": SPL loads the kernel, and TF-A starts it; "sbl": the
            bootloader of TI's MCU+ SDK stands in for the first SPL.
        stock: U-Boot's environment is as TI ships it: it loads Linux from the SD card, whatever the straps say.
        keyed: only a space stops U-Boot's countdown.
        extlinux: U-Boot boots through a menu file, extlinux.conf, where it boots from SD or eMMC.
        rom_talks: a ROM without a medium asks for one on its UART (else it is silent).
        bl31_silent: TF-A was built to say nothing.
        tee_talks: OP-TEE was built to say what it does.
        clocks_said: SPL prints the clocks that it sets (U-Boot of the SDK 11.2).
        bootstage: U-Boot has the command of that name.
        spl_built: build stamp of the first SPL, where it is another than U-Boot's.
        variables: variables of U-Boot's environment, beside the others.
    """

    flow: str = field(default=NORMAL, validator=validators.in_(FLOWS))
    stock: bool = False
    keyed: bool = False
    extlinux: bool = False
    rom_talks: bool = False
    bl31_silent: bool = False
    tee_talks: bool = False
    clocks_said: bool = False
    bootstage: bool = False
    spl_built: str = ""
    variables: Mapping[str, str] = Factory(dict)

    def with_variables(self, **variables: str) -> SimSetup:
        """The same, with these variables too."""
        return evolve(self, variables={**self.variables, **variables})


DEFAULT = SimSetup()


# --- The board's JSON file ---


FILE = "sim.json"


@frozen
class SimConfig:
    """Configuration of a simulated board.

    Attributes:
        release: of its board type; empty: the newest.
        seed: of all its chance. Two boards with the same seed do the same.
        time_scale: factor on all waiting but that for the UARTs, above 0; 1 is the real board's pace.
        faults: planned ones, as `lab.virtual.sim.faults.catalogue` writes them.
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
        """Setup of the board."""
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
