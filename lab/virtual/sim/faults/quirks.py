"""Peculiarities of healthy boards that mislead a reader of their console.

The measured number holds. Each names the source of its lines. A quirk planned for all cycles belongs to the board.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attrs import define, evolve, field, validators

from lab.virtual.sim.faults.base import Fault, FaultOutcome
from lab.virtual.sim.program import NS_PER_MS, CpuResetError, Drain, Pause, Program, Say

if TYPE_CHECKING:
    from lab.virtual.sim.computer import Computer
    from lab.virtual.sim.setup import SimSetup
    from lab.virtual.sim.timing import Durations


@define(kw_only=True, eq=False)
class QuietKernel(Fault):
    """The kernel's command line has `quiet`.

    The console shows errors only, and neither the kernel's start nor systemd's.
    """

    name: ClassVar[str] = "quiet_kernel"
    # A number of its own flow where the whole run has it (tests/unit/run/test_boot_run_flows.py).
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("software_changed",), "lab", cycle=2)

    def setup(self, setup: SimSetup) -> SimSetup:
        """Add `quiet`.

        Sources: Documentation/admin-guide/kernel-parameters.txt, and systemd(1) on show_status.
        """
        return setup.with_variables(optargs="quiet")


@define(kw_only=True, eq=False)
class AutobootKeyed(Fault):
    """Only a space stops U-Boot's countdown, which counts nothing.

    It prints "Press SPACE to abort autoboot in 2 seconds".
    """

    name: ClassVar[str] = "autoboot_keyed"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def setup(self, setup: SimSetup) -> SimSetup:
        """Select the keyed countdown.

        Sources: public logs of AM335x and AM62x boards with U-Boot 2017.05 and later.
        """
        return evolve(setup, keyed=True)


@define(kw_only=True, eq=False)
class SilentBl31(Fault):
    """TF-A was built silent: nothing comes between the two SPL."""

    name: ClassVar[str] = "silent_bl31"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def setup(self, setup: SimSetup) -> SimSetup:
        """Silence TF-A: LOG_LEVEL below that of notices."""
        return evolve(setup, bl31_silent=True)


@define(kw_only=True, eq=False)
class TeeTalks(Fault):
    """OP-TEE prints its actions, also during the kernel's start.

    For example `I/TC: Secondary CPU 1 ...`.
    """

    name: ClassVar[str] = "tee_talks"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def setup(self, setup: SimSetup) -> SimSetup:
        """Select the talking OP-TEE.

        Source: a public log of the SK-AM62 with SDK 11.0 and a debug build.
        """
        return evolve(setup, tee_talks=True)


@define(kw_only=True, eq=False)
class SplRebuilt(Fault):
    """The banners of the two SPL have different build times."""

    name: ClassVar[str] = "spl_rebuilt"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()
    built: str = field(default="Jun 25 2025 - 09:02:11 +0000")

    def setup(self, setup: SimSetup) -> SimSetup:
        """Select another build stamp, which is made up.

        Public logs of the SK-AM62 with SDK 8.5 and of boards with 10.0 have two stamps.
        """
        return evolve(setup, spl_built=self.built)


@define(kw_only=True, eq=False)
class Bootstage(Fault):
    """U-Boot was built with CONFIG_BOOTSTAGE and its command."""

    name: ClassVar[str] = "bootstage"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def setup(self, setup: SimSetup) -> SimSetup:
        """Add the command; TI's own configurations have none."""
        return evolve(setup, bootstage=True)


@define(kw_only=True, eq=False)
class SlowInitcall(Fault):
    """An initcall of the kernel takes longer, and the boot with it."""

    name: ClassVar[str] = "slow_initcall"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()
    initcall: str = field(default="sdhci_am654_driver_init")
    ms: float = field(default=50.0, validator=validators.ge(0.0))

    def initcall_ns(self, name: str) -> int:
        return round(self.ms * NS_PER_MS) if name == self.initcall else 0

    def durations(self, drawn: Durations) -> Durations:
        by_ns = round(self.ms * NS_PER_MS)
        return evolve(drawn, kernel_ns=drawn.kernel_ns + by_ns, boot_ns=drawn.boot_ns + by_ns)


@define(kw_only=True, eq=False)
class SlowUnit(Fault):
    """A unit of systemd takes longer, and the boot with it."""

    name: ClassVar[str] = "slow_unit"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()
    unit: str = field(default="systemd-networkd.service")
    ms: float = field(default=50.0, validator=validators.ge(0.0))

    def unit_ns(self, name: str) -> int:
        return round(self.ms * NS_PER_MS) if name == self.unit else 0

    def durations(self, drawn: Durations) -> Durations:
        return evolve(drawn, boot_ns=drawn.boot_ns + round(self.ms * NS_PER_MS))


@define(kw_only=True, eq=False)
class ClockRates(Fault):
    """SPL prints the clocks that it sets, as with SDK 11.2.

    They stand in place of the one frequency that it changed.
    """

    name: ClassVar[str] = "clock_rates"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()

    def setup(self, setup: SimSetup) -> SimSetup:
        """Select the clock lines.

        Source: a description of logs with SDK 11.2, whose other lines are assumed to be those of 11.1.
        """
        return evolve(setup, clocks_said=True)


@define(kw_only=True, eq=False)
class ExtlinuxBoot(Fault):
    """U-Boot boots through a menu file (extlinux.conf).

    It prints the kernel's command line, and no found card. The kernel has another command line than in the other cycles.
    """

    name: ClassVar[str] = "extlinux_boot"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("software_changed",), "lab", transient=True, cycle=2)

    def setup(self, setup: SimSetup) -> SimSetup:
        """Select the menu file.

        Sources: public logs of boards with U-Boot 2018 to 2020, and of Fedora's and Debian's images.
        """
        return evolve(setup, extlinux=True)


@define(kw_only=True, eq=False)
class NoCardPresent(Fault):
    """U-Boot looks for a card in an empty slot, too."""

    name: ClassVar[str] = "no_card_present"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()
    _said: int = field(default=0, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        """Print the message.

        Sources: drivers/mmc/mmc.c (mmc_start_init), public logs of AM62A and AM62P boards.
        """
        if point == ("uboot.countdown", "uboot.load", "")[self._said]:
            self._said += 1
            yield from computer.say("MMC: no card present\n")


@define(kw_only=True, eq=False)
class ErratumI2331(Fault):
    """SPL resets the board once after each cold start.

    On AM64x (erratum i2331): three SPL banners, and a healthy boot.
    """

    name: ClassVar[str] = "erratum_i2331"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()
    _left: int = field(default=1, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        """Reset the board.

        Sources: U-Boot, arch/arm/mach-k3/am642_init.c, and public logs of AM64x boards.
        """
        if point == "spl.start" and self._left:
            self._left -= 1
            yield from computer.say("Resetting on cold boot to workaround ErrataID:i2331\n")
            yield from computer.say("Please resend tiboot3.bin in case of UART/DFU boot\nresetting ...\n")
            yield Pause(round(20 * NS_PER_MS * computer.time_scale))  # assumed
            raise CpuResetError


@define(kw_only=True, eq=False)
class ResumeWithSpl(Fault):
    """SPL runs again at each resume, with its banner.

    As on the J784S4, it hands over to the sleeping kernel. A mode that runs SPL anyway is as ever.
    """

    name: ClassVar[str] = "resume_with_spl"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(trial="suspend")

    def at(self, point: str, computer: Computer) -> Program[None]:
        """Print SPL's lines.

        Source: a description of logs of the J784S4; the set of lines is assumed.
        """
        if point == "resume.start" and computer.sleep != "io_ddr":
            facts = computer.model.facts()
            yield from computer.say(f"\nU-Boot SPL {facts['r5_uboot']}\nSYSFW ABI: {computer.model.release.sysfw}\n")


@define(kw_only=True, eq=False)
class _Later(Fault):
    """Something comes on the console a while after the first prompt."""

    after_ms: float = field(default=1500.0, validator=validators.ge(0.0))
    _struck: bool = field(default=False, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        yield from ()
        if point == "login.prompt" and not self._struck:
            self._struck = True
            computer.machine.spawn(self._says(computer))

    def _says(self, computer: Computer) -> Program[None]:
        yield Pause(round(self.after_ms * NS_PER_MS))
        yield from computer.write(self.text(computer).encode())

    def text(self, computer: Computer) -> str:
        """Printed text."""
        raise NotImplementedError


@define(kw_only=True, eq=False)
class SecondPrompt(_Later):
    """getty starts again: a second banner and prompt follow.

    The first prompt counts.
    """

    name: ClassVar[str] = "second_prompt"
    after_ms: float = field(default=1500.0, validator=validators.ge(0.0))
    outcome: ClassVar[FaultOutcome] = FaultOutcome(may_carry=("prompt_repeated",))

    def text(self, computer: Computer) -> str:
        """Banner and prompt again, in the form of the first ones."""
        host, tty = computer.model.identity.hostname, computer.model.board.console.linux
        distribution = computer.model.release.distribution
        return f"\n\nArago Project {host} {tty}\n\n{distribution} {host} {tty}\n\n{host} login: "


@define(kw_only=True, eq=False)
class NoticeAfterPrompt(_Later):
    """A program writes a notice behind the prompt, on its line."""

    name: ClassVar[str] = "notice_after_prompt"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(may_carry=("prompt_repeated",))

    def text(self, computer: Computer) -> str:
        """A line of systemd, with a made-up unit."""
        return "[  OK  ] Finished Load/Save Screen Backlight Brightness.\n"


@define(kw_only=True, eq=False)
class Application(Fault):
    """An application starts behind the prompt: its line, its pin, its CAN frame and its network answer come at once.

    Attributes:
        after_ms: from the prompt on.
        again_ms: from one such instant to the next; 0: there is one. The pin is high for half of it.
    """

    name: ClassVar[str] = "application"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(may_carry=("prompt_repeated",))
    after_ms: float = field(default=1500.0, validator=validators.ge(0.0))
    again_ms: float = field(default=0.0, validator=validators.ge(0.0))
    _starts: int = field(default=0, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        yield from ()
        if point == "rom":
            computer.signal(False)
        elif point == "login.prompt" and self._starts < computer.starts:  # not at getty's second prompt
            self._starts = computer.starts
            computer.machine.spawn(self._run(computer))

    def _run(self, computer: Computer) -> Program[None]:
        yield Pause(round(self.after_ms * NS_PER_MS))
        while True:
            yield Say(computer.console, b"\r\nmyapp: ready")
            yield Drain(computer.console)
            computer.note(f"cycle={computer.cycle} application=ready")
            computer.signal(True)
            yield Say(computer.console, b"\r\n")
            if not self.again_ms:
                return
            yield Pause(round(self.again_ms * NS_PER_MS / 2))
            computer.signal(False)
            yield Pause(round(self.again_ms * NS_PER_MS / 2))
