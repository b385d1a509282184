"""Power through pdudaemon, with time-outs and the instants of switching."""

from __future__ import annotations

import time
from http import HTTPStatus

import attr
import requests
from labgrid.driver import Driver
from labgrid.driver.powerdriver import PowerResetMixin
from labgrid.factory import target_factory
from labgrid.protocol import PowerProtocol
from labgrid.step import step
from labgrid.util.proxy import proxymanager

from lab import statusfiles
from lab.benchmarks.boot import PowerEdge
from lab.clock import Clock, MonotonicRaw, utc_now
from lab.console.runtime import runtime_dir
from lab.errors import LabStableError, LabTransientError
from lab.statusfiles import OutletStatus

DEFAULT_PORT = 16421  # pdudaemon's


@target_factory.reg_driver
@attr.s(eq=False)
class PDUDriver(Driver, PowerResetMixin, PowerProtocol):
    """PDUDriver - switches a port of a PDU through pdudaemon's HTTP interface.

    Unlike labgrid's PDUDaemonDriver it never waits for ever, and it keeps when the switching happened (`edge`).
    pdudaemon answers when its PDU driver has answered, but cannot tell the outlet's state: whoever needs the effect
    verifies it (strategies/boardstrategy.py: a silent console that does not answer).

    Args:
        delay (float): seconds between off and on in `cycle`
        timeout (float): seconds until pdudaemon must have answered, its own retries included
    """

    bindings = {"port": "PDUDaemonPort"}
    delay: float = attr.ib(default=2.0, validator=attr.validators.instance_of(float))
    timeout: float = attr.ib(default=30.0, validator=attr.validators.instance_of(float))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.clock: Clock = MonotonicRaw()
        self.edge: PowerEdge | None = None
        self._address = ""
        self._http = requests.Session()
        self._http.trust_env = False  # a lab's pdudaemon is not behind the proxy that $http_proxy names

    def on_activate(self) -> None:
        host, port = proxymanager.get_host_and_port(self.port, default_port=DEFAULT_PORT)
        self._address = f"http://{host}:{port}"

    @Driver.check_active
    @step()
    def on(self) -> None:
        """Switch on; `edge` then bounds the instant."""
        self._switch("on")

    @Driver.check_active
    @step()
    def off(self) -> None:
        """Switch off. Returning means that the PDU was told, not that the board is off."""
        self._switch("off")

    @Driver.check_active
    @step()
    def cycle(self) -> None:
        """Off, `delay` seconds, on."""
        self.off()
        time.sleep(self.delay)
        self.on()

    def _switch(self, command: str) -> None:
        requested_ns, at = self.clock.now_ns(), utc_now().timestamp()
        done = False
        try:
            self._ask(command)
            done = True
        finally:
            self._tell(command, at, (self.clock.now_ns() - requested_ns) / 1e9, done=done)

    def _tell(self, command: str, at: float, duration_s: float, *, done: bool) -> None:
        """Tell who watches the lab's outlets (`lab exporter`)."""
        folder, pdu, outlet = runtime_dir() / statusfiles.OUTLETS, str(self.port.pdu), str(self.port.index)
        told = statusfiles.read_all(folder, OutletStatus)
        before = next((o for o in told if (o.pdu, o.outlet) == (pdu, outlet)), None)
        commands, failures = (before.commands, before.failures) if before else (0, 0)
        status = OutletStatus(pdu, outlet, command, at, duration_s, commands + 1, failures + (not done))
        statusfiles.write(folder, f"{pdu}/{outlet}", status)

    def _ask(self, command: str) -> None:
        place = f"pdudaemon at {self._address}, pdu {self.port.pdu}, port {self.port.index}"
        requested_ns = self.clock.now_ns()
        try:
            answer = self._http.get(
                f"{self._address}/power/control/{command}",
                params={"hostname": self.port.pdu, "port": self.port.index},
                timeout=self.timeout,
            )
        except requests.Timeout as error:
            raise LabTransientError(
                f"{place}: no answer to {command!r} within {self.timeout:g} s. The PDU is unreachable or hung: "
                "look at pdudaemon's log and ping the PDU",
                failure="pdu_timeout",
            ) from error
        except requests.RequestException as error:
            raise LabTransientError(
                f"{place}: cannot be reached ({_reason(error)}). Start pdudaemon, or mend PDUDaemonPort.host in the env",
                failure="pdu_unreachable",
            ) from error
        if answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
            raise LabTransientError(
                f"{place}: refused {command!r}: the PDU did not obey, or has no such name or port. pdudaemon's log says why",
                failure="pdu_refused",
            )
        if not answer.ok:
            raise LabStableError(
                f"{place}: HTTP {answer.status_code} to {command!r}; is this pdudaemon? Mend PDUDaemonPort.host in the env",
                failure="pdu_refused",
            )
        self.edge = PowerEdge(requested_ns, self.clock.now_ns())


def _reason(error: requests.RequestException) -> str:
    inner: BaseException = error
    while inner.__context__ is not None:
        inner = inner.__context__
    return str(inner) or type(error).__name__
