"""Faults of the USB serial adapter on the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attrs import define, field, validators

from lab.virtual.sim.faults.base import Fault, FaultOutcome, point
from lab.virtual.sim.program import NS_PER_S, Pause, Program

if TYPE_CHECKING:
    from lab.virtual.sim.computer import Computer


@define(kw_only=True, eq=False)
class AdapterLost(Fault):
    """The console's USB adapter is unplugged during the boot, and comes back as the same device."""

    name: ClassVar[str] = "adapter_lost"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("adapter_lost",), "lab", transient=True)
    renumbered: ClassVar[bool] = False
    at_point: str = field(default="kernel.middle", validator=point)
    seconds: float = field(default=1.5, validator=validators.ge(0.0))

    def at(self, point: str, computer: Computer) -> Program[None]:
        """See `FaultHooks`."""
        if point == self.at_point:
            computer.machine.unplug(computer.console)
            computer.machine.spawn(self._back(computer))
        yield from ()

    def _back(self, computer: Computer) -> Program[None]:
        try:
            yield Pause(round(self.seconds * NS_PER_S))
        finally:  # it comes back even when the board loses its power meanwhile
            computer.machine.plug(computer.console, renumbered=self.renumbered)


@define(kw_only=True, eq=False)
class AdapterRenumbered(AdapterLost):
    """The console's USB adapter is unplugged during the boot, and comes back under another number."""

    name: ClassVar[str] = "adapter_renumbered"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("adapter_renumbered",), "lab", transient=True)
    renumbered: ClassVar[bool] = True
