"""How the server treats its clients: what fails inside is logged and refused, who says nothing is sent away."""

from __future__ import annotations

import select
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, field

from lab.console.client import ensure_server
from lab.console.clients import PATIENCE_BEATS, Clients
from lab.console.connection import Connection
from lab.console.protocol import Deframer, Frame, FrameType, Message, encode_message
from lab.errors import LabStableError


@define
class Desk:
    """Clients in this process, and how they are answered."""

    folder: Path
    epoll: select.epoll = field(factory=select.epoll)
    clients: Clients = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.clients = Clients(self.folder / "s", self.epoll, self.answer)

    @staticmethod
    def answer(connection: Connection, frame: Frame) -> Message:
        connection.greeted = True
        message = frame.message()
        if message["op"] == "explode":
            raise OverflowError("cannot convert float infinity to integer")
        return {"did": message["op"]}

    def serve(self) -> None:
        """Do all that the clients ask for."""
        while events := self.epoll.poll(0):
            for fd, mask in events:
                self.clients.serve(fd, mask)

    def client(self) -> socket.socket:
        """A connected one."""
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.folder / "s"))
        client.setblocking(False)
        self.serve()
        return client

    def ask(self, client: socket.socket, operation: str) -> Message:
        """The answer to a request."""
        client.sendall(encode_message(FrameType.REQUEST, {"op": operation}))
        self.serve()
        (frame,) = Deframer().feed(client.recv(1 << 16))
        return frame.message()


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A desk, closed at the end."""
    with tempfile.TemporaryDirectory(prefix="desk-") as folder:
        desk = Desk(Path(folder))
        yield desk
        desk.clients.close()
        desk.epoll.close()


def test_what_nobody_expected_is_logged_with_its_traceback_and_refused(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    with desk.client() as one, desk.client() as other:
        answer = desk.ask(one, "explode")
        assert (answer["error"], answer["failure"]) == ("LabStableError", "console_server_fault")
        assert "Traceback" in caplog.text
        assert "OverflowError: cannot convert float infinity" in caplog.text
        assert desk.ask(one, "status") == {"did": "status"}
        assert desk.ask(other, "status") == {"did": "status"}


def test_who_does_not_say_hello_is_sent_away_and_who_did_stays(desk: Desk) -> None:
    with desk.client() as silent, desk.client() as talker:
        desk.ask(talker, "hello")
        for _ in range(PATIENCE_BEATS):
            desk.clients.beat()
        with pytest.raises(BlockingIOError):
            silent.recv(1)
        desk.clients.beat()
        assert silent.recv(1) == b""
        assert desk.ask(talker, "status") == {"did": "status"}


def heard(epoll: select.epoll) -> bool:
    """Whether the server would take what the client has sent."""
    return any(mask & select.EPOLLIN for _, mask in epoll.poll(0))


def test_who_asks_and_does_not_take_the_answers_is_not_heard_until_it_does() -> None:
    ours, theirs = socket.socketpair()
    epoll = select.epoll()
    connection = Connection(ours, epoll, buffer_bytes=1 << 16)
    theirs.setblocking(False)
    theirs.sendall(encode_message(FrameType.REQUEST, {"op": "status"}))
    while heard(epoll):
        connection.answer({"text": "x" * 10_000})
    deframer, taken = Deframer(), 0
    while not heard(epoll):
        taken += len(list(deframer.feed(theirs.recv(1 << 20))))
        connection.flush()
    assert taken > 6
    frames = connection.receive()
    assert frames is not None
    assert frames[0].message() == {"op": "status"}
    connection.close()
    theirs.close()
    epoll.close()


def test_one_frame_is_taken_at_a_time_so_that_ports_are_looked_at_between(desk: Desk) -> None:
    with desk.client() as client:
        client.sendall(encode_message(FrameType.REQUEST, {"op": "status"}) * 3)
        heard = 0
        while events := desk.epoll.poll(0):
            for fd, mask in events:
                desk.clients.serve(fd, mask)
            heard += 1
        assert heard == 3


def test_a_server_that_takes_too_long_to_start_is_said_to_be_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.console.client.START_TIMEOUT_S", 0.0)
    with pytest.raises(LabStableError, match=r"given up after 0 s") as caught:
        ensure_server(tmp_path)
    assert caught.value.failure == "no_console_server"
