"""Faults of suspend and resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attrs import define, evolve, field, validators

from lab.virtual.sim.faults.base import Fault, FaultOutcome, for_ever
from lab.virtual.sim.faults.crashes import oops
from lab.virtual.sim.program import NS_PER_S, CpuResetError, Program

if TYPE_CHECKING:
    from lab.boards import SdkRelease
    from lab.virtual.sim.computer import Computer


_SMALL_BYTES = 100_000


def _board(failure: str) -> FaultOutcome:
    return FaultOutcome((failure,), "board", transient=True, trial="suspend")


@define(kw_only=True, eq=False)
class SuspendRefused(Fault):
    """The kernel turns back: `by` the freezer, a CPU, a device or a wake-up."""

    name: ClassVar[str] = "suspend_refused"
    outcome: ClassVar[FaultOutcome] = _board("suspend_refused")
    by: str = field(default="device", validator=validators.in_(("freezer", "cpu", "device", "wakeup")))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == ("suspend.freeze" if self.by == "freezer" else "suspend.enter"):
            computer.sleep, computer.refused_by = "", self.by
        yield from ()


@define(kw_only=True, eq=False)
class DmFirmware(Fault):
    """The medium has a firmware of the device manager that names itself, and whose resumes take longer."""

    name: ClassVar[str] = "dm_firmware"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(trial="suspend")
    version: str = field(default="PSDK.11.01.00.04--v11.01.08a")
    resume_ms: float = field(default=12.0, validator=validators.ge(0.0))

    def software(self, release: SdkRelease) -> SdkRelease:
        """Select the firmware; the line's form is that of U-Boot's arch/arm/mach-k3/common.c."""
        slower = {mode: ms + self.resume_ms for mode, ms in release.published.resume_ms.items()}
        named = f"3.0 (firmware ver 0x000b '{self.version}' patch_ver: 8)"
        return evolve(release, dm_firmware=named, published=evolve(release.published, resume_ms=slower))


@define(kw_only=True, eq=False)
class SuspendUncounted(Fault):
    """The kernel's counters have no success more."""

    name: ClassVar[str] = "suspend_uncounted"
    outcome: ClassVar[FaultOutcome] = _board("did_not_suspend")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "resume.tasks" and computer.kernel is not None:
            computer.kernel.suspend_stats["success"] -= 1
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
            board = computer.model.board
            others = [mode for mode in board.sleep if mode != computer.sleep and not board.low_power.modes[mode].boots]
            computer.sleep = next(iter(others), computer.sleep)
        yield from ()


@define(kw_only=True, eq=False)
class FirmwareMode(Fault):
    """The firmware enters a mode that was not asked for, and reports its number."""

    name: ClassVar[str] = "firmware_mode"
    outcome: ClassVar[FaultOutcome] = _board("wrong_sleep_mode")
    number: int = field(default=4, validator=validators.ge(0))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "suspend.enter":
            computer.firmware_mode = self.number
        yield from ()


@define(kw_only=True, eq=False)
class MemSleepChanged(Fault):
    """Another program sets /sys/power/mem_sleep to suspend-to-idle."""

    name: ClassVar[str] = "mem_sleep_changed"
    outcome: ClassVar[FaultOutcome] = _board("wrong_sleep_mode")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "suspend.start" and computer.kernel is not None:
            computer.kernel.settings["mem_sleep"] = "s2idle"
        yield from ()


@define(kw_only=True, eq=False)
class ResumeClockJumps(Fault):
    """The kernel's clock jumps ahead while it resumes."""

    name: ClassVar[str] = "resume_clock_jumps"
    outcome: ClassVar[FaultOutcome] = _board("resume_contradicted")
    seconds: float = 3600.0

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "resume" and computer.kernel is not None:
            computer.kernel.hold_clock_for(-round(self.seconds * NS_PER_S))
        yield from ()


@define(kw_only=True, eq=False)
class ResumeOops(Fault):
    """A driver crashes while the board resumes, and the kernel goes on."""

    name: ClassVar[str] = "resume_oops"
    outcome: ClassVar[FaultOutcome] = _board("kernel_oops")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "resume":
            yield from oops(computer)


@define(kw_only=True, eq=False)
class ResumeError(Fault):
    """A device does not resume, and the kernel goes on."""

    name: ClassVar[str] = "resume_error"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(trial="suspend", flags=("kernel_errors",))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "resume" and computer.kernel is not None:
            computer.kernel.fail_device("resume", "mmc1:aaaa")
            # drivers/base/power/main.c, dpm_run_callback and device_resume
            yield from computer.printk(
                "mmcblk mmc1:aaaa: PM: dpm_run_callback(): mmc_bus_resume returns -110",
                "mmcblk mmc1:aaaa: PM: failed to resume: error -110",
                level=3,
            )


@define(kw_only=True, eq=False)
class ProgramLogsSuspend(Fault):
    """A program writes kernel-like lines to /dev/kmsg while the board resumes."""

    name: ClassVar[str] = "program_logs_suspend"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(trial="suspend")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "resume.tasks" and computer.kernel is not None:
            for text in ("PM: suspend exit-hook", "Enabling non-boot CPUs ...", "PM: suspend exit"):
                yield from computer.kernel.printk(text, 3, facility=1)


@define(kw_only=True, eq=False)
class PartialIoRefused(Fault):
    """The firmware does not enter partial I/O, and the kernel restarts: after 5 s, or at once with an `error`."""

    name: ClassVar[str] = "partial_io_refused"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("wrong_sleep_mode",), "board", transient=True, trial="partial_io")
    error: bool = False

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "poweroff":
            if self.error:
                # drivers/firmware/ti_sci.c, ti_sci_sys_off_handler
                line = "Failed to enter Partial-IO -ENODEV, trying to do an emergency restart"
                yield from computer.printk(f"ti-sci 44043000.system-controller: {line}", level=3)
            else:
                yield from computer.pause(5 * NS_PER_S)
            raise CpuResetError


@define(kw_only=True, eq=False)
class WakesAtOnce(Fault):
    """A wake-up source is active, and the board leaves its low-power mode as soon as it is in it."""

    name: ClassVar[str] = "wakes_at_once"
    outcome: ClassVar[FaultOutcome] = _board("early_wake")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "suspend.asleep":
            computer.wakes_in_ns = 0
        if point == "poweroff":
            raise CpuResetError
        yield from ()


@define(kw_only=True, eq=False)
class WakesByBoot(Fault):
    """The board is woken, and boots in place of a resume."""

    name: ClassVar[str] = "wakes_by_boot"
    outcome: ClassVar[FaultOutcome] = _board("woke_by_boot")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "resume.start":
            raise CpuResetError
        yield from ()


@define(kw_only=True, eq=False)
class RtcOff(Fault):
    """The RTC jumps by minutes while the board sleeps; its alarm moves with it."""

    name: ClassVar[str] = "rtc_off"
    outcome: ClassVar[FaultOutcome] = _board("early_wake")
    seconds: float = 240.0

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point in {"suspend.asleep", "poweroff"}:
            computer.wall_jump_s += self.seconds
        yield from ()


@define(kw_only=True, eq=False)
class DdrLost(Fault):
    """The memory is not retained: a bit of what was in it differs after the resume."""

    name: ClassVar[str] = "ddr_lost"
    outcome: ClassVar[FaultOutcome] = _board("memory_lost")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "resume.start":
            for path, data in computer.memory.items():
                if len(data) > _SMALL_BYTES:  # a small file may have been spared
                    at = self.dice.randrange(len(data))
                    computer.memory[path] = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        yield from ()


@define(kw_only=True, eq=False)
class RailStaysUp(Fault):
    """A rail is not switched off, and draws in every mode what it does while Linux idles."""

    name: ClassVar[str] = "rail_stays_up"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(
        ("rails_up",), "board", trial="asleep", flags=("power_implausible",)
    )
    rail: str = "vdd_core"

    def stays_up(self, rail: str) -> bool:
        return rail == self.rail
