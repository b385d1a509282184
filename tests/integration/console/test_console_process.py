"""The console server's start, end and manners towards strangers."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.console_bench import DEADLINE_S, ConsoleBench, read_bytes
from support.facts import missing_facts

from lab.console import ConsoleClient, ensure_server
from lab.console.protocol import Deframer, FrameType, Message, encode_frame, encode_message
from lab.errors import LabStableError, LabTransientError


class Stranger:
    """Somebody who speaks the protocol by hand."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(address)
        self._deframer = Deframer()

    def ask(self, request: Message) -> Message:
        self.socket.sendall(encode_message(FrameType.REQUEST, request))
        while True:
            for frame in self._deframer.feed(self.socket.recv(4096)):
                return frame.message()


def test_a_second_server_is_refused_and_a_stale_socket_is_not_in_the_way(bench: ConsoleBench) -> None:
    bench.client().close()
    command = [sys.executable, "-m", "lab.console.server", "--runtime", str(bench.runtime)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert second.returncode == 3
    assert second.stderr.startswith(f"a console server (pid {bench.server_pid}) serves {bench.runtime} already")
    bench.end_server()
    assert (bench.runtime / "console.sock").exists()
    with pytest.raises(LabTransientError, match=r"no console server"):
        ConsoleClient(bench.runtime / "console.sock")
    assert bench.client().status().ports == []


def test_two_that_start_a_server_at_once_get_the_same(bench: ConsoleBench) -> None:
    script = "import sys, pathlib; from lab.console import ensure_server; ensure_server(pathlib.Path(sys.argv[1]))"
    starters = [subprocess.Popen([sys.executable, "-c", script, str(bench.runtime)]) for _ in range(2)]
    assert [starter.wait(DEADLINE_S * 2) for starter in starters] == [0, 0]
    assert bench.client().status().pid == bench.server_pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_cleanly_when_told(bench: ConsoleBench, number: signal.Signals) -> None:
    adapter = bench.adapter()
    client, _ = bench.opened(adapter)
    adapter.say(b"last words")
    read_bytes(client, 10)
    bench.end_server(number)
    assert not (bench.runtime / "console.sock").exists()
    assert bench.recording().log == b"last words"
    assert f"ending: {number.name}" in (bench.runtime / "console.log").read_text()
    with pytest.raises(LabTransientError, match="is gone"):
        client.status()


def test_a_server_that_cannot_start_says_why(bench: ConsoleBench) -> None:
    bench.runtime.mkdir(mode=0o700)
    (bench.runtime / "console.sock").mkdir()
    with pytest.raises(LabStableError, match=r"status 1\).*console\.log"):
        ensure_server(bench.runtime)
    (bench.runtime / "console.sock").rmdir()


def test_a_client_of_another_protocol_is_told_and_nonsense_ends_the_connection(bench: ConsoleBench) -> None:
    address = str(ensure_server(bench.runtime))
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, encode_frame(FrameType.RECORD, b"x" * 40)[:4] + b"\x63"):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(DEADLINE_S)
            stranger.connect(address)
            stranger.sendall(nonsense + b"x" * 100)
            assert stranger.recv(100) == b""
    assert "the first request must be" in Stranger(address).ask({"op": "status"})["message"]
    assert Stranger(address).ask({"op": "hello", "protocol": 99}) == {"protocol": 1, "pid": bench.server_pid}
    assert bench.client().status().ports == []


@pytest.mark.parametrize(
    ("request_fields", "says"),
    [
        ({"op": "dance"}, "unknown request 'dance'"),
        ({"op": "open"}, "missing or wrong field: 'device'"),
        ({"op": "open", "device": "/dev/null", "speed_bd": "fast"}, "missing or wrong field"),
        ({"op": "open", "device": "ttyUSB0", "speed_bd": 9600}, "absolute path"),
    ],
)
def test_a_wrong_request_is_answered_and_does_no_harm(
    bench: ConsoleBench, request_fields: dict[str, object], says: str
) -> None:
    stranger = Stranger(str(ensure_server(bench.runtime)))
    assert stranger.ask({"op": "hello", "protocol": 1})["protocol"] == 1
    assert says in stranger.ask(request_fields)["message"]
    assert bench.client().status().ports == []


def ended(pid: int) -> bool:
    """True once the process is gone; it is no child of this one."""
    with contextlib.suppress(ProcessLookupError):
        watched = os.pidfd_open(pid)
        try:
            return bool(select.select([watched], [], [], DEADLINE_S)[0])
        finally:
            os.close(watched)
    return True


@pytest.mark.parametrize("remove", ["folder", "socket", "renamed"])
def test_a_server_whose_folder_was_removed_gives_its_ports_back_to_the_next_one(
    bench: ConsoleBench, remove: str
) -> None:
    adapter = bench.adapter()
    reader, _ = bench.opened(adapter)
    orphan = reader.server_pid
    if remove == "socket":
        (bench.runtime / "console.sock").unlink()
    elif remove == "folder":
        shutil.rmtree(bench.runtime)  # as a session's end does it to /run/user/UID
    else:
        bench.runtime.rename(bench.folder / "aside")
    assert ended(orphan), "nobody measures: a mere reader does not keep it"
    client, info = bench.opened(adapter, write=True)
    assert client.server_pid != orphan
    adapter.say(b"U-Boot\r\n")
    assert b"".join(chunk.data for chunk in read_bytes(client, 8)) == b"U-Boot\r\n"
    assert info.meta.name == "uart0"


def test_a_measurement_goes_on_when_the_folder_is_removed_and_another_one_is_told_what_holds_the_port(
    bench: ConsoleBench,
) -> None:
    adapter = bench.adapter()
    writer, _ = bench.opened(adapter, write=True)
    orphan = writer.server_pid
    shutil.rmtree(bench.runtime)
    other = bench.client()
    assert other.server_pid != orphan
    with pytest.raises(LabTransientError, match=f"{bench.runtime}, user ") as caught:
        other.open(adapter.link, name="uart0")
    assert caught.value.failure == "console_shared"
    assert not missing_facts(str(caught.value).lower(), f"pid {orphan}", "removed")
    assert "getty" not in str(caught.value)
    adapter.say(b"login: ")
    assert b"".join(chunk.data for chunk in read_bytes(writer, 7)) == b"login: "
    writer.close()
    assert ended(orphan)
    assert other.open(adapter.link, name="uart0").meta.name == "uart0"
    bench.client().close()  # the orphan did not take the new server's socket with it


def test_a_server_of_another_folder_is_named_with_the_way_to_use_it(bench: ConsoleBench, tmp_path: Path) -> None:
    adapter = bench.adapter()
    first, _ = bench.opened(adapter)
    folder = tmp_path / "another"
    with ConsoleClient(ensure_server(folder)) as second, pytest.raises(LabTransientError) as caught:
        second.open(adapter.link, name="uart0")
    assert (
        f"Use it (BOARDLAB_RUNTIME={bench.runtime}), or end it (`lab console stop --runtime {bench.runtime}`)"
        in str(caught.value)
    )
    with ConsoleClient(folder / "console.sock") as second:
        second.stop()
    first.close()
