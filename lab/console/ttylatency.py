"""A byte of our own on its way through the kernel's tty layer, to see how late bytes come through it.

Between a driver and read(2) the kernel passes bytes on in a worker thread of ordinary priority (flush_to_ldisc on the
unbound workqueue, drivers/tty/tty_buffer.c). On a busy host that worker waits for a processor, and nothing that this
process can see of itself tells. So it sends byte after byte through a pty of its own, and looks when each arrives. It
does so as long as bytes came lately, and above all while none come: they may be waiting for that worker.
"""

from __future__ import annotations

import os
import tty

from lab.console.model import LATE_WINDOW_NS
from lab.host.clock import NS_PER_S

INTERVAL_NS = 10_000_000  # a hundred looks in the second that counts for a stamp, for less than a hundredth of a core


class TtyLatencyProbe:
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
        self._until_ns = 0

    def bytes_came(self, now_ns: int) -> None:
        """Somebody's bytes were read: go on sending for as long as the evidence counts."""
        self._until_ns = now_ns + LATE_WINDOW_NS

    def timeout_s(self, now_ns: int) -> float | None:
        """How long the loop may sleep before the next byte is due; None: none is."""
        if self._sent_ns is not None or now_ns >= self._until_ns:
            return None
        return max(self._next_ns - now_ns, 0) / NS_PER_S

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
        """Take the byte that has arrived; it may be announced and not be there yet, on a host that is very busy."""
        try:
            os.read(self.fd, 16)
        except BlockingIOError:
            return
        self._sent_ns = None

    def close(self) -> None:
        """Close the pty."""
        os.close(self._from)
        os.close(self.fd)
