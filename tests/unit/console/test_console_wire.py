"""The framing, and a client that is too slow for it."""

from __future__ import annotations

import itertools
import select
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.console import Chunk, Event, Gap, Lateness, RecordKind
from lab.console.connection import Connection
from lab.console.protocol import (
    MAX_PAYLOAD_BYTES,
    Deframer,
    Frame,
    FrameType,
    encode_event,
    encode_frame,
    encode_message,
    raise_refusal,
    refusal,
)
from lab.errors import ConfigurationError, LabStableError, LabTransientError

BUFFER_BYTES = 1 << 18


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    """The server's end, and the client's."""
    ours, theirs = socket.socketpair()
    epoll = select.epoll()
    connection = Connection(ours, epoll, BUFFER_BYTES)
    theirs.setblocking(False)
    yield connection, theirs
    connection.close()
    theirs.close()
    epoll.close()


def send(connection: Connection, event: Event) -> bool:
    """One record, as the queue delivers it."""
    if not connection.record(encode_event(event)):
        return False
    if not connection.blocked:
        connection.flush()
    return True


def take(connection: Connection, theirs: socket.socket) -> list[Frame]:
    """Everything that waits for the client, as it reads it."""
    deframer = Deframer()
    frames = []
    while True:
        connection.flush()
        try:
            data = theirs.recv(1 << 16)
        except BlockingIOError:
            return frames
        frames += list(deframer.feed(data))


@given(
    st.lists(st.tuples(st.sampled_from(FrameType), st.binary(max_size=100)), max_size=10),
    st.lists(st.integers(0, 1000), max_size=10),
)
def test_frames_come_out_whole_however_the_stream_is_cut(
    frames: list[tuple[FrameType, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(encode_frame(kind, payload) for kind, payload in frames)
    ends = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    deframer = Deframer()
    out = [frame for a, b in itertools.pairwise(ends) for frame in deframer.feed(stream[a:b])]
    assert [(frame.type, frame.payload) for frame in out] == frames


@given(st.binary(max_size=200))
def test_what_is_not_the_protocol_is_refused_and_never_waited_for_in_vain(data: bytes) -> None:
    deframer = Deframer()
    try:
        frames = list(deframer.feed(data))
    except ValueError:
        return
    for frame in frames:
        if frame.type is FrameType.REQUEST:
            with pytest.raises(ValueError):  # noqa: PT011  (whatever JSON finds wrong)
                frame.message()


def test_an_oversized_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        list(Deframer().feed((MAX_PAYLOAD_BYTES + 1).to_bytes(4, "little") + b"\x01"))


@pytest.mark.parametrize(
    "event",
    [Chunk(-1, 2**40, b"\x00abc"), Lateness(5, 7, 1_234_000), Gap(9, 10, RecordKind.UNRECORDED, 77)],
)
def test_an_event_crosses_unchanged(event: Event) -> None:
    (frame,) = Deframer().feed(encode_event(event))
    assert frame.event() == event


def test_lateness_is_rounded_up_to_a_microsecond() -> None:
    (frame,) = Deframer().feed(encode_event(Lateness(5, 7, 1_234_001)))
    assert frame.event() == Lateness(5, 7, 1_235_000)


@pytest.mark.parametrize("kind", [LabStableError, LabTransientError, ConfigurationError])
def test_an_error_crosses_with_its_class_its_message_and_its_failure(kind: type[LabStableError]) -> None:
    with pytest.raises(kind, match="what to do") as caught:
        raise_refusal(refusal(kind("what to do", failure="port_in_use")))
    assert caught.value.failure == "port_in_use"


def test_an_answer_without_error_raises_nothing() -> None:
    raise_refusal({"pid": 5})


def test_a_client_that_reads_slowly_gets_everything_in_order(pair: tuple[Connection, socket.socket]) -> None:
    connection, theirs = pair
    chunks = [Chunk(n, n * 1000, bytes([n % 256]) * 1000) for n in range(300)]
    sent = [chunk for chunk in chunks if send(connection, chunk)]
    assert len(sent) == 300
    assert [frame.event() for frame in take(connection, theirs)] == sent


def test_a_client_that_does_not_read_is_dropped_with_a_word_and_without_a_torn_frame(
    pair: tuple[Connection, socket.socket],
) -> None:
    connection, theirs = pair
    size = 60_000  # more than a socket takes at once, so that the last frame is sent in part
    number = 0
    while send(connection, Chunk(number, number * size, b"x" * size)):
        number += 1
    connection.drop(number, number * size)
    assert not connection.done
    *before, last = [frame.event() for frame in take(connection, theirs)]
    assert connection.done
    assert [event.position for event in before] == [n * size for n in range(len(before))]
    assert isinstance(last, Gap)
    assert last.kind is RecordKind.DROPPED
    lost = number - len(before)
    assert last.amount == lost * len(encode_event(before[0]))


def test_an_answer_comes_after_the_records_before_it(pair: tuple[Connection, socket.socket]) -> None:
    connection, theirs = pair
    connection.record(encode_event(Chunk(1, 0, b"x")))
    connection.answer({"ok": 1})
    connection.record(encode_event(Chunk(2, 1, b"y")))
    assert [frame.type for frame in take(connection, theirs)] == [
        FrameType.RECORD,
        FrameType.ANSWER,
        FrameType.RECORD,
    ]


def test_a_client_that_is_gone_is_noticed(pair: tuple[Connection, socket.socket]) -> None:
    connection, theirs = pair
    theirs.sendall(encode_message(FrameType.REQUEST, {"op": "status"}))
    frames = connection.receive()
    assert frames is not None
    assert [frame.message() for frame in frames] == [{"op": "status"}]
    assert connection.receive() == []
    theirs.close()
    assert connection.receive() is None
