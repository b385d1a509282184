"""How a board was set up, beyond its type and its release: who boots it, and what its U-Boot and its firmware were told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import Factory, evolve, field, frozen, validators

from lab.errors import ConfigurationError

if TYPE_CHECKING:
    from lab.virtual.sim.model import Model

NORMAL, FALCON, SBL = "normal", "falcon", "sbl"
FLOWS = (NORMAL, FALCON, SBL)


@frozen
class SimSetup:
    """What somebody chose when the board was set up, or its software built.

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
    spl_built: str = ""
    variables: Mapping[str, str] = Factory(dict)

    def with_variables(self, **variables: str) -> SimSetup:
        """The same, with these variables too."""
        return evolve(self, variables={**self.variables, **variables})


DEFAULT = SimSetup()


def check(setup: SimSetup, model: Model) -> None:
    """Whether such a board can be set up so.

    Raises:
        ConfigurationError: it cannot.
    """
    if setup.flow != NORMAL and not model.release.bl31:
        raise ConfigurationError(
            f"{model.board.name!r} has no TF-A, and boots only as {NORMAL!r}; {setup.flow!r} is for TI's K3 boards"
        )
