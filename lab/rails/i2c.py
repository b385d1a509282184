"""I2C as current monitors need it: 16-bit registers, read many at a time.

One small interface with three ways through it: the kernel's adapters (smbus2), an FTDI cable (pyftdi), and the Unix socket
of a virtual board's bench. The sensors' code is the same on all of them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from attrs import frozen

from lab.errors import LabStableError

# What Linux' adapters say when nobody acknowledges (Documentation/i2c/fault-codes.rst).
NACK_ERRORS: Final = frozenset({errno.ENXIO, errno.EREMOTEIO, errno.EIO, errno.ETIMEDOUT, errno.EAGAIN})


@frozen
class Register:
    """A 16-bit register, most significant byte first, of a chip at an address."""

    address: int
    number: int


class NackError(Exception):
    """Nobody acknowledged. The bus's own word for it; whoever reads turns it into a mark or an error of the tree."""


class I2cBus(Protocol):
    """A bus with chips of 16-bit registers.

    Attributes:
        name: for messages.
    """

    name: str

    def prepare(self, registers: Sequence[Register]) -> Callable[[], Sequence[int]]:
        """A function that reads these registers in this order, as fast as the bus can.

        It raises NackError where one of them is not acknowledged, LabStableError where the bus itself is gone.
        """
        ...

    def write(self, register: Register, value: int) -> None:
        """Write a register.

        Raises:
            NackError: nobody acknowledged.
            LabStableError: the bus is gone.
        """
        ...

    def close(self) -> None:
        """Give the bus back."""
        ...


def read(bus: I2cBus, register: Register) -> int:
    """One register; raises as `I2cBus.prepare`."""
    return bus.prepare([register])()[0]


def bus_lost_error(name: str, error: OSError) -> LabStableError:
    """The error for a bus that is not there any more."""
    return LabStableError(
        f"{name}: {error.strerror or error}; is the adapter plugged in, and the bus wired? `lab rails selftest` asks it",
        failure="power_sensor",
    )
