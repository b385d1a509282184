"""Write a recording that survives kill -9 and a full disk.

Bytes are written before their record, both with plain write(2): what a killed process had stamped stays in the page
cache. There is no fsync: it would hold up the stamps, and a host that loses power loses the cycle it was timing anyway.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Self

from attrs import evolve, frozen

from lab.console.model import Chunk, Event, Gap, RecordKind
from lab.console.recording import (
    INDEX_SUFFIX,
    MAX_HEADER_BYTES,
    RECORD,
    VERSION,
    Block,
    RecordingMeta,
    header,
    open_block,
    pack,
    parse_header,
    paths,
    whole_records,
)
from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.host.clock import NS_PER_S, utc_now

RETRY_NS = NS_PER_S  # interval of a broken recording's checks for space
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC


class RecordingWriter:
    """Appends events to a recording.

    Attributes:
        base: path of the recording without suffix.
        position: of the next byte in the stream.
        broken: why it does not record now; empty: it records.
    """

    def __init__(
        self, base: Path, meta: RecordingMeta, log_size: int, index_size: int, position: int, block: Block
    ) -> None:
        """Use `create` or `resume`."""
        self.base = base
        self.meta = meta
        self.position = position
        self.broken = ""
        self._log_size = log_size
        self._index_size = index_size
        self._missing_bytes = 0
        self._retry_at_ns = 0
        self._block = block
        self._last_ns = 0
        log, index = paths(base)
        self._log_fd = os.open(log, _APPEND)
        self._index_fd = os.open(index, _APPEND)

    @classmethod
    def create(cls, base: Path, meta: RecordingMeta) -> Self:
        """A new, empty recording.

        Raises:
            LabStableError: it exists, or cannot be written.
        """
        first_line = header(meta)
        try:
            for path, content in zip(paths(base), (b"", first_line), strict=True):
                fd = os.open(path, _APPEND | os.O_CREAT | os.O_EXCL, 0o600)
                try:
                    _write_all(fd, content)
                finally:
                    os.close(fd)
            block = Block()
            block.add(first_line)
            return cls(base, meta, 0, len(first_line), meta.start, block)
        except OSError as error:
            raise LabStableError(
                f"{base}: the recording cannot be created: {error.strerror}; make room or mend the folder's permissions"
            ) from error

    @classmethod
    def resume(cls, base: Path) -> Self:
        """Open an existing recording to append; cut off a torn tail.

        Raises:
            ConfigurationError: the files are not a recording, or one of an older version.
            LabStableError: they cannot be written.
        """
        log, index = paths(base)
        try:
            content = index.read_bytes()
            line, newline, records = content[:MAX_HEADER_BYTES].partition(b"\n")
            meta = parse_header(line + newline, str(index), versions=(VERSION,))
            header_size = len(line) + 1
            records = content[header_size:]
            count, used = whole_records(records, log.stat().st_size)
            block = open_block(line + newline, records[: count * RECORD.size], log.read_bytes()[:used])
            os.truncate(index, header_size + count * RECORD.size)
            os.truncate(log, used)
            writer = cls(base, meta, used, header_size + count * RECORD.size, meta.start, block)
        except FileNotFoundError as error:
            raise ConfigurationError(f"{error.filename}: missing; a recording needs both files") from error
        except OSError as error:
            raise LabStableError(f"{base}: the recording cannot be continued: {error.strerror}") from error
        if count:
            _, position, n, kind = RECORD.unpack_from(records, (count - 1) * RECORD.size)
            writer.position = position + (n if kind == RecordKind.DATA else 0)
        return writer

    @property
    def size_bytes(self) -> int:
        """Size of the log."""
        return self._log_size

    @property
    def index_bytes(self) -> int:
        """Size of the index."""
        return self._index_size

    def append(self, event: Event) -> None:
        """Append one event.

        A full disk raises once; missing bytes are then counted. It checks for space about once a second,
        and continues after a record of the missing bytes.

        Raises:
            LabTransientError: the recording has just broken.
        """
        if isinstance(event, Chunk):
            self.position = event.end
        if self.broken:
            self._retry(event)
            return
        try:
            self._write(event)
        except OSError as error:
            self.broken = error.strerror or str(error)
            self._retry_at_ns = event.t_ns + RETRY_NS
            self._count_missing(event)
            with contextlib.suppress(OSError):  # tried again before anything else is written
                self._cut_torn_tail()
            raise LabTransientError(
                f"{self.base}: the recording is broken: {self.broken}; stamps and readers are not affected. "
                "Make room: it goes on by itself, and notes how many bytes are missing",
                failure="recording_broken",
            ) from error

    def close(self) -> None:
        """Close both files after the digest of the last block."""
        if self._block.size_bytes and not self.broken:
            with contextlib.suppress(OSError):
                _write_all(self._index_fd, self._block.digest(self._last_ns, self.position))
        for fd in (self._log_fd, self._index_fd):
            os.close(fd)
        self._log_fd = self._index_fd = -1  # the numbers will be other files'

    def _write(self, event: Event) -> None:
        if self._block.full:
            _write_all(self._index_fd, self._block.digest(self._last_ns, event.position))
            self._index_size += RECORD.size
        data = event.data if isinstance(event, Chunk) else b""
        record = pack(event)
        _write_all(self._log_fd, data)
        _write_all(self._index_fd, record)
        self._log_size += len(data)
        self._index_size += RECORD.size
        self._last_ns = event.t_ns
        self._block.add(record, data)

    def _retry(self, event: Event) -> None:
        if event.t_ns < self._retry_at_ns:
            self._count_missing(event)
            return
        self._retry_at_ns = event.t_ns + RETRY_NS
        try:
            self._cut_torn_tail()
            self._write(Gap(event.t_ns, event.position, RecordKind.UNRECORDED, self._missing_bytes))
            self._missing_bytes = 0
            self._write(event)
        except OSError as error:
            self.broken = error.strerror or str(error)
            self._count_missing(event)
        else:
            self.broken = ""

    def _count_missing(self, event: Event) -> None:
        if isinstance(event, Chunk):
            self._missing_bytes += len(event.data)

    def _cut_torn_tail(self) -> None:
        os.ftruncate(self._log_fd, self._log_size)
        os.ftruncate(self._index_fd, self._index_size)


def _write_all(fd: int, data: bytes) -> None:
    done = os.write(fd, data) if data else 0
    while done < len(data):
        done += os.write(fd, data[done:])


# `NAME` is the recording being written; `older/NAME/<time it began>` are the ones before it. What belongs to a
# measurement is not kept here: the measurement stores the window of its attempt as an artifact (`encode`).


LIMIT_BYTES = 32 << 20  # three quarters of an hour of a console that never pauses, at 115200 Bd
KEPT = 3  # older recordings of each port


@frozen
class RecordingStore:
    """The live recordings of one server.

    Attributes:
        limit_bytes: a log that reaches this size is put archived and another one begun.
    """

    folder: Path
    limit_bytes: int = LIMIT_BYTES

    def open(self, meta: RecordingMeta) -> RecordingWriter:
        """Continue a port's recording of this boot, or create a new one.

        Raises:
            LabStableError: it cannot be written.
        """
        base = self.folder / meta.name
        try:
            writer = RecordingWriter.resume(base)
        except ConfigurationError:  # none yet, or not a recording
            if any(path.exists() for path in paths(base)):
                self._move(base, self._archive_path(meta.name, f"damaged-{meta.started}"))
            return RecordingWriter.create(base, meta)
        old = writer.meta
        same = evolve(old, started=meta.started, start=meta.start) == meta
        if same and writer.size_bytes < self.limit_bytes:
            return writer
        position = writer.position if old.boot_id == meta.boot_id else meta.start
        writer.close()
        self._move(base, self._archive_path(meta.name, old.started))
        return RecordingWriter.create(base, evolve(meta, start=position))

    def rotate(self, writer: RecordingWriter) -> RecordingWriter:
        """Return the recording to continue with.

        A new one when it has reached the limit and the disk has room.
        """
        if writer.size_bytes < self.limit_bytes or writer.broken:
            return writer
        try:
            return self.change(writer, writer.meta)
        except LabStableError:
            return writer

    def change(self, writer: RecordingWriter, meta: RecordingMeta) -> RecordingWriter:
        """Archive a recording and continue in a new one with `meta`.

        Raises:
            LabStableError: it cannot be created; the old one can be continued.
        """
        archived = self._archive_path(writer.meta.name, writer.meta.started)
        self._move(writer.base, archived)
        try:
            fresh = RecordingWriter.create(
                writer.base, evolve(meta, start=writer.position, started=utc_now().isoformat())
            )
        except LabStableError:
            self._move(archived, writer.base)
            raise
        writer.close()
        return fresh

    def _archive_path(self, name: str, label: str) -> Path:
        folder = self.folder / "older" / name
        folder.mkdir(parents=True, exist_ok=True)
        older = sorted(folder.glob(f"*{INDEX_SUFFIX}"), key=lambda path: (path.stat().st_mtime_ns, path.name))
        for index in older[: -(KEPT - 1)]:
            for path in paths(index.with_suffix("")):
                path.unlink(missing_ok=True)
        return folder / label.replace(":", "")

    @staticmethod
    def _move(base: Path, target: Path) -> None:
        for source, destination in zip(paths(base), paths(target), strict=True):
            with contextlib.suppress(FileNotFoundError):
                source.replace(destination)
