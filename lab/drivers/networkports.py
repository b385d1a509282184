"""Serial ports of other hosts.

They are behind a console server there, or bare TCP ports of labgrid's stock exporter.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import define, field
from labgrid.resource import SerialPort
from labgrid.util.proxy import proxymanager

from lab.console.client import ConsoleClient
from lab.console.lookup import PublishedPort
from lab.console.reader import ELSEWHERE_S, PortOrder, ReconnectingReader
from lab.console.status import PortInfo
from lab.console.tcp_port import RawTcpClient, RawTcpPort
from lab.console.transport import ForwardedTransport
from lab.drivers.consoleport import ConsolePort, ConsoleReader, LocalPort
from lab.errors import BoardlabError, LabTransientError
from lab.host.clockrelation import ClockRelation
from lab.host.runtime import prepare, runtime_dir
from lab.host.ssh import SshLink
from lab.host.tcp import is_own
from lab.rails.remote import RailsServer

AUTO: Final = "auto"
SSH: Final = "ssh"
TRANSPORTS: Final = (AUTO, SSH)


def port_of(port: Any, runtime: str, transport: str = AUTO) -> ConsolePort:
    """A SerialPort or a NetworkSerialPort of labgrid's as a console reads it.

    Raises:
        ConfigurationError: an exporter of ours says too little of it.
    """
    if isinstance(port, SerialPort):
        return LocalPort(port, runtime)
    published = PublishedPort.of(getattr(port, "extra", None) or {})
    if published is None:
        return BareNetworkPort(port)
    return RemotePort(published, runtime, transport)


@define
class RemotePort:
    """A port behind a console server, here or on another host.

    Attributes:
        transport: "auto": directly where the server is on this host, else through ssh. "ssh": so, also on this host.
    """

    published: PublishedPort
    runtime: str
    transport: str = AUTO
    is_local: bool = False
    _relation: ClockRelation | None = field(default=None, init=False)

    @property
    def label(self) -> str:
        return f"{self.published.host}:{self.published.device}"

    @property
    def pty(self) -> bool:
        return self.published.pty

    @property
    def elsewhere(self) -> str:
        return "" if self.published.is_here else self.published.host

    def connect(self, order: PortOrder) -> tuple[ConsoleReader, PortInfo]:
        published = self.published
        theirs = PortOrder(published.device, order.speed_bd, order.adapter_latency_ns, order.board)
        connect: Callable[[], ConsoleClient]
        if self.transport == AUTO and self._is_here:
            transport = ForwardedTransport(Path(published.socket), published.host, published.socket)
            connect, reset = partial(ConsoleClient, transport), _nothing
        else:
            ssh = _SshSocket(self._link(), published.socket)
            connect, reset = ssh.connect, ssh.reset
        try:
            client = ReconnectingReader(connect, reset, theirs, published.host, write=True)
        except LabTransientError as error:
            if error.failure != "port_missing":
                raise
            raise LabTransientError(f"on {published.host}: {error}", failure=error.failure) from error
        self._relation = client.relation
        return client, client.info

    def relation(self) -> ClockRelation | None:
        return None if self._relation is None or self._relation.same else self._relation

    def rails_server(self) -> RailsServer:
        """The rails server of the port's host, reached as the port is.

        Raises:
            LabTransientError: none runs there.
        """
        published = self.published
        if not published.rails:
            raise LabTransientError(
                f"no rails server runs on {published.host}, where the console is: `lab rails serve` there, beside the console server "
                "(systemctl start boardlab-rails)",
                failure="power_sampler",
            )
        runtime = self._runtime
        if self.transport != SSH and self._is_here:
            return RailsServer(lambda: Path(published.rails), published.host, runtime)
        link = self._link()
        return RailsServer(partial(link.forwarded, published.rails), published.host, runtime)

    @property
    def _is_here(self) -> bool:
        """Return whether the sockets are on this host."""
        return self.published.is_here and os.access(self.published.socket, os.W_OK)

    def _link(self) -> SshLink:
        return SshLink.to(self.published.host, self._runtime)

    @property
    def _runtime(self) -> Path:
        return prepare(Path(self.runtime) if self.runtime else runtime_dir())

    def device(self) -> str:
        return self.label

    def blamed(self, error: BoardlabError) -> BoardlabError:
        """Return the error; other readers are not visible from here."""
        return error


@define
class BareNetworkPort:
    """A NetworkSerialPort without stamps.

    It is of labgrid's stock exporter, or of another server of RFC 2217 or raw TCP.
    """

    port: Any
    is_local: bool = False
    pty: bool = False

    @property
    def label(self) -> str:
        return f"{self.port.host}:{self.port.port}"

    @property
    def elsewhere(self) -> str:
        return "" if is_own(str(self.port.host)) else str(self.port.host)

    def connect(self, order: PortOrder) -> tuple[ConsoleReader, PortInfo]:
        host, tcp = proxymanager.get_host_and_port(self.port)
        client = RawTcpClient(RawTcpPort(host, int(tcp), self.port.protocol, order.speed_bd or self.port.speed))
        return client, client.info

    def relation(self) -> ClockRelation | None:
        """None: the stamps are this host's."""
        return None

    def device(self) -> str:
        return self.label

    def blamed(self, error: BoardlabError) -> BoardlabError:
        """Return the error; other readers are not visible from here."""
        return error


@define
class _SshSocket:
    """One reader's connection to a socket of another host.

    Attributes:
        generation: the connection of ssh that its client uses.
    """

    link: SshLink
    remote: str
    generation: str = ""

    def connect(self) -> ConsoleClient:
        local = self.link.forwarded(self.remote)
        self.generation = self.link.generation()
        return ConsoleClient(ForwardedTransport(local, self.link.host, self.remote), ELSEWHERE_S)

    def reset(self) -> None:
        self.link.reset(self.generation)


def _nothing() -> None:
    """There is no connection that others share."""
