"""A console server outlives an upgrade: what the one of an older boardlab lacks is said in one message, with the mend."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.console.client import ConsoleClient
from lab.console.protocol import PROTOCOL, Deframer, FrameType, Message, encode_message
from lab.errors import LabStableError

META: Message = {"name": "uart0", "device": "/dev/ttyUSB0", "speed_bd": 115200}
INFO: Message = {"meta": META, "recording": "/run/uart0", "position": 0}
PORT: Message = {
    "info": INFO,
    "state": "open",
    "received_bytes": 0,
    "reads": 0,
    "last_byte_age_s": None,
    "readers": 0,
    "writer": None,
    "writer_since": None,
    "gaps": 0,
    "dropped": 0,
    "line_errors": None,
    "lateness_max_ns": 0,
    "recording_broken": "",
}
STATUS: Message = {"pid": 1, "started": "", "scheduling": "", "log": "", "ports": [PORT]}
MEND = r"started by another boardlab, and does not know {}: end it with `lab console stop`"


def lacking(name: str) -> Message:
    """The answer to `status` of a server that does not say this of a port's recording."""
    meta = {key: value for key, value in META.items() if key != name}
    return {**STATUS, "ports": [{**PORT, "info": {**INFO, "meta": meta}}]}


@pytest.fixture
def client_of(tmp_path: Path) -> Iterator[Callable[..., ConsoleClient]]:
    """A client of a server that gives these answers."""
    with contextlib.ExitStack() as stack:

        def made(**answers: Message) -> ConsoleClient:
            path = tmp_path / "console.sock"
            tmp_path.chmod(0o700)
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(path))
            listener.listen()
            known = {"hello": {"protocol": PROTOCOL, "pid": os.getpid()}, **answers}

            def serve() -> None:
                connection, _ = listener.accept()
                deframer = Deframer()
                with connection:
                    while data := connection.recv(1 << 16):
                        for frame in deframer.feed(data):
                            connection.sendall(encode_message(FrameType.ANSWER, known[frame.message()["op"]]))

            thread = threading.Thread(target=serve)
            thread.start()
            stack.callback(thread.join)  # after the client is closed
            return stack.enter_context(ConsoleClient(path))

        yield made


def test_a_server_of_this_boardlab_is_understood(client_of: Callable[..., ConsoleClient]) -> None:
    client = client_of(status=STATUS, open=INFO)
    assert client.status().ports[0].info.meta.speed_bd == 115200
    assert client.open("/nowhere/tty").name == "uart0"


@pytest.mark.parametrize("field", ["speed_bd", "device"])
def test_a_field_that_an_old_server_does_not_tell_is_named_with_the_mend(
    client_of: Callable[..., ConsoleClient], field: str
) -> None:
    client = client_of(status=lacking(field))
    with pytest.raises(LabStableError, match=MEND.format(repr(field))) as caught:
        client.status()
    assert caught.value.failure == "console_protocol"


def test_a_field_that_has_a_value_of_its_own_may_be_missing(client_of: Callable[..., ConsoleClient]) -> None:
    assert client_of(status=lacking("scheduling_ns")).status().ports[0].board == ""
