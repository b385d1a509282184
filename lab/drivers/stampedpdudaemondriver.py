"""Power through pdudaemon, with time-outs and the instants of switching."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import attr
import requests
from attrs import define, field
from labgrid.driver.powerdriver import PowerResetMixin
from labgrid.factory import target_factory
from labgrid.util.proxy import proxymanager
from requests import PreparedRequest
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import NewConnectionError

from lab.console.published import PublishedHost
from lab.drivers.powerdriver import PDUDAEMON_PORT, EdgePowerDriver, OutletId, outlet_of
from lab.errors import LabStableError, LabTransientError
from lab.host.runtime import prepare, runtime_dir
from lab.host.ssh import SshLink
from lab.host.tcp import connect_unix

_SAID_CHARACTERS = 300  # of an answer that is not pdudaemon's


@target_factory.reg_driver
@attr.s(eq=False)
class StampedPDUDaemonDriver(EdgePowerDriver, PowerResetMixin):
    """StampedPDUDaemonDriver - switches a port of a PDU through pdudaemon's HTTP interface.

    Unlike labgrid's PDUDaemonDriver it never waits for ever, and it keeps when the switching happened (`edge`).
    pdudaemon answers when its PDU driver has answered, but cannot tell the outlet's state: whoever needs the effect
    verifies it (strategies/boardstrategy.py: a silent console that does not answer). A pdudaemon on the loopback of
    another host, which `lab farm export` offers, is reached through ssh, as that host's consoles are.

    Args:
        delay (float): seconds between off and on in `cycle`
        timeout (float): seconds until pdudaemon must have answered, its own retries included
    """

    bindings = {"port": "PDUDaemonPort"}
    timeout: float = attr.ib(default=30.0, validator=attr.validators.instance_of(float))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._address = self._label = ""
        self._remote: RemotePdudaemon | None = None
        self._http = requests.Session()
        self._http.trust_env = False  # a lab's pdudaemon is not behind the proxy that $http_proxy names

    def on_activate(self) -> None:
        behind = PublishedHost.of(getattr(self.port, "extra", None) or {})
        if behind is None:
            host, port = proxymanager.get_host_and_port(self.port, default_port=PDUDAEMON_PORT)
            self._address = f"http://{host}:{port}"
            return
        there = urlsplit(f"//{self.port.host}")
        port = there.port or PDUDAEMON_PORT
        at = f"[{there.hostname}]:{port}" if ":" in (there.hostname or "") else f"{there.hostname}:{port}"
        self._address = f"http://{at}"
        if behind.is_here:
            return
        self._label = f"{at} on {behind.host}"
        self._remote = RemotePdudaemon(SshLink.to(behind.host, prepare(runtime_dir())), at, self._http)

    @property
    def limit_s(self) -> float:
        """Time limit of a whole order.

        `timeout` limits the connection and each part of the answer.
        """
        return 2 * self.timeout

    @property
    def outlet(self) -> OutletId:
        return outlet_of(self, "")

    def prepare(self) -> None:
        if self._remote is not None:
            self._remote.prepare()

    def order(self, command: str) -> None:
        place = f"pdudaemon at {self._label or self._address}, pdu {self.port.pdu}, port {self.port.index}"
        try:
            answer = self._request(command)
        except requests.Timeout as error:
            raise LabTransientError(
                f"{place}: no answer to {command!r} within {self.timeout:g} s. The PDU is unreachable or hung: "
                "look at pdudaemon's log and ping the PDU",
                failure="pdu_timeout",
            ) from error
        except requests.RequestException as error:
            first: BaseException = error  # the errors around it only say that a request failed
            while first.__context__ is not None:
                first = first.__context__
            reason = str(first) or type(error).__name__
            raise LabTransientError(
                f"{place}: cannot be reached ({reason}). Start pdudaemon, or mend PDUDaemonPort.host in the env",
                failure="pdu_unreachable",
            ) from error
        if answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
            raise LabTransientError(
                f"{place}: refused {command!r}: the PDU did not obey, or has no "
                "such name or port. pdudaemon's log says why",
                failure="pdu_refused",
            )
        if not answer.ok:
            text = " ".join(answer.text[:_SAID_CHARACTERS].split())
            raise LabStableError(
                f"{place}: HTTP {answer.status_code} to {command!r} ({text!r}); is this the board's pdudaemon? Mend "
                "PDUDaemonPort in the env",
                failure="pdu_refused",
            )

    def _request(self, command: str) -> requests.Response:
        url, params = f"{self._address}/power/control/{command}", {"hostname": self.port.pdu, "port": self.port.index}
        try:
            return self._http.get(url, params=params, timeout=self.timeout)
        except (requests.ConnectionError, requests.Timeout) as error:
            if self._remote is None:
                raise
            reconnected = self._remote.reconnect()
            if isinstance(error, requests.Timeout) and not reconnected:
                raise  # the connection is not what did not answer
            return self._http.get(url, params=params, timeout=self.timeout)  # a repeated command is harmless


# --- A pdudaemon on the loopback of another host, reached through ssh ---
# An order that is given up must not come late: the network comes back, a new connection is made and the board switched
# on, and then the old connection's bytes arrive and switch it off. So each order has a connection of its own: ssh
# sends its bytes only when the other host has answered to that (RFC 4254, section 5.1).


Connect = Callable[[float | None], socket.socket]


@define
class RemotePdudaemon:
    """Requests to a pdudaemon of another host, through ssh.

    The socket belongs to this user alone: a forwarded TCP port would be open to every user of this host.

    Attributes:
        at: host:port there.
    """

    link: SshLink
    at: str
    session: requests.Session
    _generation: str = field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self.session.headers["Connection"] = "close"
        self.reconnect()

    def prepare(self) -> None:
        """Note the connection of ssh before a request is timed."""
        self._generation = self.link.generation()

    def reconnect(self) -> bool:
        """Return whether ssh had to connect anew.

        The old connection was cut, or hung and was ended.

        Raises:
            LabTransientError: there is none now.
        """
        local = self.link.forward(self.at)
        self.session.mount(f"http://{self.at}", _ConnectAdapter(partial(connect_unix, local), self.at))
        return self.link.generation() != self._generation


class _Connection(HTTPConnection):
    connect_unix: Connect

    def _new_conn(self) -> socket.socket:
        timeout = self.timeout
        try:
            return self.connect_unix(timeout if isinstance(timeout, (int, float)) else None)
        except OSError as error:
            raise NewConnectionError(self, str(error.strerror or error)) from error


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection
    connect_unix: Connect

    def _new_conn(self) -> Any:
        connection: Any = super()._new_conn()
        connection.connect_unix = self.connect_unix
        return connection

    def _put_conn(self, conn: Any) -> None:
        """End the connection, as the server may close it at any time.

        A server that does not announce that may keep the connection for a further request, or end it during that.
        """
        if conn is not None:
            conn.close()


class _ConnectAdapter(HTTPAdapter):
    """Sends each request of a session over a connection of its own.

    Args:
        connect: makes one, within so many seconds; it raises OSError where nobody answers.
        address: host:port where the server listens, for the header Host: some refuse any other, since a page in a
            browser could send it.
    """

    def __init__(self, connect: Connect, address: str) -> None:
        super().__init__()
        host, _, port = address.rpartition(":")
        self._pool = _Pool(host, int(port))
        self._pool.connect_unix = connect

    def get_connection_with_tls_context(
        self,
        request: PreparedRequest,
        verify: bool | str | None,
        proxies: Mapping[str, str] | None = None,
        cert: Any = None,
    ) -> Any:
        """Return the pool of the ssh connection."""
        return self._pool
