"""Suspend and resume, power-off with wake-up sources, wake-ups.

Forms and order of the lines: TI's low-power documents. While the board sleeps its console is silent and the kernel's
clock stands still; the kernel's lines of the way down and up are printed after the console is back.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.sleep_modes import SLEEP_MODES
from lab.virtual.sim.linux.kernel import Kernel
from lab.virtual.sim.program import NS_PER_MS, NS_PER_S, Hear, PowerDownError, Program, Typed
from lab.virtual.sim.timing import Normal

DEEP_SLEEP, MCU_ONLY, PARTIAL_IO = "deep_sleep", "mcu_only", "partial_io"
IO_DDR, RTC_IO_DDR, RTC_ONLY = "io_ddr", "rtc_io_ddr", "rtc_only"
S2IDLE = "s2idle"
CAN_PIN, GPIO_PIN = "can", "gpio"  # inputs of the machine: the RX pins of the MCU's CAN; a GPIO that the overlay arms
BUTTON = "button"  # on a pin of the RTC
WKUP = "wkup"  # the UART of that name: a key on it, by whatever sends one
PINS = (CAN_PIN, GPIO_PIN, BUTTON, WKUP)
RTC, MAIN_IO, MCU_IO, WKUP_UART, MCU_IPC = 0x50, 0x80, 0x81, 0x10, 0x90  # wake-up sources of TISCI_MSG_LPM_WAKE_REASON
_FIRMWARE = Normal(62.0, 3.0)  # ms from the wake-up event until the kernel goes on; assumed, nobody publishes it
_LOADER_MS = 420.0  # of the loaders that a mode runs again; assumed
_SPREAD = Normal(1.0, 0.01)  # assumed


class Sleeper:
    """Suspends and resumes a kernel.

    Attributes:
        supported: whether the board type has a suspend at all.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.computer = kernel.computer
        self.board = self.computer.model.board
        self.supported = DEEP_SLEEP in self.board.sleep
        self._alarm_s: float | None = None
        self._started_ns = self.computer.now_ns
        if self.computer.rtc is not None:
            wall_s, at_ns = self.computer.rtc
            passed_s = (self._started_ns - at_ns) / NS_PER_S
            kernel.wall_offset_s = wall_s + passed_s - self.computer.wall_jump_s

    @property
    def wall_s(self) -> float:
        """The RTC: it goes on while the kernel's clock stands still."""
        return (
            self.kernel.wall_offset_s
            + self.computer.wall_jump_s
            + (self.computer.now_ns - self._started_ns) / NS_PER_S
        )

    @property
    def alarm_text(self) -> str:
        """The alarm as sysfs shows it."""
        return "" if self._alarm_s is None else f"{int(self._alarm_s)}\n"

    def set_alarm(self, text: str) -> Program[str]:
        """Set or clear the RTC's alarm: epoch seconds, `+seconds`, or 0."""
        yield from ()
        if not text.lstrip("+").isdigit():
            return "write error: Invalid argument"
        seconds = int(text.lstrip("+"))
        self._alarm_s = None if seconds == 0 else self.wall_s + seconds if text.startswith("+") else float(seconds)
        return ""

    def selected(self, variant: str) -> str:
        """The mode that the firmware will choose: the deepest that nothing forbids."""
        for name in self.board.sleep:
            if self.board.low_power.modes[name].variant == variant and self._allowed(name):
                return name
        settings, how = self.kernel.settings, self.computer.model.release.low_power
        latency = settings.get("qos", "0")
        wanted = {
            "wakeup_device": settings.get("mcu_wakeup") == "enabled",
            "qos_ms": latency.isdigit() and int(latency) > 0,
            "qos_us": latency.isdigit() and 0 < int(latency) <= 1_000_000,
        }.get(how, False)
        return MCU_ONLY if wanted and MCU_ONLY in self.board.sleep else DEEP_SLEEP

    def _allowed(self, name: str) -> bool:
        """Return whether the settings that select a mode are made."""
        settings, uart = self.kernel.settings, f"{self.computer.model.family.uart_base}.serial/power/wakeup"
        wanted = self.board.low_power.modes[name].settings
        return bool(wanted) and all(
            settings.get("uart_wakeup" if path.endswith(uart) else path) == value for path, value in wanted.items()
        )

    def suspend(self, variant: str | None = None) -> Program[str]:
        """Sleep until something wakes the board; returns what went wrong.

        Args:
            variant: "deep" or "s2idle"; None: that of /sys/power/mem_sleep.
        """
        kernel, computer = self.kernel, self.computer
        mode = computer.sleep = self.selected(variant or kernel.settings["mem_sleep"])
        computer.enter("suspend")
        yield from computer.at("suspend.start")
        variant = variant or kernel.settings["mem_sleep"]
        deep = variant == "deep"
        yield from self._log(0, f"PM: suspend entry ({variant})")
        yield from self._log(4, "Filesystems sync: 0.000 seconds")
        yield from self._log(28, "Freezing user space processes")
        yield from computer.at("suspend.freeze")
        if computer.sleep == "":
            return (yield from self._refused("freezer"))
        yield from self._log(5, "Freezing user space processes completed (elapsed 0.001 seconds)")
        yield from self._log(1, "OOM killer disabled.")
        yield from self._log(1, "Freezing remaining freezable tasks")
        yield from self._log(3, "Freezing remaining freezable tasks completed (elapsed 0.001 seconds)")
        yield from self._log(1, "printk: Suspending console(s) (use no_console_suspend to debug)")
        kernel.suspend_console()
        yield from computer.at("suspend.enter")
        if computer.sleep == "":
            return (yield from self._refused(computer.refused_by))
        mode = computer.sleep
        if deep:
            yield from self._down(mode)
        asleep_ns = computer.now_ns
        computer.enter(mode)
        woken_by = yield from self._asleep(mode)
        computer.note(f"cycle={computer.cycle} woken source={woken_by:#x}")
        yield from computer.at("resume.start")
        yield from computer.pause(_FIRMWARE.draw(kernel.dice) * NS_PER_MS)
        yield from self._firmware_text(mode, woken_by)
        kernel.hold_clock_for(computer.now_ns - asleep_ns)
        published = computer.model.release.published.resume_ms
        work_ms = published.get(mode, SLEEP_MODES[mode].resume_ms) * _SPREAD.draw(kernel.dice)
        computer.enter("resume", round(work_ms * computer.time_scale * NS_PER_MS))
        yield from self._up(mode, woken_by, work_ms, deep=deep)
        kernel.suspend_stats["success"] += 1
        kernel.settings["qos"] = "0"  # the device manager forgets the constraint
        self._alarm_s = None
        computer.sleep = ""
        computer.enter("shell")
        return ""

    def _firmware_text(self, mode: str, source: int) -> Program[None]:
        """Lines of loaders and TF-A before the kernel goes on.

        Their order in I/O + DDR is assumed.
        """
        computer, release = self.computer, self.computer.model.release
        if mode == IO_DDR:
            yield from computer.pause(_LOADER_MS * NS_PER_MS)
            yield from computer.say(f"\nU-Boot SPL {release.uboot}\n")
            yield from computer.say(f"SYSFW ABI: {release.sysfw}\n")
            yield from computer.say(
                "Resuming from DDR, jumping to stored DM loadaddr 0x9db00000, TIFS context restored from 0x9dc00000\n"
            )
        elif mode == RTC_IO_DDR:
            yield from computer.pause(_LOADER_MS * NS_PER_MS)
            yield from computer.say(f"NOTICE:  Booting Trusted Firmware\nNOTICE:  BL1: {release.bl31}\n")
            yield from computer.say(f"BL1: Built : {release.bl31_built}\nDDR init done\n")
            yield from computer.say("k3_bl1_handoff sent message to tifs\n")
        if self.computer.model.family.loaders:
            yield from computer.say(f"ERROR:   Wake up src {source:#x}\n")

    def power_off(self) -> Program[None]:
        """`poweroff`: a mode that ends by a boot if its wake-up source is armed, else off.

        Raises:
            PowerDownError: always.
        """
        yield from self._log(40, "reboot: Power down")
        computer = self.computer
        armed = self.kernel.settings.get("can_wakeup") == "enabled"
        if armed and PARTIAL_IO in self.board.sleep:
            yield from self._log(
                3,
                "ti-sci 44043000.system-controller: Entering Partial-IO because a powered wakeup-enabled device was found.",
            )
            yield from computer.at("poweroff")
            raise PowerDownError(*self.board.low_power.modes[PARTIAL_IO].woken_by, mode=PARTIAL_IO)
        if RTC_ONLY in self.board.sleep:
            yield from computer.at("poweroff")
            computer.rtc = (self.wall_s, computer.now_ns)
            left_ns = None
            if self._alarm_s is not None:
                left_ns = max(0, round((self._alarm_s - self.wall_s) * NS_PER_S))
            raise PowerDownError(BUTTON, mode=RTC_ONLY, alarm_ns=left_ns)
        raise PowerDownError

    def _refused(self, by: str) -> Program[str]:
        step, device = {"freezer": ("freeze", ""), "device": ("suspend", "2800000.serial")}.get(by, ("", ""))
        self.kernel.fail_suspend(step, device)
        for after_ms, text, level in _REFUSALS[by]:
            yield from self._log(after_ms, text, level)
        yield from self.kernel.resume_console()
        yield from self._log(4, "OOM killer enabled.")
        yield from self._log(3, "Restarting tasks ... done.")
        yield from self._log(6, "PM: suspend exit")
        self.computer.sleep, self.computer.refused_by = "", "device"
        self.computer.enter("shell")
        return "write error: Device or resource busy"

    def _down(self, mode: str) -> Program[None]:
        for device in (179, 178, 117):
            yield from self._log(1, _CONSTRAINT.format(what=f"device_constraint: device: {device}"))
        if mode == MCU_ONLY:
            if self.computer.model.release.low_power != "wakeup_device":
                yield from self._log(1, "cpu cpu3: ti_sci_suspend: sending max CPU latency=100")
                yield from self._log(1, _CONSTRAINT.format(what="latency_constraint: latency: 100"))
            if "mcu" in self.computer.machine.speed_bd:
                yield from self.computer.say(_MCU_SUSPENDED, "mcu")
        elif self.computer.model.identity.mcu:
            yield from self._log(
                8, f"remoteproc remoteproc0: stopped remote processor {self.computer.model.identity.mcu}"
            )
        yield from self._log(4, "Disabling non-boot CPUs ...")
        for cpu in range(1, self.computer.model.identity.cpus):
            yield from self._log(3, f"psci: CPU{cpu} killed (polled 0 ms)")

    def _asleep(self, mode: str) -> Program[int]:
        """Wait for an event; returns its source."""
        computer = self.computer
        yield from computer.at("suspend.asleep")
        settings = self.kernel.settings
        key_wakes = settings.get("uart_wakeup") == settings.get("tty_wakeup") == "enabled"
        codes = {name: int(number, 16) for number, name in self.board.low_power.woken.items()}
        main_io, rtc = codes.get("MAIN_IO", MAIN_IO), codes.get("RTC", RTC)
        sources = {WKUP: WKUP_UART, GPIO_PIN: main_io}
        if key_wakes:
            sources[computer.console] = main_io
        if settings.get("can_wakeup") == "enabled":
            sources[CAN_PIN] = codes.get("CAN_IO", MAIN_IO)
        if mode == MCU_ONLY:
            sources["mcu"] = MCU_IPC
        if mode == IO_DDR:
            sources = {CAN_PIN: codes.get("CAN_IO", MAIN_IO)} if settings.get("can_wakeup") == "enabled" else {}
            armed = {"mcu": "0x4084014", "wkup": "0x4084024"}
            sources |= {uart: MCU_IO for uart, register in armed.items() if f"devmem2 {register}" in settings}
        if mode == RTC_IO_DDR:
            sources = {BUTTON: codes.get("RTC_IO", RTC)}
        heard = [*dict.fromkeys([*(uart.name for uart in computer.model.board.uarts), *PINS])]
        while True:
            typed = yield from self._next_event(heard, alarm=mode != IO_DDR)
            if typed is None:
                early, computer.wakes_in_ns = computer.wakes_in_ns is not None, None
                return main_io if early else rtc
            if typed.uart in sources:
                if typed.uart == "mcu" and mode == MCU_ONLY:
                    yield from computer.say("[IPC RPMSG ECHO] Main domain resumed due to MCU UART\n", "mcu")
                return sources[typed.uart]

    def _next_event(self, uarts: Sequence[str], *, alarm: bool) -> Program[Typed | None]:
        """Wait for a byte on any UART, or the alarm (None).

        A sleeping UART loses the byte.
        """
        left_ns = None
        if self._alarm_s is not None and alarm:
            left_ns = max(0, round((self._alarm_s - self.wall_s) * NS_PER_S))
        if self.computer.wakes_in_ns is not None:
            left_ns = self.computer.wakes_in_ns if left_ns is None else min(left_ns, self.computer.wakes_in_ns)
        return (yield Hear(tuple(uarts), left_ns))

    def _up(self, mode: str, source: int, work_ms: float, *, deep: bool) -> Program[None]:
        lines = ["Enabling non-boot CPUs ..."] if deep else ["PM: resume from suspend-to-idle"]
        for cpu in range(1, self.computer.model.identity.cpus if deep else 1):
            lines += [
                f"Detected VIPT I-cache on CPU{cpu}",
                f"CPU{cpu}: Booted secondary processor 0x{cpu:010x} [0x410fd034]",
            ]
            lines += [f"CPU{cpu} is up"]
        lines += [_wake_line(self.kernel, mode, source)] if deep and not self.computer.model.family.loaders else []
        lines += ["am65-cpsw-nuss 8000000.ethernet: set new flow-id-base 19"]
        share_ms = work_ms * 0.85 / len(lines)
        for line in lines:
            yield from self._log(0, line)
            yield from self.computer.pause(share_ms * NS_PER_MS)
        yield from self.computer.at("resume")
        yield from self.kernel.resume_console()
        yield from self._log(0, "OOM killer enabled.")
        yield from self._log(work_ms * 0.03, "Restarting tasks ... done.")
        yield from self.computer.at("resume.tasks")
        yield from self._log(work_ms * 0.04, "random: crng reseeded on system resumption")
        yield from self._log(work_ms * 0.08, "PM: suspend exit")

    def _log(self, after_ms: float, text: str, level: int = 6) -> Program[None]:
        yield from self.computer.pause(after_ms * NS_PER_MS)
        yield from self.kernel.printk(text, level)


# Delay in ms, text and level of a refusal's lines. Source: Linux kernel/power/process.c, kernel/cpu.c, drivers/base/power.
_DEVICES_FAILED = (1, "PM: Some devices failed to suspend, or early wake event detected", 3)
_REFUSALS = {
    "freezer": (
        (
            20_000,
            "Freezing user space processes failed after 20.005 seconds (1 tasks refusing to freeze, wq_busy=0):",
            3,
        ),
        (8, "task:data-logger     state:D stack:0     pid:128   tgid:128   ppid:1      flags:0x00000004", 6),
    ),
    "cpu": (
        (4, "Disabling non-boot CPUs ...", 6),
        (3, "Error taking CPU1 down: -16", 3),
        (1, "Non-boot CPUs are not disabled", 3),
        (1, "Enabling non-boot CPUs ...", 6),
    ),
    "device": ((8, "omap8250 2800000.serial: PM: failed to suspend: error -16", 3), _DEVICES_FAILED),
    "wakeup": (
        (8, "PM: last active wakeup source: 2b1f0000.rtc", 7),
        (1, "PM: suspend of devices aborted after 3.214 msecs", 3),
        _DEVICES_FAILED,
    ),
}
_CONSTRAINT = "ti-sci 44043000.system-controller: ti_sci_cmd_set_{what}: state: 1: ret 0"
_MCU_SUSPENDED = (
    "[IPC RPMSG ECHO] Next MCU mode is 1\n"
    "[IPC RPMSG ECHO] Suspend request to MCU-only mode received\n"
    "[IPC RPMSG ECHO] Press a single key on this terminal to resume the kernel from MCU only mode\n"
)


def _wake_line(kernel: Kernel, mode: str, source: int) -> str:
    place = "ti-sci 44043000.system-controller"
    if kernel.computer.model.kernel_version >= (6, 12):
        reported = kernel.computer.firmware_mode
        numbers = {name: int(number, 16) for number, name in kernel.computer.model.board.low_power.firmware.items()}
        number = numbers.get(mode, 0) if reported is None else reported
        return f"{place}: ti_sci: wakeup source:{source:#x}, pin:0x0, mode:{number:#x}"
    return f"{place}: ti_sci_resume: wakeup source: {source:#x}"
