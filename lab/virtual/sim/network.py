"""Network of a simulated board: files of a TFTP server."""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path
from typing import Final, Protocol

from attrs import define, frozen

TFTP_PORT: Final = 69
_BLOCK_BYTES: Final = 1428  # what U-Boot asks for (CONFIG_TFTP_BLOCKSIZE, 1468 less room for tags)
_WAITS_S: Final = 2.0
_TRIES: Final = 3
_RRQ, _DATA, _ACK, _ERROR, _OACK = 1, 3, 4, 5, 6  # RFC 1350, RFC 2347


@define(eq=False)
class Fetch:
    """A file on its way.

    Attributes:
        data: its bytes, once they are all there.
        error: the server's words, where it refused.
    """

    data: bytes | None = None
    error: str = ""

    @property
    def done(self) -> bool:
        """Return whether the request has ended."""
        return self.data is not None or bool(self.error)


class TftpClient(Protocol):
    """Fetches files from a TFTP server; a server may be missing."""

    def fetch(self, server: str, port: int, path: str) -> Fetch:
        """Ask a TFTP server for a file."""
        ...


@frozen
class NoNetwork:
    """No cable is plugged in."""

    def fetch(self, _server: str, _port: int, _path: str) -> Fetch:
        """Never answer."""
        return Fetch()


@frozen
class FolderTftp:
    """Files in a folder of this host, for boards in virtual time."""

    path: Path

    def fetch(self, _server: str, _port: int, path: str) -> Fetch:
        file = (self.path / path.lstrip("/")).resolve()
        inside = file.is_relative_to(self.path.resolve()) and file.is_file()
        return Fetch(file.read_bytes()) if inside else Fetch(error="File not found")


@define(eq=False)
class LoopbackTftp:
    """A real TFTP server of this host, on loopback only.

    The address that the board names does not matter.
    """

    host: str = "127.0.0.1"

    def fetch(self, _server: str, port: int, path: str) -> Fetch:
        fetch = Fetch()
        threading.Thread(target=self._get, args=(fetch, port, path), daemon=True).start()
        return fetch

    def _get(self, fetch: Fetch, port: int, path: str) -> None:
        data, expected, size = bytearray(), 1, 512
        request = b"".join(
            [struct.pack("!H", _RRQ), path.encode(), b"\0octet\0blksize\0", str(_BLOCK_BYTES).encode(), b"\0"]
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.settimeout(_WAITS_S)
            send, to = request, (self.host, port)
            tries = 0
            while tries < _TRIES:
                try:
                    line.sendto(send, to)
                    packet, to = line.recvfrom(65536)
                except OSError:  # no answer, or no such port
                    tries += 1
                    continue
                kind, number = struct.unpack("!HH", packet[:4].ljust(4, b"\0"))
                if kind == _ERROR:
                    fetch.error = packet[4:].split(b"\0")[0].decode("utf-8", "replace") or f"error {number}"
                    return
                if kind == _OACK:
                    size, send = _BLOCK_BYTES, struct.pack("!HH", _ACK, 0)
                elif kind == _DATA and number == expected & 0xFFFF:
                    tries, expected = 0, expected + 1
                    data += packet[4:]
                    send = struct.pack("!HH", _ACK, number)
                    if len(packet) - 4 < size:
                        line.sendto(send, to)
                        fetch.data = bytes(data)
                        return
