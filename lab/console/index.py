"""The format of a recording's index, which is also the format of records on the wire.

A recording is two append-only files. `NAME.log` holds the raw bytes. `NAME.idx` begins with one line of JSON, the
`RecordingMeta`, followed by little-endian records of 24 bytes:

    t_ns i64 · position u64 · n u32 · kind u32

`position` is an offset in the port's stream. A DATA record stands for the next `n` bytes of the log; other kinds stand
for no bytes there. `INDEX_DTYPE` reads the records with numpy, after the first line.
"""

from __future__ import annotations

import json
import struct

import cattrs
from attrs import asdict, frozen

from lab.console.model import Chunk, Event, Gap, Kind, Lateness, LineTiming
from lab.errors import ConfigurationError

FORMAT = "boardlab-console"
VERSION = 1
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

    @property
    def timing(self) -> LineTiming:
        """The part that moments are computed with."""
        return LineTiming(self.speed_bd, self.adapter_latency_ns, self.fifo_bytes, self.scheduling_ns)


def pack(event: Event) -> bytes:
    """The record of an event; numbers too large for their field are cut to the largest it holds."""
    match event:
        case Chunk(t_ns, position, data):
            return RECORD.pack(t_ns, position, len(data), Kind.DATA)
        case Lateness(t_ns, position, lateness_ns):
            return RECORD.pack(t_ns, position, min(-(-lateness_ns // _NS_PER_US), _U32_MAX), Kind.LATE)
        case Gap(t_ns, position, kind, amount):
            return RECORD.pack(t_ns, position, min(amount, _U32_MAX), kind)


def unpack(t_ns: int, position: int, n: int, kind: int, data: bytes) -> Event:
    """The event of a record; `data` is what a DATA record stands for.

    Raises:
        ValueError: unknown kind.
    """
    if kind == Kind.DATA:
        return Chunk(t_ns, position, data)
    if kind == Kind.LATE:
        return Lateness(t_ns, position, n * _NS_PER_US)
    return Gap(t_ns, position, Kind(kind), n)


def header(meta: RecordingMeta) -> bytes:
    """The first line of an index."""
    return json.dumps({"format": FORMAT, "version": VERSION, **asdict(meta)}).encode() + b"\n"


def parse_header(line: bytes, where: str) -> RecordingMeta:
    """The meta data of an index from its first line.

    Args:
        where: the file, for the message.

    Raises:
        ConfigurationError: it is not the index of a recording, or one of another version.
    """
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ConfigurationError(f"{where}: not the index of a console recording: {error}") from error
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ConfigurationError(f"{where}: not the index of a console recording (no format {FORMAT!r} in line 1)")
    if fields.get("version") != VERSION:
        raise ConfigurationError(
            f"{where}: recording of version {fields.get('version')}, this boardlab reads version {VERSION}; "
            "use the boardlab that wrote it"
        )
    try:
        meta = cattrs.structure(fields, RecordingMeta)
        _ = meta.timing  # its validators check the numbers
    except (cattrs.BaseValidationError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{where}: damaged first line: {error}") from error
    return meta
