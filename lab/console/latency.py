"""Latency of the bytes of all ports, and the probe of the kernel's tty layer that measures it."""

from __future__ import annotations

import os
import tty
from typing import Final

from attrs import define, field

from lab.console.model import LATE_WINDOW_NS
from lab.host.clock import NS_PER_S
from lab.host.scheduling import (
    EPOLL_STEP_NS,
    EVIDENCE_NS,
)

# The probe's bytes go the way of the ports' bytes, some two hundred a second while boards talk or
# somebody measures. They are counted in steps of a fifth at most, in two halves of a minute, so that neither the count
# nor the question costs the stamps anything.


HALF_NS: Final = 30 * NS_PER_S
LEAST: Final = 500  # bytes of which a 99th percentile says something: some three seconds of a board that talks
_STEPS: Final = 4  # between a power of two and the next one
_SIZE: Final = 64 * _STEPS


@define
class LatencyPercentile:
    """Histogram of latencies over this half minute and the one before."""

    _began_ns: int = field(default=0, init=False)
    _now: list[int] = field(factory=lambda: [0] * _SIZE, init=False)
    _before: list[int] = field(factory=lambda: [0] * _SIZE, init=False)

    def add(self, t_ns: int, late_ns: int) -> None:
        """Count a byte's latency."""
        self._roll(t_ns)
        self._now[_step(late_ns)] += 1

    def p99_ns(self, t_ns: int) -> int | None:
        """99th percentile of the last half to whole minute; None: few bytes."""
        self._roll(t_ns)
        counts = [now + before for now, before in zip(self._now, self._before, strict=True)]
        total = sum(counts)
        if total < LEAST:
            return None
        left = total // 100
        for step in reversed(range(_SIZE)):
            left -= counts[step]
            if left < 0:
                return _end_ns(step)
        return None

    def _roll(self, t_ns: int) -> None:
        halves = (t_ns - self._began_ns) // HALF_NS
        if halves:
            self._before = self._now if halves == 1 else [0] * _SIZE
            self._now = [0] * _SIZE
            self._began_ns = t_ns


def _step(late_ns: int) -> int:
    """Return the histogram step of a latency: four per power of two."""
    late_ns = max(late_ns, _STEPS)
    power = late_ns.bit_length() - 1
    return min(power * _STEPS + (late_ns >> (power - 2)) - _STEPS, _SIZE - 1)


def _end_ns(step: int) -> int:
    """Return the upper bound of a step."""
    power, part = divmod(step, _STEPS)
    return (_STEPS + part + 1) << (power - 2)


# Between a driver and read(2) the kernel passes bytes on in a worker thread of ordinary priority (flush_to_ldisc on
# the unbound workqueue, drivers/tty/tty_buffer.c). On a busy host that worker waits for a processor, and nothing that
# this process can see of itself tells. So it sends byte after byte through a pty of its own, and looks when each
# arrives. It does so as long as somebody measures or bytes came lately, and above all while none come: they may be
# waiting for that worker, and what comes after a long silence is as late as any.
#
# The worker takes what waits for it in its order: when our byte has arrived, nobody's from before it waits. So a byte
# that is late on its way says that others' may have been waiting since the one before it arrived.


INTERVAL_NS = 4_000_000  # a longer delay is noticed, for some hundredths of a core
OVERDUE_NS = EPOLL_STEP_NS + EVIDENCE_NS  # a byte is sent no later, unless this process was held up itself


class TtyLatencyProbe:
    """One byte at a time, from the pty's master to its slave.

    Attributes:
        fd: readable when the byte has arrived.
        measuring: a measurement runs: send also while no bytes arrive.
    """

    def __init__(self) -> None:
        """Open the pty; no byte is under way."""
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
        """Note a read, and send while the evidence counts."""
        if not self._is_due(now_ns):
            self._next_ns = max(self._next_ns, now_ns)
        self._until_ns = now_ns + LATE_WINDOW_NS

    def timeout_s(self, now_ns: int) -> float | None:
        """Time until the next byte is due; None: none is."""
        return max(self._next_ns - now_ns, 0) / NS_PER_S if self._is_due(now_ns) else None

    def send(self, now_ns: int) -> None:
        """Send a byte, unless one is under way or it is early."""
        if self._sent_ns is None and now_ns >= self._next_ns:
            os.write(self._from, b".")
            self._sent_ns = now_ns
            self._next_ns = now_ns + INTERVAL_NS

    def transit_ns(self, now_ns: int) -> int:
        """Age of the byte under way; 0: none is."""
        return 0 if self._sent_ns is None else now_ns - self._sent_ns

    def late_ns(self, now_ns: int) -> int:
        """Estimated wait of other bytes, from a late or overdue probe byte."""
        transit_ns = self.transit_ns(now_ns)
        held_up = transit_ns > EVIDENCE_NS or (self._is_due(now_ns) and now_ns - self._next_ns > OVERDUE_NS)
        return now_ns - self._clear_ns if held_up and self._clear_ns is not None else transit_ns

    def take_arrival(self, now_ns: int) -> None:
        """Take the arrived byte.

        A very busy host may announce it before it can be read.
        """
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
        """True if a byte is sent as soon as it is time."""
        return self._sent_ns is None and (self.measuring or now_ns < self._until_ns)
