"""Power switches: edges, limits, and the state of outlets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

import attr
from attrs import define, field, frozen
from labgrid.driver import Driver
from labgrid.protocol import PowerProtocol
from labgrid.resource import Resource
from labgrid.step import step

from lab.benchmarks.boot import PowerEdge
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import POWER, POWER_LIMIT_S
from lab.host import locks, status_files
from lab.host.clock import Clock, MonotonicRaw, utc_now
from lab.host.runtime import runtime_dir
from lab.host.status_files import OutletStatus
from lab.redaction import redact

PDUDAEMON_PORT = 16421
_NAMES = ("pdu", "model", "path")  # of a resource: what a person calls the switch


@frozen
class OutletId:
    """An outlet of the lab.

    Attributes:
        server: host:port of the pdudaemon that knows it, or the host of the switch; empty: this host's own.
        pdu: the switch's name; of a driver that has none, its class.
        number: the outlet of the switch; where outlets have no numbers, what tells it from others.
    """

    server: str
    pdu: str
    number: str

    @property
    def label(self) -> str:
        """For a person."""
        at = f" at {self.server}" if self.server else ""
        return f"{self.pdu} {self.number}{at}"


def outlet_of(driver: Any, board: str) -> OutletId:
    """Outlet of any power driver, by its resource or board."""
    for supplier in getattr(driver, "suppliers", ()):
        index = getattr(supplier, "index", None)
        if isinstance(supplier, Resource) and index is not None:
            if type(supplier).__name__ == "PDUDaemonPort":
                return OutletId(pdudaemon_of(supplier), str(supplier.pdu), str(index))
            names = [getattr(supplier, name, None) for name in _NAMES]
            name = next((str(text) for text in names if text), type(driver).__name__)
            return OutletId(redact(str(getattr(supplier, "host", "") or "")), name, str(index))
    whose = " ".join(filter(None, (board, driver.name))) or driver.target.name
    return OutletId("", type(driver).__name__, whose)


def pdudaemon_of(port: Any) -> str:
    """host:port of a PDUDaemonPort's pdudaemon.

    Two pdudaemons may have a PDU of the same name.
    """
    place = urlsplit(f"//{port.host}")
    return f"{place.hostname}:{place.port or PDUDAEMON_PORT}"


def last_command(outlet: OutletId) -> OutletStatus | None:
    """Last command of this user to an outlet; None: unknown."""
    statuses = status_files.read_all(runtime_dir() / status_files.OUTLETS, OutletStatus)
    return next((status for status in statuses if (status.server, status.pdu, status.outlet) == _key(outlet)), None)


def record_command(outlet: OutletId, command: str, at: float, duration_s: float, *, done: bool) -> None:
    """Record a command and its success; a failed write is ignored."""
    before = last_command(outlet)
    commands, failures = (before.commands, before.failures) if before else (0, 0)
    status = OutletStatus(*_key(outlet), command, at, duration_s, commands + 1, failures + (not done))
    status_files.write(runtime_dir() / status_files.OUTLETS, "/".join(_key(outlet)), status)


def _key(outlet: OutletId) -> tuple[str, str, str]:
    return outlet.server, outlet.pdu, outlet.number


class Switch(Protocol):
    """A power switch as the strategy uses it.

    Attributes:
        clock: of the edge.
        edge: bounds the instant of the last switching; None before the first.
        driver: what labgrid activates.
        outlet: which one it switches.
    """

    clock: Clock
    edge: PowerEdge | None

    @property
    def driver(self) -> Any: ...
    @property
    def outlet(self) -> OutletId: ...
    def on(self) -> None: ...
    def off(self) -> None: ...


@attr.s(eq=False)
class EdgePowerDriver(Driver, PowerProtocol):
    """A power switch that records its edges and counts commands.

    `edge` is the last one; `lab exporter` publishes the commands.

    A subclass implements `order` and `outlet`.

    Args:
        delay (float): seconds between off and on in `cycle`
    """

    delay: float = attr.ib(default=2.0, validator=attr.validators.instance_of(float))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.clock: Clock = MonotonicRaw()
        self.edge: PowerEdge | None = None

    @property
    def driver(self) -> EdgePowerDriver:
        return self

    @property
    def outlet(self) -> OutletId:
        """Outlet that it switches."""
        raise NotImplementedError

    @property
    def limit_s(self) -> float:
        """Time limit of an order."""
        return POWER_LIMIT_S

    def prepare(self) -> None:
        """Prepare an order before it is timed, e.g. connect.

        Raises:
            LabError: there is no way to it.
        """

    def order(self, command: str) -> None:
        """Tell the switch "on" or "off"; returns when it has answered.

        Raises:
            LabError: it did not obey.
        """
        raise NotImplementedError

    @Driver.check_active
    @step()
    def on(self) -> None:
        """Switch on; `edge` then bounds the instant."""
        self._switch("on")

    @Driver.check_active
    @step()
    def off(self) -> None:
        """Switch off; the switch has the order, the board may be on."""
        self._switch("off")

    @Driver.check_active
    @step()
    def cycle(self) -> None:
        """Off, `delay` seconds, on."""
        self.off()
        time.sleep(self.delay)
        self.on()

    def _switch(self, command: str) -> None:
        order = _Order(self, command, self.clock, self.outlet)
        self.edge = order.give(lambda: self.order(command), self.limit_s, self.prepare)


@define(eq=False)
class ForeignSwitch:
    """A power driver without edges and limits, e.g. labgrid's own.

    Attributes:
        board: the powered board.
    """

    driver: Any
    board: str = ""
    clock: Clock = field(factory=MonotonicRaw)
    edge: PowerEdge | None = None

    @property
    def outlet(self) -> OutletId:
        return outlet_of(self.driver, self.board)

    def on(self) -> None:
        self._switch("on", self.driver.on)

    def off(self) -> None:
        self._switch("off", self.driver.off)

    def _switch(self, command: str, order: Callable[[], None]) -> None:
        self.edge = _Order(self.driver, command, self.clock, self.outlet).give(order, POWER_LIMIT_S)


def switch_of(driver: Any, board: str = "") -> Switch:
    """Wrap any PowerProtocol driver as a switch with edges and limits."""
    return driver if isinstance(driver, EdgePowerDriver) else ForeignSwitch(driver, board)


def is_on(switch: Switch) -> bool | None:
    """Ask the switch for its outlet; None: it cannot tell.

    Raises:
        LabError: it could tell, and does not answer.
    """
    get = getattr(switch.driver, "get", None)
    if get is None:
        return None

    def ask() -> bool | None:
        try:
            state = get()
        except NotImplementedError:  # labgrid's PDUDaemonDriver
            return None
        return None if state is None else bool(state)

    return guarded_calls.call(switch.driver, POWER, "ask whether it is on", ask, POWER_LIMIT_S)


@frozen
class _Order:
    """An order "on" or "off" to a driver and its outlet."""

    driver: Any
    command: str
    clock: Clock
    outlet: OutletId

    def give(self, order: Callable[[], None], limit_s: float, prepare: Callable[[], None] = lambda: None) -> PowerEdge:
        """Give the order and return its edge.

        The record for the lab's watchers is written in each case.
        """

        def switch() -> PowerEdge:  # the time of the limit itself stays out of the edge
            prepare()
            requested_ns = self.clock.now_ns()
            order()
            return PowerEdge(requested_ns, self.clock.now_ns())

        if self.command == "on":
            # before anything is timed: a lab may stagger its power-ons
            gap_s = locks.power_on_gap_s()
            if gap_s:
                locks.keep_gap(f"power on {self.outlet.server} {self.outlet.pdu}", gap_s)
        began_ns, at = self.clock.now_ns(), utc_now().timestamp()
        done = False
        try:
            edge = guarded_calls.call(self.driver, POWER, f"switch {self.command}", switch, limit_s)
            done = True
            return edge
        finally:
            record_command(self.outlet, self.command, at, (self.clock.now_ns() - began_ns) / 1e9, done=done)
