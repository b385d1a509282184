"""The ports that the server has, by name and by file descriptor."""

from __future__ import annotations

import logging
import select
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from lab.console.line import PortRequest, SerialLine
from lab.console.port import ServedPort
from lab.console.readerqueue import ReaderQueue
from lab.console.recordingstore import RecordingStore
from lab.console.serialport import open_port, speed_of
from lab.errors import ConfigurationError, LabStableError
from lab.host.clock import Clock
from lab.host.scheduling import Scheduling

_log = logging.getLogger(__name__)


class Ports:
    """Opens, finds, loses and closes ports.

    Attributes:
        by_fd: the ports whose device is open; the loop looks them up in it.
    """

    def __init__(
        self, epoll: select.epoll, store: RecordingStore, clock: Clock, scheduling: Scheduling, queue: ReaderQueue
    ) -> None:
        """No port is open yet."""
        self.by_fd: dict[int, ServedPort] = {}
        self._by_name: dict[str, ServedPort] = {}
        self._epoll = epoll
        self._store = store
        self._clock = clock
        self._scheduling = scheduling
        self._queue = queue
        self._opened = 0
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()

    def __iter__(self) -> Iterator[ServedPort]:
        """All ports, lost ones too."""
        return iter(self._by_name.values())

    def find(self, name: str) -> ServedPort:
        """The port of that name.

        Raises:
            LabStableError: there is none.
        """
        port = self._by_name.get(name)
        if port is None:
            there_are = ", ".join(sorted(self._by_name)) or "none"
            raise LabStableError(f"no port {name!r} is open; open are: {there_are}", failure="port_unknown")
        return port

    def open(self, request: PortRequest) -> ServedPort:
        """Open a port, or find it open. Its settings become those that are asked for, unless a writer has asked for its own.

        Raises:
            BoardlabError: it cannot be opened, somebody writes with other settings, or its name is another port's.
        """
        speed_of(request.device, request.opening_speed_bd)  # before anything is changed for it
        port = self._same(request)
        if port is None:
            port = self._open(request)
        port.board = request.board or port.board
        if not request.fits(port.meta):
            port.change(request.changed(port.meta))
        if port.line.fd < 0 and not self._reopen(port):
            raise LabStableError(
                f"{request.device}: {port.line.state}; plug the adapter in again", failure="port_missing"
            )
        return port

    def some(self, name: str | None, after: int | None, most: int) -> list[ServedPort]:
        """The port of that name; or the first ones with a higher number, at most so many; or all."""
        if name is not None:
            return [port] if (port := self._by_name.get(name)) is not None else []
        if after is None:
            return list(self)
        return list(islice((port for port in self if port.number > after), most))

    def lose(self, port: ServedPort, code: int) -> None:
        """The port's device failed with this errno."""
        del self.by_fd[port.line.fd]
        port.lose(code)

    def reopen_lost(self) -> None:
        """Look whether lost ports are there again."""
        if len(self.by_fd) == len(self._by_name):
            return
        for port in self:
            if port.line.fd < 0:
                self._reopen(port)

    def close(self, port: ServedPort) -> None:
        """Give a port's device back and end its recording."""
        self.by_fd.pop(port.line.fd, None)
        del self._by_name[port.meta.name]
        port.close()
        _log.info("%s: closed", port.meta.name)

    def _same(self, request: PortRequest) -> ServedPort | None:
        """The port that is meant, if there is one: the same device, by whatever path."""
        for port in self:
            if port.line.is_device(request.device):
                return port
            if request.name == port.meta.name:
                raise ConfigurationError(
                    f"{request} is asked for, but open already is {_describe(port)}; name another"
                )
        return None

    def _open(self, request: PortRequest) -> ServedPort:
        serial = open_port(request.device, request.opening_speed_bd)
        line = SerialLine(request, serial, self._epoll)
        try:
            meta = request.meta(serial, self._scheduling, self._boot_id)
            port = ServedPort(line, meta, self._store, self._clock, self._queue)
        except BaseException:
            line.close()  # else epoll would report for ever what nobody reads
            raise
        self._opened += 1
        port.number = self._opened
        self._by_name[request.name] = self.by_fd[line.fd] = port
        _log.info("%s: open: %s", request.name, port.meta)
        return port

    def _reopen(self, port: ServedPort) -> bool:
        if not port.try_reopen():
            return False
        self.by_fd[port.line.fd] = port
        return True


def _describe(port: ServedPort) -> str:
    meta = port.meta
    return (
        f"{meta.name!r}: {meta.device} at {meta.speed_bd} Bd, adapter latency {meta.adapter_latency_ns} ns, "
        f"FIFO {meta.fifo_bytes} bytes"
    )
