"""Faults of suspend and resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attrs import define, field, validators

from lab.virtual.sim.faults.base import Fault, FaultOutcome, for_ever
from lab.virtual.sim.program import NS_PER_S, Program

if TYPE_CHECKING:
    from lab.virtual.sim.computer import Computer


def _board(failure: str) -> FaultOutcome:
    return FaultOutcome((failure,), "board", transient=True, trial="suspend")


@define(kw_only=True, eq=False)
class SuspendRefused(Fault):
    """A device refuses to suspend: the kernel turns back."""

    name: ClassVar[str] = "suspend_refused"
    outcome: ClassVar[FaultOutcome] = _board("suspend_refused")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "suspend.enter":
            computer.sleep = ""
        yield from ()


@define(kw_only=True, eq=False)
class EarlyWake(Fault):
    """Something wakes the board before its alarm does."""

    name: ClassVar[str] = "early_wake"
    outcome: ClassVar[FaultOutcome] = _board("early_wake")
    seconds: float = field(default=0.5, validator=validators.ge(0.0))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "suspend.asleep":
            computer.wakes_in_ns = round(self.seconds * NS_PER_S)
        yield from ()


@define(kw_only=True, eq=False)
class HungResume(Fault):
    """The board is woken and never comes back."""

    name: ClassVar[str] = "hung_resume"
    outcome: ClassVar[FaultOutcome] = _board("hung_resume")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "resume":
            yield from for_ever()


@define(kw_only=True, eq=False)
class ModeRefused(Fault):
    """The device manager chooses another low-power mode than the requested one."""

    name: ClassVar[str] = "mode_refused"
    outcome: ClassVar[FaultOutcome] = _board("wrong_sleep_mode")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "suspend.enter":
            modes = [mode for mode in ("deep_sleep", "mcu_only") if mode != computer.sleep]
            computer.sleep = modes[0]
        yield from ()
