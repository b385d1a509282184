"""Readers that go on where they were: they get from the recording what they have missed, and then what comes.

It is done in small steps, between two looks at the ports, so that no stamp waits for a reader that was away for long. Who
follows like this is never dropped: a reader that does not take its records gets them from the recording, when it does.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from lab.console.connection import Connection
from lab.console.model import Gap, RecordKind
from lab.console.protocol import HEADER, FrameType, encode_event
from lab.console.recording import INDEX_SUFFIX, MAX_HEADER_BYTES, RECORD, RecordingMeta, parse_header, paths
from lab.errors import ConfigurationError, LabStableError, LabTransientError

STEP_RECORDS: Final = 32  # of one step: some ten microseconds
ROOM_BYTES: Final = 1 << 18  # of a connection's buffer, beyond which it is left alone


class Growing(Protocol):
    """The recording that is being written.

    Attributes:
        base: of its files. broken: why nothing is being written now; empty while all is well.
        position: where in the stream the next byte belongs. index_bytes, size_bytes: how much of its index and log is written.
    """

    base: Path
    meta: RecordingMeta
    broken: str
    position: int

    @property
    def index_bytes(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


class Cursor:
    """A place in a recording's two files, which may be renamed meanwhile.

    Attributes:
        meta: of the recording. index_at, log_at: the next record, and the bytes that it may stand for.
    """

    def __init__(self, base: Path) -> None:
        """Open the recording at its beginning.

        Raises:
            LabStableError: it cannot be read.
        """
        log, index = paths(base)
        try:
            with index.open("rb") as first:
                line = first.readline(MAX_HEADER_BYTES)
            self.meta = parse_header(line, str(index))
            self._log = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._index = os.open(index, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                os.close(self._log)
                raise
        except (OSError, ConfigurationError) as error:
            raise LabStableError(f"{base}: the recording cannot be read: {error}") from error
        self._start = self.index_at = len(line)
        self.log_at = 0

    def begins(self) -> tuple[int, str]:
        """What the recordings of a port are ordered by."""
        return self.meta.start, self.meta.started

    def end(self) -> int:
        """Where the index ends of a recording that nobody writes any more."""
        return os.fstat(self._index).st_size

    def log_end(self) -> int:
        """Where its log ends."""
        return os.fstat(self._log).st_size

    def back(self, position: int) -> bool:
        """Go back some records, as long as they end behind `position`. Returns: whether the place is found."""
        since = max(self._start, self.index_at - STEP_RECORDS * RECORD.size)
        records = os.pread(self._index, self.index_at - since, since)
        for _, at, n, kind in reversed(list(RECORD.iter_unpack(records))):
            size = n if kind == RecordKind.DATA else 0
            if at + size < position or (size and at + size == position):
                return True
            self.index_at -= RECORD.size
            self.log_at -= size
        return self.index_at == self._start

    def forward(self, end: int) -> list[bytes]:
        """Some records as frames, none of them beyond `end` of the index."""
        frames = []
        records = os.pread(self._index, min(end - self.index_at, STEP_RECORDS * RECORD.size), self.index_at)
        for at in range(0, len(records), RECORD.size):
            record = records[at : at + RECORD.size]
            _, _, n, kind = RECORD.unpack(record)
            data = os.pread(self._log, n, self.log_at) if kind == RecordKind.DATA else b""
            self.log_at += len(data)
            if kind != RecordKind.DIGEST:
                frames.append(HEADER.pack(RECORD.size + len(data), FrameType.RECORD) + record + data)
        self.index_at += len(records)
        return frames

    def close(self) -> None:
        """Give both files back."""
        os.close(self._log)
        os.close(self._index)


class Backfill:
    """One reader on its way through the recordings of its port."""

    def __init__(
        self, reader: Connection, recording: Callable[[], Growing], arrived: Callable[[Connection], None]
    ) -> None:
        """Use `since` or `at_last`.

        Args:
            recording: the one that is written now.
            arrived: called when the reader has everything; it gets what comes from then on.
        """
        self.reader = reader
        self._recording = recording
        self._arrived = arrived
        self._sought: int | None = None
        self._position = 0
        self._live: Growing | None = recording()
        self._cursor = Cursor(recording().base)

    def since(self, position: int) -> None:
        """Begin at this position of the stream.

        Raises:
            LabTransientError: the recordings do not go back that far, or not so far yet.
            LabStableError: they cannot be read.
        """
        live = self._recording()
        if position > live.position:
            raise self._out_of_reach(f"the stream begins anew: it has {live.position} bytes, and {position} were read")
        kept = [*_older(live), self._cursor]
        before = [cursor for cursor in kept if cursor.meta.start < position]
        first = [cursor for cursor in kept if cursor.meta.start == position]
        chosen = max(before, key=Cursor.begins) if before else min(first, key=Cursor.begins, default=None)
        self._take(chosen or self._cursor, kept)
        if chosen is None:
            raise self._out_of_reach(f"what came from byte {position} on is not kept any more")
        cursor, is_live = self._cursor, self._live is not None
        cursor.index_at = live.index_bytes if is_live else cursor.end()
        cursor.log_at = live.size_bytes if is_live else cursor.log_end()
        self._sought = self._position = position

    def at_last(self, log_bytes: int) -> None:
        """Begin at the last record that was written, which stands for so many bytes of the log."""
        live = self._recording()
        self._cursor.index_at = live.index_bytes - RECORD.size
        self._cursor.log_at = live.size_bytes - log_bytes
        self._position = live.position - log_bytes

    @property
    def waits(self) -> bool:
        """The reader does not take what it has."""
        return self.reader.blocked or self.reader.waiting_bytes > ROOM_BYTES

    def step(self) -> bool:
        """Go on a little. Returns: whether it is at its end."""
        cursor, live = self._cursor, self._recording()
        if self._sought is not None:
            if cursor.back(self._sought):
                self._sought = None
            return False
        is_live = live is self._live
        end = live.index_bytes if is_live else cursor.end()
        for frame in cursor.forward(end):
            _, self._position, n, kind = RECORD.unpack_from(frame, HEADER.size)
            self._position += n if kind == RecordKind.DATA else 0
            self.reader.record(frame)
        if cursor.index_at < end:
            return False
        if not is_live:
            self._go_on(live)
            return False
        self._tell_missing(live.position)  # with a full disk
        self.close()
        self._arrived(self.reader)
        return True

    def close(self) -> None:
        """Give the files back."""
        self._cursor.close()

    def _go_on(self, live: Growing) -> None:
        """With the recording that follows."""
        here = self._cursor.begins()
        newest = Cursor(live.base)
        kept = [*_older(live), newest]
        later = [cursor for cursor in kept if cursor.begins() > here]
        self._take(min(later, key=Cursor.begins, default=newest), [*kept, self._cursor])
        self._tell_missing(self._cursor.meta.start)  # where those between were thrown away meanwhile

    def _tell_missing(self, position: int) -> None:
        """The reader's next byte is this one: what is missing before it is no recording's any more."""
        if position > self._position:
            gap = Gap(0, position, RecordKind.UNRECORDED, position - self._position)
            self.reader.record(encode_event(gap))
            self._position = position

    def _take(self, chosen: Cursor, others: list[Cursor]) -> None:
        """Read this one from now on, and give the others back."""
        live = self._recording()
        self._live = live if chosen.begins() == (live.meta.start, live.meta.started) else None
        for other in others:
            if other is not chosen:
                other.close()
        self._cursor = chosen

    def _out_of_reach(self, why: str) -> LabTransientError:
        return LabTransientError(f"{self._recording().meta.name}: {why}. Attach again", failure="console_overrun")


def _older(live: Growing) -> list[Cursor]:
    """The recordings before this one, as far as they are of the same boot of the host."""
    found = []
    for index in (live.base.parent / "older" / live.base.name).glob(f"*{INDEX_SUFFIX}"):
        try:
            cursor = Cursor(index.with_suffix(""))
        except LabStableError:  # thrown away meanwhile, or damaged
            continue
        if cursor.meta.boot_id == live.meta.boot_id:
            found.append(cursor)
        else:
            cursor.close()
    return found


# --- Hands records to readers, but not more often than the stamps can bear ---
# Waking a reader costs some ten microseconds, more on a virtual machine, in which no port is looked at. One console's
# records go out at once. When sixteen stream at full speed, their readers get the records of some milliseconds together.


INTERVAL_NS = 500_000  # between two deliveries; a console that never pauses brings a FIFO of 16 bytes every 1.4 ms
_log = logging.getLogger(__name__)


class ReaderQueue:
    """The readers that have something waiting, in the order in which it came."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._next_ns = 0
        self._waiting: deque[Connection] = deque()
        self._catchups: deque[Backfill] = deque()

    def timeout_s(self, now_ns: int) -> float | None:
        """How long the loop may sleep before a delivery is due; None: for ever."""
        if any(not each.waits for each in self._catchups):
            return 0.0
        if not self._waiting:
            return None
        return 0.0 if now_ns >= self._next_ns else 0.001  # epoll counts milliseconds

    def enlist(self, reader: Connection) -> None:
        """There is something for this reader; one that does not take what it has is told by epoll instead."""
        if not reader.enlisted and not reader.blocked:
            reader.enlisted = True
            self._waiting.append(reader)

    def deliver(self, now_ns: int) -> bool:
        """Hand the first reader what it has waiting, if it is time. Returns: whether it was."""
        if not self._waiting or now_ns < self._next_ns:
            return False
        self._waiting.popleft().flush()
        self._next_ns = now_ns + INTERVAL_NS
        return True

    def follow(self, catchup: Backfill) -> None:
        """Let a reader have what it has missed."""
        self._catchups.append(catchup)

    def forget(self, reader: Connection) -> None:
        """It is gone."""
        for catchup in [each for each in self._catchups if each.reader is reader]:
            self._catchups.remove(catchup)
            catchup.close()

    def catch_up(self) -> None:
        """Go on a little with one of the readers that miss something."""
        for _ in range(len(self._catchups)):
            catchup = self._catchups.popleft()
            if catchup.waits:
                self._catchups.append(catchup)
                continue
            try:
                done = catchup.step()
            except LabStableError as error:
                _log.error("%s", error)
                catchup.close()
                catchup.reader.end()
                return
            if not done:
                self._catchups.append(catchup)
            self.enlist(catchup.reader)
            return
