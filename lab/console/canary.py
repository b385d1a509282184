"""A byte of our own on its way through the kernel's tty layer, to see how late bytes come through it.

Between a driver and read(2) the kernel passes bytes on in a worker thread of ordinary priority (flush_to_ldisc on the
unbound workqueue, drivers/tty/tty_buffer.c). On a busy host that worker waits for a processor, and nothing that this
process can see of itself tells. So it sends a byte through a pty of its own now and then, and looks when it arrives.
"""

from __future__ import annotations

import os
import tty

INTERVAL_NS = 10_000_000  # while bytes come: often enough to see what they went through, and a thousandth of the CPU


class Canary:
    """One byte at a time, from the pty's master to its slave.

    Attributes:
        fd: readable when the byte has arrived.
    """

    def __init__(self) -> None:
        """No byte is on its way."""
        self._from, self.fd = os.openpty()
        tty.setraw(self.fd)
        os.set_blocking(self._from, False)
        os.set_blocking(self.fd, False)
        self._sent_ns: int | None = None
        self._next_ns = 0

    def send(self, now_ns: int) -> None:
        """Send a byte, unless one is on its way or it is too early for the next."""
        if self._sent_ns is None and now_ns >= self._next_ns:
            os.write(self._from, b".")
            self._sent_ns = now_ns
            self._next_ns = now_ns + INTERVAL_NS

    def late_ns(self, now_ns: int) -> int:
        """How long the byte that is on its way has been going; 0 when none is."""
        return 0 if self._sent_ns is None else now_ns - self._sent_ns

    def arrived(self) -> None:
        """Take the byte that has arrived."""
        os.read(self.fd, 16)
        self._sent_ns = None

    def close(self) -> None:
        """Close the pty."""
        os.close(self._from)
        os.close(self.fd)
