"""The server's clock is asked beside what is read: no byte waits for an answer, and a server that says nothing more is noticed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.console import reader as console_reader
from lab.console.client import ConsoleClient
from lab.console.model import Chunk
from lab.console.protocol import PROTOCOL, Deframer, FrameType, Message, encode_event, encode_message
from lab.console.reader import ReconnectingReader
from lab.console.serial_line import PortRequest
from lab.errors import LabTransientError

META: Message = {"name": "uart0", "device": "/dev/ttyUSB0", "speed_bd": 115200}
INFO: Message = {"meta": META, "recording": "/run/uart0", "position": 0}


class Server:
    """A console server of another host, without a wire: what it sends is there at once, and a clock's answer when it is told to.

    Attributes:
        holds: answers of its clock are kept back. asked: how often its clock was. line: the time line of the next answer.
        held: what is kept back. connections: how many there were.
    """

    pid = 0
    label, log, hint = "the other host", "its log", "Start it there"

    def __init__(self) -> None:
        self.holds = False
        self.asked = self.connections = 0
        self.line = "that boot"
        self.held: deque[bytes] = deque()
        self._waiting: deque[bytes] = deque()
        self._deframer = Deframer()

    def connect(self, _timeout_s: float) -> Server:
        self.connections += 1
        self.held.clear()
        self._waiting.clear()
        return self

    def send(self, data: bytes, _timeout_s: float) -> None:
        for frame in self._deframer.feed(data):
            operation = frame.message()["op"]
            answer = {
                "hello": {"protocol": PROTOCOL},
                "clock": {"t_ns": 10**9 + self.asked, "line": self.line},
                "status": {"pid": 7, "started": "", "scheduling": "", "log": "", "ports": []},
            }.get(operation, INFO)
            self.asked += operation == "clock"
            sink = self.held if self.holds else self._waiting
            sink.append(encode_message(FrameType.ANSWER, answer))

    def say(self, position: int, data: bytes) -> None:
        self._waiting.append(encode_event(Chunk(2 * 10**9, position, data)))

    def release(self) -> None:
        self._waiting.extend(self.held)
        self.held.clear()

    def receive(self, _timeout_s: float) -> bytes | None:
        return self._waiting.popleft() if self._waiting else None

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self._waiting.clear()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(console_reader, "AGAIN_S", 0.0)  # the clock is asked with each read
    return Server()


@pytest.fixture
def reader(server: Server) -> Callable[..., ReconnectingReader]:
    def made(timeout_s: float = 60.0) -> ReconnectingReader:
        order = PortRequest(Path("/dev/ttyUSB0"))
        return ReconnectingReader(lambda: ConsoleClient(server, timeout_s), lambda: None, order, "lab-2")

    return made


def test_bytes_do_not_wait_for_the_clocks_answer(server: Server, reader: Callable[..., ReconnectingReader]) -> None:
    with reader() as client:
        before, server.holds = server.asked, True
        for position, data in enumerate((b"a", b"b", b"c")):
            server.say(position, data)
            assert client.read_event(0) == Chunk(2 * 10**9, position, data)
        assert server.asked == before + 1, "one question at a time"
        assert client.cuts == 0


def test_an_answer_that_comes_behind_bytes_is_taken(server: Server, reader: Callable[..., ReconnectingReader]) -> None:
    with reader() as client:
        server.holds, server.line = True, "another boot"
        server.say(0, b"a")
        client.read_event(0)
        server.release()
        server.say(1, b"b")
        assert client.read_event(0) == Chunk(2 * 10**9, 1, b"b")
        with pytest.raises(LabTransientError, match=r"host was booted"):
            client.read_event(0)


def test_an_answer_on_its_way_is_not_taken_for_that_of_the_next_question(
    server: Server, reader: Callable[..., ReconnectingReader]
) -> None:
    with reader() as client:
        server.holds = True
        assert client.read_event(0) is None
        server.holds = False
        server.release()
        assert client.status().pid == 7


def test_a_server_that_says_nothing_more_is_left(server: Server, reader: Callable[..., ReconnectingReader]) -> None:
    with reader(timeout_s=0.0) as client:
        server.holds = True
        for position, data in enumerate((b"a", b"b")):  # as long as it says something it is not silent
            server.say(position, data)
            assert client.read_event(0) == Chunk(2 * 10**9, position, data)
        assert client.cuts == 0
        server.holds = False  # a new connection is answered
        client.read_event(0)
        assert (client.cuts, server.connections) == (1, 2)


def test_a_server_that_stays_out_of_reach_is_said_once(
    server: Server, reader: Callable[..., ReconnectingReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    with reader(timeout_s=0.0) as client:
        server.holds = True

        def gone(_timeout_s: float) -> Server:
            raise LabTransientError("no way there", failure="console_link")

        monkeypatch.setattr(server, "connect", gone)
        monkeypatch.setattr(client, "_patience_s", 0.1)
        for question in (client.status, client.read_clock):
            with pytest.raises(LabTransientError) as caught:
                question()
            assert str(caught.value).count("out of reach") == 1
        assert client.cuts == 1
