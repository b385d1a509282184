"""Faults of the board on its way to the login prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from attrs import define, evolve, field, fields, validators

from lab.virtual.sim.faults.base import Fault, FaultOutcome, Hang, for_ever, point
from lab.virtual.sim.program import NS_PER_S, CpuResetError, Pause, Program
from lab.virtual.sim.timing import Durations

if TYPE_CHECKING:
    from lab.virtual.sim.computer import Computer
    from lab.virtual.sim.setup import SimSetup


def _board(*failures: str, trial: str = "boot") -> FaultOutcome:
    return FaultOutcome(failures, "board", transient=True, trial=trial)


class HangSpl(Hang):
    """The board hangs in SPL, after it has named its medium."""

    name, where, outcome = "hang_spl", "spl.load", _board("hang_spl")


class HangUboot(Hang):
    """The board hangs in U-Boot, before the countdown."""

    name, where, outcome = "hang_uboot", "uboot.autoboot", _board("hang_uboot")


class HangKernel(Hang):
    """The board hangs while the kernel starts."""

    name, where, outcome = "hang_kernel", "kernel.middle", _board("hang_kernel")


class HangBeforeLogin(Hang):
    """The board hangs after its services have started: no login prompt comes."""

    name, where, outcome = "hang_before_login", "login", _board("hang_before_login")


@define(kw_only=True, eq=False)
class WatchdogReset(Fault):
    """The watchdog resets the processor once during the boot."""

    name, outcome = "watchdog_reset", _board("reset")
    at_point: str = field(default="user.middle", validator=point)
    _left: int = field(default=1, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == self.at_point and self._left:
            self._left -= 1
            yield Pause(0)
            raise CpuResetError


@define(kw_only=True, eq=False)
class UbootAbort(Fault):
    """U-Boot aborts while it loads the kernel, and resets."""

    name, outcome = "uboot_abort", _board("uboot_abort")
    _left: int = field(default=1, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "kernel.start" and self._left:
            self._left -= 1
            yield from computer.say('"Synchronous Abort" handler, esr 0x96000046, far 0x81000000\n')
            yield from computer.say("elr: 00000000830562b4 lr : 0000000083056374 (reloc)\n")
            yield from computer.say("Resetting CPU ...\n\nresetting ...\n")
            raise CpuResetError


@define(kw_only=True, eq=False)
class WrongMedium(Fault):
    """Misread boot-mode pins: the board boots from another medium."""

    name: ClassVar[str] = "wrong_medium"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("wrong_medium",), "lab", transient=True)

    def medium(self, medium: str, computer: Computer) -> str:
        others = [name for name in computer.model.board.media if name != medium]
        return self.dice.choice(others) if medium else medium


@define(kw_only=True, eq=False)
class RomOverUart(Fault):
    """No medium can be read, and the ROM asks on its UART.

    It prints hexadecimal digits, then `CCCC` for ever.
    """

    name, outcome = "rom_over_uart", _board("rom_no_medium")

    def setup(self, setup: SimSetup) -> SimSetup:
        return evolve(setup, rom_talks=True)

    def medium(self, medium: str, computer: Computer) -> str:
        return ""


@define(kw_only=True, eq=False)
class NoBootDevice(Fault):
    """The medium is missing or dead: SPL finds nothing to boot."""

    name, outcome = "no_boot_device", _board("no_boot_device")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "spl.load":
            yield from computer.say("spl: mmc init failed with error: -110\n")
            yield from computer.say("SPL: failed to boot from all boot devices\n")
            yield from computer.say("### ERROR ### Please RESET the board ###\n")
            yield from for_ever()


@define(kw_only=True, eq=False)
class CorruptedMedium(Fault):
    """The SD card is damaged; the board boots too slowly.

    Blocks have to be read again and again.
    """

    name, outcome = "corrupted_medium", _board("io_error")
    retries: int = field(default=4, validator=validators.ge(1))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point != "init":
            return
        for _ in range(self.retries):
            yield from computer.pause(0.8 * NS_PER_S)
            sector = 264_192 + self.dice.randrange(1 << 20)
            yield from computer.printk(
                f"I/O error, dev mmcblk1, sector {sector} op 0x0:(READ) flags 0x80700 prio class 2", level=3
            )


@define(kw_only=True, eq=False)
class MediumFallback(Fault):
    """The medium cannot be read, and SPL falls back to another."""

    name: ClassVar[str] = "medium_fallback"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("wrong_medium",), "lab", transient=True)

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "spl.load" and computer.cycle != self._done:
            self._done = computer.cycle
            other = next(name for name in computer.model.board.media if name != computer.medium)
            computer.medium = other
            yield from computer.say("spl: mmc init failed with error: -110\n")
            yield from computer.say(f"Trying to boot from {computer.model.spl_medium(other)}\n")

    _done: int = field(default=0, init=False)


@define(kw_only=True, eq=False)
class KeyNoise(Fault):
    """Noise looks like a key during the countdown: U-Boot stops."""

    name: ClassVar[str] = "key_noise"
    outcome: ClassVar[FaultOutcome] = _board("stopped_at_uboot")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "uboot.autoboot":
            computer.machine.unread(computer.console, b"\xff")
            yield Pause(0)


@define(kw_only=True, eq=False)
class AutobootMissed(Fault):
    """U-Boot does not see keys during its countdown and boots on."""

    name: ClassVar[str] = "autoboot_missed"
    outcome: ClassVar[FaultOutcome] = _board("autoboot_missed", trial="bootloader")
    _deaf: bool = field(default=False, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        self._deaf = point in {"uboot.autoboot", "uboot.load"}
        yield from ()

    def to_board(self, uart: str, data: bytes, now_ns: int) -> bytes:
        return b"" if self._deaf else data


# --- Healthy boards that have become slower ---


_NS: Final = "_ns"


def _stage(_instance: object, _attribute: object, value: str) -> None:
    known = [each.name.removesuffix(_NS) for each in fields(Durations)]
    if value not in known:
        raise ValueError(f"no stage {value!r}; there are: {', '.join(known)}")


@define(kw_only=True, eq=False)
class SlowStage(Fault):
    """A stage of the boot takes some per cent longer.

    By default it is all from "Starting kernel" to the login prompt.
    """

    name: ClassVar[str] = "slow_stage"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()
    stage: str = field(default="boot", validator=_stage)
    percent: float = field(default=3.0, validator=validators.gt(-100.0))

    def durations(self, drawn: Durations) -> Durations:
        key = f"{self.stage}{_NS}"
        return evolve(drawn, **{key: round(getattr(drawn, key) * (1 + self.percent / 100))})
