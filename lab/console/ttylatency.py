"""A byte of our own on its way through the kernel's tty layer, to see how late bytes come through it.

Between a driver and read(2) the kernel passes bytes on in a worker thread of ordinary priority (flush_to_ldisc on the
unbound workqueue, drivers/tty/tty_buffer.c). On a busy host that worker waits for a processor, and nothing that this
process can see of itself tells. So it sends byte after byte through a pty of its own, and looks when each arrives. It
does so as long as somebody measures or bytes came lately, and above all while none come: they may be waiting for that
worker, and what comes after a long silence is as late as any.

The worker takes what waits for it in its order: when our byte has arrived, nobody's from before it waits. So a byte that
is late on its way says that others' may have been waiting since the one before it arrived.
"""

from __future__ import annotations

import os
import tty

from lab.console.model import LATE_WINDOW_NS
from lab.host.clock import NS_PER_S
from lab.host.scheduling import EPOLL_STEP_NS, EVIDENCE_NS

INTERVAL_NS = 4_000_000  # who is held up for longer is seen, for some hundredths of a core
OVERDUE_NS = EPOLL_STEP_NS + EVIDENCE_NS  # a byte is sent no later, unless this process was held up itself


class TtyLatencyProbe:
    """One byte at a time, from the pty's master to its slave.

    Attributes:
        fd: readable when the byte has arrived.
        measuring: somebody measures, and bytes that come are timed: go on sending while none come.
    """

    def __init__(self) -> None:
        """No byte is on its way."""
        self._from, self.fd = os.openpty()
        tty.setraw(self.fd)
        os.set_blocking(self._from, False)
        os.set_blocking(self.fd, False)
        self.measuring = False
        self._sent_ns: int | None = None
        self._clear_ns: int | None = None  # when the last byte had arrived; None: none has
        self._next_ns = 0
        self._until_ns = 0

    def bytes_came(self, now_ns: int) -> None:
        """Somebody's bytes were read: go on sending for as long as the evidence counts."""
        if not self._is_due(now_ns):
            self._next_ns = max(self._next_ns, now_ns)
        self._until_ns = now_ns + LATE_WINDOW_NS

    def timeout_s(self, now_ns: int) -> float | None:
        """How long the loop may sleep before the next byte is due; None: none is."""
        return max(self._next_ns - now_ns, 0) / NS_PER_S if self._is_due(now_ns) else None

    def send(self, now_ns: int) -> None:
        """Send a byte, unless one is on its way or it is too early for the next."""
        if self._sent_ns is None and now_ns >= self._next_ns:
            os.write(self._from, b".")
            self._sent_ns = now_ns
            self._next_ns = now_ns + INTERVAL_NS

    def transit_ns(self, now_ns: int) -> int:
        """How long the byte that is on its way has been going; 0 when none is."""
        return 0 if self._sent_ns is None else now_ns - self._sent_ns

    def late_ns(self, now_ns: int) -> int:
        """How long others' bytes may have been waiting, as far as the byte on its way tells, or that the next was not sent."""
        transit_ns = self.transit_ns(now_ns)
        held_up = transit_ns > EVIDENCE_NS or (self._is_due(now_ns) and now_ns - self._next_ns > OVERDUE_NS)
        return now_ns - self._clear_ns if held_up and self._clear_ns is not None else transit_ns

    def arrived(self, now_ns: int) -> None:
        """Take the byte that has arrived; it may be announced and not be there yet, on a host that is very busy."""
        try:
            os.read(self.fd, 16)
        except BlockingIOError:
            return
        self._sent_ns, self._clear_ns = None, now_ns

    def close(self) -> None:
        """Close the pty."""
        os.close(self._from)
        os.close(self.fd)

    def _is_due(self, now_ns: int) -> bool:
        """Whether the next byte is to be sent as soon as it is time."""
        return self._sent_ns is None and (self.measuring or now_ns < self._until_ns)
