"""labgrid's drivers and our strategy on a simulated board in virtual time.

The console driver is the real one, but for its client: instead of the console server it asks the `SimLab`, and waiting
for bytes lets the time of the `SimLab` pass. The PDU driver is the real one; its HTTP server switches the `SimLab`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from urllib.parse import urlparse

import attr
import pytest
from attrs import define, field
from labgrid import Target
from labgrid.driver import Driver, ShellDriver, UBootDriver
from labgrid.factory import target_factory
from labgrid.protocol import DigitalOutputProtocol
from labgrid.resource import PDUDaemonPort, RawSerialPort

from lab.console.model import Chunk, Event, Gap, RecordKind
from lab.console.recording import RecordingMeta
from lab.console.status import PortInfo, ServerStatus
from lab.drivers import BootModeDriver, SideConsoleDriver, StampedConsoleDriver, StampedPDUDaemonDriver, WakePinsDriver
from lab.drivers.consoleport import LocalPort
from lab.virtual.sim.faulthooks import Switching
from support.simlab import SimLab
from support.strategies import BoardStrategy

PDU_TIMEOUT_S = 1.0  # a busy host answers within it
OUTLET = "/outlet"
LOGIN_TIMEOUT_S = 1  # labgrid counts it in real time; in virtual time that is many tries


@define(eq=False)
class SimClient:
    """What the console driver needs of a `ConsoleClient`."""

    lab: SimLab
    uart: str = ""
    position: int = 0
    _taken: int = 0
    _changes: int = 0
    _waiting: deque[Event] = field(factory=deque)

    def read_event(self, timeout_s: float) -> Event | None:
        deadline_ns = self.lab.now_ns + round(timeout_s * 1e9)
        while not self._collect():
            if not self.lab.step_until(deadline_ns):
                return None
        return self._waiting.popleft()

    def write(self, data: bytes) -> None:
        self.lab.send(data, self.uart or None)

    def status(self, name: str | None = None) -> ServerStatus:  # noqa: ARG002
        return ServerStatus(0, "", "", "", [])

    def close(self) -> None: ...

    def _collect(self) -> bool:
        port = self.lab.ports[self.uart or self.lab.console]
        if (len(port.chunks), len(port.changes)) == (self._taken, self._changes):
            return bool(self._waiting)
        found: list[tuple[int, Event]] = []
        for t_ns, data in port.chunks[self._taken :]:
            found.append((t_ns, Chunk(t_ns, self.position, data)))
            self.position += len(data)
        self._taken = len(port.chunks)
        for t_ns, plugged in port.changes[self._changes :]:
            found.append(
                (t_ns, Gap(t_ns, self.position, RecordKind.BACK if plugged else RecordKind.LOST, 0 if plugged else 5))
            )
        self._changes = len(port.changes)
        self._waiting.extend(event for _, event in sorted(found, key=lambda pair: pair[0]))
        return bool(self._waiting)


@define
class SimPort(LocalPort):
    """A port whose adapter is the lab's."""

    lab: SimLab = field(kw_only=True)

    def device(self) -> str:
        return f"/dev/ttyUSB{int(self.lab.ports[self.lab.console].renumbered)}"


@target_factory.reg_driver
@attr.s(eq=False)
class SimConsoleDriver(StampedConsoleDriver):
    """The console driver, with a client in virtual time."""

    lab: SimLab = attr.ib(default=None, repr=False)

    def _connect(self) -> SimClient:
        if self._client is None:
            self._client = SimClient(self.lab)
            meta = RecordingMeta("sim", self.port.port, 115200, adapter_latency_ns=self.lab.adapter_latency_ns)
            self.info = PortInfo(meta, "", 0)
            self._port = SimPort(self.port, self.runtime, lab=self.lab)
            self._device = self._port.device()
        return self._client


@target_factory.reg_driver
@attr.s(eq=False)
class SimMcuDriver(SideConsoleDriver):
    """The driver of the MCU's UART, with a client in virtual time."""

    lab: SimLab = attr.ib(default=None, repr=False)

    def _connect(self) -> SimClient:
        if self._client is None:
            self._client = SimClient(self.lab, uart="mcu")
        return self._client


@target_factory.reg_driver
@attr.s(eq=False)
class SimPinDriver(Driver, DigitalOutputProtocol):
    """A pin that wakes the board of a SimLab."""

    lab: SimLab = attr.ib(default=None, repr=False)
    pin: str = attr.ib(default="")
    interruption: type[BaseException] | None = attr.ib(default=None)

    @Driver.check_active
    def set(self, status: bool) -> None:
        if self.interruption is not None:
            raise self.interruption
        if status:
            self.lab.board.receive(self.pin, b"\x01", self.lab.now_ns)

    @Driver.check_active
    def get(self) -> bool:
        return False


@target_factory.reg_driver
@attr.s(eq=False)
class SimStrapDriver(Driver, DigitalOutputProtocol):
    """One boot-mode strap of a SimLab."""

    lab: SimLab = attr.ib(default=None, repr=False)
    bit: int = attr.ib(default=0)

    @Driver.check_active
    def set(self, status: bool) -> None:
        self.lab.straps = self.lab.straps & ~(1 << self.bit) | status << self.bit

    @Driver.check_active
    def get(self) -> bool:
        return bool(self.lab.straps >> self.bit & 1)


@define(eq=False)
class SimClock:
    """The time of a SimLab."""

    lab: SimLab
    name: str = "virtual"

    def now_ns(self) -> int:
        return self.lab.now_ns


@contextmanager
def power_switch(lab: SimLab) -> Iterator[str]:
    """Switches the lab's board as pdudaemon would, and as a switch of labgrid's model `rest` below /outlet; gives
    host:port."""
    hung = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == OUTLET:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"1" if lab.outlet == "on" else b"0")
                return
            self._switch(urlparse(self.path).path.rsplit("/", 1)[-1])

        def do_PUT(self) -> None:
            level = self.rfile.read(int(self.headers["Content-Length"]))
            self._switch("on" if level == b"1" else "off")

        def _switch(self, command: str) -> None:
            switching = lab.switch(command)
            if switching is Switching.HANG:
                hung.wait(PDU_TIMEOUT_S * 3)
            if switching in {Switching.HANG, Switching.REFUSE}:
                self.close_connection = True
                return
            self.send_response(500 if switching is Switching.ERROR else 200)
            self.end_headers()

        def log_message(self, *_args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        hung.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def pty() -> Iterator[str]:
    """A pseudo terminal that nobody uses: by it a run sees that the board is no real one."""
    master, slave = os.openpty()
    yield os.ttyname(slave)
    os.close(slave)
    os.close(master)


def pdudaemon(target: Target, address: str, timeout_s: float = PDU_TIMEOUT_S) -> Driver:
    """A power driver of a board that pdudaemon at this address switches."""
    PDUDaemonPort(target, None, host=address, pdu="bench", index=1)
    return StampedPDUDaemonDriver(target, None, timeout=timeout_s)


@contextmanager
def own_runtime() -> Iterator[None]:
    """What is told of outlets stays out of this user's folder."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if "BOARDLAB_RUNTIME" not in os.environ:
            patch.setenv("BOARDLAB_RUNTIME", folder)
        yield


@contextmanager
def strategy_on(
    lab: SimLab, *, mcu: bool = True, power: Callable[[Target, str], Driver] = pdudaemon
) -> Iterator[BoardStrategy]:
    """The strategy of a target with all drivers of an env, on this board; without `mcu` nobody hears the MCU's UART.

    Args:
        power: makes the power driver, given the address of the lab's power switch.
    """
    board = lab.board.model.board
    host = lab.board.model.identity.hostname
    with power_switch(lab) as address, pty() as device, own_runtime():
        target = Target("main")
        power(target, address)
        RawSerialPort(target, "main0", port=device, speed=115200)
        RawSerialPort(target, "mcu", port=device, speed=115200)
        target.set_binding_map({"port": "main0"})
        SimConsoleDriver(target, None, lab=lab)
        if mcu and "mcu" in board.low_power.wakes:
            target.set_binding_map({"port": "mcu"})
            SimMcuDriver(target, None, lab=lab)
        pins = [pin for pin in ("gpio", "can", "button", "wkup") if pin in board.low_power.wakes]
        for pin in pins:
            SimPinDriver(target, pin, lab=lab, pin=pin)
        if pins:
            WakePinsDriver(target, None, pins={pin: pin for pin in pins}, pulse=0.0).clock = SimClock(lab)
        modes = [*(medium.boot_mode for medium in board.media.values()), *board.recovery.values()]
        straps = [bit for bit in range(board.boot_mode_bits) if len({mode >> bit & 1 for mode in modes}) > 1]
        for bit in straps:
            SimStrapDriver(target, f"B{bit}", lab=lab, bit=bit)
        fixed = board.fixed_straps & ~sum(1 << bit for bit in straps)
        BootModeDriver(target, None, lines={bit: f"B{bit}" for bit in straps}, fixed=fixed)
        UBootDriver(target, None, prompt=board.prompts.uboot, autoboot=board.prompts.autoboot, login_timeout=5)
        ShellDriver(
            target,
            None,
            prompt=f"root@{host}:[^ ]*# ",
            login_prompt=f"{host} login: ",
            username="root",
            login_timeout=LOGIN_TIMEOUT_S,
        )
        strategy = BoardStrategy(target, None, board_type=board.name, board="sim-1")
        strategy.power.clock = SimClock(lab)
        strategy.sleep = lambda seconds: lab.run_for(round(seconds * 1e9))
        try:
            yield strategy
        finally:
            target.cleanup()
