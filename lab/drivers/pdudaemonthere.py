"""A pdudaemon on the loopback of another host: the way to it through ssh, or through the TLS front there.

An order that is given up must not come late: the network comes back, a new connection is made and the board switched on, and then the
old connection's bytes arrive and switch it off. So each order has a connection of its own. Through ssh its bytes leave this host only
when the other one has answered to that (RFC 4254, section 5.1); by TLS what is not sent yet ends with it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from functools import partial
from typing import Protocol

import requests
from attrs import define, field

from lab.console.tlsdoor import TlsDoor
from lab.host.httpover import ConnectAdapter
from lab.host.sshlink import CONNECT_S, SshLink
from lab.host.tcp import forget_unsent
from lab.host.unixsocket import connected


class PdudaemonThere(Protocol):
    """The way that a session's requests take."""

    def prepare(self, timeout_s: float) -> None:
        """Before a request is timed.

        Raises:
            BoardlabError: there is no way.
        """

    def mended(self) -> bool:
        """After a request did not get through: whether the way is another one than it was then.

        Raises:
            LabTransientError: there is no way now.
        """
        ...


@define
class ThroughSsh:
    """By a socket of this user alone: a forwarded TCP port would switch the board for every user of this host.

    Attributes:
        at: host:port there.
    """

    link: SshLink
    at: str
    session: requests.Session
    _generation: str = field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self.session.headers["Connection"] = "close"
        self.mended()

    def prepare(self, timeout_s: float) -> None:
        """See `PdudaemonThere`."""
        self._generation = self.link.generation()

    def mended(self) -> bool:
        """See `PdudaemonThere`: ssh was cut, or hung and was ended."""
        local = self.link.forwarded(self.at)
        self.session.mount(f"http://{self.at}", ConnectAdapter(partial(connected, local), self.at))
        return self.link.generation() != self._generation


@define
class ByTls:
    """By a connection for each request, made before the request is timed: TLS takes some more round trips.

    Attributes:
        at: host:port there.
    """

    door: TlsDoor
    at: str
    session: requests.Session
    _made: ssl.SSLSocket | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.session.headers["Connection"] = "close"
        self.session.mount(f"http://{self.at}", ConnectAdapter(self._taken, self.at))

    def prepare(self, timeout_s: float) -> None:
        """See `PdudaemonThere`."""
        if self._made is not None:
            self._made.close()
            self._made = None
        with contextlib.suppress(OSError):  # nobody listens there: the request says so
            self._made = self._connected(timeout_s)

    def mended(self) -> bool:
        """See `PdudaemonThere`: the next request has a connection of its own, but what did not answer is the same."""
        return False

    def _taken(self, timeout_s: float | None) -> socket.socket:
        made, self._made = self._made, None
        if made is None:
            return self._connected(timeout_s or CONNECT_S)
        made.settimeout(timeout_s)
        return made

    def _connected(self, timeout_s: float) -> ssl.SSLSocket:
        made = self.door.connect(timeout_s)
        forget_unsent(made)
        return made
