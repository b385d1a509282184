"""The kernel's I2C adapters, /dev/i2c-N, through smbus2."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from smbus2 import SMBus, i2c_msg

from lab.errors import ConfigurationError
from lab.rails.i2c import NACK_ERRORS, NackError, Register, bus_lost_error

MAX_MESSAGES: Final = 42  # I2C_RDWR_IOCTL_MAX_MSGS, include/uapi/linux/i2c-dev.h


class Transfers(Protocol):
    """What is used of smbus2.SMBus."""

    def i2c_rdwr(self, *i2c_msgs: i2c_msg) -> None:
        """One combined transfer; raises OSError."""
        ...

    def close(self) -> None:
        """Close the device."""
        ...


def open_linux(device: str) -> LinuxBus:
    """The adapter /dev/i2c-N.

    Raises:
        ConfigurationError: no such adapter, or no permission.
    """
    try:
        return LinuxBus(SMBus(device), device)
    except OSError as error:
        raise ConfigurationError(
            f"{device}: {error.strerror}; load the module i2c-dev, join the group i2c, or mend `port` in the env"
        ) from error


class LinuxBus:
    """A `lab.rails.i2c.I2cBus`: up to 21 registers in one ioctl, each a write of its number and a read of two bytes."""

    def __init__(self, bus: Transfers, name: str) -> None:
        self.name = name
        self._bus = bus

    def prepare(self, registers: Sequence[Register]) -> Callable[[], Sequence[int]]:
        """See `I2cBus`."""
        calls: list[list[i2c_msg]] = []
        for start in range(0, len(registers), MAX_MESSAGES // 2):
            some = registers[start : start + MAX_MESSAGES // 2]
            calls.append(
                [
                    message
                    for register in some
                    for message in (
                        i2c_msg.write(register.address, [register.number]),
                        i2c_msg.read(register.address, 2),
                    )
                ]
            )
        unpack = struct.Struct(f">{len(registers)}H").unpack

        def fetch() -> Sequence[int]:
            for messages in calls:
                self._transfer(messages)
            return unpack(b"".join(bytes(message) for messages in calls for message in messages[1::2]))

        return fetch

    def write(self, register: Register, value: int) -> None:
        """See `I2cBus`."""
        self._transfer([i2c_msg.write(register.address, [register.number, value >> 8, value & 0xFF])])

    def close(self) -> None:
        """See `I2cBus`."""
        self._bus.close()

    def _transfer(self, messages: list[i2c_msg]) -> None:
        try:
            self._bus.i2c_rdwr(*messages)
        except OSError as error:
            if error.errno in NACK_ERRORS:
                raise NackError from error
            raise bus_lost_error(self.name, error) from error
