"""Recordings: what was appended is read back, whatever killed the writer."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from lab.console import (
    Chunk,
    Event,
    Gap,
    Lateness,
    Recording,
    RecordingMeta,
    RecordingWriter,
    RecordKind,
    Suspended,
    encode,
)
from lab.console.recorder import RETRY_NS
from lab.console.recording import RECORD, paths
from lab.errors import ConfigurationError, LabStableError, LabTransientError

META = RecordingMeta(name="uart0", device="/dev/ttyUSB0", speed_bd=115200, adapter_latency_ns=1_000_000)
EVENTS: list[Event] = [
    Lateness(90, 0, 350_000),
    Chunk(100, 0, b"U-Boot 2023.01\r\n"),
    Chunk(200, 16, b"=> "),
    Gap(250, 19, RecordKind.LOST, 5),
    Gap(300, 19, RecordKind.BACK),
    Chunk(400, 19, b"\x00\xff again"),
]


def write(base: Path, events: list[Event], meta: RecordingMeta = META) -> None:
    writer = RecordingWriter.create(base, meta)
    for event in events:
        writer.append(event)
    writer.close()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files cannot grow beyond this, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Events as a port may bring them."""
    t_ns, position = 0, draw(st.integers(0, 2**40))
    events: list[Event] = []
    for data in draw(st.lists(st.binary(min_size=1, max_size=60), max_size=20)):
        t_ns += draw(st.integers(0, 10**10))
        match draw(st.sampled_from(["chunk", "chunk", "chunk", "late", "gap"])):
            case "chunk":
                events.append(Chunk(t_ns, position, data))
                position += len(data)
            case "late":
                events.append(Lateness(t_ns, position, draw(st.integers(0, 10**6)) * 1000))
            case "gap":
                events.append(Gap(t_ns, position, draw(st.sampled_from([RecordKind.LOST, RecordKind.BACK])), 5))
    return events


@pytest.mark.parametrize("suffix", [".log", ".idx"])
def test_a_recording_gives_back_every_event_in_its_order(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / "uart0", EVENTS)
    recording = Recording.open(tmp_path / f"uart0{suffix}")
    assert list(recording.events()) == EVENTS
    assert recording.meta == META
    assert recording.log == b"U-Boot 2023.01\r\n=> \x00\xff again"
    assert list(recording.chunks()) == [event for event in EVENTS if isinstance(event, Chunk)]
    assert list(recording.lateness()) == EVENTS[:1]
    assert [gap.kind for gap in recording.gaps()] == [RecordKind.LOST, RecordKind.BACK]


def test_the_log_is_the_bare_bytes_of_the_console(tmp_path: Path) -> None:
    write(tmp_path / "uart0", EVENTS)
    assert (tmp_path / "uart0.log").read_bytes() == b"U-Boot 2023.01\r\n=> \x00\xff again"


def test_numpy_reads_the_index(tmp_path: Path) -> None:
    write(tmp_path / "uart0", EVENTS)
    index = Recording.open(tmp_path / "uart0.log").index()
    chunks = index[index["kind"] == RecordKind.DATA]
    assert chunks["t_ns"].tolist() == [100, 200, 400]
    assert np.cumsum(chunks["n"]).tolist() == [16, 19, 27]


@given(streams())
def test_encoded_events_are_a_recording_that_begins_at_position_0(events: list[Event]) -> None:
    log, index = encode(META, events)
    recording = Recording.decode(log, index)
    start = events[0].position if events else 0
    assert list(recording.events()) == [evolve(event, position=event.position - start) for event in events]
    assert recording.meta == evolve(META, start=start)


@given(streams(), st.data())
def test_a_torn_tail_costs_only_what_was_not_complete(events: list[Event], data: st.DataObject) -> None:
    log, index = encode(META, events)
    header = index.index(b"\n") + 1
    cut_index = index[: data.draw(st.integers(header, len(index)))]
    cut_log = log[: data.draw(st.integers(0, len(log)))]
    seen = list(Recording.decode(cut_log, cut_index).events())
    assert seen == list(Recording.decode(log, index).events())[: len(seen)]
    records = cut_index[header : len(cut_index) - (len(cut_index) - header) % RECORD.size]
    whole = sum(kind != RecordKind.DIGEST for _, _, _, kind in RECORD.iter_unpack(records))
    if cut_log == log:
        assert len(seen) == whole
    bytes_seen = sum(len(event.data) for event in seen if isinstance(event, Chunk))
    assert bytes_seen <= len(cut_log)
    if len(seen) < whole:
        following = list(Recording.decode(log, index).events())[len(seen)]
        assert isinstance(following, Chunk)
        assert bytes_seen + len(following.data) > len(cut_log)


@pytest.mark.parametrize(
    ("log_cut", "index_cut", "left"), [(0, 1, 6), (0, 25, 5), (3, 0, 5), (0, 48, 5), (9, 0, 2), (27, 0, 1)]
)
def test_a_resumed_recording_goes_on_after_its_last_whole_record(
    tmp_path: Path, log_cut: int, index_cut: int, left: int
) -> None:
    base = tmp_path / "uart0"
    write(base, EVENTS)
    for path, cut in zip(paths(base), (log_cut, index_cut), strict=True):
        path.write_bytes(path.read_bytes()[: path.stat().st_size - cut])
    kept = list(Recording.open(base.with_suffix(".log")).events())
    writer = RecordingWriter.resume(base)
    more = Chunk(500, writer.position, b"more")
    writer.append(more)
    writer.close()
    assert list(Recording.open(base.with_suffix(".log")).events()) == [*kept, more]
    assert kept == EVENTS[:left]
    assert writer.position == sum(len(event.data) for event in kept if isinstance(event, Chunk)) + 4


def test_a_full_disk_is_said_once_and_costs_only_what_did_not_fit(tmp_path: Path) -> None:
    base = tmp_path / "uart0"
    writer = RecordingWriter.create(base, META)
    writer.append(Chunk(0, 0, b"before"))
    room = (tmp_path / "uart0.idx").stat().st_size
    with largest_file(room):
        with pytest.raises(LabTransientError, match=r"File too large.*not"):
            writer.append(Chunk(10, 6, b"lost"))
        writer.append(Chunk(20, 10, b"lost too"))
        writer.append(Chunk(10 + RETRY_NS, 18, b"and this"))
        assert writer.broken == "File too large"
        assert list(Recording.open(tmp_path / "uart0.log").chunks()) == [Chunk(0, 0, b"before")]
    writer.append(Chunk(20 + RETRY_NS, 26, b"soon"))
    after = Chunk(10 + 2 * RETRY_NS, 30, b"after")
    writer.append(after)
    writer.close()
    assert writer.broken == ""
    assert list(Recording.open(tmp_path / "uart0.log").events()) == [
        Chunk(0, 0, b"before"),
        Gap(after.t_ns, 30, RecordKind.UNRECORDED, 24),
        after,
    ]


def test_a_torn_write_on_a_full_disk_leaves_no_half_chunk(tmp_path: Path) -> None:
    writer = RecordingWriter.create(tmp_path / "uart0", META)
    with largest_file(4096):
        writer.append(Chunk(0, 0, b"x" * 4000))
        with pytest.raises(LabTransientError):
            writer.append(Chunk(1, 4000, b"y" * 200))
    assert (tmp_path / "uart0.log").read_bytes() == b"x" * 4000
    writer.append(Chunk(1 + RETRY_NS, 4200, b"z"))
    writer.close()
    chunks = list(Recording.open(tmp_path / "uart0.log").chunks())
    assert [chunk.data[:1] for chunk in chunks] == [b"x", b"z"]
    assert chunks[-1].position == 4200


def test_a_disk_that_is_full_again_while_the_recording_recovers_leaves_no_half_chunk(tmp_path: Path) -> None:
    writer = RecordingWriter.create(tmp_path / "uart0", META)
    writer.append(Chunk(0, 0, b"x" * 1000))
    with largest_file(1000), pytest.raises(LabTransientError):
        writer.append(Chunk(1, 1000, b"y" * 200))
    with largest_file(1100):
        writer.append(Chunk(1 + RETRY_NS, 1200, b"y" * 200))
    writer.append(Chunk(1 + 2 * RETRY_NS, 1400, b"z" * 200))
    writer.close()
    events = list(Recording.open(tmp_path / "uart0.log").events())
    assert [event.data[:1] for event in events if isinstance(event, Chunk)] == [b"x", b"z"]
    assert sum(event.amount for event in events if isinstance(event, Gap)) == 400


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "uart0", EVENTS)
    with pytest.raises(LabStableError, match="File exists"):
        RecordingWriter.create(tmp_path / "uart0", META)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not the index of a console recording"),
        (b"{", "not the index of a console recording"),
        (b"[1, 2]\n", "not the index"),
        (b'{"format": "boardlab-console", "version": 9}\n', "version 9"),
        (b'{"format": "boardlab-console", "version": 1}\n', "damaged first line"),
        (
            b'{"format": "boardlab-console", "version": 1, "name": "a", "device": "b", "speed_bd": 0}\n',
            "damaged first line",
        ),
        (b"\xff\xfe\x00", "not the index"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "a.log").write_bytes(b"text")
    (tmp_path / "a.idx").write_bytes(content)
    with pytest.raises(ConfigurationError, match=says):
        Recording.open(tmp_path / "a.log")


def test_an_unknown_record_is_refused(tmp_path: Path) -> None:
    log, index = encode(META, EVENTS)
    last = len(index) - RECORD.size  # the digest, without which nothing says that a record was changed
    damaged = index[: last - 4] + b"\x63\x00\x00\x00"
    with pytest.raises(ConfigurationError, match=r"record 5.*damaged"):
        list(Recording.decode(log, damaged).events())


def test_a_length_that_goes_beyond_the_log_is_damage_where_more_records_follow() -> None:
    log, index = encode(META, EVENTS)
    at = index.index(b"\n") + 1 + 2 * RECORD.size + 16
    damaged = index[:at] + (1000).to_bytes(4, "little") + index[at + 4 :]
    with pytest.raises(ConfigurationError, match=r"agree.*record 2"):
        Recording.decode(log, damaged)


@given(streams(), st.data())
def test_a_flipped_bit_in_either_file_is_found(events: list[Event], data: st.DataObject) -> None:
    files = [bytearray(content) for content in encode(META, events)]
    file = files[data.draw(st.integers(0, 1)) if files[0] else 1]
    first = data.draw(st.integers(0, 8 * len(file) - 1))
    second = data.draw(st.integers(0, 8 * len(file) - 1))
    for bit in {first, second}:
        file[bit // 8] ^= 1 << bit % 8
    log, index = map(bytes, files)
    try:
        seen = list(Recording.decode(log, index).events())
    except ConfigurationError:
        return
    whole = list(Recording.decode(*encode(META, events)).events())
    assert seen == whole[: len(seen)], "damage may cost the tail, and never changes what is read"


def test_the_clock_that_stood_still_is_in_the_recording(tmp_path: Path) -> None:
    stood = [Suspended(500, 27, 4_000_000_000), Suspended(600, 27, -2_000_000)]
    write(tmp_path / "uart0", [*EVENTS, *stood])
    assert list(Recording.open(tmp_path / "uart0.log").suspends()) == stood


def test_a_recording_of_version_1_is_still_read() -> None:
    log, index = encode(META, EVENTS)
    old = index[: -RECORD.size].replace(b'"version": 2', b'"version": 1')
    assert list(Recording.decode(log, old).events()) == EVENTS


def test_a_recording_that_is_continued_is_checked_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "uart0", EVENTS)
    writer = RecordingWriter.resume(tmp_path / "uart0")
    position = writer.position
    for number in range(2000):
        writer.append(Chunk(1000 + number, position + 16 * number, b"0123456789abcdef"))
    writer.close()
    log, index = ((tmp_path / f"uart0{suffix}").read_bytes() for suffix in (".log", ".idx"))
    assert len(list(Recording.decode(log, index).chunks())) == 2003
    flipped = bytearray(log)
    flipped[20_000] ^= 1
    with pytest.raises(ConfigurationError, match="do not agree"):
        Recording.decode(bytes(flipped), index)


def test_a_missing_half_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"text")
    with pytest.raises(ConfigurationError, match=r"a\.idx: no.* a\.log"):
        Recording.open(tmp_path / "a.log")
    with pytest.raises(ConfigurationError, match=r"end in \.log and \.idx"):
        Recording.open(tmp_path / "a.txt")
