"""The I2C bus of a virtual board: messages as the kernel's I2C_RDWR has them, over its bench's Unix socket.

A request is `<H` (bytes that follow), then for each message `<BBH` (address, 1 for a read, length) and, for a write, its
bytes. The answer is `<Hi` (bytes of data that follow, 0 or the negative errno of a transfer that failed) and what was read.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError
from lab.rails.i2c import NackError, Register, bus_lost_error

_LENGTH: Final = struct.Struct("<H")
_MESSAGE: Final = struct.Struct("<BBH")
_ANSWER: Final = struct.Struct("<Hi")
_PATIENCE_S: Final = 10  # a bench on a busy host


class SocketBus:
    """A `lab.rails.i2c.I2cBus`."""

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
                f"{path}: nobody listens ({error.strerror or error}); `lab virtual up` starts the bench, "
                "or mend `port` in the env"
            ) from error

    def prepare(self, registers: Sequence[Register]) -> Callable[[], Sequence[int]]:
        """See `I2cBus`."""
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
        """See `I2cBus`."""
        body = _MESSAGE.pack(register.address, 0, 3) + bytes([register.number, value >> 8, value & 0xFF])
        self._ask(_LENGTH.pack(len(body)) + body, 0)

    def close(self) -> None:
        """See `I2cBus`."""
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
