"""The board interface of runs, provisioning and low power (`strategies/boardstrategy.py`)."""

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
    """A board's known state.

    After any failure it is `unknown`, and the next transition power-cycles. labgrid's own strategies call two of them
    `uboot` and `shell`.
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
        """True for a low-power mode."""
        return self.name in SLEEP_MODES

    @classmethod
    def of(cls, status: Status | str) -> Status:
        """The state of that name.

        Raises:
            ConfigurationError: there is none.
        """
        if isinstance(status, Status):
            return status
        try:
            return cls[status]
        except KeyError as error:
            raise ConfigurationError(f"no state {status!r}; there are: {', '.join(s.name for s in cls)}") from error


class Board(Protocol):
    """A board with bound drivers that transitions between states.

    Attributes:
        identity: distinguishes it from other boards of its type.
        security: the state of its device. Both may be empty.
        medium: of its next boot.
        jumpers: positions that the environment says are set.
        lives: it was seen to live, and nothing has been done to it since.
        on_at: when it was switched on last, seconds since 1970.
        software: versions by name that the last boot printed, as of `lab.benchmarks.versions.BootVersions`.
        expected: medium -> the same of the boot after it was provisioned.
        recovery: the release's files for its memory, a `lab.provision.release.Recovery`.
        from_nothing: brings a board without software to U-Boot's prompt, in place of its medium.
        low_power: its low-power modes, a `lab.control.lowpower.LowPower`.
        target: labgrid's, of this board.
        power: the power switch, with its instants. The other drivers are labgrid's bindings; None where the env has
            none.
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
        """The environment's wake-up sources, beside the RTC and the console."""
        ...

    @property
    def linux(self) -> Any:
        """The shell of a board whose status is `linux`, a `lab.drivers.prompt.Prompt`."""
        ...

    def transition(self, status: Status | str) -> None:
        """Bring the board into `status`."""
        ...

    def off(self) -> None:
        """Switch off and verify it."""
        ...

    def order_off(self) -> None:
        """Order the power off, which `off` verifies."""
        ...

    def boot(self, init: str = "", *, arguments: str = "", at_uboot: Callable[[Any], None] | None = None) -> BootWatch:
        """Power-cycle and boot to the login prompt, with more kernel arguments."""
        ...

    def switch_on(self, boot_mode: int | None = None) -> object:
        """Switch on a board that is off.

        From its medium, or with another value on its boot-mode straps.
        """
        ...

    def interrupt(self) -> Any:
        """Stop a just powered board at U-Boot's prompt; return the UBootDriver."""
        ...

    def identify(self) -> BoardIdentity | None:
        """Log in to a just booted board and identify it."""
        ...

    def asked(
        self, question: str, is_whole: Callable[[Sequence[str]], bool] | None = None
    ) -> tuple[int, list[str]] | None:
        """Log in if needed, and run a command: the clock before it, and its output's lines."""
        ...

    def select_medium(self, medium: str) -> None:
        """Boot from `medium` at the next power on."""
        ...

    def writers(self) -> Mapping[str, Any]:
        """Medium -> the `lab.provision.writer.Writer` to write it."""
        ...

    def booted(self, medium: str, questions: Mapping[str, str]) -> dict[str, str]:
        """Boot from a medium; return its "uboot", "kernel" and answers."""
        ...

    def activate(self, driver: Any, kind: Any, late: BoardTransientError | None = None) -> None:
        """Activate a driver of a `lab.drivers.guarded_calls.DriverRole`, with a limit."""
        ...

    def timing(self) -> LineTiming:
        """The line timing of the console's stamps."""
        ...

    def tail(self) -> str:
        """The last that the console said, for messages."""
        ...


def check_complete(board: object) -> None:
    """Require all members of `Board`, and its methods' parameters.

    Raises:
        ConfigurationError: one is missing, as in a lab's copy of an older strategy.
    """
    there, lacks = dir(board), [name for name in Board.__annotations__ if name not in dir(board)]
    for name, member in vars(Board).items():
        if name.startswith("_"):
            continue
        if name not in there:
            lacks.append(name)
        elif inspect.isfunction(member):
            expected, present = (
                inspect.signature(member).parameters,
                inspect.signature(getattr(type(board), name)).parameters,
            )
            lacks += [f"{name}({parameter})" for parameter in [*expected][1:] if parameter not in present]
    if lacks:
        raise ConfigurationError(
            "the environment imports a boardstrategy.py that is older than this boardlab: it lacks "
            f"{', '.join(lacks)}. Have `lab init DIR` write the new one into an empty folder, and carry your "
            "changes over"
        )


def cross_check(board: Board, marks: Collection[str], known: BoardSoftware | None = None) -> CrossCheck | None:
    """Ask a just booted board what it knows of its boot; None: it was not asked, or does not say.

    Args:
        marks: of the kernel that came first, as of `BootKernelLog`.
        known: the software of an earlier boot, which is not asked for again if the board has the same.

    Raises:
        BoardlabError: the login failed, or the shell does not answer.
    """
    console = board.console
    before = len(console.capture)
    text = b"".join(event.data for event in console.capture if isinstance(event, Chunk)).decode("latin-1")
    software = known or _ask_software(board)
    answer = _ask(board, facts_question(software, marks))
    facts = None if answer is None else read_facts(answer.lines)
    if answer is None or facts is None:
        return None
    came = find_moments(console.capture[answer.at :], [MomentPattern("uptime", CLOCK_PATTERN)], board.timing())
    zero_ns = zero_of(facts, answer.asked_ns, came[0]) if came else None
    if zero_ns is None:
        return None
    if known is not None and facts.fingerprint != known.fingerprint:
        software = _ask_software(board)
    log = read_log(answer.lines, text, software.level, marks)
    stamps = [event.t_ns for event in console.capture[before:] if isinstance(event, Chunk)]
    return CrossCheck(
        facts,
        zero_ns,
        log,
        evolve(software, fingerprint=facts.fingerprint or None),
        login_ns=max(0, answer.asked_ns - stamps[0]),
        took_ns=stamps[-1] - answer.asked_ns,
    )


def _ask_software(board: Board) -> BoardSoftware:
    answer = _ask(board, SOFTWARE)
    return BoardSoftware() if answer is None else read_software(answer.lines)


@frozen
class _Answer:
    """The whole text of an answer, the console's clock before the question, and the number of events before it."""

    lines: Sequence[str]
    asked_ns: int
    at: int


def _ask(board: Board, question: str) -> _Answer | None:
    """Ask a question, and once more if the answer is damaged; None: the board was not asked, or both are damaged.

    A board without a program for digests is believed if it says the same twice, but for the clock in the first line.
    """
    before: list[str] = []
    for command in (question, f"dmesg -n 1;{question}"):  # the kernel may have written into the first answer
        at = len(board.console.capture)
        answer = board.asked(command, lambda lines: whole_text(lines) is not None)
        if answer is None:
            return None
        asked_ns, lines = answer
        text = whole_text(lines)
        if text is None and len(before) > 1 and before[1:] == lines[1:]:
            text = lines
        if text is not None:
            return _Answer(text, asked_ns, at)
        before = lines
    return None
