"""Find a port by name, and read its latest output."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from attrs import asdict, field, fields, frozen, validators

from lab.console.client import ConsoleClient, ensure_server
from lab.console.model import Chunk, Event, RecordKind
from lab.console.recording import MAX_HEADER_BYTES, RECORD, parse_header, paths, unpack
from lab.console.status import PortInfo, ports_of
from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.host.clock import time_line
from lab.host.runtime import runtime_dir, socket_path

_BLOCK = 65536
_AGAIN_S = 0.05  # between two looks at who is attached


def attached(
    wanted: str, runtime: Path | None = None, *, write: bool = False, speed_bd: int | None = None, opens: bool = True
) -> tuple[ConsoleClient, PortInfo]:
    """Return a client that reads the named port.

    Args:
        wanted: path of a device (opened if needed), name of an open port or of its board, or name of a device in /dev.
        speed_bd: None: the open port's speed; 115200 for a new one.
        opens: False: find only open ports by their or their boards' names.

    Raises:
        LabStableError: no port of that name is open.
        BoardlabError: as of `ConsoleClient`.
    """
    by_path = opens and "/" in wanted
    if opens and not by_path and _is_device(wanted) and not _is_open(wanted, runtime):
        wanted, by_path = f"/dev/{wanted}", True
    client = ConsoleClient(ensure_server(runtime) if by_path else socket_path(runtime or runtime_dir()))
    try:
        device, name = (wanted, "") if by_path else _named(client, wanted)
        if by_path or speed_bd is not None:
            name = client.open(device, speed_bd=speed_bd).name
        return client, client.attach(name, write=write)
    except BaseException:
        client.close()
        raise


def awaited_writer(wanted: str, timeout_s: float, runtime: Path | None = None) -> int | None:
    """Wait for a port's writer; return its pid, or None at time-out.

    Args:
        wanted: as of `attached`; the port and the server may not exist yet.

    Raises:
        BoardlabError: the server's folder is another user's, or the server ended meanwhile.
    """
    folder = runtime or runtime_dir()
    end = time.monotonic() + timeout_s
    while True:
        writer = _writer(wanted, folder)
        if writer is not None or time.monotonic() >= end:
            return writer
        time.sleep(_AGAIN_S)


def _writer(wanted: str, folder: Path) -> int | None:
    try:
        client = ConsoleClient(socket_path(folder))
    except LabTransientError:  # the first who attaches starts it
        return None
    with client:
        ports = client.status().ports
    device = os.path.realpath(wanted) if "/" in wanted else ""
    meant = (p for p in ports if wanted in {p.info.name, p.board} or os.path.realpath(p.info.meta.device) == device)
    return next((port.writer for port in meant if port.writer is not None), None)


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


def _is_device(wanted: str) -> bool:
    """True if it names a serial device in /dev, e.g. ttyUSB0."""
    return wanted.startswith("tty") and Path("/dev", wanted).is_char_device()


def _is_open(wanted: str, runtime: Path | None) -> bool:
    try:
        client = ConsoleClient(socket_path(runtime or runtime_dir()))
    except LabTransientError:
        return False
    with client:
        return any(wanted in {port.info.name, port.board} for port in client.status().ports)


def _named(client: ConsoleClient, wanted: str) -> tuple[str, str]:
    """Device and name of an open port."""
    ports = client.status().ports
    names = ports_of(ports, wanted)
    if not names:
        known = {port.info.name for port in ports} | {port.board for port in ports if port.board}
        raise LabStableError(
            f"no port {wanted!r} is open, and none of a board of that name; there are: "
            f"{', '.join(sorted(known)) or 'none'}. A device that is not open is named by its path, such as "
            "/dev/ttyUSB0",
            failure="port_unknown",
        )
    return names[0].info.meta.device, names[0].info.name


def _tail(log: int, end: int, count: int) -> bytes:
    """Return the last lines before `end`, an unfinished one included."""
    found, start = b"", min(end, os.fstat(log).st_size)
    while start > 0 and found.count(b"\n") <= count:
        size = min(_BLOCK, start)
        start -= size
        found = os.pread(log, size, start) + found
    at = len(found) - found.endswith(b"\n")
    for _ in range(count):
        at = found.rfind(b"\n", 0, at)
        if at < 0:
            break
    return found[at + 1 :]


# --- Ports published by an exporter ---
# It stands in the `extra` of labgrid's NetworkSerialPort, flat, as labgrid's protocol has it.


PREFIX: Final = "boardlab_"
BARE_ADAPTER: Final = (
    "another host's, served over TCP: stamped when it arrives here"  # of a port that no server of ours stamps
)
_MACHINE_ID: Final = Path("/etc/machine-id")
_TEXT: Final = validators.instance_of(str)
_NAMED: Final = validators.and_(_TEXT, validators.min_len(1))


@frozen
class PublishedHost:
    """The host on whose loopback our exporter offers something.

    Attributes:
        host: name or address by which other hosts reach it.
        line: its time line, see `time_line`.
    """

    host: str = field(validator=_NAMED)
    line: str = field(validator=_TEXT)

    @classmethod
    def of(cls, extra: Mapping[str, object]) -> Self | None:
        """Read it from `extra`; None if our exporter did not write it.

        Raises:
            ConfigurationError: our exporter wrote it, and a field is missing or wrong.
        """
        published = {name.removeprefix(PREFIX): value for name, value in extra.items() if name.startswith(PREFIX)}
        if not published:
            return None
        known = {name: value for name, value in published.items() if name in {each.name for each in fields(cls)}}
        try:
            return cls(**known)  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the exporter of this resource says too little of it ({error}): it is of another boardlab than this "
                "one; update both"
            ) from error

    def extra(self) -> dict[str, str | bool | int]:
        """Return it as labgrid's `extra`."""
        return {PREFIX + name: value for name, value in asdict(self).items()}

    @property
    def is_here(self) -> bool:
        """True if it belongs to this host (its boot identity)."""
        return self.line == time_line()


@frozen
class PublishedPort(PublishedHost):
    """A port behind a console server.

    Attributes:
        socket: path of the console server's socket on its host.
        machine: its machine-id(5); empty: none.
        pty: a pseudo terminal: no real board hangs on it.
        rails: path of the rails server's socket on that host; empty: none runs.
        device: path of the port on that host.
        id_path, serial: udev's ID_PATH and ID_SERIAL_SHORT of its adapter; empty: unknown.
    """

    socket: str = field(validator=validators.matches_re(r"/[^:\x00-\x1f]+"))  # a colon would end it in ssh's -L
    host: str = field(validator=_NAMED)
    machine: str = field(validator=_TEXT)
    line: str = field(validator=_TEXT)
    device: str = field(validator=_NAMED)
    id_path: str = field(default="", validator=_TEXT)
    serial: str = field(default="", validator=_TEXT)
    pty: bool = field(default=False, validator=validators.instance_of(bool))
    rails: str = field(default="", validator=validators.matches_re(r"(/[^:\x00-\x1f]+)?"))


def machine_id() -> str:
    """Return this host's machine-id(5); empty: none, as in a container."""
    try:
        return _MACHINE_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


# --- The end of the live recording ---


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
    found: list[Event] = []
    for t_ns, position, n, kind in RECORD.iter_unpack(records):
        if kind == RecordKind.DATA:
            first, last = max(begin, position), min(end, position + n)
            if first < last:
                found.append(Chunk(t_ns, first, data[first - begin : last - begin]))
        elif kind != RecordKind.DIGEST and begin <= position < end:
            found.append(unpack(t_ns, position, n, kind, b""))
    return found
