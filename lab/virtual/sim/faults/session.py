"""Faults of the running Linux: login, shell, clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attrs import define, field, validators

from lab.virtual.sim.faults.base import Fault, FaultOutcome, point
from lab.virtual.sim.program import NS_PER_S, Interruption, Pause, Program

if TYPE_CHECKING:
    from lab.virtual.sim.computer import Computer


@define(kw_only=True, eq=False)
class LoginRefused(Fault):
    """No login succeeds: the password file is damaged."""

    name: ClassVar[str] = "login_refused"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("login_failed",), "board", transient=True, trial="login")

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "login.password":
            computer.locked = True
        yield from ()


@define(kw_only=True, eq=False)
class ShellSlow(Fault):
    """Every command in the shell takes long to begin."""

    name: ClassVar[str] = "shell_slow"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(trial="login")
    seconds: float = field(default=2.0, validator=validators.ge(0.0))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "shell.command":
            yield Pause(round(self.seconds * NS_PER_S))


@define(kw_only=True, eq=False)
class ProgramRefused(Fault):
    """A program refuses some of its options.

    A codec that lacks a sampling rate does so; other options work.

    Attributes:
        words: of the command lines that are refused, as they stand there.
    """

    name: ClassVar[str] = "program_refused"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("command_failed",), "board", trial="section")
    words: str = field(default="-rate 44100 ", validator=validators.min_len(1))

    def refuses(self, command: str) -> str:
        """Error text of alsa-lib's aplay for a refused command."""
        return "Sample format or rate not available: Invalid argument" if self.words in f"{command} " else ""


@define(kw_only=True, eq=False)
class ProgramInterrupted(Fault):
    """A program ends early and prints a summary of what it did.

    Attributes:
        words: the beginning of the command lines that end early.
        share: of the time that it was asked for.
        text: its error.
        status: its exit status; some programs end with 0.
    """

    name: ClassVar[str] = "program_interrupted"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("command_failed", "unreadable_output"), trial="program")
    words: str = field(default="iperf3 ", validator=validators.min_len(1))
    share: float = field(default=0.4, validator=validators.and_(validators.gt(0.0), validators.lt(1.0)))
    text: str = field(default="iperf3: error - the server has terminated")
    status: int = field(default=1, validator=validators.in_(range(256)))

    def interruption(self, command: str) -> Interruption | None:
        """The early end of a command with these words."""
        return Interruption(self.share, self.text, self.status) if f"{command} ".startswith(self.words) else None


@define(kw_only=True, eq=False)
class ClockJump(Fault):
    """The board's wall clock jumps during the boot.

    It does when it first hears of the time.
    """

    name: ClassVar[str] = "clock_jump"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()
    seconds: float = field(default=1730.0)

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "user.middle":
            computer.wall_jump_s += self.seconds
            yield from computer.say("[  OK  ] System clock was changed by the time server.\n")


@define(kw_only=True, eq=False)
class ClockStopped(Fault):
    """A debugger halts the board and its system counter.

    The kernel does not know of that time.
    """

    name: ClassVar[str] = "clock_stopped"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(flags=("clock_disagrees",))
    at_point: str = field(default="kernel.middle", validator=point)
    seconds: float = field(default=0.8, validator=validators.ge(0.0))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == self.at_point and computer.kernel is not None:
            halted_ns = round(self.seconds * NS_PER_S)
            yield Pause(halted_ns)
            computer.kernel.hold_clock_for(halted_ns)
