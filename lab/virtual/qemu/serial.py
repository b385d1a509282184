"""QEMU's serial port on a UART adapter, with flow control."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

from lab.virtual.uart import UartAdapter

# A queued byte costs a socket buffer of about 0.8 kB, which SO_SNDBUF counts; so this holds some sixteen bytes.
_SEND_BUFFER_BYTES = 6144  # the kernel doubles it
_log = logging.getLogger(__name__)


class Serial:
    """Connects an adapter with a QEMU character device over a socket pair.

    Bytes are read only as the UART model has room for them. QEMU then blocks in the guest's write to the UART, so the
    guest really prints at the line's speed.

    Attributes:
        remote: QEMU's end, to be closed once QEMU has inherited it, or after `wait_for_room`.
    """

    def __init__(self, adapter: UartAdapter) -> None:
        self._adapter = adapter
        self._loop = asyncio.get_running_loop()
        self._local, self.remote = socket.socketpair()
        self._local.setblocking(False)
        self.remote.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self._waiting = False
        adapter.room_hook = self._fill
        adapter.receive_hook = self._send
        self._wait(readable=True)

    def wait_for_room(self) -> None:
        """Make QEMU wait while the line is full.

        It has opened its end, and makes it non-blocking. Most of its UARTs then try again; some drop the byte
        (hw/char/sifive_uart.c up to 9.1). The flag is of the open file, which `remote` and QEMU share.
        """
        self.remote.setblocking(True)

    def close(self) -> None:
        """Drop the unsent bytes: the board has no power."""
        self._wait(readable=False)
        self._adapter.discard()
        self._local.close()
        self.remote.close()

    def _fill(self) -> None:
        open_ = True
        if self._adapter.room:
            with contextlib.suppress(BlockingIOError):
                data = self._receive(self._adapter.room)
                open_ = bool(data)
                self._adapter.transmit(data)
        self._wait(readable=open_ and self._adapter.room > 0)

    def _receive(self, count: int) -> bytes:
        try:
            return self._local.recv(count)
        except ConnectionError:
            return b""  # QEMU is gone; its process says so

    def _send(self, data: bytes) -> None:
        try:
            self._local.send(data)
        except (BlockingIOError, ConnectionError):
            _log.warning("%s: the board does not take its input; lost %d bytes", self._adapter.path, len(data))

    def _wait(self, *, readable: bool) -> None:
        if readable != self._waiting:
            self._waiting = readable
            if readable:
                self._loop.add_reader(self._local, self._fill)
            else:
                self._loop.remove_reader(self._local)
