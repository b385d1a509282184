"""What came on a port before a client was attached, with its stamps: the end of the live recording."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from lab.console.index import MAX_HEADER_BYTES, RECORD, parse_header, unpack
from lab.console.model import Chunk, Event, RecordKind
from lab.console.recording import paths
from lab.console.status import PortInfo
from lab.errors import ConfigurationError, LabStableError

MOST_BYTES: Final = 1 << 20  # of the index: 43,690 records


def last_events(info: PortInfo, size: int) -> list[Event]:
    """What was recorded of the last bytes before a client was attached; a read that began before them is cut.

    Args:
        info: the port as it was then. size: how many bytes; fewer come where the recording, or the last 1 MiB of its index,
            does not go back as far.

    Raises:
        LabStableError: the recording cannot be read.
    """
    log_path, index_path = paths(Path(info.recording))
    try:
        with index_path.open("rb") as index, log_path.open("rb") as log:
            line = index.readline(MAX_HEADER_BYTES)
            start = parse_header(line, str(index_path)).start
            whole = (os.fstat(index.fileno()).st_size - len(line)) // RECORD.size
            count = min(whole, MOST_BYTES // RECORD.size)
            records = os.pread(index.fileno(), count * RECORD.size, len(line) + (whole - count) * RECORD.size)
            begin = max(start, info.position - size)
            data = os.pread(log.fileno(), info.position - begin, begin - start)
        return _events(records[: len(records) // RECORD.size * RECORD.size], data, begin)
    except (OSError, ValueError, ConfigurationError) as error:
        raise LabStableError(f"{info.recording}: the recording cannot be read: {error}") from error


def _events(records: bytes, data: bytes, begin: int) -> list[Event]:
    """The events of these records within this piece of the stream, which begins at `begin`."""
    end = begin + len(data)
    found: list[Event] = []
    for t_ns, position, n, kind in RECORD.iter_unpack(records):
        if kind == RecordKind.DATA:
            first, last = max(begin, position), min(end, position + n)
            if first < last:
                found.append(Chunk(t_ns, first, data[first - begin : last - begin]))
        elif kind != RecordKind.DIGEST and begin <= position < end:
            found.append(unpack(t_ns, position, n, kind, b""))
    return found
