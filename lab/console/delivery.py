"""Readers that continue from the recording, then get live records.

It works in small steps between two polls of the ports, so that no stamp waits for a reader that was away for long.
Such a reader is never dropped: records that it does not take come later, from the recording.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lab.console.connection import Connection
from lab.console.model import Gap, RecordKind
from lab.console.protocol import HEADER, FrameType, encode_event
from lab.console.recorder import RecordingWriter
from lab.console.recording import INDEX_SUFFIX, MAX_HEADER_BYTES, RECORD, parse_header, paths
from lab.errors import ConfigurationError, LabStableError, LabTransientError

STEP_RECORDS: Final = 32  # of one step: some ten microseconds
ROOM_BYTES: Final = 1 << 18  # of a connection's buffer, beyond which it is left alone


class Cursor:
    """A read position in a recording's two files, which may be renamed.

    Attributes:
        meta: of the recording.
        index_at, log_at: the next record, and the bytes that it may stand for.
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
        """Sort key of a port's recordings."""
        return self.meta.start, self.meta.started

    def end(self) -> int:
        """Size of the index of a finished recording."""
        return os.fstat(self._index).st_size

    def log_end(self) -> int:
        """Size of its log."""
        return os.fstat(self._log).st_size

    def back(self, position: int) -> bool:
        """Step back some records towards `position`; True if it is reached."""
        first = max(self._start, self.index_at - STEP_RECORDS * RECORD.size)
        records = os.pread(self._index, self.index_at - first, first)
        for _, at, n, kind in reversed(list(RECORD.iter_unpack(records))):
            size = n if kind == RecordKind.DATA else 0
            if at + size < position or (size and at + size == position):
                return True
            self.index_at -= RECORD.size
            self.log_at -= size
        return self.index_at == self._start

    def forward(self, end: int) -> list[bytes]:
        """Return some records as frames, up to `end` of the index."""
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
    """One reader's way through the recordings of its port."""

    def __init__(
        self, reader: Connection, recording: Callable[[], RecordingWriter], arrived: Callable[[Connection], None]
    ) -> None:
        """Use `begin_at` or `begin_at_last`.

        Args:
            recording: returns the live recording.
            arrived: called when the reader has caught up; it gets live records from then on.
        """
        self.reader = reader
        self._recording = recording
        self._arrived = arrived
        self._sought: int | None = None
        self._position = 0
        self._live: RecordingWriter | None = recording()
        self._cursor = Cursor(recording().base)

    def begin_at(self, position: int) -> None:
        """Begin at this position of the stream.

        Raises:
            LabTransientError: the recordings do not go back that far, or not so far yet.
            LabStableError: they cannot be read.
        """
        live = self._recording()
        if position > live.position:
            raise self._out_of_reach(f"the stream begins anew: it has {live.position} bytes, and {position} were read")
        cursors = [*_older(live), self._cursor]
        before = [cursor for cursor in cursors if cursor.meta.start < position]
        first = [cursor for cursor in cursors if cursor.meta.start == position]
        chosen = max(before, key=Cursor.begins) if before else min(first, key=Cursor.begins, default=None)
        self._take(chosen or self._cursor, cursors)
        if chosen is None:
            raise self._out_of_reach(f"the bytes from {position} on are not recorded any more")
        cursor, is_live = self._cursor, self._live is not None
        cursor.index_at = live.index_bytes if is_live else cursor.end()
        cursor.log_at = live.size_bytes if is_live else cursor.log_end()
        self._sought = self._position = position

    def begin_at_last(self, log_bytes: int) -> None:
        """Begin at the last written record, which covers `log_bytes` of the log."""
        live = self._recording()
        self._cursor.index_at = live.index_bytes - RECORD.size
        self._cursor.log_at = live.size_bytes - log_bytes
        self._position = live.position - log_bytes

    @property
    def waits(self) -> bool:
        """True if the reader does not take its data."""
        return self.reader.blocked or self.reader.waiting_bytes > ROOM_BYTES

    def step(self) -> bool:
        """Send a few records; True at the end."""
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
            cursors = [*_older(live), Cursor(live.base)]
            later = [other for other in cursors if other.begins() > cursor.begins()]
            self._take(min(later, key=Cursor.begins, default=cursors[-1]), [*cursors, cursor])
            self._tell_missing(self._cursor.meta.start)  # where those between were thrown away meanwhile
            return False
        self._tell_missing(live.position)  # with a full disk
        self.close()
        self._arrived(self.reader)
        return True

    def close(self) -> None:
        """Give the files back."""
        self._cursor.close()

    def _tell_missing(self, position: int) -> None:
        """Report a gap up to `position` if no recording holds those bytes."""
        if position > self._position:
            gap = Gap(0, position, RecordKind.UNRECORDED, position - self._position)
            self.reader.record(encode_event(gap))
            self._position = position

    def _take(self, chosen: Cursor, others: list[Cursor]) -> None:
        """Read this recording from now on, and close the others."""
        live = self._recording()
        self._live = live if chosen.begins() == (live.meta.start, live.meta.started) else None
        for other in others:
            if other is not chosen:
                other.close()
        self._cursor = chosen

    def _out_of_reach(self, why: str) -> LabTransientError:
        return LabTransientError(f"{self._recording().meta.name}: {why}. Attach again", failure="console_overrun")


def _older(live: RecordingWriter) -> list[Cursor]:
    """Return the earlier recordings of the same boot of the host."""
    cursors = []
    for index in (live.base.parent / "older" / live.base.name).glob(f"*{INDEX_SUFFIX}"):
        try:
            cursor = Cursor(index.with_suffix(""))
        except LabStableError:  # thrown away meanwhile, or damaged
            continue
        if cursor.meta.boot_id == live.meta.boot_id:
            cursors.append(cursor)
        else:
            cursor.close()
    return cursors


# Waking a reader costs some ten microseconds, more on a virtual machine, in which no port is looked at. One console's
# records go out at once. When sixteen stream at full speed, their readers get the records of some milliseconds
# together.


INTERVAL_NS = 500_000  # between two deliveries; a console that never pauses brings a FIFO of 16 bytes every 1.4 ms
_log = logging.getLogger(__name__)


class ReaderQueue:
    """The readers with waiting data, in the order of its arrival."""

    def __init__(self) -> None:
        """Begin with no readers."""
        self._next_ns = 0
        self._waiting: deque[Connection] = deque()
        self._backfills: deque[Backfill] = deque()

    def timeout_s(self, now_ns: int) -> float | None:
        """Time until the next delivery is due; None: none is."""
        if any(not backfill.waits for backfill in self._backfills):
            return 0.0
        if not self._waiting:
            return None
        return 0.0 if now_ns >= self._next_ns else 0.001  # epoll counts milliseconds

    def enlist(self, reader: Connection) -> None:
        """Queue a reader with data, unless epoll will report it."""
        if not reader.enlisted and not reader.blocked:
            reader.enlisted = True
            self._waiting.append(reader)

    def deliver(self, now_ns: int) -> bool:
        """Flush the first reader if it is time; True if it was."""
        if not self._waiting or now_ns < self._next_ns:
            return False
        self._waiting.popleft().flush()
        self._next_ns = now_ns + INTERVAL_NS
        return True

    def add_backfill(self, backfill: Backfill) -> None:
        """Queue a reader's backfill."""
        self._backfills.append(backfill)

    def forget(self, reader: Connection) -> None:
        """Remove a closed reader."""
        for backfill in [backfill for backfill in self._backfills if backfill.reader is reader]:
            self._backfills.remove(backfill)
            backfill.close()

    def advance_backfill(self) -> None:
        """Advance the backfill of one reader."""
        for _ in range(len(self._backfills)):
            backfill = self._backfills.popleft()
            if backfill.waits:
                self._backfills.append(backfill)
                continue
            try:
                done = backfill.step()
            except LabStableError as error:
                _log.error("%s", error)
                backfill.close()
                backfill.reader.end()
                return
            if not done:
                self._backfills.append(backfill)
            self.enlist(backfill.reader)
            return
