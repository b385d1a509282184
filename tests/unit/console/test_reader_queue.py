"""Deliveries to readers: at once for one console, together for many, and in order."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from lab.console import Chunk
from lab.console.connection import Connection
from lab.console.delivery import INTERVAL_NS, ReaderQueue
from lab.console.protocol import Deframer, encode_event

NOW_NS = 10**12


@pytest.fixture
def readers() -> Iterator[list[tuple[Connection, socket.socket]]]:
    """Three connections, and the clients' ends."""
    epoll = select.epoll()
    pairs = []
    for _ in range(3):
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        pairs.append((Connection(ours, epoll), theirs))
    yield pairs
    for connection, theirs in pairs:
        connection.close()
        theirs.close()
    epoll.close()


def got(client: socket.socket) -> list[bytes]:
    """The data that a client has."""
    try:
        stream = client.recv(1 << 16)
    except BlockingIOError:
        return []
    return [event.data for frame in Deframer().feed(stream) if isinstance(event := frame.event(), Chunk)]


def test_a_lone_record_goes_out_at_once_and_readers_take_turns(
    readers: list[tuple[Connection, socket.socket]],
) -> None:
    queue = ReaderQueue()
    assert queue.timeout_s(NOW_NS) is None
    for number, (connection, _) in enumerate(readers):
        connection.record(encode_event(Chunk(0, 0, b"%d" % number)))
        queue.enlist(connection)
        queue.enlist(connection)
    assert queue.timeout_s(NOW_NS) == 0
    for number, (_, client) in enumerate(readers):
        at_ns = NOW_NS + number * INTERVAL_NS
        assert queue.deliver(at_ns)
        assert not queue.deliver(at_ns + INTERVAL_NS - 1)
        assert got(client) == [b"%d" % number]
    assert queue.timeout_s(NOW_NS + 2 * INTERVAL_NS) is None


def test_what_comes_before_a_reader_s_turn_goes_with_it(readers: list[tuple[Connection, socket.socket]]) -> None:
    queue = ReaderQueue()
    (first, _), (second, client), _ = readers
    for connection, data in ((first, b"a"), (second, b"b"), (second, b"c")):
        connection.record(encode_event(Chunk(0, 0, data)))
        queue.enlist(connection)
    assert queue.deliver(NOW_NS)
    second.record(encode_event(Chunk(0, 0, b"d")))
    assert 0 < (queue.timeout_s(NOW_NS) or 0) < 0.01
    assert queue.deliver(NOW_NS + INTERVAL_NS)
    assert got(client) == [b"b", b"c", b"d"]


def test_a_reader_that_left_is_passed_over(readers: list[tuple[Connection, socket.socket]]) -> None:
    queue = ReaderQueue()
    (leaver, _), (stayer, client), _ = readers
    for connection in (leaver, stayer):
        connection.record(encode_event(Chunk(0, 0, b"x")))
        queue.enlist(connection)
    leaver.close()
    assert queue.deliver(NOW_NS)
    assert queue.deliver(NOW_NS + INTERVAL_NS)
    assert got(client) == [b"x"]
