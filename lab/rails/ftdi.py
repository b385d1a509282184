"""I2C through an FTDI cable with MPSSE (FT232H, FT2232H, FT4232H; pyftdi)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Protocol

from pyftdi.i2c import I2cController, I2cNackError
from pyftdi.usbtools import UsbToolsError

from lab.errors import ConfigurationError
from lab.rails.i2c import NackError, Register, bus_lost_error


class I2cPort(Protocol):
    """The used part of pyftdi.i2c.I2cPort."""

    def exchange(self, out: bytes, readlen: int = 0) -> bytes:
        """Write, then read after a repeated start."""


class Controller(Protocol):
    """The used part of pyftdi.i2c.I2cController."""

    def get_port(self, address: int) -> I2cPort:
        """The chip at an address."""

    def close(self) -> None:
        """Release the adapter."""


def open_ftdi(url: str, khz: int) -> FtdiBus:
    """The adapter of a pyftdi URL.

    Raises:
        ConfigurationError: the adapter is missing, or not permitted.
    """
    controller = I2cController()
    try:
        controller.configure(url, frequency=khz * 1000.0)
    except (UsbToolsError, ValueError, OSError) as error:
        raise ConfigurationError(
            f"{url}: {error}; plug the adapter in, give this user access to it (udev), or mend `port` in the env"
        ) from error
    return FtdiBus(controller, url)


class FtdiBus:
    """A `lab.rails.i2c.I2cBus`; a USB round trip per register (milliseconds)."""

    limit = "one register at a time"

    def __init__(self, controller: Controller, name: str) -> None:
        self.name = name
        self._controller = controller

    def prepare(self, registers: Sequence[Register]) -> Callable[[], Sequence[int]]:
        def fetch() -> Sequence[int]:
            return [struct.unpack(">H", self._exchange(register, b"", 2))[0] for register in registers]

        return fetch

    def write(self, register: Register, value: int) -> None:
        self._exchange(register, struct.pack(">H", value), 0)

    def close(self) -> None:
        self._controller.close()

    def _exchange(self, register: Register, data: bytes, count: int) -> bytes:
        port = self._controller.get_port(register.address)
        try:
            return bytes(port.exchange(bytes([register.number]) + data, count))
        except I2cNackError as error:
            raise NackError from error
        except OSError as error:  # pyftdi's other errors are
            raise bus_lost_error(self.name, error) from error
