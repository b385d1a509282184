"""USB serial adapter on a UART, behind a line of real speed.

Its pty outlives the board. One pacer has the timer for all UARTs of a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import os
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from attrs import define

from lab.host.clock import Clock, TimerFd
from lab.virtual.line import UartChannel
from lab.virtual.truth_log import TruthLog

TX_FIFO_BYTES = 32  # Arm PL011 r1p5 (DDI 0183G, 2.4.3)
_HOST_BUFFER_BYTES = 256  # bytes of the host in the adapter; more wait in the pty
_USB_PACKET_BYTES = 512  # bulk, high speed (USB 2.0, 5.8.3)
_TRUTH_DELAY_S = 0.1  # longest wait of a record for the truth log


def _ignore(_data: bytes) -> None: ...


def _no_op() -> None: ...


def _none() -> int:
    return 0


class UartAdapter:
    """A persistent pty, linked as `path`, with the UART's model.

    The link leads over the device `PATH-ttyUSB0`.

    Both directions go at 10 bits a byte. The adapter delivers when `fifo_bytes` were collected or its latency timer
    ticks; with `latency_timer_ms` 0, as soon as the transmitter goes idle. Without a reader, bytes beyond the pty's
    buffer are lost and counted (`overruns`), as with a real adapter. Must be made inside its event loop.

    Attributes:
        room_hook: called when the transmitter has room again; a board with flow control refills it there.
        receive_hook: called with each byte from the host when it has arrived at the board; set by `listen`.
        untaken_hook: number of bytes that have arrived and that the board has not taken; while it has many, the adapter waits.
        said_hook, typed_hook: called with bytes that the board sends, and that reach it; for observers.
        overruns: bytes lost without a reader of the pty.
        pacer: what fires at the line's deadlines; a simulated board uses it for its own.
        active_ns: when a byte last went through, in either direction.
    """

    def __init__(
        self,
        path: Path,
        pacer: Pacer,
        truth: TruthLog,
        *,
        speed_bd: int = 115200,
        fifo_bytes: int = 16,
        latency_timer_ms: float = 0.0,
    ) -> None:
        self.path = path
        self.room_hook: Callable[[], None] = _no_op
        self.receive_hook: Callable[[bytes], None] = _ignore
        self.untaken_hook: Callable[[], int] = _none
        self.said_hook: Callable[[bytes], None] = _ignore
        self.typed_hook: Callable[[bytes], None] = _ignore
        self.overruns = 0
        self.active_ns = 0
        self.truth = truth
        self.pacer = pacer
        self._loop = asyncio.get_running_loop()
        self.tty = ""
        self._number = 0
        self._flush: asyncio.TimerHandle | None = None
        self._master = self._slave = -1
        self._speed_bd, self._fifo_bytes = speed_bd, fifo_bytes
        self._to_host = _Direction(UartChannel(speed_bd, fifo_bytes, round(latency_timer_ms * 1e6)), self._deliver)
        self._to_board = _Direction(UartChannel(speed_bd, fifo_bytes=1), self._receive)
        for left in path.parent.glob(f"{path.name}-ttyUSB*"):  # by a bench that was killed
            left.unlink()
        self.plug()

    @property
    def _device(self) -> Path:
        return self.path.with_name(f"{self.path.name}-ttyUSB{self._number}")

    @property
    def room(self) -> int:
        """Free bytes of the transmit FIFO."""
        return max(TX_FIFO_BYTES - self.unsent, 0)

    @property
    def unsent(self) -> int:
        """Bytes of the board that have not left the transmitter."""
        return self._to_host.line.unsent(self.pacer.clock.now_ns())

    @property
    def queued(self) -> int:
        """Bytes of the board that were not delivered yet."""
        return self._to_host.line.queued

    def transmit(self, data: bytes) -> None:
        """Send `data`; boards that care look at `room` before.

        The line takes more than its FIFO holds.
        """
        self.said_hook(data)
        self._to_host.line.push(data, self.pacer.clock.now_ns())
        self.pacer.update(self._to_host)

    def set_speed(self, speed_bd: int) -> None:
        """Change the speed, both ways; faster adapters send bigger packets."""
        fifo_bytes = min(max(self._fifo_bytes, self._fifo_bytes * speed_bd // self._speed_bd), _USB_PACKET_BYTES)
        now_ns = self.pacer.clock.now_ns()
        self._to_host.line.set_speed(speed_bd, fifo_bytes)
        self._to_board.line.set_speed(speed_bd, fifo_bytes=1)
        self.active_ns = now_ns
        self.pacer.update(self._to_host)
        self.pacer.update(self._to_board)

    def plug(self, *, renumbered: bool = False) -> None:
        """Plug the adapter in: a new pty behind the same link.

        The device is the same or, if `renumbered`, the next one.
        """
        if self._master >= 0:
            return
        self._number += renumbered
        self._master, self._slave = os.openpty()
        # The slave stays open here too: without it the master sees a hang-up whenever the last reader leaves.
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.tty = os.ttyname(self._slave)
        self._reading = True
        # Two links, as udev has them: they identify the device, whatever the pty's number is.
        _link(self._device, self.tty)
        _link(self.path, self._device.name)
        self._loop.add_reader(self._master, self._host_wrote)

    def unplug(self) -> None:
        """Unplug the adapter: readers see a hang-up, output is lost."""
        if self._master < 0:
            return
        self._loop.remove_reader(self._master)
        os.close(self._slave)
        os.close(self._master)
        self._master = self._slave = -1
        if self._device.is_symlink() and str(self._device.readlink()) == self.tty:
            self.path.unlink(missing_ok=True)
            self._device.unlink()

    def listen(self, receive_hook: Callable[[bytes], None]) -> None:
        """Hand on what the host types from now on.

        The board gets its power now. What was typed before does not reach it, although a busy bench may still have that
        in the pty.
        """
        with contextlib.suppress(BlockingIOError):
            while self._master >= 0 and os.read(self._master, _HOST_BUFFER_BYTES):
                pass
        line, now_ns = self._to_board.line, self.pacer.clock.now_ns()
        line.discard(now_ns)
        while line.take(now_ns):
            line.discard(now_ns)
        self.pacer.update(self._to_board)
        self.read_on()
        self.receive_hook = receive_hook

    def discard(self) -> None:
        """Drop unsent bytes and stop receiving: the board lost its power."""
        self.room_hook, self.untaken_hook = _no_op, _none
        self.receive_hook = self.said_hook = self.typed_hook = _ignore
        now_ns = self.pacer.clock.now_ns()
        for direction in (self._to_host, self._to_board):
            direction.line.discard(now_ns)
            self.pacer.update(direction)

    def close(self) -> None:
        """Unplug the adapter for good."""
        self.unplug()
        self.pacer.remove(self._to_host)
        self.pacer.remove(self._to_board)
        if self._flush is not None:
            self._flush.cancel()
        self.truth.flush()

    def _deliver(self) -> None:
        now = self.pacer.clock.now_ns
        taken_ns = self.active_ns = now()
        for sent in self._to_host.line.take(taken_ns):
            written, handed_ns = 0, now()  # just before the write: that we are late is part of the truth
            with contextlib.suppress(BlockingIOError):
                written = os.write(self._master, sent.data) if self._master >= 0 else 0
            lost = len(sent.data) - written
            if written:
                end_ns = sent.end_ns + handed_ns - taken_ns - self._to_host.line.duration_ns(lost)
                self.truth.data(end_ns, now(), sent.data[:written])
            if lost:
                self.overruns += lost
                self.truth.overrun(handed_ns, lost)
        if self._flush is None:
            self._flush = self._loop.call_later(_TRUTH_DELAY_S, self._write_truth)
        self.room_hook()

    def _receive(self) -> None:
        self.active_ns = self.pacer.clock.now_ns()
        for sent in self._to_board.line.take(self.active_ns):
            self.typed_hook(sent.data)
            self.receive_hook(sent.data)
        self.read_on()

    @property
    def _host_room(self) -> int:
        return _HOST_BUFFER_BYTES - self._to_board.line.queued - self.untaken_hook()

    def read_on(self) -> None:
        """Take more from the host, if there is room for it."""
        if self._master >= 0 and not self._reading and self._host_room > 0:
            self._reading = True
            self._loop.add_reader(self._master, self._host_wrote)

    def _host_wrote(self) -> None:
        if self._host_room > 0:
            with contextlib.suppress(BlockingIOError):
                data = os.read(self._master, self._host_room)
                self._to_board.line.push(data, self.pacer.clock.now_ns())
        if self._host_room <= 0:
            self._reading = False
            self._loop.remove_reader(self._master)
        self.pacer.update(self._to_board)

    def _write_truth(self) -> None:
        self._flush = None
        self.truth.flush()


@define(eq=False)
class _Direction:
    """One direction of the adapter, as the pacer sees it."""

    line: UartChannel
    fire: Callable[[], None]

    def deadline_ns(self) -> int | None:
        return self.line.deadline_ns()


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(path)


# --- One timer for all UARTs of a process ---


_EXPIRED = -1  # no deadline: the timer went off and has to be set or stopped


class Paced(Protocol):
    """Something that has to act at a time of its own."""

    def deadline_ns(self) -> int | None:
        """Time of the next action on the pacer's clock; None: none."""
        ...

    def fire(self) -> None:
        """Act; called at or after the deadline."""
        ...


class Pacer:
    """Fires each of its `Paced` at its deadline, by kernel timers.

    One heap and one timerfd serve all of them: what falls due together costs one wake-up.
    """

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = clock
        self._loop = loop
        self._timer = TimerFd()
        self._order = itertools.count()
        self._heap: list[tuple[int, int, Paced]] = []
        self._due: dict[Paced, int] = {}  # the valid ones; the heap also holds replaced deadlines
        self._armed_ns: int | None = None
        self._firing: Paced | None = None
        loop.add_reader(self._timer.fileno(), self._expired)

    def update(self, paced: Paced) -> None:
        """Look again at the deadline of `paced`, which may have changed."""
        if paced is not self._firing:  # it is looked at when it is done
            self._enter(paced)
            if self._firing is None:
                self._arm()

    def remove(self, paced: Paced) -> None:
        """Never fire `paced` again until its next `update`."""
        self._due.pop(paced, None)

    def close(self) -> None:
        """Stop the timer."""
        self._loop.remove_reader(self._timer.fileno())
        self._timer.close()

    def _enter(self, paced: Paced) -> None:
        deadline_ns = paced.deadline_ns()
        if deadline_ns is None:
            self._due.pop(paced, None)
        elif self._due.get(paced) != deadline_ns:
            self._due[paced] = deadline_ns
            heapq.heappush(self._heap, (deadline_ns, next(self._order), paced))

    def _expired(self) -> None:
        now_ns = self.clock.now_ns()
        try:
            # `now_ns` stays fixed, so that a pacer that cannot keep up still lets the loop do its other work.
            while self._heap and self._heap[0][0] <= now_ns:
                deadline_ns, _, paced = heapq.heappop(self._heap)
                if self._due.get(paced) == deadline_ns:
                    del self._due[paced]
                    self._firing = paced
                    paced.fire()
                    self._firing = None
                    self._enter(paced)
        finally:
            self._firing = None
            self._armed_ns = _EXPIRED
            self._arm()

    def _arm(self) -> None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        earliest_ns = self._heap[0][0] if self._heap else None
        if earliest_ns == self._armed_ns:
            return
        self._armed_ns = earliest_ns
        if earliest_ns is None:
            self._timer.stop()
        else:
            self._timer.start(earliest_ns - self.clock.now_ns())
