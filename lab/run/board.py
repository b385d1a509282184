"""The interface that a strategy offers to runs, provisioning and low power, and questions to a booted board.

`strategies/boardstrategy.py` implements it.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from attrs import evolve, frozen

from lab.benchmarks.boot import BootWatch
from lab.benchmarks.boot.crosscheck import (
    CLOCK_PATTERN,
    SOFTWARE,
    BoardSoftware,
    CrossCheck,
    facts_question,
    read_facts,
    read_log,
    read_software,
    whole_text,
    zero_of,
)
from lab.benchmarks.identity import BoardIdentity
from lab.boards import BoardType, MomentPattern
from lab.console.model import Chunk, LineTiming
from lab.console.moments import find_moments
from lab.errors import BoardTransientError, ConfigurationError
from lab.sleep_modes import SLEEP_MODES


class Status(enum.Enum):
    """The state that a board is known to be in.

    After any failure the state is `unknown`, and the next transition begins with a power cycle. `uboot` and `shell`
    are aliases, the names that labgrid's own strategies use.
    """

    unknown = 0
    off = 1
    bootloader = 2
    linux = 3
    provisioned = 4
    ram_linux = 5
    uboot = bootloader
    shell = linux
    vars().update({mode: mode for mode in SLEEP_MODES})  # each low-power mode is a state

    @property
    def asleep(self) -> bool:
        """True if the board is in a low-power mode."""
        return self.name in SLEEP_MODES

    @classmethod
    def of(cls, status: Status | str) -> Status:
        """Return the state of a name; a state is returned as it is.

        Raises:
            ConfigurationError: no state has this name.
        """
        if isinstance(status, Status):
            return status
        try:
            return cls[status]
        except KeyError as error:
            raise ConfigurationError(f"no state {status!r}; there are: {', '.join(s.name for s in cls)}") from error


class Board(Protocol):
    """A board with its drivers, which can be brought from one state to another.

    The attributes from `power` on are drivers that labgrid binds; a driver that the environment lacks is None.

    Attributes:
        identity: distinguishes the board from others of its type, e.g. a serial number; may be empty.
        security: security state of its device, e.g. "gp"; may be empty.
        medium: the next boot starts from it.
        jumpers: positions of the jumpers, as the environment states them.
        lives: the board has shown that it runs, and nothing has been done to it since.
        on_at: time of the last power on, in seconds since 1970.
        software: name -> version that the last boot printed (`lab.benchmarks.versions.BootVersions`).
        expected: medium -> versions that the first boot after its provisioning printed.
        recovery: files of the release that are loaded into the board's memory, a `lab.provision.release.Recovery`.
        from_nothing: brings a board without bootable software to U-Boot's prompt.
        low_power: the board's low-power modes, a `lab.control.lowpower.LowPower`.
        target: labgrid's target of this board.
        power: the power switch; it keeps the instants of its last switching.
    """

    type: BoardType
    board: str
    identity: str
    security: str
    medium: str
    jumpers: Sequence[str]
    status: Status
    lives: bool
    on_at: float
    software: dict[str, str]
    expected: Mapping[str, Mapping[str, str]]
    recovery: Any
    from_nothing: Callable[[Any], None] | None
    low_power: Any
    target: Any
    power: Any
    console: Any
    boot_mode: Any
    shell: Any
    mcu: Any
    wake_pins: Any
    rails: Any

    @property
    def wired(self) -> Sequence[str]:
        """The wake-up sources that the environment wires, beside the RTC and the console."""
        ...

    @property
    def linux(self) -> Any:
        """The shell of a board whose status is `linux`, a `lab.drivers.prompt.Prompt`."""
        ...

    def transition(self, status: Status | str) -> None:
        """Bring the board into `status`."""
        ...

    def off(self) -> None:
        """Switch the board off, and verify that it is off."""
        ...

    def order_off(self) -> None:
        """Switch the power off without verifying it; a later `off` verifies."""
        ...

    def boot(self, init: str = "", *, arguments: str = "", at_uboot: Callable[[Any], None] | None = None) -> BootWatch:
        """Power-cycle the board and boot it to the login prompt.

        Args:
            init: program that the kernel starts as init; the boot then ends at its prompt. Empty: the image's init.
            arguments: further kernel arguments.
            at_uboot: called with U-Boot's prompt before the boot goes on; None: U-Boot is not stopped.
        """
        ...

    def switch_on(self, boot_mode: int | None = None) -> object:
        """Switch on a board that is off.

        Args:
            boot_mode: value of the boot-mode straps; None: that of the selected medium.
        """
        ...

    def interrupt(self) -> Any:
        """Stop a board that was just powered at U-Boot's prompt, and return its UBootDriver."""
        ...

    def identify(self) -> BoardIdentity | None:
        """Log in to a board that has just booted, and read its identity."""
        ...

    def asked(
        self, question: str, is_whole: Callable[[Sequence[str]], bool] | None = None
    ) -> tuple[int, list[str]] | None:
        """Log in if needed, and run a command.

        Args:
            is_whole: tells whether these lines are the undamaged output.

        Returns:
            The console's clock before the command, in ns, and the lines of its output. None: the board has no shell.
        """
        ...

    def select_medium(self, medium: str) -> None:
        """Boot from `medium` at the next power on."""
        ...

    def writers(self) -> Mapping[str, Any]:
        """Return for each medium the `lab.provision.writer.Writer` that writes it."""
        ...

    def booted(self, medium: str, questions: Mapping[str, str]) -> dict[str, str]:
        """Boot from a medium, and ask the board.

        Args:
            questions: name -> command.

        Returns:
            The versions "uboot" and "kernel", and the answer to each question by its name.
        """
        ...

    def activate(self, driver: Any, kind: Any, late: BoardTransientError | None = None) -> None:
        """Activate a driver within the time limit of its role.

        Args:
            kind: its `lab.drivers.guarded_calls.DriverRole`.
            late: raised if the driver takes too long; None: the role's own error.
        """
        ...

    def timing(self) -> LineTiming:
        """Return the line timing that the console's stamps follow."""
        ...

    def tail(self) -> str:
        """Return the last characters of the console's output, for messages."""
        ...


def check_complete(board: object) -> None:
    """Require that a strategy has all members of `Board`, and the parameters of its methods.

    Raises:
        ConfigurationError: one is missing, as in a lab's copy of an older strategy.
    """
    members = dir(board)
    missing = [name for name in Board.__annotations__ if name not in members]
    for name, member in vars(Board).items():
        if name.startswith("_"):
            continue
        if name not in members:
            missing.append(name)
        elif inspect.isfunction(member):
            _self, *expected = inspect.signature(member).parameters
            present = inspect.signature(getattr(type(board), name)).parameters
            missing += [f"{name}({parameter})" for parameter in expected if parameter not in present]
    if missing:
        raise ConfigurationError(
            "the environment imports a boardstrategy.py that is older than this boardlab: it lacks "
            f"{', '.join(missing)}. Run `lab init DIR` with an empty folder, take the new boardstrategy.py from "
            "there, and carry your changes over"
        )


def cross_check(
    board: Board, marks: Collection[str], earlier_software: BoardSoftware | None = None
) -> CrossCheck | None:
    """Ask a board that has just booted for its own record of the boot.

    Args:
        marks: marks of the kernel that came first (`BootKernelLog.marks`).
        earlier_software: answer of an earlier boot; the software is asked for again only if it has changed.

    Returns:
        The board's record. None: the board has no shell, or its answer is damaged or incomplete.

    Raises:
        BoardlabError: the login failed, or the shell does not answer.
    """
    console = board.console
    boot_events = len(console.capture)
    boot_text = b"".join(event.data for event in console.capture if isinstance(event, Chunk)).decode("latin-1")
    software = earlier_software or _ask_software(board)
    answer = _ask(board, facts_question(software, marks))
    facts = None if answer is None else read_facts(answer.lines)
    if answer is None or facts is None:
        return None
    answer_events = console.capture[answer.first_event :]
    clock_lines = find_moments(answer_events, [MomentPattern("uptime", CLOCK_PATTERN)], board.timing())
    zero_ns = zero_of(facts, answer.asked_ns, clock_lines[0]) if clock_lines else None
    if zero_ns is None:
        return None
    if earlier_software is not None and facts.fingerprint != earlier_software.fingerprint:
        software = _ask_software(board)
    log = read_log(answer.lines, boot_text, software.level, marks)
    stamps = [event.t_ns for event in console.capture[boot_events:] if isinstance(event, Chunk)]
    return CrossCheck(
        facts,
        zero_ns,
        log,
        evolve(software, fingerprint=facts.fingerprint or None),
        login_ns=max(0, answer.asked_ns - stamps[0]),
        took_ns=stamps[-1] - answer.asked_ns,
    )


def _ask_software(board: Board) -> BoardSoftware:
    """Ask the board for its software; a board that does not answer has unknown software."""
    answer = _ask(board, SOFTWARE)
    return BoardSoftware() if answer is None else read_software(answer.lines)


@frozen
class _Answer:
    """An undamaged answer of the board.

    Attributes:
        asked_ns: the console's clock before the question.
        first_event: index in the console's capture of the first event after the question.
    """

    lines: Sequence[str]
    asked_ns: int
    first_event: int


def _ask(board: Board, question: str) -> _Answer | None:
    """Ask the board a question, and once more if the answer is damaged.

    Returns:
        The answer. None: the board has no shell, or both answers are damaged.
    """
    first_lines: list[str] = []
    # The kernel may have printed into the first answer; the second try silences it on the console.
    for command in (question, f"dmesg -n 1;{question}"):
        first_event = len(board.console.capture)
        answer = board.asked(command, lambda lines: whole_text(lines) is not None)
        if answer is None:
            return None
        asked_ns, lines = answer
        text = whole_text(lines)
        # A board without a program for digests cannot prove its answer: two equal answers are believed, too. Their
        # first lines are clocks, and always differ.
        if text is None and len(first_lines) > 1 and first_lines[1:] == lines[1:]:
            text = lines
        if text is not None:
            return _Answer(text, asked_ns, first_event)
        first_lines = lines
    return None
