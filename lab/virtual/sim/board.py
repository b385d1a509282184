"""A simulated board: power input, UARTs, and a computer.

It knows no file, no socket and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define, evolve, field

from lab.virtual.sim.computer import Computer
from lab.virtual.sim.faulthooks import FaultHooks, Switching
from lab.virtual.sim.machine import Machine, UartTransmitter
from lab.virtual.sim.model import Model
from lab.virtual.sim.network import NoNetwork, TftpClient
from lab.virtual.sim.program import Pause, Program
from lab.virtual.sim.setup import DEFAULT, SimSetup
from lab.virtual.sim.storage import Storage
from lab.virtual.sim.usb import PORT, UsbPort

_UNASKED = 1_000_003  # times the last cycle: the number of a boot that nobody asked for


def _nothing() -> None: ...


def _no_note(_text: str) -> None: ...


def _no_trouble(_cycle: int) -> Sequence[FaultHooks]:
    return ()


@define(eq=False)
class SimBoard:
    """A board that is driven by its inputs and by time.

    The caller calls `run` at `deadline_ns` or a little later, and passes power and received bytes in with their times.
    The same calls give the same bytes: all chance follows from `seed` and the number of the power cycle.

    Attributes:
        ports: the UARTs' transmitters, by name.
        software: what its processor runs from power-on (`lab.virtual.sim.boot.life`).
        time_scale: factor on all waiting but that for the UARTs; 1 is the real board's pace.
        setup: how it was set up.
        troubles_for: the faults of a power cycle, asked at each power on.
        dark_hook: called when the board loses its power: what its UARTs have not sent is gone.
        died_hook: called when it switched itself off.
        note_hook: takes lines for the truth log.
        ready: its application is, and its pin is high.
        ready_hook: called when it has become so.
        cycle: number of the last power on, from 1.
        storage: its media, which outlive the power.
        usb: its USB device port.
        network: what its Ethernet is plugged into.
    """

    model: Model
    ports: Mapping[str, UartTransmitter]
    software: Callable[[Computer], Program[None]]
    seed: int = 0
    time_scale: float = 1.0
    setup: SimSetup = DEFAULT
    troubles_for: Callable[[int], Sequence[FaultHooks]] = _no_trouble
    dark_hook: Callable[[], None] = _nothing
    died_hook: Callable[[], None] = _nothing
    note_hook: Callable[[str], None] = _no_note
    ready_hook: Callable[[], None] = _nothing
    ready: bool = field(default=False, init=False)
    cycle: int = field(default=0, init=False)
    computer: Computer | None = field(default=None, init=False)
    storage: Storage = field(factory=Storage, init=False)
    usb: UsbPort = field(factory=UsbPort, init=False)
    network: TftpClient = field(factory=NoNetwork, init=False)
    _machine: Machine = field(init=False)
    _troubles: list[FaultHooks] = field(factory=list, init=False)
    _dies_ns: int | None = field(default=None, init=False)
    _begins: tuple[int, int] | None = field(default=None, init=False)  # when the relay closes, and the straps
    _died: bool = field(default=False, init=False)
    _unasked: bool = field(default=False, init=False)  # it begins by itself
    _straps: int = field(default=0, init=False)  # at the last power on
    _adapter_ns: int | None = field(default=None, init=False)  # after power on, until the console's is there again

    def __attrs_post_init__(self) -> None:
        wires = {name: _Wire(name, port, self) for name, port in self.ports.items()}
        speeds = {uart.name: uart.speed_bd for uart in self.model.board.uarts}
        self.usb.notify = lambda data: self.receive(PORT, data, self._machine.now_ns)
        self._machine = Machine(wires, {name: speeds[name] for name in self.ports})

    @property
    def now_ns(self) -> int:
        """The time of what the board does now."""
        return self._machine.now_ns

    @property
    def stage(self) -> str:
        """Current stage in one word; "off" without power."""
        return "off" if self.computer is None else self.computer.stage

    @property
    def troubles(self) -> Sequence[FaultHooks]:
        """The faults at work."""
        return tuple(self._troubles)

    def add_trouble(self, trouble: FaultHooks) -> None:
        """A fault sets in now, until the next power on."""
        self._troubles.append(trouble)
        beside = trouble.beside(self.computer) if self.computer is not None else None
        if beside is not None:
            self._machine.spawn(beside)

    def clear_troubles(self) -> None:
        """End all faults; their effects stay until the next power-on, but that the console's adapter is there."""
        self._troubles.clear()
        if self._adapter_ns is not None:
            self._adapter_ns = None
            self._machine.plug(self.model.board.console.name, renumbered=False)

    def power_on(self, straps: int, now_ns: int) -> Switching:
        """Begin a power cycle with these straps; return the PDU's reaction."""
        self.run(now_ns)
        lag_ns = max((trouble.relay_lag_ns() for trouble in self._troubles), default=0)
        self.cycle += 1
        self._troubles[:] = self.troubles_for(self.cycle)
        self.note_hook(f"cycle={self.cycle} power=on straps={straps:#x} troubles={len(self._troubles)}")
        switching = self._switching("on")
        if switching is not Switching.OBEY:
            return switching
        if any(trouble.stays_off() for trouble in self._troubles):
            return switching
        if lag_ns:
            self._begins = now_ns + lag_ns, straps
            return switching
        self._dies_ns = None
        self._straps = straps
        if self.computer is None:  # else it is still charged: no reset
            self._begin(straps, now_ns, self.cycle)
            self.run(now_ns)
        return switching

    def _begin(self, straps: int, now_ns: int, cycle: int) -> None:
        self._died = False
        self._machine.now_ns = max(self._machine.now_ns, now_ns)
        release, setup = self.model.release, self.setup
        for trouble in self._troubles:
            release, setup = trouble.software(release), trouble.setup(setup)
        self.computer = Computer(
            evolve(self.model, release=release),
            self._machine,
            self.storage,
            seed=self.seed,
            cycle=cycle,
            straps=straps,
            time_scale=self.time_scale,
            troubles=self._troubles,
            note=self.note_hook,
            setup=setup,
            usb=self.usb,
            network=self.network,
            signal=self._signal,
        )
        self.computer.main = self._machine.spawn(self.software(self.computer))
        if self._adapter_ns is not None:
            self._machine.spawn(self._adapter_back(self._adapter_ns))
        for trouble in self._troubles:
            beside = trouble.beside(self.computer)
            if beside is not None:
                self._machine.spawn(beside)

    def _signal(self, ready: bool) -> None:
        self.ready = ready
        if ready:
            self.ready_hook()

    def _adapter_back(self, after_ns: int) -> Program[None]:
        yield Pause(after_ns)
        self._adapter_ns = None
        self._machine.plug(self.model.board.console.name, renumbered=False)

    def power_off(self, now_ns: int) -> Switching:
        """Switch the power off; return the PDU's reaction.

        The board's supplies may take a while to notice.
        """
        self.run(now_ns)
        self.note_hook(f"cycle={self.cycle} power=off")
        self._begins, self._unasked = None, False
        switching = self._switching("off")
        if switching is not Switching.OBEY or self.computer is None or self._dies_ns is not None:
            return switching
        lags = [trouble.stays_on_ns() for trouble in self._troubles]
        if None not in lags:
            self._dies_ns = now_ns + max((lag for lag in lags if lag is not None), default=0)
            self.run(now_ns)
        returns = [at_ns for trouble in self._troubles if (at_ns := trouble.returns_ns(now_ns)) is not None]
        if returns:
            self._begins, self._unasked = (min(returns), self._straps), True
        return switching

    def receive(self, uart: str, data: bytes, now_ns: int) -> None:
        """Bytes have arrived at a UART."""
        for trouble in self._troubles:
            data = trouble.to_board(uart, data, now_ns)
        if self.computer is not None and data:
            self._machine.receive(uart, data, now_ns)

    def deadline_ns(self) -> int | None:
        """Time of the board's next own action.

        None: it waits for input, or is off.
        """
        soonest = self._machine.deadline_ns()
        if self._dies_ns is None and self._begins is None:
            return soonest
        times = [soonest, self._dies_ns, None if self._begins is None else self._begins[0]]
        return min((time for time in times if time is not None), default=None)

    def run(self, now_ns: int) -> None:
        """Do everything that is due by now."""
        if self._dies_ns is not None and self._dies_ns <= now_ns:
            self._machine.run(self._dies_ns)
            self._machine.now_ns = max(self._machine.now_ns, self._dies_ns)
            self._lose_power()
        if self._begins is not None and self._begins[0] <= now_ns:
            (begins_ns, straps), self._begins = self._begins, None
            self._machine.run(begins_ns)
            if self.computer is None:
                self._begin(straps, begins_ns, _UNASKED * self.cycle if self._unasked else self.cycle)
        self._machine.run(now_ns)
        if self.computer is not None and not self._machine.running and not self._died:
            self._died = True
            self.died_hook()

    def _switching(self, command: str) -> Switching:
        wrong = [done for trouble in self._troubles if (done := trouble.switching(command)) is not Switching.OBEY]
        return wrong[0] if wrong else Switching.OBEY

    def _lose_power(self) -> None:
        self._dies_ns = None
        self._machine.power_lost()
        feeds = [after_ns for trouble in self._troubles if (after_ns := trouble.feeds_adapter_ns()) is not None]
        if feeds and self._adapter_ns is None:
            self._adapter_ns = max(feeds)
            self._machine.unplug(self.model.board.console.name)
        self.usb.unplug()
        self.computer, self.ready = None, False
        self.note_hook(f"cycle={self.cycle} dark")
        self.dark_hook()

    def transmit(self, uart: str, data: bytes) -> bytes:
        """Bytes on a UART instead of `data`, after the active faults."""
        for trouble in self._troubles:
            data = trouble.to_host(uart, data, self._machine.now_ns)
        return data


@define(eq=False)
class _Wire:
    """A UART's transmitter for the machine, with faults between."""

    name: str
    port: UartTransmitter
    board: SimBoard

    @property
    def unsent(self) -> int:
        return self.port.unsent

    def transmit(self, data: bytes) -> None:
        self.port.transmit(self.board.transmit(self.name, data))

    def set_speed(self, speed_bd: int) -> None:
        self.port.set_speed(speed_bd)

    def unplug(self) -> None:
        self.port.unplug()

    def plug(self, *, renumbered: bool) -> None:
        self.port.plug(renumbered=renumbered)
