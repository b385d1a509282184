"""A reader that was cut off goes on at its byte: nothing is lost, nothing comes twice, and its stamps are those of the recording."""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.atlength import either
from support.console_bench import DEADLINE_S, ConsoleBench, read_bytes, taken, wait_for

from lab.console import Chunk, ConsoleClient, Recording
from lab.console.model import Event, Gap, RecordKind
from lab.console.reader import ReconnectingReader
from lab.console.serial_line import PortRequest
from lab.errors import LabTransientError
from lab.host.runtime import prepare, socket_path

CUTS = either(5, 20)
LINE = b"[%8d] the quick brown fox jumps over the lazy dog\r\n"


class Link:
    """A connection to the server that can be cut: what ssh does, in a thread."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.path = socket_path(prepare(folder))
        self._server = server
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._wake, self._wakened = os.pipe()
        self._carried = 0
        self._left: int | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def cut_after(self, count: int) -> None:
        """Break every connection once so many more bytes went to the reader."""
        self._left = self._carried + count

    def close(self) -> None:
        os.close(self._wakened)
        self._thread.join()
        os.close(self._wake)
        self._listener.close()

    def _run(self) -> None:
        while True:
            sockets = [each for pair in self._pairs for each in pair]
            ready, _, _ = select.select([self._wake, self._listener, *sockets], [], [])
            if self._wake in ready:
                self._cut()
                return
            if self._listener in ready:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self._server))
                self._pairs.append((near, far))
                continue
            for near, far in list(self._pairs):
                with contextlib.suppress(OSError):
                    if near in ready:
                        self._carry(near, far)
                    if far in ready:
                        self._carried += self._carry(far, near)
            if self._left is not None and self._carried >= self._left:
                self._left = None
                self._cut()

    def _carry(self, source: socket.socket, sink: socket.socket) -> int:
        data = source.recv(700)
        if not data:
            self._pairs = [pair for pair in self._pairs if source not in pair]
            source.close()
            sink.close()
            return 0
        sink.sendall(data)
        return len(data)

    def _cut(self) -> None:
        for pair in self._pairs:
            for each in pair:
                each.close()
        self._pairs = []


@pytest.fixture
def link(bench: ConsoleBench) -> Iterator[Link]:
    bench.client().close()
    link = Link(bench.folder / "link", socket_path(bench.runtime))
    yield link
    link.close()


def reader(bench: ConsoleBench, link: Link, *, write: bool = False) -> ReconnectingReader:
    order = PortRequest(bench.adapters[0].link, 115200)
    return ReconnectingReader(lambda: ConsoleClient(link.path), lambda: None, order, "elsewhere", write=write)


@pytest.mark.longer
def test_a_reader_that_is_cut_off_again_and_again_gets_every_byte_once_with_its_stamp(
    bench: ConsoleBench, link: Link
) -> None:
    adapter = bench.adapter()
    chance = random.Random(19)
    with reader(bench, link, write=True) as client:
        said, heard = b"", []
        for number in range(CUTS):
            text = b"".join(LINE % n for n in range(number * 100, number * 100 + 100))
            link.cut_after(chance.randrange(1, len(text)))
            adapter.say(text)
            said += text
            heard += taken(client, len(text))
        client.write(b"still the one who writes")
        assert adapter.heard(24) == b"still the one who writes"
        assert client.cuts == CUTS
    assert b"".join(chunk.data for chunk in heard) == said
    assert heard == list(Recording.open(Path(f"{client.info.recording}.log")).chunks())[-len(heard) :]


def test_a_reader_that_takes_nothing_is_not_dropped_and_holds_up_nobody(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    slow, _ = bench.opened(adapter)
    info = slow.status().ports[0].info
    slow.close()
    with bench.client() as slow, bench.client() as other:
        slow.attach(info.name, since=info.position)
        other.attach(info.name)
        said = b""
        for number in range(60):  # more than the server keeps for one reader, and a socket holds
            text = b"".join(LINE % n for n in range(number * 1000, number * 1000 + 1000))
            adapter.say(text)
            said += text
            assert b"".join(chunk.data for chunk in read_bytes(other, len(text))) == text
        assert other.status().ports[0].dropped == 0
        heard = taken(slow, len(said))
        assert b"".join(chunk.data for chunk in heard) == said
        adapter.say(b"and on")
        assert b"".join(chunk.data for chunk in taken(slow, 6)) == b"and on"


def test_a_reader_goes_on_across_recordings(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client, info = bench.opened(adapter)
    with client:
        for speed in (9600, 19200, 38400):  # each of which begins another recording
            adapter.say(b"at %d; " % speed)
            read_bytes(client, len(b"at %d; " % speed))
            client.open(adapter.link, speed_bd=speed)
        with bench.client() as late:
            late.attach(info.name, since=info.position + 3)
            chunks = taken(late, len("at 9600; at 19200; at 38400; "))
            assert b"".join(chunk.data for chunk in chunks) == b"at 9600; at 19200; at 38400; "
        with bench.client() as late, pytest.raises(LabTransientError, match="the stream begins anew") as caught:
            late.attach(info.name, since=info.position + 10_000)
        assert caught.value.failure == "console_overrun"


def test_evidence_at_the_place_of_a_cut_comes_once(bench: ConsoleBench, link: Link) -> None:
    adapter = bench.adapter()
    with reader(bench, link) as client:
        adapter.say(b"before")
        taken(client, 6)
        adapter.unplug()
        gap = client.read_event(DEADLINE_S)
        link.cut_after(0)
        adapter.plug()
        back = client.read_event(DEADLINE_S) or client.read_event(DEADLINE_S)
        adapter.say(b"after")
        assert [type(gap).__name__, type(back).__name__] == ["Gap", "Gap"]
        assert gap != back
        assert b"".join(chunk.data for chunk in taken(client, 5)) == b"after"


def test_who_comes_with_the_same_session_takes_the_writing_over(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    first, info = bench.opened(adapter)
    with first, bench.client() as second, bench.client() as third:
        first.attach(info.name, write=True, session="mine")
        with pytest.raises(LabTransientError) as caught:
            third.attach(info.name, write=True, session="other")
        assert caught.value.failure == "console_busy"
        second.attach(info.name, write=True, since=info.position, session="mine")
        second.write(b"hello")
        assert adapter.heard(5) == b"hello"
        with pytest.raises(LabTransientError):
            first.status()


def test_a_server_that_was_killed_is_found_again_with_all_its_bytes(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    bench.client().close()

    def connect() -> ConsoleClient:
        return bench.client()

    with ReconnectingReader(connect, lambda: None, PortRequest(adapter.link, 115200), "here") as client:
        adapter.say(b"before")
        taken(client, 6)
        bench.end_server()
        adapter.say(b"meanwhile")
        assert b"".join(chunk.data for chunk in taken(client, 9)) == b"meanwhile"
        assert client.cuts == 1
        assert client.relation.same


def test_a_host_that_is_back_before_its_adapter_is_tried_again(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    bench.client().close()
    with ReconnectingReader(bench.client, lambda: None, PortRequest(adapter.link, 115200), "here") as client:
        bench.end_server()
        adapter.unplug()
        adapter.link.unlink(missing_ok=True)
        with pytest.raises(LabTransientError, match="no such port") as caught:
            wait_for(lambda: client.read_event(0.1) is not None, "the server answers again")
        assert caught.value.failure == "port_missing"


def test_a_host_that_is_out_of_reach_for_too_long_is_said(bench: ConsoleBench, tmp_path: Path) -> None:
    adapter = bench.adapter()
    ways = [bench.client]

    def connect() -> ConsoleClient:
        return ways[-1]()

    order = PortRequest(adapter.link)
    with ReconnectingReader(connect, lambda: None, order, "lab-2", patience_s=0.5) as client:
        ways.append(lambda: ConsoleClient(tmp_path / "nobody.sock"))
        bench.end_server()
        with pytest.raises(LabTransientError, match="lab-2 is out of reach") as caught:
            wait_for(lambda: client.read_event(0.1) is not None, "the end of its patience")
        assert caught.value.failure == "console_link"


def test_bytes_that_did_not_come_are_said_and_not_skipped(
    bench: ConsoleBench, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = bench.adapter()
    with reader(bench, link) as client:
        adapter.say(b"before")
        taken(client, 6)
        at = client.info.position + 6
        events: list[Event] = [
            Gap(0, at + 10, RecordKind.UNRECORDED, 10),
            Chunk(1, at + 10, b"after"),
            Chunk(2, at + 20, b"x"),
        ]
        monkeypatch.setattr(ConsoleClient, "read_event", lambda *_: events.pop(0))
        assert client.read_event(DEADLINE_S) == Gap(0, at + 10, RecordKind.UNRECORDED, 10)
        assert client.read_event(DEADLINE_S) == Chunk(1, at + 10, b"after")
        with pytest.raises(LabTransientError, match="did not come") as caught:
            client.read_event(DEADLINE_S)
        assert caught.value.failure == "console_overrun"


def test_the_status_of_a_server_comes_behind_all_that_a_catch_up_still_has_to_bring(
    bench: ConsoleBench, link: Link
) -> None:
    adapter = bench.adapter()
    with reader(bench, link) as client, bench.client() as other:
        other.attach(client.info.name)
        said = b""
        for number in range(40):  # more than the server keeps for one reader, and a socket holds
            text = b"".join(LINE % n for n in range(number * 1000, number * 1000 + 1000))
            adapter.say(text)
            said += text
            read_bytes(other, len(text))
        client.status()
        heard = b""
        while (event := client.read_event(0)) is not None:
            heard += event.data if isinstance(event, Chunk) else b""
        assert heard == said


def test_an_adapter_that_was_lost_before_is_no_news(bench: ConsoleBench, link: Link) -> None:
    adapter = bench.adapter()
    other, info = bench.opened(adapter)
    with other:
        adapter.unplug()
        wait_for(lambda: isinstance(other.read_event(0.1), Gap), "the loss is noticed")
        adapter.plug()
        wait_for(lambda: isinstance(other.read_event(0.1), Gap), "the adapter is back")
        with reader(bench, link) as client:
            adapter.say(b"hello")
            events = []
            while not events or not isinstance(events[-1], Chunk):
                events.append(client.read_event(DEADLINE_S))
                assert events[-1] is not None, "nothing came"
            assert not any(isinstance(event, Gap) for event in events)
    assert info.name == client.info.name
