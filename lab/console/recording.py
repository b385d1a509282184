"""Read and encode recordings; define the format of their index."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from attrs import asdict, define, evolve, field, frozen

from lab.console.model import Chunk, Event, Gap, Lateness, LineTiming, RecordKind, Suspended
from lab.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


# A recording is two append-only files. `NAME.log` holds the raw bytes. `NAME.idx` begins with one line of JSON, the
# `RecordingMeta`, followed by little-endian records of 24 bytes:
#
# t_ns i64 · position u64 · n u32 · kind u32
#
# `position` is an offset in the port's stream. A DATA record stands for the next `n` bytes of the log; other kinds
# stand for no bytes there. `INDEX_DTYPE` reads the records with numpy, after the first line.
#
# A DIGEST record closes a block: its `n` is the CRC-32 of all that came since the one before it (the first block
# begins with the first line): of each record, and before it of the bytes that it stands for. So a flipped bit in
# either file is found. Version 1 had neither DIGEST nor SUSPENDED records; it is still read.


FORMAT = "boardlab-console"
VERSION = 2
READABLE = (1, 2)
BLOCK_BYTES = 16384  # of the log, or as many of the index, after which a DIGEST closes a block
RECORD = struct.Struct("<qQII")
INDEX_DTYPE = [("t_ns", "<i8"), ("position", "<u8"), ("n", "<u4"), ("kind", "<u4")]
MAX_HEADER_BYTES = 65536
_U32_MAX = 0xFFFF_FFFF
_NS_PER_US = 1000


@frozen
class RecordingMeta:
    """The metadata that times a recording's bytes, now or in ten years.

    Attributes:
        device: path of the port as it was asked for.
        low_latency, adapter, lock: settings that the port accepted, as text.
        scheduling: the reading process's priority, as text.
        boot_id: of the host; stamps of different boots are on different time lines.
        started: wall time, UTC, ISO 8601; a label only.
        start: position in the port's stream at which the recording begins.
        pty: the port is a pseudo terminal: no real board hangs on it.
    """

    name: str
    device: str
    speed_bd: int
    adapter_latency_ns: int = 0
    fifo_bytes: int = 1
    scheduling_ns: int = 300_000
    low_latency: str = "unknown"
    adapter: str = "unknown"
    lock: str = "unknown"
    scheduling: str = "unknown"
    clock: str = "CLOCK_MONOTONIC_RAW"
    boot_id: str = ""
    started: str = ""
    start: int = 0
    pty: bool = False

    @property
    def timing(self) -> LineTiming:
        """The line timing for the moments."""
        return LineTiming(self.speed_bd, self.adapter_latency_ns, self.fifo_bytes, self.scheduling_ns)


def pack(event: Event) -> bytes:
    """Return an event's record; clamp numbers to their fields."""
    match event:
        case Chunk(t_ns, position, data):
            return RECORD.pack(t_ns, position, len(data), RecordKind.DATA)
        case Lateness(t_ns, position, lateness_ns):
            return RECORD.pack(t_ns, position, min(-(-lateness_ns // _NS_PER_US), _U32_MAX), RecordKind.LATE)
        case Suspended(t_ns, position, missing_ns):
            microseconds = max(-(1 << 31), min(round(missing_ns / _NS_PER_US), (1 << 31) - 1))
            return RECORD.pack(t_ns, position, microseconds & _U32_MAX, RecordKind.SUSPENDED)
        case Gap(t_ns, position, kind, amount):
            return RECORD.pack(t_ns, position, min(amount, _U32_MAX), kind)


def unpack(t_ns: int, position: int, n: int, kind: int, data: bytes) -> Event:
    """Return a record's event; `data` belongs to a DATA record.

    Raises:
        ValueError: unknown kind.
    """
    if kind == RecordKind.DATA:
        return Chunk(t_ns, position, data)
    if kind == RecordKind.LATE:
        return Lateness(t_ns, position, n * _NS_PER_US)
    if kind == RecordKind.SUSPENDED:
        return Suspended(t_ns, position, (n - (1 << 32) if n >= 1 << 31 else n) * _NS_PER_US)
    return Gap(t_ns, position, RecordKind(kind), n)


@define
class Block:
    """An open block of a recording: its CRC-32 and size so far."""

    crc: int = 0
    size_bytes: int = 0

    @property
    def full(self) -> bool:
        """True if a DIGEST is due."""
        return self.size_bytes >= BLOCK_BYTES

    def add(self, record: bytes, data: bytes = b"") -> None:
        """Add a record and its bytes of the log."""
        self.crc = zlib.crc32(record, zlib.crc32(data, self.crc))
        self.size_bytes += len(record) + len(data)

    def digest(self, t_ns: int, position: int) -> bytes:
        """The DIGEST record that closes the block; the next one begins."""
        record = RECORD.pack(t_ns, position, self.crc, RecordKind.DIGEST)
        self.crc = self.size_bytes = 0
        return record


def open_block(first_line: bytes, records: bytes, log: bytes) -> Block:
    """Return the open block at a recording's end, to continue it."""
    start, end, sizes = 0, len(records), 0
    for offset in range(end - RECORD.size, -1, -RECORD.size):
        _, _, n, kind = RECORD.unpack_from(records, offset)
        if kind == RecordKind.DIGEST:
            start = offset + RECORD.size
            break
        sizes += n if kind == RecordKind.DATA else 0
    block = Block()
    if start == 0:
        block.add(first_line)
    at = len(log) - sizes
    for offset in range(start, end, RECORD.size):
        record = records[offset : offset + RECORD.size]
        _, _, n, kind = RECORD.unpack(record)
        size = n if kind == RecordKind.DATA else 0
        block.add(record, log[at : at + size])
        at += size
    return block


def first_damaged(first_line: bytes, records: bytes, log: bytes) -> int | None:
    """Return the number of the first wrong DIGEST; None: all agree."""
    block = Block()
    block.add(first_line)
    offset = 0
    for number, (t_ns, position, n, kind) in enumerate(RECORD.iter_unpack(records)):
        if kind == RecordKind.DIGEST:
            if n != block.crc:
                return number
            block = Block()
            continue
        size = n if kind == RecordKind.DATA else 0
        block.add(RECORD.pack(t_ns, position, n, kind), log[offset : offset + size])
        offset += size
    return None


def header(meta: RecordingMeta) -> bytes:
    """The first line of an index."""
    return json.dumps({"format": FORMAT, "version": VERSION, **asdict(meta)}).encode() + b"\n"


def parse_header(line: bytes, where: str, versions: Collection[int] = READABLE) -> RecordingMeta:
    """The meta data of an index from its first line.

    Args:
        where: the file, for the message.
        versions: that are accepted.

    Raises:
        ConfigurationError: it is not the index of a recording, or one of another version.
    """
    import cattrs  # noqa: PLC0415 - a tenth of a second, and clients of the server parse no files

    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ConfigurationError(f"{where}: not the index of a console recording: {error}") from error
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ConfigurationError(f"{where}: not the index of a console recording (no format {FORMAT!r} in line 1)")
    if fields.get("version") not in versions:
        raise ConfigurationError(
            f"{where}: recording of version {fields.get('version')}, this boardlab reads versions up to {VERSION}; "
            "use the boardlab that wrote it"
        )
    try:
        meta = cattrs.structure(fields, RecordingMeta)
        _ = meta.timing  # its validators check the numbers
    except (cattrs.BaseValidationError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{where}: damaged first line: {error}") from error
    return meta


LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".idx"


def paths(base: Path) -> tuple[Path, Path]:
    """Return log and index of a recording's base path (without suffix)."""
    return base.with_name(base.name + LOG_SUFFIX), base.with_name(base.name + INDEX_SUFFIX)


@frozen
class Recording:
    """A recording in memory.

    A torn tail of kill -9 or a full disk (bytes without a whole record, or a record without all its bytes) is ignored.
    Of a live recording this is the content at the time of opening.

    Attributes:
        where: its file, for messages.
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
            missing = "" if path.exists() else "no such file, and "
            raise ConfigurationError(
                f"{path}: {missing}a recording's files end in {LOG_SUFFIX} and {INDEX_SUFFIX}; name either"
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
            raise _damage(where, damaged)
        if _breaks_off(records, count):
            raise _damage(where, count)
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
        """Delays of the port's reader, in order."""
        return (event for event in self.events() if isinstance(event, Lateness))

    def gaps(self) -> Iterator[Gap]:
        """Gaps in order: bytes may be missing there."""
        return (event for event in self.events() if isinstance(event, Gap))

    def suspends(self) -> Iterator[Suspended]:
        """Stops and jumps of the stamping clock, in order."""
        return (event for event in self.events() if isinstance(event, Suspended))

    def index(self) -> npt.NDArray[np.void]:
        """All records as a structured array: t_ns, position, n, kind."""
        import numpy as np  # noqa: PLC0415  (numpy takes 0.1 s to import, and most users of a recording need none)

        return np.frombuffer(self._records, dtype=np.dtype(INDEX_DTYPE))


def encode(meta: RecordingMeta, events: Iterable[Event]) -> tuple[bytes, bytes]:
    """Return log and index of a recording of these events.

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
    """Count the whole records and the bytes of the log they cover."""
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
    """True if the short record `count` is itself wrong.

    Then the record after it begins at another position.
    """
    if len(records) < (count + 2) * RECORD.size:
        return False  # the torn tail of a killed writer
    _, position, n, _ = RECORD.unpack_from(records, count * RECORD.size)
    _, following, amount, kind = RECORD.unpack_from(records, (count + 1) * RECORD.size)
    missing = amount if kind == RecordKind.UNRECORDED else 0
    return bool(following - missing != position + n)


def _damage(where: str, number: int) -> ConfigurationError:
    return ConfigurationError(
        f"{where}: damaged: the log and its index do not agree up to record {number}; their contents cannot be "
        "trusted. Restore both files from a copy, or measure again"
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
