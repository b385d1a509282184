"""What the parts of the strategy need of it: a board with its drivers bound."""

from __future__ import annotations

import enum
from typing import Any, Protocol

from lab.boards import BoardType
from lab.console.model import LineTiming
from lab.drivers.calls import DriverRole
from lab.drivers.prompt import Prompt
from lab.errors import BoardTransientError, ConfigurationError

# --- What is known of a board ---


class Status(enum.Enum):
    """What is known of the board. After any failure it is `unknown`, and the next transition power-cycles."""

    unknown = 0
    off = 1
    bootloader = 2
    linux = 3
    deep_sleep = 4
    mcu_only = 5
    standby = 6
    s2idle = 7
    partial_io = 8
    provisioned = 9
    ram_linux = 10

    @property
    def asleep(self) -> bool:
        """Whether it is a low-power mode."""
        return Status.deep_sleep.value <= self.value <= Status.partial_io.value

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


# --- What the parts of the strategy need of it: a board with its drivers bound ---


class DrivenBoard(Protocol):
    """A board that is brought from state to state; see `lab.strategies.boardstrategy.BoardStrategy`.

    Attributes:
        software: "uboot" and "kernel" -> the version line that the last boot printed.
        power: the power switch, with its instants. The other drivers are labgrid's bindings; None where the env has none.
    """

    board: str
    type: BoardType
    identity: str
    medium: str
    status: Status
    lives: bool
    on_at: float
    software: dict[str, str]
    target: Any
    power: Any
    console: Any
    shell: Any
    mcu: Any
    wake_pins: Any
    rails: Any

    @property
    def linux(self) -> Prompt:
        """The shell of a board whose status is `linux`."""
        ...

    def activate(self, driver: Any, kind: DriverRole, late: BoardTransientError | None = None) -> None:
        """Activate a driver, with a limit."""
        ...

    def timing(self) -> LineTiming:
        """How exactly the console's stamps are known."""
        ...

    def transition(self, status: Status | str) -> None:
        """Bring the board into `status`."""
        ...

    def tail(self) -> str:
        """The last that the console said, for messages."""
        ...
