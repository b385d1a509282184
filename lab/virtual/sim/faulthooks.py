"""Where a fault can take hold of a board. The faults themselves are in `lab.virtual.sim.faults`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.boards import SdkRelease
    from lab.virtual.sim.computer import Computer
    from lab.virtual.sim.program import Program
    from lab.virtual.sim.setup import SimSetup
    from lab.virtual.sim.timing import Durations

POINTS = (
    "rom",
    "spl.start",
    "spl.medium",
    "spl.load",
    "tfa",
    "uboot.start",
    "uboot.autoboot",
    "uboot.countdown",
    "uboot.load",
    "uboot.write",
    "uboot.fetch",
    "uboot.prompt",
    "kernel.start",
    "kernel.middle",
    "init",
    "user.middle",
    "login",
    "login.prompt",
    "login.password",
    "shell.prompt",
    "shell.command",
    "suspend.enter",
    "suspend.asleep",
    "resume.start",
    "resume",
)


class Switching(StrEnum):
    """What the PDU makes of a command: it obeys; answers with an error; never answers; refuses the connection; or
    answers that it obeyed, and did nothing."""

    OBEY = "obey"
    ERROR = "error"
    HANG = "hang"
    REFUSE = "refuse"
    LIE = "lie"


class FaultHooks:
    """A fault at work on a board, for one power cycle. It overrides what it disturbs."""

    def at(self, point: str, computer: Computer) -> Program[None]:
        """The board has come to this point (one of POINTS); the fault may say or wait, or never come back."""
        yield from ()

    def beside(self, computer: Computer) -> Program[None] | None:
        """A program that runs beside the board's own from power on; None: none."""
        return None

    def switching(self, command: str) -> Switching:
        """What the PDU makes of `command`, "on" or "off"."""
        return Switching.OBEY

    def stays_off(self) -> bool:
        """Whether the board gets no power although its input is on."""
        return False

    def stays_on_ns(self) -> int | None:
        """How long the board lives on after its input was switched off; None: for ever."""
        return 0

    def medium(self, medium: str, computer: Computer) -> str:
        """The medium that the ROM finds; empty: none."""
        return medium

    def relay_lag_ns(self) -> int:
        """How much later than it is told to the relay closes at the next power on."""
        return 0

    def software(self, release: SdkRelease) -> SdkRelease:
        """The software that is on the board."""
        return release

    def setup(self, setup: SimSetup) -> SimSetup:
        """How the board was set up."""
        return setup

    def durations(self, drawn: Durations) -> Durations:
        """What the stages of this start take."""
        return drawn

    def root(self, medium: str, computer: Computer) -> str:
        """The medium whose root file system the kernel mounts."""
        return medium

    def refuses(self, command: str) -> str:
        """What a program says that refuses this command, its words joined by blanks; empty: it does not."""
        return ""

    def printk(self, line: str) -> str:
        """What the kernel's console prints for a line of its log; empty: nothing."""
        return line

    def nacks(self, rail: str) -> bool:
        """Whether the sensor of a rail does not acknowledge now."""
        return False

    def sticks(self, rail: str) -> bool:
        """Whether its registers are stuck."""
        return False

    def shunt_factor(self, rail: str) -> float:
        """What its shunt really is, as a multiple of what it should be."""
        return 1.0

    def soldered_to(self, rail: str) -> str:
        """The rail that it is really on."""
        return rail

    def loses_power(self, rail: str) -> bool:
        """Whether it resets now."""
        return False

    def protects(self, medium: str) -> bool:
        """Whether a medium's write protection is on."""
        return False

    def capacity(self, medium: str, size: int) -> int:
        """How many bytes a medium really has."""
        return size

    def spoils(self, medium: str, offset: int, size: int) -> bool:
        """Whether these bytes of a medium cannot be written."""
        return False

    def garbles_written(self, medium: str, offset: int, size: int) -> Sequence[int]:
        """Which of these bytes of a medium are written wrong, counted from `offset`; it says that all is well."""
        return ()

    def garbles_read(self, medium: str, offset: int, size: int) -> Sequence[int]:
        """Which are read wrong."""
        return ()

    def keeps(self, register: int, old: int, new: int) -> int:
        """What an eMMC's register holds after it was set from `old` to `new`."""
        return new

    def fetches(self, path: str) -> bool:
        """Whether the network answers when U-Boot asks for a file."""
        return True

    def fetched(self, path: str, data: bytes) -> bytes:
        """The file that came instead."""
        return data

    def network_rate(self, bytes_s: float) -> float:
        """How fast it comes."""
        return bytes_s

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        """What leaves the UART instead of `data`."""
        return data

    def to_board(self, uart: str, data: bytes, now_ns: int) -> bytes:
        """What reaches the board instead of `data`."""
        return data
