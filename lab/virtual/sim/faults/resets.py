"""Faults that start board, U-Boot or kernel twice within a boot.

The second start may be unreadable: after a reset the UART's clock and pins settle while the first
characters leave (assumed; seen as garbage before a banner on many boards).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, ClassVar

from attrs import define, field, validators

from lab.virtual.sim.faults.base import Fault, FaultOutcome, point
from lab.virtual.sim.program import NS_PER_MS, CpuResetError, KexecError, Pause, Program, WarmRestartError

if TYPE_CHECKING:
    from lab.virtual.sim.computer import Computer

_RESET = FaultOutcome(("reset",), "board", transient=True)
_GARBAGE = (0x80, 0xE6, 0x9E, 0x66, 0x78, 0x86, 0x98, 0x06)
_CLOCK_STANDS = "[    0.000000]"  # lines of the kernel from before its clock runs


def unreadable(data: bytes, dice: Random) -> bytes:
    """Garble bytes as at another speed; line ends stay."""
    return bytes(byte if byte in b"\r\n" else dice.choice(_GARBAGE) for byte in data)


@define(kw_only=True, eq=False)
class _Once(Fault):
    """Strikes once at a point of the boot, noted in `_struck`."""

    _struck: bool = field(default=False, init=False)

    def _strikes(self, at_point: str, point: str) -> bool:
        if self._struck or point != at_point:
            return False
        self._struck = True
        return True

    def _without_banners(self, data: bytes) -> bytes:
        """After the strike no banner of SPL or U-Boot can be read."""
        return unreadable(data, self.dice) if self._struck and b"U-Boot " in data else data


@define(kw_only=True, eq=False)
class Kexec(_Once):
    """The running kernel starts another one (kexec), without U-Boot."""

    name: ClassVar[str] = "kexec"
    outcome: ClassVar[FaultOutcome] = _RESET
    at_point: str = field(default="user.middle", validator=point)

    def at(self, point: str, computer: Computer) -> Program[None]:
        if self._strikes(self.at_point, point):
            # kernel/kexec_core.c (kernel_kexec), arch/arm64/kernel/machine_kexec.c
            yield from computer.printk("kexec_core: Starting new kernel", level=0)
            yield from computer.printk("Bye!")
            raise KexecError


@define(kw_only=True, eq=False)
class ClockRestarted(_Once):
    """The kernel starts a second time, seen only in its clock."""

    name: ClassVar[str] = "clock_restarted"
    outcome: ClassVar[FaultOutcome] = _RESET
    at_point: str = field(default="user.middle", validator=point)

    def at(self, point: str, computer: Computer) -> Program[None]:
        yield from ()
        if self._strikes(self.at_point, point):
            raise KexecError

    def printk(self, line: str) -> str:
        return "" if self._struck and line.startswith(_CLOCK_STANDS) else line


@define(kw_only=True, eq=False)
class WatchdogUnreadable(_Once):
    """The watchdog resets the processor; the second banners are unreadable."""

    name: ClassVar[str] = "watchdog_unreadable"
    outcome: ClassVar[FaultOutcome] = _RESET
    at_point: str = field(default="user.middle", validator=point)

    def at(self, point: str, computer: Computer) -> Program[None]:
        yield from ()
        if self._strikes(self.at_point, point):
            raise CpuResetError

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        return self._without_banners(data)


@define(kw_only=True, eq=False)
class CountdownReset(_Once):
    """The board resets during U-Boot's countdown; the second banners are unreadable."""

    name: ClassVar[str] = "countdown_reset"
    outcome: ClassVar[FaultOutcome] = _RESET
    after_ms: float = field(default=500.0, validator=validators.ge(0.0))

    def at(self, point: str, computer: Computer) -> Program[None]:
        yield from ()
        if self._strikes("uboot.autoboot", point):
            computer.machine.spawn(self._later(computer))

    def _later(self, computer: Computer) -> Program[None]:
        yield Pause(round(self.after_ms * NS_PER_MS * computer.time_scale))
        computer.reset()

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        return self._without_banners(data)


@define(kw_only=True, eq=False)
class WarmRestart(_Once):
    """U-Boot starts anew after its countdown, without SPL, and then boots well."""

    name: ClassVar[str] = "warm_restart"
    outcome: ClassVar[FaultOutcome] = _RESET

    def at(self, point: str, computer: Computer) -> Program[None]:
        yield from ()
        if self._strikes("uboot.countdown", point):
            raise WarmRestartError


@define(kw_only=True, eq=False)
class WarmRestartUnreadable(WarmRestart):
    """U-Boot starts anew without SPL, with an unreadable banner."""

    name: ClassVar[str] = "warm_restart_unreadable"

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        return self._without_banners(data)
