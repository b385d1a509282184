"""A reader that catches up: what is missing is said, and a reader that cannot be served harms nobody else."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from lab.console import Chunk
from lab.console.connection import Connection
from lab.console.delivery import Backfill, Cursor, ReaderQueue
from lab.console.model import Event, Gap, RecordKind
from lab.console.port import ServedPort
from lab.console.protocol import Deframer
from lab.console.recorder import KEPT, RecordingStore
from lab.console.recording import RecordingMeta, paths
from lab.console.serial_line import SerialLine
from lab.errors import LabStableError
from lab.host.clock import MonotonicRaw, utc_now


@pytest.fixture
def wire() -> Iterator[tuple[Connection, socket.socket]]:
    """A connection, and its client's end."""
    epoll = select.epoll()
    ours, theirs = socket.socketpair()
    connection = Connection(ours, epoll)
    yield connection, theirs
    connection.close()
    theirs.close()
    epoll.close()


def meta() -> RecordingMeta:
    return RecordingMeta("uart0", "/dev/ttyUSB0", 115200, boot_id="today", started=utc_now().isoformat())


class Line:
    """A device that is not asked for anything."""


def events(connection: Connection, client: socket.socket) -> list[Event]:
    connection.flush()
    return [frame.event() for frame in Deframer().feed(client.recv(1 << 20))]


def test_bytes_of_a_recording_that_was_thrown_away_meanwhile_are_a_gap(
    tmp_path: Path, wire: tuple[Connection, socket.socket]
) -> None:
    store, (connection, client) = RecordingStore(tmp_path), wire
    writer = store.open(meta())
    arrived: list[Connection] = []
    writer.append(Chunk(1, 0, b"0"))
    backfill = Backfill(connection, lambda: writer, arrived.append)
    backfill.begin_at(0)
    for n in range(1, KEPT + 4):  # which throws away those of the bytes 1 and 2
        writer = store.change(writer, writer.meta)
        writer.append(Chunk(n + 1, n, b"%d" % n))
    while not backfill.step():
        pass
    assert arrived == [connection]
    got = events(connection, client)
    assert got[0] == Chunk(1, 0, b"0")
    assert got[1] == Gap(0, 3, RecordKind.UNRECORDED, 2)
    assert b"".join(event.data for event in got[2:] if isinstance(event, Chunk)) == b"3456"
    writer.close()


def test_a_recording_whose_index_cannot_be_opened_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RecordingStore(tmp_path)
    store.open(meta()).close()
    before, opened = len(list(Path("/proc/self/fd").iterdir())), os.open

    def refuse(path: Path, flags: int) -> int:
        if path == paths(tmp_path / "uart0")[1]:
            raise OSError(24, "Too many open files")
        return opened(path, flags)

    monkeypatch.setattr("lab.console.delivery.os.open", refuse)
    with pytest.raises(LabStableError, match="Too many open files"):
        Cursor(tmp_path / "uart0")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_slow_reader_whose_recording_is_gone_is_dropped_and_the_others_read_on(
    tmp_path: Path, wire: tuple[Connection, socket.socket]
) -> None:
    connection, client = wire
    port = ServedPort(cast(SerialLine, Line()), meta(), RecordingStore(tmp_path), MonotonicRaw(), ReaderQueue())
    epoll = select.epoll()
    ours, theirs = socket.socketpair()
    slow = Connection(ours, epoll, buffer_bytes=40)
    port.attach(slow, write=False)
    port.attach(connection, write=False)
    slow.follows = True
    for path in paths(tmp_path / "uart0"):
        path.unlink()
    port.publish(1, b"more than the slow reader has room for", None)
    port.publish(2, b"and on", None)
    data = b"".join(event.data for event in events(connection, client) if isinstance(event, Chunk))
    assert data == b"more than the slow reader has room forand on"
    (told,) = events(slow, theirs)
    assert isinstance(told, Gap)
    assert told.kind is RecordKind.DROPPED
    slow.close()
    theirs.close()
    epoll.close()
