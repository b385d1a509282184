"""One port of the server: stream, recording, readers and writer."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import select
import shlex
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from attrs import define, evolve

from lab.console.connection import Connection
from lab.console.delivery import Backfill, ReaderQueue
from lab.console.model import Chunk, Event, Gap, Lateness, RecordKind, Suspended
from lab.console.protocol import encode_event
from lab.console.recorder import RecordingStore
from lab.console.recording import RecordingMeta
from lab.console.serial_line import PortRequest, SerialLine
from lab.console.serial_port import open_port, speed_of
from lab.console.status import PortInfo, PortStatus
from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError
from lab.host import devices
from lab.host.clock import NS_PER_S, Clock, utc_now
from lab.host.process import describe
from lab.host.scheduling import Scheduling

_log = logging.getLogger(__name__)


@define
class PortCounters:
    """Counters of a port since it was opened.

    Attributes:
        gaps: how often the device was lost.
        dropped: readers that were too slow.
        last_ns: stamp of the last read; None: nothing was read yet.
        lateness_max_ns: longest delay of the server before a read.
    """

    received_bytes: int = 0
    reads: int = 0
    gaps: int = 0
    dropped: int = 0
    last_ns: int | None = None
    lateness_max_ns: int = 0


class ServedPort:
    """A port that the server reads.

    Attributes:
        line: its device.
        writer: the connection that may write.
        board: name of its board; empty: unknown.
        number: in the order in which ports were opened; from 1.
    """

    def __init__(
        self, line: SerialLine, meta: RecordingMeta, store: RecordingStore, clock: Clock, queue: ReaderQueue
    ) -> None:
        """Begin, or continue, the recording.

        Raises:
            LabStableError: it cannot be written.
        """
        self.line = line
        self.meta = meta
        self.board = ""
        self.number = 0
        self.writer: Connection | None = None
        self._writer_since = ""
        self._readers: list[Connection] = []
        self._store = store
        self._clock = clock
        self._queue = queue
        self._counters = PortCounters()
        self._late_reported_ns = -1
        self._recording = store.open(meta)
        if self._recording.size_bytes:
            self._emit(Gap(clock.now_ns(), self._recording.position, RecordKind.BACK))

    @property
    def info(self) -> PortInfo:
        """The port's description for clients."""
        return PortInfo(self.meta, str(self._recording.base), self._recording.position)

    def change(self, meta: RecordingMeta) -> None:
        """Apply other settings in a new recording; readers stay.

        Raises:
            LabTransientError: the writer has set the present settings.
            BoardlabError: the driver refuses the speed, or the recording cannot be created; all is as before.
        """
        before = self.meta
        if self.writer is not None and self.writer.states == before.name:
            raise self._busy(self.writer)
        self.line.change(meta.speed_bd)
        try:
            self._recording = self._store.change(self._recording, meta)
        except LabStableError:
            self.line.change(before.speed_bd)
            raise
        self.meta = self._recording.meta
        _log.info("%s: from now on: %s", meta.name, self.meta)

    def publish(self, t_ns: int, data: bytes, late: Lateness | None) -> None:
        """Record a read and pass it to readers, after evidence of lateness."""
        position = self._recording.position
        tally = self._counters
        if late is not None and late.t_ns != self._late_reported_ns:
            self._late_reported_ns = late.t_ns
            tally.lateness_max_ns = max(tally.lateness_max_ns, late.lateness_ns)
            self._emit(Lateness(late.t_ns, position, late.lateness_ns))
        tally.received_bytes += len(data)
        tally.reads += 1
        tally.last_ns = t_ns
        self._emit(Chunk(t_ns, position, data))

    def note_clock_step(self, t_ns: int, missing_ns: int) -> None:
        """Record that the stamping clock stood still, or jumped.

        Args:
            missing_ns: as in `Suspended`.
        """
        self._emit(Suspended(t_ns, self._recording.position, missing_ns))

    def attach(self, reader: Connection, write: bool, since: int | None = None) -> None:
        """Attach a reader, from now or `since`, and perhaps as writer.

        Raises:
            LabTransientError: another client is the writer, or that byte is no longer stored.
            LabStableError: the recordings cannot be read.
        """
        if write and self.writer is not None and self.writer is not reader:
            raise self._busy(self.writer)
        backfill = None if since is None or reader.follows else self._new_backfill(reader)
        if backfill is not None and since is not None:
            try:
                backfill.begin_at(since)
            except BoardlabError:
                backfill.close()
                raise
        if write:
            self.writer = reader
            self._writer_since = utc_now().isoformat(timespec="seconds")
        if backfill is not None:
            reader.follows = True
            self._queue.add_backfill(backfill)
        elif not reader.follows and reader not in self._readers:
            self._readers.append(reader)

    def detach(self, reader: Connection) -> None:
        """Forget a client."""
        self._queue.forget(reader)
        self._readers = [other for other in self._readers if other is not reader]
        if self.writer is reader:
            self.writer = None

    def lose(self, code: int) -> None:
        """Give the failed device up, and record the gap.

        Args:
            code: errno of the failure.
        """
        _log.warning("%s: lost: %s", self.meta.name, os.strerror(code))
        self._counters.gaps += 1
        self.line.lose(code)
        self._emit(Gap(self._clock.now_ns(), self._recording.position, RecordKind.LOST, code))

    def try_reopen(self) -> bool:
        """Reopen a lost port if its adapter is back; True if it is open.

        The recording goes on, also when the adapter has another name.
        """
        if not self.line.try_reopen():
            return False
        self.meta = evolve(self.meta, device=str(self.line.device))
        _log.info("%s: back at %s", self.meta.name, self.meta.device)
        self._emit(Gap(self._clock.now_ns(), self._recording.position, RecordKind.BACK))
        return True

    def status(self) -> PortStatus:
        """Return the port's state."""
        tally = self._counters
        age_s = None if tally.last_ns is None else (self._clock.now_ns() - tally.last_ns) / NS_PER_S
        return PortStatus(
            info=self.info,
            state=self.line.state,
            received_bytes=tally.received_bytes,
            reads=tally.reads,
            last_byte_age_s=age_s,
            readers=len(self._readers),
            writer=None if self.writer is None else self.writer.pid,
            writer_since=None if self.writer is None else self._writer_since,
            gaps=tally.gaps,
            dropped=tally.dropped,
            line_errors=self.line.errors(),
            lateness_max_ns=tally.lateness_max_ns,
            recording_broken=self._recording.broken,
            board=self.board,
        )

    def close(self) -> None:
        """Give the device back and end the recording."""
        self.line.close()
        self._recording.close()

    def _busy(self, writer: Connection) -> LabTransientError:
        """The error for a second client that wants to write."""
        meta = self.meta
        return LabTransientError(
            f"{meta.name}: busy: held by {describe(writer.pid)} since {self._writer_since} ({meta.device} at "
            f"{meta.speed_bd} Bd, adapter latency {meta.adapter_latency_ns} ns, FIFO {meta.fifo_bytes} bytes); wait "
            f"for it or end it, or read along: lab console tail {shlex.quote(meta.name)}",
            failure="console_busy",
        )

    def _emit(self, event: Event) -> None:
        """Record an event, and pass it to the readers.

        A reader that cannot take it is served from the recording.

        A recording that cannot be written is logged, and the live readers go on.
        """
        try:
            self._recording.append(event)
        except LabTransientError as error:
            _log.error("%s", error)
        frame = encode_event(event)
        for reader in self._readers:
            if reader.record(frame):
                self._queue.enlist(reader)
            elif reader.follows and not self._recording.broken:
                self._let_follow(reader, event)
            else:
                self._drop(reader, event.t_ns)
        self._recording = self._store.rotate(self._recording)

    def _new_backfill(self, reader: Connection) -> Backfill:
        return Backfill(reader, lambda: self._recording, self._make_live)

    def _make_live(self, reader: Connection) -> None:
        """Pass live records to a reader that has caught up."""
        self._readers.append(reader)

    def _let_follow(self, reader: Connection, event: Event) -> None:
        """Serve a slow reader from the recording, from this event on."""
        try:
            backfill = self._new_backfill(reader)
        except LabStableError as error:  # its files are gone, or nothing more can be opened; the others read on
            _log.error("%s", error)
            self._drop(reader, event.t_ns)
            return
        backfill.begin_at_last(len(event.data) if isinstance(event, Chunk) else 0)
        self._readers = [other for other in self._readers if other is not reader]
        self._queue.add_backfill(backfill)

    def _drop(self, reader: Connection, t_ns: int) -> None:
        """End the connection of a reader that is too slow.

        Its last record says so.
        """
        _log.warning("%s: pid %d reads too slowly and is dropped", self.meta.name, reader.pid)
        self._counters.dropped += 1
        self.detach(reader)
        reader.drop(t_ns, self._recording.position)


class Ports:
    """Opens, finds, loses and closes ports.

    Attributes:
        by_fd: the ports whose device is open; the loop looks them up in it.
    """

    def __init__(
        self,
        epoll: select.epoll,
        store: RecordingStore,
        clock: Clock,
        scheduling: Scheduling,
        queue: ReaderQueue,
        sysfs: Path = devices.SYSFS,
    ) -> None:
        """No port is open yet."""
        self.by_fd: dict[int, ServedPort] = {}
        self._by_name: dict[str, ServedPort] = {}
        self._epoll = epoll
        self._store = store
        self._clock = clock
        self._scheduling = scheduling
        self._queue = queue
        self._sysfs = sysfs
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
        """Open a port or find it open, and apply the requested settings.

        A writer's own settings stay.

        Raises:
            BoardlabError: it cannot be opened, a client writes with other settings, or its name is another port's.
        """
        speed_of(request.device, request.opening_speed_bd)  # before anything is changed for it
        port = next((port for port in self if port.line.is_device(request.device)), None)
        if port is None:
            port = self._open(self._with_free_name(request))
        port.board = request.board or port.board
        if not request.fits(port.meta):
            port.change(request.apply_to(port.meta))
        if port.line.fd < 0 and not self._reopen(port):
            raise LabStableError(
                f"{request.device}: {port.line.state}; plug the adapter in again. One that the board feeds is there "
                "only while the board is on",
                failure="port_missing",
            )
        return port

    def some(self, name: str | None, after: int | None, most: int) -> list[ServedPort]:
        """Return the named port, a page above `after`, or all."""
        if name is not None:
            return [port] if (port := self._by_name.get(name)) is not None else []
        if after is None:
            return list(self)
        return list(islice((port for port in self if port.number > after), most))

    def lose(self, port: ServedPort, code: int) -> None:
        """Give a port's failed device up; `reopen_lost` looks for it.

        Args:
            code: errno of the failure.
        """
        del self.by_fd[port.line.fd]
        port.lose(code)

    def reopen_lost(self) -> None:
        """Try to reopen lost ports."""
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

    def _with_free_name(self, request: PortRequest) -> PortRequest:
        """Return a new device's request with a name that no port has.

        Raises:
            LabStableError: the path led to the same board's console before, and leads to another adapter now.
            ConfigurationError: the name is another port's.
        """
        namesake = self._by_name.get(request.name)
        if namesake is None:
            return request
        identity = devices.identify(request.device, self._sysfs)
        if identity is None or namesake.line.identity is None or request.name != default_name(request.device):
            meta = namesake.meta
            raise ConfigurationError(
                f"{request} is asked for, but open already is {meta.name!r}: {meta.device} at {meta.speed_bd} Bd, "
                f"adapter latency {meta.adapter_latency_ns} ns, FIFO {meta.fifo_bytes} bytes; name another"
            )
        if request.board and request.board == namesake.board:
            place = namesake.line.device if namesake.line.fd >= 0 else namesake.line.state
            raise LabStableError(
                f"{request.device}: another adapter than before, when it was the console of {request.board}: it is "
                f"{identity}, and was {namesake.line.identity} ({place}). Name the adapter by its serial number or "
                f"socket (USBSerialPort with a match, /dev/serial), or `lab console close {namesake.meta.name}` if "
                "this one is right",
                failure="port_missing",
            )
        number = next(n for n in count(2) if f"{request.name}-{n}" not in self._by_name)
        return evolve(request, name=f"{request.name}-{number}")

    def _open(self, request: PortRequest) -> ServedPort:
        """Open a device that is not open yet, and begin its recording."""
        serial = open_port(request.device, request.opening_speed_bd)
        line = SerialLine(request, serial, self._epoll, self._sysfs)
        try:
            meta = request.meta(serial, self._scheduling, self._boot_id)
            port = ServedPort(line, meta, self._store, self._clock, self._queue)
        except BaseException:
            line.close()  # else epoll would report its unread bytes for ever
            raise
        self._opened += 1
        port.number = self._opened
        self._by_name[request.name] = self.by_fd[line.fd] = port
        _log.info("%s: open: %s", request.name, port.meta)
        return port

    def _reopen(self, port: ServedPort) -> bool:
        """Reopen a lost port if its adapter is back; True if it is open."""
        if not port.try_reopen():
            return False
        self.by_fd[port.line.fd] = port
        return True


def default_name(device: Path) -> str:
    """Return a port's default name.

    Its path below /dev; else the last two parts and a hash of all.
    """
    if device.is_relative_to("/dev"):
        return re.sub(r"[^A-Za-z0-9._@+-]", "-", "-".join(device.parts[2:]))[-100:].lstrip("._@+-")
    digest = hashlib.sha256(os.fsencode(device)).hexdigest()[:6]
    tail = re.sub(r"[^A-Za-z0-9._@+-]", "-", "-".join(device.parts[-2:])).lstrip("._@+-")
    return f"{tail[:90]}-{digest}"
