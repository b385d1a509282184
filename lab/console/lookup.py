"""Find a port by name, and read its latest output."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Final

from lab.console.client import ConsoleClient, ensure_server
from lab.console.model import Chunk, Event, RecordKind
from lab.console.recording import MAX_HEADER_BYTES, RECORD, parse_header, paths, unpack
from lab.console.status import PortInfo, ports_of
from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.host.runtime import runtime_dir, socket_path

_BLOCK = 65536
_AGAIN_S = 0.05  # between two looks at who is attached


def attach_to_port(
    port: str, runtime: Path | None = None, *, write: bool = False, speed_bd: int | None = None, opens: bool = True
) -> tuple[ConsoleClient, PortInfo]:
    """Return a client that reads the named port.

    Args:
        port: path of a device (opened if needed), name of an open port or of its board, or name of a device in /dev.
        speed_bd: None: the open port's speed; 115200 for a new one.
        opens: False: find only open ports by their or their boards' names.

    Raises:
        LabStableError: no port of that name is open.
        BoardlabError: as of `ConsoleClient`.
    """
    by_path = opens and "/" in port
    is_device = port.startswith("tty") and Path("/dev", port).is_char_device()
    if opens and not by_path and is_device and not _is_open(port, runtime):
        port, by_path = f"/dev/{port}", True
    client = ConsoleClient(ensure_server(runtime) if by_path else socket_path(runtime or runtime_dir()))
    try:
        device, name = (port, "") if by_path else _find_open(client, port)
        if by_path or speed_bd is not None:
            name = client.open(device, speed_bd=speed_bd).name
        return client, client.attach(name, write=write)
    except BaseException:
        client.close()
        raise


def wait_for_writer(port: str, timeout_s: float, runtime: Path | None = None) -> int | None:
    """Wait for a port's writer; return its pid, or None at time-out.

    Args:
        port: as of `attach_to_port`; the port and the server may not exist yet.

    Raises:
        BoardlabError: the server's folder is another user's, or the server ended meanwhile.
    """
    folder = runtime or runtime_dir()
    end = time.monotonic() + timeout_s
    while True:
        writer = _writer(port, folder)
        if writer is not None or time.monotonic() >= end:
            return writer
        time.sleep(_AGAIN_S)


def _writer(port_name: str, folder: Path) -> int | None:
    try:
        client = ConsoleClient(socket_path(folder))
    except LabTransientError:  # the first who attaches starts it
        return None
    with client:
        ports = client.status().ports
    device = os.path.realpath(port_name) if "/" in port_name else ""
    matching = (
        p for p in ports if port_name in {p.info.name, p.board} or os.path.realpath(p.info.meta.device) == device
    )
    return next((port.writer for port in matching if port.writer is not None), None)


def last_lines(info: PortInfo, count: int) -> bytes:
    """Return the last recorded lines before a client was attached.

    Raises:
        LabStableError: the recording cannot be read.
    """
    base = Path(info.recording)
    try:
        with base.with_name(f"{base.name}.idx").open("rb") as index:
            start = int(json.loads(index.readline(MAX_HEADER_BYTES))["start"])
        with base.with_name(f"{base.name}.log").open("rb") as log:
            return _tail(log.fileno(), max(0, info.position - start), count)
    except (OSError, ValueError, KeyError) as error:
        raise LabStableError(f"{base}: the recording cannot be read: {error}") from error


def _is_open(name: str, runtime: Path | None) -> bool:
    try:
        client = ConsoleClient(socket_path(runtime or runtime_dir()))
    except LabTransientError:
        return False
    with client:
        return any(name in {port.info.name, port.board} for port in client.status().ports)


def _find_open(client: ConsoleClient, name: str) -> tuple[str, str]:
    """Device and name of an open port."""
    ports = client.status().ports
    matching = ports_of(ports, name)
    if not matching:
        names = {port.info.name for port in ports} | {port.board for port in ports if port.board}
        raise LabStableError(
            f"no port {name!r} is open, and none of a board of that name; there are: "
            f"{', '.join(sorted(names)) or 'none'}. A device that is not open is named by its path, such as "
            "/dev/ttyUSB0",
            failure="port_unknown",
        )
    return matching[0].info.meta.device, matching[0].info.name


def _tail(log: int, end: int, count: int) -> bytes:
    """Return the last lines before `end`, an unfinished one included."""
    text, start = b"", min(end, os.fstat(log).st_size)
    while start > 0 and text.count(b"\n") <= count:
        size = min(_BLOCK, start)
        start -= size
        text = os.pread(log, size, start) + text
    at = len(text) - text.endswith(b"\n")
    for _ in range(count):
        at = text.rfind(b"\n", 0, at)
        if at < 0:
            break
    return text[at + 1 :]


MOST_BYTES: Final = 1 << 20  # of the index: 43,690 records


def last_events(info: PortInfo, size: int) -> list[Event]:
    """Return the recorded events of the last bytes before attaching.

    A read that began before them is cut.

    Args:
        info: the port at that time.
        size: number of bytes; fewer if the recording, or the last 1 MiB of its index, does not go back as far.

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
    """Return the events within `data`, which begins at `begin` in the stream."""
    end = begin + len(data)
    events: list[Event] = []
    for t_ns, position, n, kind in RECORD.iter_unpack(records):
        if kind == RecordKind.DATA:
            first, last = max(begin, position), min(end, position + n)
            if first < last:
                events.append(Chunk(t_ns, first, data[first - begin : last - begin]))
        elif kind != RecordKind.DIGEST and begin <= position < end:
            events.append(unpack(t_ns, position, n, kind, b""))
    return events
