"""A simulated board on perfect UARTs in virtual time, for tests."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from lab.virtual.line import UartChannel
from lab.virtual.sim.board import SimBoard
from lab.virtual.sim.boot import life
from lab.virtual.sim.faulthooks import Switching
from lab.virtual.sim.model import model
from lab.virtual.sim.setup import DEFAULT, SimSetup
from lab.virtual.truth_log import Note

FIFO_BYTES = 62  # of a full-speed FTDI adapter, as simulated boards on a bench have it
S = 1_000_000_000
MS = 1_000_000


@define(eq=False)
class VirtualPort:
    """A UART in virtual time, with an adapter that hands on each FIFO's load: what it said, and when."""

    lab: SimLab
    line: UartChannel
    said: bytearray = field(factory=bytearray)
    chunks: list[tuple[int, bytes]] = field(factory=list)
    sent: list[tuple[int, bytes]] = field(factory=list)
    plugged: bool = True
    renumbered: bool = False
    changes: list[tuple[int, bool]] = field(factory=list)

    @property
    def unsent(self) -> int:
        return self.line.unsent(self.lab.now_ns)

    def transmit(self, data: bytes) -> None:
        self.line.push(data, self.lab.now_ns)

    def set_speed(self, speed_bd: int) -> None:
        self.line.set_speed(speed_bd, fifo_bytes=16 * max(1, min(speed_bd // 115200, 32)))

    def unplug(self) -> None:
        self.plugged = False
        self.changes.append((self.lab.now_ns, False))

    def plug(self, *, renumbered: bool) -> None:
        self.plugged, self.renumbered = True, renumbered
        self.changes.append((self.lab.now_ns, True))


@define(eq=False)
class SimLab:
    """Time, and one board in it.

    Attributes:
        outlet: what it was told last, "on" or "off".
        cut_after: once the console has said this, somebody else switches the outlet off.
        strike_ns, strike: when something happens once from outside, and what; it may raise, as a kill does.
    """

    board_type: str = "am62xx_sk"
    release: str | None = None
    seed: int = 1
    time_scale: float = 1.0
    setup: SimSetup = DEFAULT
    adapter_latency_ns: int = 0
    now_ns: int = 1_000 * S
    outlet: str = "off"
    cut_after: str = ""
    strike_ns: int | None = None
    strike: Callable[[], None] = lambda: None
    noted: list[Note] = field(factory=list)
    ports: dict[str, VirtualPort] = field(init=False)
    straps: int = 0
    board: SimBoard = field(init=False)
    console: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        made = model(self.board_type, self.release)
        self.ports = {
            uart.name: VirtualPort(self, UartChannel(fifo_bytes=FIFO_BYTES, latency_ns=self.adapter_latency_ns))
            for uart in made.board.uarts
        }
        self.board = SimBoard(
            made, self.ports, life, seed=self.seed, time_scale=self.time_scale, setup=self.setup, note_hook=self._note
        )
        self.board.dark_hook = self._dark
        self.console = made.board.console.name
        self.straps = made.board.fixed_straps

    @property
    def notes(self) -> list[str]:
        """What the board said about itself."""
        return [note.text for note in self.noted]

    def on(self, medium: str = "sd") -> None:
        self.straps = self.board.model.board.media[medium].boot_mode
        self.switch("on")

    def off(self) -> None:
        self.switch("off")

    def switch(self, command: str) -> Switching:
        """The PDU gets a command."""
        self.outlet = command
        if command == "on":
            return self.board.power_on(self.straps, self.now_ns)
        return self.board.power_off(self.now_ns)

    def said(self, uart: str | None = None) -> str:
        return self.ports[uart or self.console].said.decode("latin-1").replace("\r\n", "\n")

    def type(self, text: str, uart: str | None = None) -> None:
        """Type at the line's speed."""
        self.send(text.encode(), uart)

    def send(self, data: bytes, uart: str | None = None) -> None:
        """The same of bytes."""
        for byte in data:
            self.run_for(87_000)
            self.board.receive(uart or self.console, bytes([byte]), self.now_ns)

    def run_for(self, ns: int) -> None:
        end_ns = self.now_ns + ns
        while (due := self._next_ns()) is not None and due <= end_ns:
            self._step(due)
        self.now_ns = end_ns

    def step_until(self, deadline_ns: int) -> bool:
        """Let the next thing happen, unless the deadline comes first; whether anything happened."""
        due = self._next_ns()
        if due is None or due > deadline_ns:
            self.now_ns = max(self.now_ns, deadline_ns)
            return False
        self._step(due)
        return True

    def run_until(self, text: str, limit_s: float = 120.0, uart: str | None = None) -> None:
        """Run until the console has said it since the last call, or fail."""
        port = self.ports[uart or self.console]
        limit_ns = self.now_ns + round(limit_s * S)
        wanted = text.replace("\n", "\r\n").encode()
        begin = max(0, len(port.said) - len(wanted))
        while port.said.find(wanted, begin) < 0:
            begin = max(begin, len(port.said) - len(wanted) + 1)
            due = self._next_ns()
            assert due is not None and due <= limit_ns, f"{text!r} did not come; the end: {self.said()[-300:]!r}"  # noqa: PT018
            self._step(due)

    def command(self, text: str, prompt: str, limit_s: float = 60.0) -> str:
        """Type a line and return what came between its echo and the next prompt."""
        port = self.ports[self.console]
        start = len(port.said)
        self.type(text + "\r")
        limit_ns = self.now_ns + round(limit_s * S)
        while not port.said.endswith(prompt.encode(), start):
            due = self._next_ns()
            assert due is not None and due <= limit_ns, f"no prompt after {text!r}: {self.said()[-300:]!r}"  # noqa: PT018
            self._step(due)
        said = port.said[start:].decode("latin-1").replace("\r\n", "\n")
        return said.removesuffix(prompt).partition("\n")[2]

    def _next_ns(self) -> int | None:
        soonest = self.board.deadline_ns()
        for port in self.ports.values():
            due = port.line.deadline_ns()
            if due is not None and (soonest is None or due < soonest):
                soonest = due
        return soonest

    def _step(self, due_ns: int) -> None:
        self.now_ns = max(self.now_ns, due_ns)
        for port in self.ports.values():
            for sent in port.line.take(self.now_ns):
                if not port.plugged:
                    continue
                port.said += sent.data
                port.sent.append((sent.end_ns, sent.data))
                port.chunks.append((self.now_ns, sent.data))
        self.board.run(self.now_ns)
        if self.strike_ns is not None and self.now_ns >= self.strike_ns:
            self.strike_ns = None
            self.strike()
        if self.cut_after and self.cut_after.encode() in self.ports[self.console].said:
            self.cut_after = ""
            self.switch("off")

    def _note(self, text: str) -> None:
        self.noted.append(Note(self.board.now_ns, text))

    def _dark(self) -> None:
        for port in self.ports.values():
            port.line.discard(self.now_ns)
