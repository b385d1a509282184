"""Hooks of faults into a board.

The faults themselves are in `lab.virtual.sim.faults`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.boards import SdkRelease
    from lab.virtual.sim.computer import Computer
    from lab.virtual.sim.program import Interruption, Program
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
    "suspend.start",
    "suspend.freeze",
    "suspend.enter",
    "suspend.asleep",
    "resume.start",
    "resume",
    "resume.tasks",
    "poweroff",
)


class Switching(StrEnum):
    """Reaction of the PDU to a command.

    It obeys; answers with an error; never answers; refuses the connection; or answers that it obeyed, and did nothing.
    """

    OBEY = "obey"
    ERROR = "error"
    HANG = "hang"
    REFUSE = "refuse"
    LIE = "lie"


class FaultHooks:
    """A fault on a board for one power cycle.

    It overrides the disturbed methods.
    """

    def at(self, point: str, computer: Computer) -> Program[None]:
        """Act at a point of the boot (one of POINTS).

        The fault may print or wait, or never come back.
        """
        yield from ()

    def beside(self, computer: Computer) -> Program[None] | None:
        """Program beside the board's own from power-on; None: none."""
        return None

    def switching(self, command: str) -> Switching:
        """Reaction of the PDU to `command`, "on" or "off"."""
        return Switching.OBEY

    def stays_off(self) -> bool:
        """Return whether the board gets no power although switched on."""
        return False

    def stays_on_ns(self) -> int | None:
        """Time that the board lives after switch-off; None: for ever."""
        return 0

    def feeds_adapter_ns(self) -> int | None:
        """Time from power on until the console's adapter is there, which the board feeds; None: it is fed elsewhere."""
        return None

    def returns_ns(self, now_ns: int) -> int | None:
        """Instant at which the power comes by itself after a switch-off at `now_ns`; None: not at all."""
        return None

    def medium(self, medium: str, computer: Computer) -> str:
        """The medium that the ROM finds; empty: none."""
        return medium

    def relay_lag_ns(self) -> int:
        """Delay of the relay at the next power-on."""
        return 0

    def software(self, release: SdkRelease) -> SdkRelease:
        """The software that is on the board."""
        return release

    def setup(self, setup: SimSetup) -> SimSetup:
        """Setup of the board."""
        return setup

    def durations(self, drawn: Durations) -> Durations:
        """Durations of this start's stages."""
        return drawn

    def initcall_ns(self, name: str) -> int:
        """Time by which an initcall of the kernel takes longer; `durations` has it, too."""
        return 0

    def unit_ns(self, name: str) -> int:
        """The same of a unit of systemd."""
        return 0

    def root(self, medium: str, computer: Computer) -> str:
        """The medium whose root file system the kernel mounts."""
        return medium

    def refuses(self, command: str) -> str:
        """Error text of a refused command; empty: it is not refused.

        The command's words are joined by blanks.
        """
        return ""

    def interruption(self, command: str) -> Interruption | None:
        """Early end of a command; None: it does all its work."""
        return None

    def printk(self, line: str) -> str:
        """Console text of a kernel log line; empty: nothing."""
        return line

    def nacks(self, rail: str) -> bool:
        """Return whether a rail's sensor does not acknowledge now."""
        return False

    def sticks(self, rail: str) -> bool:
        """Return whether its registers are stuck."""
        return False

    def repeats(self, rail: str) -> int | None:
        """Steps of jitter with which the bus repeats its last answers, ready flag included; None: it does not."""
        return None

    def bus_factor(self, rail: str) -> float:
        """Measured bus voltage as a multiple of the real one."""
        return 1.0

    def shunt_factor(self, rail: str) -> float:
        """Real shunt as a multiple of the nominal one."""
        return 1.0

    def soldered_to(self, rail: str) -> str:
        """The rail that it is really on."""
        return rail

    def loses_power(self, rail: str) -> bool:
        """Return whether it resets now."""
        return False

    def stays_up(self, rail: str) -> bool:
        """Return whether the rail stays on while the board has power."""
        return False

    def protects(self, medium: str) -> bool:
        """Return whether a medium's write protection is on."""
        return False

    def capacity(self, medium: str, size: int) -> int:
        """Real number of bytes of a medium."""
        return size

    def spoils(self, medium: str, offset: int, size: int) -> bool:
        """Return whether these bytes of a medium cannot be written."""
        return False

    def garbles_written(self, medium: str, offset: int, size: int) -> Sequence[int]:
        """Offsets of bytes that are written wrong without an error.

        They count from `offset`.
        """
        return ()

    def garbles_read(self, medium: str, offset: int, size: int) -> Sequence[int]:
        """Indices of the wrong bytes of a read."""
        return ()

    def keeps(self, register: int, old: int, new: int) -> int:
        """Value of an eMMC's register after a write of `new`."""
        return new

    def fetches(self, path: str) -> bool:
        """Return whether the network answers U-Boot's request for a file."""
        return True

    def fetched(self, path: str, data: bytes) -> bytes:
        """The file that came instead."""
        return data

    def network_rate(self, bytes_s: float) -> float:
        """Rate of a download."""
        return bytes_s

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        """Bytes that leave the UART instead of `data`."""
        return data

    def to_board(self, uart: str, data: bytes, now_ns: int) -> bytes:
        """Bytes that reach the board instead of `data`."""
        return data
