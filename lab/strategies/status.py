"""What is known of a board."""

from __future__ import annotations

import enum

from lab.errors import ConfigurationError


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
