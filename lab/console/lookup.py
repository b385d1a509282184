"""Finding the port that a person means, and what the board said on it before."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from lab.console.client import ConsoleClient
from lab.console.index import MAX_HEADER_BYTES
from lab.console.spawn import ensure_server
from lab.console.status import PortInfo
from lab.errors import LabStableError, LabTransientError
from lab.host.runtime import runtime_dir, socket_path

_BLOCK = 65536
_AGAIN_S = 0.05  # between two looks at who is attached


def attached(
    wanted: str, runtime: Path | None = None, *, write: bool = False, speed_bd: int | None = None, opens: bool = True
) -> tuple[ConsoleClient, PortInfo]:
    """A client that reads the port that is meant.

    Args:
        wanted: path of a device, which is opened if it is not; or name of an open port, or of its board; or of a device in /dev.
        speed_bd: None: as the port is, and 115200 where it is not open.
        opens: False: the names of open ports and of their boards alone are meant, and nothing is opened.

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
    """The process that may write to a port, as soon as there is one; None: nobody came in time.

    Args:
        wanted: as of `attached`; neither the port nor the server need be there yet.

    Raises:
        BoardlabError: the server's folder is somebody else's, or it went away meanwhile.
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
    """The last lines that came before a client was attached, as far as the live recording goes back.

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
    """Whether it is the name of a serial device, e.g. ttyUSB0."""
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
    names = [*(port for port in ports if port.info.name == wanted), *(port for port in ports if port.board == wanted)]
    if not names:
        known = {port.info.name for port in ports} | {port.board for port in ports if port.board}
        raise LabStableError(
            f"no port {wanted!r} is open, and none of a board of that name; there are: {', '.join(sorted(known)) or 'none'}. A "
            "device that is not open is named by its path, such as /dev/ttyUSB0",
            failure="port_unknown",
        )
    return names[0].info.meta.device, names[0].info.name


def _tail(log: int, end: int, count: int) -> bytes:
    """The last lines before `end`; one without an end is one of them."""
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
