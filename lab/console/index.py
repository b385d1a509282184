"""The format of a recording's index, which is also the format of records on the wire.

A recording is two append-only files. `NAME.log` holds the raw bytes. `NAME.idx` begins with one line of JSON, the
`RecordingMeta`, followed by little-endian records of 24 bytes:

    t_ns i64 · position u64 · n u32 · kind u32

`position` is an offset in the port's stream. A DATA record stands for the next `n` bytes of the log; other kinds stand
for no bytes there. `INDEX_DTYPE` reads the records with numpy, after the first line.

A DIGEST record closes a block: its `n` is the CRC-32 of all that came since the one before it (the first block begins
with the first line): of each record, and before it of the bytes that it stands for. So a flipped bit in either file is
found. Version 1 had neither DIGEST nor SUSPENDED records; it is still read.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Collection

from attrs import asdict, define, frozen

from lab.console.model import Chunk, Event, Gap, Lateness, LineTiming, RecordKind, Suspended
from lab.errors import ConfigurationError

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
    """What has to be known about a recording to time its bytes, now or in ten years.

    Attributes:
        device: path of the port as it was asked for.
        low_latency, adapter, lock: in words, what the port gave us.
        scheduling: in words, the priority that the reading process got.
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
        """The part that moments are computed with."""
        return LineTiming(self.speed_bd, self.adapter_latency_ns, self.fifo_bytes, self.scheduling_ns)


def pack(event: Event) -> bytes:
    """The record of an event; numbers too large for their field are cut to the largest it holds."""
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
    """The event of a record; `data` is what a DATA record stands for.

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
    """The block of a recording that is being written or checked: its CRC-32 so far, and how much it holds."""

    crc: int = 0
    size_bytes: int = 0

    @property
    def full(self) -> bool:
        """Whether it is time for a DIGEST."""
        return self.size_bytes >= BLOCK_BYTES

    def add(self, record: bytes, data: bytes = b"") -> None:
        """Take a record, and the bytes of the log that it stands for."""
        self.crc = zlib.crc32(record, zlib.crc32(data, self.crc))
        self.size_bytes += len(record) + len(data)

    def digest(self, t_ns: int, position: int) -> bytes:
        """The DIGEST record that closes the block; the next one begins."""
        record = RECORD.pack(t_ns, position, self.crc, RecordKind.DIGEST)
        self.crc = self.size_bytes = 0
        return record


def open_block(first_line: bytes, records: bytes, log: bytes) -> Block:
    """The block that is open at the end of a recording, so that it can be continued."""
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
    """The number of the first DIGEST that does not agree with what came before it; None when all do."""
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
        where: the file, for the message. versions: that are accepted.

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
