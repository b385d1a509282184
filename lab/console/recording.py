"""Reading a recording, and making one as bytes; `lab.console.index` describes the format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from attrs import evolve, field, frozen

from lab.console.index import (
    INDEX_DTYPE,
    RECORD,
    Block,
    RecordingMeta,
    first_damaged,
    header,
    pack,
    parse_header,
    unpack,
)
from lab.console.model import Chunk, Event, Gap, Lateness, RecordKind, Suspended
from lab.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".idx"


def paths(base: Path) -> tuple[Path, Path]:
    """The log and the index of the recording with this base path (the path without a suffix)."""
    return base.with_name(base.name + LOG_SUFFIX), base.with_name(base.name + INDEX_SUFFIX)


@frozen
class Recording:
    """A recording in memory.

    A torn tail, as kill -9 or a full disk leaves it, is not seen: bytes without a whole record, or a record without all
    of its bytes. The recording may be live; then this is what it held when it was opened.

    Attributes:
        where: the file it came from, for messages.
        log: the raw bytes, as far as they have records.
    """

    meta: RecordingMeta
    log: bytes = field(repr=False)
    where: str
    _records: bytes = field(repr=False)

    @classmethod
    def open(cls, path: Path) -> Self:
        """The recording of a `.log` or an `.idx` file.

        Raises:
            ConfigurationError: a file is missing, cannot be read, or is not part of a recording.
        """
        if path.suffix not in {LOG_SUFFIX, INDEX_SUFFIX}:
            raise ConfigurationError(
                f"{path}: a recording's files end in {LOG_SUFFIX} and {INDEX_SUFFIX}; name either"
            )
        log, index = path.with_suffix(LOG_SUFFIX), path.with_suffix(INDEX_SUFFIX)
        # The index first: the log of a live recording then holds at least what the index stands for.
        records = _read(index, log)
        return cls.decode(_read(log, index), records, where=str(log))

    @classmethod
    def decode(cls, log: bytes, index: bytes, where: str = "recording") -> Self:
        """The recording of the contents of its two files.

        Raises:
            ConfigurationError: the index is not one, or one of the two was changed since they were written.
        """
        line, newline, records = index.partition(b"\n")
        meta = parse_header(line + newline, where)
        count, used = whole_records(records, len(log))
        damaged = first_damaged(line + newline, records[: count * RECORD.size], log)
        if damaged is not None:
            raise _damaged(where, damaged)
        if _breaks_off(records, count):
            raise _damaged(where, count)
        return cls(meta=meta, log=log[:used], where=where, records=records[: count * RECORD.size])

    def events(self) -> Iterator[Event]:
        """Everything that was recorded, in the order in which it happened.

        Raises:
            ConfigurationError: a record is damaged.
        """
        offset = 0
        for number, (t_ns, position, n, kind) in enumerate(RECORD.iter_unpack(self._records)):
            if kind == RecordKind.DIGEST:
                continue
            size = n if kind == RecordKind.DATA else 0
            try:
                event = unpack(t_ns, position, n, kind, self.log[offset : offset + size])
            except ValueError as error:
                raise ConfigurationError(f"{self.where}: record {number} of its index is damaged: {error}") from error
            offset += size
            yield event

    def chunks(self) -> Iterator[Chunk]:
        """The reads, in order."""
        return (event for event in self.events() if isinstance(event, Chunk))

    def lateness(self) -> Iterator[Lateness]:
        """The times at which the reader of the port was held up, in order."""
        return (event for event in self.events() if isinstance(event, Lateness))

    def gaps(self) -> Iterator[Gap]:
        """Where bytes may be missing, in order."""
        return (event for event in self.events() if isinstance(event, Gap))

    def suspended(self) -> Iterator[Suspended]:
        """Where the clock of the stamps stood still, in order."""
        return (event for event in self.events() if isinstance(event, Suspended))

    def index(self) -> npt.NDArray[np.void]:
        """All records as a structured array with the fields t_ns, position, n, kind."""
        import numpy as np  # noqa: PLC0415  (numpy takes 0.1 s to import, and most users of a recording need none)

        return np.frombuffer(self._records, dtype=np.dtype(INDEX_DTYPE))


def encode(meta: RecordingMeta, events: Iterable[Event]) -> tuple[bytes, bytes]:
    """A recording of these events as the contents of its log and its index, e.g. for the artifacts of an attempt.

    Positions are shifted so that the first event's is 0: in the artifact of a window without gaps, a position is an
    offset in the log. The meta data's `start` says where in the port's stream that was.
    """
    window = list(events)
    start = window[0].position if window else 0
    first_line = header(evolve(meta, start=start))
    log, index, block = [], [first_line], Block()
    block.add(first_line)
    for number, event in enumerate(window, start=1):
        data = event.data if isinstance(event, Chunk) else b""
        record = pack(evolve(event, position=event.position - start))
        block.add(record, data)
        log.append(data)
        index.append(record)
        if block.full or number == len(window):
            index.append(block.digest(event.t_ns, event.position - start + len(data)))
    return b"".join(log), b"".join(index)


def whole_records(records: bytes, log_size: int) -> tuple[int, int]:
    """How many records are whole and have all their bytes, and how many bytes of the log they stand for."""
    used = 0
    count = 0
    for _, _, n, kind in RECORD.iter_unpack(records[: len(records) // RECORD.size * RECORD.size]):
        size = n if kind == RecordKind.DATA else 0
        if used + size > log_size:
            break
        used += size
        count += 1
    return count, used


def _breaks_off(records: bytes, count: int) -> bool:
    """Whether record `count`, whose bytes are not all there, is wrong itself: the one after it begins elsewhere."""
    if len(records) < (count + 2) * RECORD.size:
        return False  # the torn tail of a killed writer
    _, position, n, _ = RECORD.unpack_from(records, count * RECORD.size)
    _, following, amount, kind = RECORD.unpack_from(records, (count + 1) * RECORD.size)
    missing = amount if kind == RecordKind.UNRECORDED else 0
    return bool(following - missing != position + n)


def _damaged(where: str, number: int) -> ConfigurationError:
    return ConfigurationError(
        f"{where}: damaged: the log and its index do not agree up to record {number}; what they say cannot be trusted. "
        "Restore both files from a copy, or measure again"
    )


def _read(path: Path, partner: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{path}: no such file; a recording is {partner.name} and {path.name}, both are needed"
        ) from error
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
