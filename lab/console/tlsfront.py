"""Servers of this host for other hosts: TCP with TLS, and only for who shows a certificate of the lab's own authority.

It leads to the console server, the rails server, and the pdudaemons that it is told of (`lab.console.tlsservices`).
A process of its own, in front of their sockets: stamps are taken behind it, and nothing that happens here delays one. It
hands bytes on and knows nothing of what they mean. One thread serves all clients and waits for none of them.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections import Counter
from typing import Final

from lab.console.tlsguest import Stage, TlsGuest
from lab.console.tlsservices import Services
from lab.errors import ConfigurationError
from lab.host.process import open_many_files
from lab.host.tcp import family_of
from lab.host.tls import Identity

MOST: Final = 512  # clients; more are hung up on
MOST_NEW: Final = 64  # of one address that have not agreed on TLS yet
_LOOK_S: Final = 0.5  # for clients whose time is over, and whether to end
_OTHER_FILES: Final = 64
_log = logging.getLogger(__name__)


class TlsFront:
    """Listens at an address.

    Attributes:
        port: of TCP.
    """

    def __init__(self, services: Services, address: str, port: int, identity: Identity) -> None:
        """Listen.

        Args:
            services: what it leads to. address: of this host. port: 0: a free one.

        Raises:
            ConfigurationError: certificate or key cannot be used, or nobody can listen there.
        """
        self._services = services
        self._context = identity.server()
        self._context.set_alpn_protocols([service.name for service in services.all])
        try:
            self._listener = socket.create_server((address, port), family=family_of(address), backlog=MOST_NEW)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen at {address}, port {port}: {error.strerror or error}; is it an address of this host, and is the port free? "
                "(ip address; ss -ltnp)"
            ) from error
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._most = min(MOST, (open_many_files() - _OTHER_FILES) // 2)
        self._epoll = select.epoll()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._guests: list[TlsGuest] = []
        self._by_fd: dict[int, TlsGuest] = {}
        self._looked = 0.0
        self._full = self._stopping = False

    def run(self) -> None:
        """Serve until `stop`."""
        while not self._stopping:
            again = [each for each in self._guests if each.again]
            for each in again:
                self._serve(each, -1, 0)
            for fd, mask in self._epoll.poll(0 if again else _LOOK_S):
                if fd == self._listener.fileno():
                    self._accept()
                elif (guest := self._by_fd.get(fd)) is not None:
                    self._serve(guest, fd, mask)
            self._look()
        for guest in self._guests:
            guest.end()
        self._listener.close()
        self._epoll.close()

    def stop(self) -> None:
        """End soon; also from a signal handler."""
        self._stopping = True

    def _serve(self, guest: TlsGuest, fd: int, mask: int) -> None:
        before, fds = guest.stage, guest.fds
        guest.serve(fd, mask)
        self._note(guest, before, fds)

    def _note(self, guest: TlsGuest, before: Stage, fds: list[int]) -> None:
        """Keep the books, and the log, after something was done for a client."""
        for fd in fds:
            self._by_fd.pop(fd, None)
        if guest.stage is Stage.GONE:
            self._guests.remove(guest)
        else:
            self._by_fd.update(dict.fromkeys(guest.fds, guest))
        if guest.stage is before:
            return
        if before is Stage.GREETING and guest.name:
            _log.info("%s: %s is here (%s)", guest.shown, guest.name, guest.service.name)
        if guest.denied and before in {Stage.GREETING, Stage.CALLING}:
            _log.warning("%s: %s: %s", guest.shown, guest.name, guest.denied)
        if before in {Stage.GREETING, Stage.OPEN} and guest.why:
            _log.warning("%s: refused: %s", guest.shown, guest.why)
        elif before is Stage.OPEN:
            _log.info("%s: %s has gone", guest.shown, guest.name)

    def _accept(self) -> None:
        try:
            opened, where = self._listener.accept()
        except OSError as error:
            self._note_full(f"cannot accept a client: {error.strerror or error}")
            self._epoll.modify(self._listener.fileno(), 0)  # until the next look, lest the loop spins
            return
        shown = f"{where[0]}, port {where[1]}"
        new = Counter(guest.shown.partition(",")[0] for guest in self._guests if guest.stage is Stage.GREETING)
        if len(self._guests) >= self._most or new[where[0]] >= MOST_NEW:
            self._note_full(
                f"{shown}: hung up on: {len(self._guests)} clients, {new[where[0]]} of that address without TLS yet"
            )
            opened.close()
            return
        self._full = False
        try:
            guest = TlsGuest(opened, shown, self._context, self._services, self._epoll)
        except OSError:  # it is gone already
            opened.close()
            return
        self._guests.append(guest)
        self._by_fd.update(dict.fromkeys(guest.fds, guest))

    def _look(self) -> None:
        """End those whose time is over; not more often than twice a second."""
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        self._epoll.modify(self._listener.fileno(), select.EPOLLIN)
        for guest in [guest for guest in self._guests if guest.deadline is not None and guest.deadline <= now]:
            before, fds = guest.stage, guest.fds
            guest.late()
            self._note(guest, before, fds)

    def _note_full(self, what: str) -> None:
        """Log it once, until a client is accepted again."""
        if not self._full:
            _log.error("%s", what)
        self._full = True
