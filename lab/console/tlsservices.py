"""What the TLS front leads to: sockets of its own host, each with its name, and nothing that nobody has named."""

from __future__ import annotations

import os
import socket
from errno import EINPROGRESS
from pathlib import Path
from typing import Final, Protocol

from attrs import field, frozen

from lab.console.stream import UnixWay
from lab.console.tlswords import ADMITTED, CONSOLE, POWER, RAILS, denied, power
from lab.console.wire import FrameType, encode_message, refusal
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host.addresses import is_loopback
from lab.host.runtime import check_owner
from lab.host.tcp import family_of

_OPTION: Final = "--pdudaemon"


class Service(Protocol):
    """What a client may ask for.

    Attributes:
        name: in ALPN. shown: for messages. greeting: said to a client when it is connected.
    """

    @property
    def name(self) -> str: ...
    @property
    def shown(self) -> str: ...
    @property
    def greeting(self) -> bytes: ...
    def called(self) -> socket.socket:
        """A connection that does not block, and may still be in the making.

        Raises:
            LabTransientError: nobody answers. ConfigurationError: it is refused.
        """
        ...

    def denial(self, error: BoardlabError) -> bytes:
        """What a client is told that does not get it."""
        ...


@frozen
class ConsoleService:
    """The console server, which greets by itself."""

    path: Path
    name: str = CONSOLE
    greeting: bytes = b""

    @property
    def shown(self) -> str:
        """See `Service`."""
        return str(self.path)

    def called(self) -> socket.socket:
        """See `Service`."""
        opened = UnixWay(self.path).connect(0).socket
        opened.setblocking(False)
        return opened

    def denial(self, error: BoardlabError) -> bytes:
        """See `Service`."""
        return encode_message(FrameType.ANSWER, refusal(error))


class _Announced:
    """What does not greet by itself."""

    greeting: bytes = ADMITTED

    def denial(self, error: BoardlabError) -> bytes:
        """See `Service`."""
        return denied(error)


@frozen
class RailsService(_Announced):
    """The rails server."""

    path: Path
    name: str = RAILS

    @property
    def shown(self) -> str:
        """See `Service`."""
        return str(self.path)

    def called(self) -> socket.socket:
        """See `Service`."""
        if self.path.parent.exists():
            check_owner(self.path.parent)
        return _begun(socket.AF_UNIX, str(self.path), self.shown)


@frozen
class Pdudaemon(_Announced):
    """A pdudaemon on loopback of this host: an IP address and a TCP port."""

    address: str
    port: int = field()

    @port.validator
    def _check(self, _attribute: object, port: int) -> None:
        if not is_loopback(self.address) or self.address == "localhost" or not 0 < port < 65_536:
            raise ConfigurationError(
                f"{_OPTION} {self.shown}: expected an address of this host's loopback and a port, e.g. 127.0.0.1:16421; one that listens "
                "elsewhere is reached without this"
            )

    @property
    def shown(self) -> str:
        """See `Service`."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def name(self) -> str:
        """See `Service`."""
        return power(self.port)

    def called(self) -> socket.socket:
        """See `Service`."""
        return _begun(family_of(self.address), (self.address, self.port), self.shown)


@frozen
class _NoPdudaemon(_Announced):
    """A pdudaemon that the front was not told of."""

    named: tuple[Pdudaemon, ...]
    name: str = POWER
    shown: str = "a pdudaemon"

    def called(self) -> socket.socket:
        """See `Service`."""
        there = ", ".join(each.shown for each in self.named) or "none"
        raise ConfigurationError(
            f"this pdudaemon is not served: start `lab console tls` with {_OPTION} and its address, or name it in farm.yaml "
            f"(console_tls: pdudaemon); served: {there}"
        )


@frozen
class Services:
    """All that a front leads to.

    Attributes:
        console, rails: sockets. pdudaemons: those that may be reached; no other port ever is.
    """

    console: Path
    rails: Path
    pdudaemons: tuple[Pdudaemon, ...] = field(default=())

    @pdudaemons.validator
    def _check(self, _attribute: object, pdudaemons: tuple[Pdudaemon, ...]) -> None:
        ports = [each.port for each in pdudaemons]
        for each in pdudaemons:
            if ports.count(each.port) > 1:
                raise ConfigurationError(f"{_OPTION} {each.shown}: two have this port; clients tell them apart by it")

    @property
    def all(self) -> list[Service]:
        """In the order in which they are chosen where a client names several."""
        return [
            ConsoleService(self.console),
            RailsService(self.rails),
            *self.pdudaemons,
            _NoPdudaemon(self.pdudaemons),
        ]

    def of(self, name: str | None) -> Service:
        """That of a name in ALPN; None: the client has named none that is known here."""
        return next((each for each in self.all if each.name == name), ConsoleService(self.console))


def _begun(family: socket.AddressFamily, address: str | tuple[str, int], shown: str) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setblocking(False)
    number = opened.connect_ex(address)
    if number not in {0, EINPROGRESS}:
        opened.close()
        raise _absent(shown, os.strerror(number))
    return opened


def _absent(shown: str, why: str) -> LabTransientError:
    return LabTransientError(f"nothing answers at {shown}: {why}")


def check_made(opened: socket.socket, shown: str) -> None:
    """See that a connection that was in the making is made, now that it can be written to.

    Raises:
        LabTransientError: it failed.
    """
    if number := opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise _absent(shown, os.strerror(number))
