"""I2C for current monitors: 16-bit registers, read in batches.

One small interface with three implementations: the kernel's adapters (smbus2), an FTDI cable (pyftdi), and the Unix
socket of a virtual board's bench. The sensors' code is the same on all of them.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

from attrs import frozen
from smbus2 import SMBus, i2c_msg

from lab.errors import ConfigurationError, LabStableError

# Errors of Linux' adapters for a missing acknowledge (Documentation/i2c/fault-codes.rst).
NACK_ERRORS: Final = frozenset({errno.ENXIO, errno.EREMOTEIO, errno.EIO, errno.ETIMEDOUT, errno.EAGAIN})


Result = TypeVar("Result")


@frozen
class Register:
    """A chip's 16-bit register, most significant byte first."""

    address: int
    number: int


class NackError(Exception):
    """A missing acknowledge; readers make a mark or an error."""


class I2cBus(Protocol):
    """A bus with chips of 16-bit registers.

    Attributes:
        name: for messages.
    """

    name: str

    @property
    def limit(self) -> str:
        """The adapter's transfers, where they are slower than the bus; known after a read. Empty: they are not."""
        ...

    def prepare(self, registers: Sequence[Register]) -> Callable[[], Sequence[int]]:
        """Return a function that reads these registers as fast as possible.

        It raises NackError if one of them is not acknowledged, LabStableError if the bus itself has vanished.
        """
        ...

    def write(self, register: Register, value: int) -> None:
        """Write a register.

        Raises:
            NackError: no chip acknowledged.
            LabStableError: the bus has vanished.
        """
        ...

    def close(self) -> None:
        """Close the bus."""
        ...


def read(bus: I2cBus, register: Register) -> int:
    """One register; raises as `I2cBus.prepare`."""
    return bus.prepare([register])()[0]


def bus_lost_error(name: str, error: OSError) -> LabStableError:
    """The error of a vanished bus, or of a sensor that the kernel's driver has."""
    if error.errno == errno.EBUSY:
        return LabStableError(
            f"{name}: a driver of this host's kernel has the sensor: read it with `backend: hwmon`, or unbind it",
            failure="power_sensor",
        )
    return LabStableError(
        f"{name}: {error.strerror or error}; is the adapter plugged in, and "
        "the bus wired? `lab rails selftest` asks it",
        failure="power_sensor",
    )


MAX_MESSAGES: Final = 42  # I2C_RDWR_IOCTL_MAX_MSGS, include/uapi/linux/i2c-dev.h
# The kernel's words for a transfer that an adapter cannot do (i2c_check_for_quirks, and the drivers themselves).
_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL})


class Transfers(Protocol):
    """The used part of smbus2.SMBus."""

    def i2c_rdwr(self, *i2c_msgs: i2c_msg) -> None:
        """One combined transfer; raises OSError."""
        ...

    def read_word_data(self, i2c_addr: int, register: int) -> int:
        """SMBus' word of a register, least significant byte first; raises OSError."""
        ...

    def write_word_data(self, i2c_addr: int, register: int, value: int) -> None:
        """Write SMBus' word of a register; raises OSError."""
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
    """A `lab.rails.i2c.I2cBus` with up to 21 registers per ioctl.

    Each is a write of its number and a read of two bytes. Some adapters take one register at a time (CP2112,
    MCP2221), and others only SMBus' words (i801): their refusals tell.
    """

    def __init__(self, bus: Transfers, name: str) -> None:
        self.name = name
        self._bus = bus
        self._at_once = MAX_MESSAGES // 2  # registers of a transfer; 0: SMBus' words

    @property
    def limit(self) -> str:
        return {0: "SMBus' words, one register at a time", 1: "one register at a time"}.get(self._at_once, "")

    def prepare(self, registers: Sequence[Register]) -> Callable[[], Sequence[int]]:
        messages = [
            message
            for register in registers
            for message in (i2c_msg.write(register.address, [register.number]), i2c_msg.read(register.address, 2))
        ]
        unpack = struct.Struct(f">{len(registers)}H").unpack

        def fetch() -> Sequence[int]:
            if not self._at_once:
                read = self._bus.read_word_data
                return [_swap_bytes(read(register.address, register.number)) for register in registers]
            step = 2 * self._at_once
            for start in range(0, len(messages), step):
                self._bus.i2c_rdwr(*messages[start : start + step])
            return unpack(b"".join(map(bytes, messages[1::2])))

        return lambda: self._transfer(fetch)

    def write(self, register: Register, value: int) -> None:
        def send() -> None:
            if self._at_once:
                self._bus.i2c_rdwr(i2c_msg.write(register.address, [register.number, value >> 8, value & 0xFF]))
            else:
                self._bus.write_word_data(register.address, register.number, _swap_bytes(value))

        self._transfer(send)

    def close(self) -> None:
        self._bus.close()

    def _transfer(self, work: Callable[[], Result]) -> Result:
        while True:
            try:
                return work()
            except OSError as error:
                if error.errno in NACK_ERRORS:
                    raise NackError from error
                if error.errno not in _UNSUPPORTED or not self._at_once:
                    raise bus_lost_error(self.name, error) from error
                self._at_once = 1 if self._at_once > 1 else 0


def _swap_bytes(word: int) -> int:
    return (word & 0xFF) << 8 | word >> 8


# --- Virtual board's bus over a Unix socket ---
# A request is `<H` (bytes that follow), then for each message `<BBH` (address, 1 for a read, length) and, for a write,
# its bytes. The answer is `<Hi` (bytes of data that follow, 0 or the negative errno of a transfer that failed) and
# what was read.


_LENGTH: Final = struct.Struct("<H")
_MESSAGE: Final = struct.Struct("<BBH")
_ANSWER: Final = struct.Struct("<Hi")
_PATIENCE_S: Final = 10  # a bench on a busy host


class SocketBus:
    """A `lab.rails.i2c.I2cBus`."""

    limit = ""

    def __init__(self, path: str) -> None:
        """Connect.

        Raises:
            ConfigurationError: no bench listens there.
        """
        self.name = f"unix:{path}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # A time-out of Python's would cost a poll(2) before each call.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", _PATIENCE_S, 0))
        try:
            folder = os.open(Path(path).parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:  # through /proc a path may be longer than the 107 bytes of a socket's address
                self._socket.connect(f"/proc/self/fd/{folder}/{Path(path).name}")
            finally:
                os.close(folder)
        except OSError as error:
            self._socket.close()
            raise ConfigurationError(
                f"{path}: no bench listens ({error.strerror or error}); `lab virtual up` starts the bench, "
                "or mend `port` in the env"
            ) from error

    def prepare(self, registers: Sequence[Register]) -> Callable[[], Sequence[int]]:
        body = b"".join(
            _MESSAGE.pack(register.address, 0, 1) + bytes([register.number]) + _MESSAGE.pack(register.address, 1, 2)
            for register in registers
        )
        request = _LENGTH.pack(len(body)) + body
        size = 2 * len(registers)
        unpack = struct.Struct(f">{len(registers)}H").unpack

        def fetch() -> Sequence[int]:
            return unpack(self._ask(request, size))

        return fetch

    def write(self, register: Register, value: int) -> None:
        body = _MESSAGE.pack(register.address, 0, 3) + bytes([register.number, value >> 8, value & 0xFF])
        self._ask(_LENGTH.pack(len(body)) + body, 0)

    def close(self) -> None:
        self._socket.close()

    def _ask(self, request: bytes, size: int) -> bytes:
        try:
            self._socket.sendall(request)
            answer = self._socket.recv(_ANSWER.size + size)
            while len(answer) < _ANSWER.size or len(answer) < _ANSWER.size + _ANSWER.unpack_from(answer)[0]:
                more = self._socket.recv(4096)
                if not more:
                    raise ConnectionResetError(0, "the bench has gone")
                answer += more
        except OSError as error:
            raise bus_lost_error(self.name, error) from error
        count, status = _ANSWER.unpack_from(answer)
        if status < 0 or count != size:
            raise NackError
        return answer[_ANSWER.size :]
