"""Machine of a board's programs: effects become bytes and deadlines."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from attrs import define

from lab.virtual.line import BITS_PER_BYTE
from lab.virtual.sim.program import NS_PER_S, Drain, Effect, Hear, Pause, Program, Say, Typed

FIFO_BYTES = 64  # of the K3's and the AM437x's UARTs (omap8250), each direction
_REFILL_BYTES = 8  # room in the FIFO at which its interrupt asks for more


class UartTransmitter(Protocol):
    """A UART's transmitter (lab.virtual.uart.UartAdapter is one)."""

    @property
    def unsent(self) -> int:
        """Number of bytes still to send."""
        ...

    def transmit(self, data: bytes) -> None:
        """Queue bytes."""
        ...

    def set_speed(self, speed_bd: int) -> None:
        """Send and receive at another speed from now on."""
        ...

    def unplug(self) -> None:
        """The adapter on this UART goes away."""
        ...

    def plug(self, *, renumbered: bool) -> None:
        """It comes back, as another device if `renumbered`."""
        ...


@define(eq=False)
class Task:
    """A running program."""

    program: Program[None]
    wake_ns: int | None
    uarts: tuple[str, ...] = ()  # it listens to these
    busy: str = ""  # it waits for this UART's transmitter


class Machine:
    """Runs any number of programs over the UARTs of one board.

    It knows no time of its own: `run` and `receive` are told what time it is, and `deadline_ns` says when it wants to
    be called next. Called late, it carries out each effect as of the time at which it was due.

    Attributes:
        now_ns: the time of the effect that is being carried out.
        speed_bd: by UART; a board's program may change it.
        rx_limit: how many received bytes wait for a program (a FIFO, or Linux' tty); more are lost.
        lost: how many were lost.
    """

    def __init__(self, ports: Mapping[str, UartTransmitter], speed_bd: Mapping[str, int]) -> None:
        self.now_ns = self._told_ns = 0
        self.speed_bd = dict(speed_bd)
        self.rx_limit = FIFO_BYTES
        self.lost = 0
        self._ports = ports
        self._received: defaultdict[str, deque[int]] = defaultdict(deque)
        self._free_ns = dict.fromkeys(ports, 0)
        self._tasks: list[Task] = []

    @property
    def running(self) -> bool:
        """Return whether any program runs."""
        return bool(self._tasks)

    def spawn(self, program: Program[None]) -> Task:
        """Run a program beside those that run."""
        task = Task(program, self.now_ns)
        self._tasks.append(task)
        return task

    def stop(self, tasks: Iterable[Task] | None = None) -> None:
        """End programs, all unless told which, without letting them do anything more."""
        for task in list(self._tasks if tasks is None else tasks):
            if task in self._tasks:
                self._tasks.remove(task)
                task.program.close()

    def others(self, task: Task) -> list[Task]:
        """The tasks that run beside this one."""
        return [other for other in self._tasks if other is not task]

    def set_speed(self, uart: str, speed_bd: int) -> None:
        """Another speed for a UART."""
        self.speed_bd[uart] = speed_bd
        self._ports[uart].set_speed(speed_bd)

    def unplug(self, uart: str) -> None:
        """The adapter on a UART goes away."""
        self._ports[uart].unplug()

    def plug(self, uart: str, *, renumbered: bool) -> None:
        """It comes back."""
        self._ports[uart].plug(renumbered=renumbered)

    def forget_input(self) -> None:
        """Empty the receivers, as a driver does that takes a UART over."""
        for received in self._received.values():
            received.clear()

    def unread(self, uart: str, data: bytes) -> None:
        """Give bytes back, to be heard before what comes next."""
        self._received[uart].extendleft(reversed(data))

    def power_lost(self) -> None:
        """Nothing runs, nothing was received, and the transmitters are idle."""
        self.stop()
        self.forget_input()
        self._free_ns = dict.fromkeys(self._free_ns, 0)

    def deadline_ns(self) -> int | None:
        """Time of a program's next own step.

        None: they wait for input, or there is none.
        """
        soonest: int | None = None
        for task in self._tasks:  # asked at every byte: a loop takes half as long as `min` of a generator
            if task.wake_ns is not None and (soonest is None or task.wake_ns < soonest):
                soonest = task.wake_ns
        return soonest

    def receive(self, uart: str, data: bytes, now_ns: int) -> None:
        """Take bytes of a UART, or an event, e.g. a wake-up pin."""
        self.run(now_ns)
        self.now_ns = max(self.now_ns, now_ns)
        received = self._received[uart]
        room = max(self.rx_limit - len(received), 0)
        self.lost += max(len(data) - room, 0)
        received.extend(data[:room])
        for task in self._tasks:
            if uart in task.uarts:
                task.wake_ns = self.now_ns
        self.run(now_ns)

    def catch_up(self) -> None:
        """Go on at the time that was told last.

        The current effect, and what follows, is carried out then, not when it was due.
        """
        self.now_ns = max(self.now_ns, self._told_ns)

    def run(self, now_ns: int) -> None:
        """Carry out everything that is due by now."""
        self._told_ns = now_ns
        while (due := self.deadline_ns()) is not None and due <= now_ns:
            task = next(task for task in self._tasks if task.wake_ns == due)
            self.now_ns = max(self.now_ns, due)
            unsent = self._ports[task.busy].unsent if task.busy else 0
            if unsent >= FIFO_BYTES:  # the line is behind
                task.wake_ns = self.now_ns + self._duration_ns(task.busy, unsent - FIFO_BYTES + _REFILL_BYTES)
            else:
                self._step(task)

    def interrupt(self, task: Task, error: Exception) -> None:
        """Raise `error` in a program, wherever it waits."""
        self._advance(task, lambda: task.program.throw(error))

    def _step(self, task: Task) -> None:
        answer = self._take(task.uarts)
        self._advance(task, lambda: task.program.send(answer))

    def _advance(self, task: Task, resume: Callable[[], Effect]) -> None:
        task.uarts, task.busy, task.wake_ns = (), "", None
        try:
            effect = resume()
        except StopIteration:
            self.stop([task])
            return
        match effect:
            case Pause(ns):
                task.wake_ns = self.now_ns + ns
            case Say(uart, data):
                task.wake_ns, task.busy = self._say(uart, data), uart
            case Drain(uart):
                task.wake_ns = max(self.now_ns, self._free_ns[uart])
            case Hear(uarts, timeout_ns):
                task.uarts = uarts
                here = any(self._received[uart] for uart in uarts)
                task.wake_ns = self.now_ns if here else None if timeout_ns is None else self.now_ns + timeout_ns

    def _say(self, uart: str, data: bytes) -> int:
        self._free_ns[uart] = max(self._free_ns[uart], self.now_ns) + self._duration_ns(uart, len(data))
        self._ports[uart].transmit(data)
        return max(self.now_ns, self._free_ns[uart] - self._duration_ns(uart, FIFO_BYTES - _REFILL_BYTES))

    def _take(self, uarts: tuple[str, ...]) -> Typed | None:
        for uart in uarts:
            if self._received[uart]:
                return Typed(uart, self._received[uart].popleft())
        return None

    def _duration_ns(self, uart: str, count: int) -> int:
        return count * BITS_PER_BYTE * NS_PER_S // self.speed_bd[uart]
