"""One port of the server: its stream, its recording, its readers and its writer."""

from __future__ import annotations

import logging
import os
import shlex

from attrs import define

from lab.console.catchup import Catchup
from lab.console.connection import Connection
from lab.console.index import RecordingMeta
from lab.console.line import SerialLine
from lab.console.model import Chunk, Event, Gap, Lateness, RecordKind, Suspended
from lab.console.readerqueue import ReaderQueue
from lab.console.recordingstore import RecordingStore
from lab.console.status import PortInfo, PortStatus
from lab.console.wire import encode_event
from lab.errors import BoardlabError, LabStableError, LabTransientError
from lab.host.clock import NS_PER_S, Clock, utc_now
from lab.host.process import described

_log = logging.getLogger(__name__)


@define
class PortCounters:
    """What is counted about a port since it was opened."""

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
        board: name of the board that hangs on it, where somebody said so.
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
        self._tally = PortCounters()
        self._late_told_ns = -1
        self._recording = store.open(meta)
        if self._recording.size_bytes:
            self._emit(Gap(clock.now_ns(), self._recording.position, RecordKind.BACK))

    @property
    def info(self) -> PortInfo:
        """What a client gets to know about the port."""
        return PortInfo(self.meta, str(self._recording.base), self._recording.position)

    def change(self, meta: RecordingMeta) -> None:
        """Go on with other settings; the readers stay, and a new recording says the settings.

        Raises:
            LabTransientError: they are those of somebody who may write.
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
        """Record what one read brought and hand it to the readers; evidence that it came late goes before it."""
        position = self._recording.position
        tally = self._tally
        if late is not None and late.t_ns != self._late_told_ns:
            self._late_told_ns = late.t_ns
            tally.lateness_max_ns = max(tally.lateness_max_ns, late.lateness_ns)
            self._emit(Lateness(late.t_ns, position, late.lateness_ns))
        tally.received_bytes += len(data)
        tally.reads += 1
        tally.last_ns = t_ns
        self._emit(Chunk(t_ns, position, data))

    def clock_stepped(self, t_ns: int, missing_ns: int) -> None:
        """The clock of the stamps stood still, or jumped."""
        self._emit(Suspended(t_ns, self._recording.position, missing_ns))

    def attach(self, reader: Connection, write: bool, since: int | None = None) -> None:
        """Let a client read, from now on or from a byte of the stream, and write if it asks for that.

        Raises:
            LabTransientError: somebody else may write, or that byte is not kept any more.
            LabStableError: the recordings cannot be read.
        """
        if write and self.writer is not None and self.writer is not reader:
            raise self._busy(self.writer)
        catchup = None if since is None or reader.follows else self._catchup(reader)
        if catchup is not None and since is not None:
            try:
                catchup.since(since)
            except BoardlabError:
                catchup.close()
                raise
        if write:
            self.writer = reader
            self._writer_since = utc_now().isoformat(timespec="seconds")
        if catchup is not None:
            reader.follows = True
            self._queue.follow(catchup)
        elif not reader.follows and reader not in self._readers:
            self._readers.append(reader)

    def detach(self, reader: Connection) -> None:
        """Forget a client."""
        self._queue.forget(reader)
        self._readers = [other for other in self._readers if other is not reader]
        if self.writer is reader:
            self.writer = None

    def lose(self, code: int) -> None:
        """The device failed with this errno."""
        _log.warning("%s: lost: %s", self.meta.name, os.strerror(code))
        self._tally.gaps += 1
        self.line.lose(code)
        self._emit(Gap(self._clock.now_ns(), self._recording.position, RecordKind.LOST, code))

    def try_reopen(self) -> bool:
        """Open a lost port if it is there again. Returns: whether it is open now."""
        if not self.line.try_reopen():
            return False
        _log.info("%s: back", self.meta.name)
        self._emit(Gap(self._clock.now_ns(), self._recording.position, RecordKind.BACK))
        return True

    def status(self) -> PortStatus:
        """How the port is doing."""
        tally = self._tally
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
        meta = self.meta
        return LabTransientError(
            f"{meta.name}: busy: held by {described(writer.pid)} since {self._writer_since} ({meta.device} at {meta.speed_bd} Bd, adapter "
            f"latency {meta.adapter_latency_ns} ns, FIFO {meta.fifo_bytes} bytes); wait for it or end it, or read along: "
            f"lab console tail {shlex.quote(meta.name)}",
            failure="console_busy",
        )

    def _emit(self, event: Event) -> None:
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

    def _catchup(self, reader: Connection) -> Catchup:
        return Catchup(reader, lambda: self._recording, self._arrived)

    def _arrived(self, reader: Connection) -> None:
        """It has everything that was recorded, and gets from now on what comes."""
        self._readers.append(reader)

    def _let_follow(self, reader: Connection, event: Event) -> None:
        """It does not take what comes: it gets that, from this event on, from the recording."""
        try:
            catchup = self._catchup(reader)
        except LabStableError as error:  # its files are gone, or nothing more can be opened; the others read on
            _log.error("%s", error)
            self._drop(reader, event.t_ns)
            return
        catchup.at_last(len(event.data) if isinstance(event, Chunk) else 0)
        self._readers = [other for other in self._readers if other is not reader]
        self._queue.follow(catchup)

    def _drop(self, reader: Connection, t_ns: int) -> None:
        _log.warning("%s: pid %d reads too slowly and is dropped", self.meta.name, reader.pid)
        self._tally.dropped += 1
        self.detach(reader)
        reader.drop(t_ns, self._recording.position)
