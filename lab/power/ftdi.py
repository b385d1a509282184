"""An FTDI cable with an MPSSE (FT232H, FT2232H, FT4232H) as I2C master, through pyftdi."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from lab.errors import ConfigurationError
from lab.power.i2c import NackError, Register, gone


class FtdiBus:
    """A `lab.power.i2c.I2cBus`; each register is a USB round trip, so that a reading takes some milliseconds."""

    def __init__(self, url: str, khz: int) -> None:
        """Open it.

        Raises:
            ConfigurationError: pyftdi is not installed, or there is no such adapter.
        """
        try:
            from pyftdi.ftdi import FtdiError  # noqa: PLC0415 - an extra
            from pyftdi.i2c import I2cController, I2cIOError, I2cNackError  # noqa: PLC0415
            from pyftdi.usbtools import UsbToolsError  # noqa: PLC0415
        except ImportError as error:
            raise ConfigurationError(f"{url}: needs pyftdi: install boardlab[ftdi]") from error
        self.name = url
        self._nack: type[Exception] = I2cNackError
        self._lost: tuple[type[Exception], ...] = (I2cIOError, FtdiError)
        self._controller = I2cController()
        try:
            self._controller.configure(url, frequency=khz * 1000.0)
        except (UsbToolsError, FtdiError, ValueError, OSError) as error:
            raise ConfigurationError(
                f"{url}: {error}; plug the adapter in, give this user access to it (udev), or mend `port` in the env"
            ) from error

    def prepare(self, registers: Sequence[Register]) -> Callable[[], Sequence[int]]:
        """See `I2cBus`."""

        def fetch() -> Sequence[int]:
            return [struct.unpack(">H", self._exchange(register, b"", 2))[0] for register in registers]

        return fetch

    def write(self, register: Register, value: int) -> None:
        """See `I2cBus`."""
        self._exchange(register, struct.pack(">H", value), 0)

    def close(self) -> None:
        """See `I2cBus`."""
        self._controller.close()

    def _exchange(self, register: Register, data: bytes, count: int) -> bytes:
        port = self._controller.get_port(register.address)
        try:
            return bytes(port.exchange(bytes([register.number]) + data, count))
        except self._nack as error:
            raise NackError from error
        except self._lost as error:
            raise gone(self.name, OSError(str(error))) from error
