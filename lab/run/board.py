"""The board interface of runs, provisioning and low power (`strategies/boardstrategy.py`)."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import evolve

from lab.benchmarks.boot import BootWatch
from lab.benchmarks.boot.crosscheck import CLOCK_MARK, CLOCK_SWITCHED, QUESTIONS, CrossCheck, read_facts
from lab.benchmarks.identity import BoardIdentity
from lab.boards import BoardType, MomentPattern
from lab.console.model import Chunk, LineTiming
from lab.console.moments import find_moments
from lab.errors import BoardTransientError, ConfigurationError
from lab.sleep_modes import SLEEP_MODES


class Status(enum.Enum):
    """A board's known state.

    After any failure it is `unknown`, and the next transition power-cycles.
    """

    unknown = 0
    off = 1
    bootloader = 2
    linux = 3
    provisioned = 4
    ram_linux = 5
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
        identity: distinguishes it from other boards of its type. security: the state of its device. Both may be empty.
        medium: of its next boot. jumpers: positions that the environment says are set.
        lives: it was seen to live, and nothing has been done to it since.
        on_at: when it was switched on last, seconds since 1970.
        software: versions by name that the last boot printed, as of `lab.benchmarks.versions.BootVersions`.
        expected: medium -> the same of the boot after it was provisioned.
        recovery: the release's files for its memory, a `lab.provision.release.Recovery`.
        from_nothing: brings a board without software to U-Boot's prompt, in place of its medium.
        low_power: its low-power modes, a `lab.control.lowpower.LowPower`.
        target: labgrid's, of this board.
        power: the power switch, with its instants. The other drivers are labgrid's bindings; None where the env has none.
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

    def asked(self, questions: Sequence[str]) -> tuple[int, list[list[str]]] | None:
        """Log in if needed, and run commands: the clock before the first, and the answers' lines."""
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
            wanted, given = (
                inspect.signature(member).parameters,
                inspect.signature(getattr(type(board), name)).parameters,
            )
            lacks += [f"{name}({parameter})" for parameter in [*wanted][1:] if parameter not in given]
    if lacks:
        raise ConfigurationError(
            f"the environment imports a boardstrategy.py that is older than this boardlab: it lacks {', '.join(lacks)}. Have `lab init DIR` "
            "write the new one into an empty folder, and carry your changes over"
        )


def cross_check(board: Board) -> CrossCheck | None:
    """Ask a just booted board what it knows of its boot; None: it was not asked, or does not say.

    Raises:
        BoardlabError: the login failed, or the shell does not answer.
    """
    before = len(board.console.capture)
    answer = board.asked(QUESTIONS)
    if answer is None:
        return None
    asked_ns, answers = answer
    mark = MomentPattern("uptime", rf"{CLOCK_MARK}\d")
    came = find_moments(board.console.capture[before:], [mark], board.timing())
    text = b"".join(event.data for event in board.console.capture[:before] if isinstance(event, Chunk)).decode(
        "latin-1"
    )
    found = CrossCheck.of(read_facts(answers), asked_ns, came[0], text) if came else None
    if found is None:
        return None
    stamps = [event.t_ns for event in board.console.capture[before:] if isinstance(event, Chunk)]
    switched = find_moments(
        board.console.capture[:before], [MomentPattern("switched", CLOCK_SWITCHED)], board.timing()
    )
    return evolve(
        found,
        login_ns=max(0, asked_ns - stamps[0]),
        took_ns=stamps[-1] - asked_ns,
        switched_ns=switched[0].t_ns if switched else None,
    )
