"""The TCP port for stock clients: what one client does wrong ends that client alone."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.console_bench import DEADLINE_S, ConsoleBench, wait_for

from lab.console.model import Gap
from lab.console.rfc2217_server import Bridge
from lab.host.runtime import socket_path
from lab.host.tcp import family_of, may_use, peer_user


@pytest.fixture
def bridge(bench: ConsoleBench) -> Iterator[Bridge]:
    adapter = bench.adapter()
    with bench.client() as client:
        client.open(adapter.link)
    bridge = Bridge(socket_path(bench.runtime), lambda: str(adapter.link), 115200)
    yield bridge
    bridge.close()


def guest(bridge: Bridge) -> socket.socket:
    return socket.create_connection(("127.0.0.1", bridge.port), timeout=DEADLINE_S)


def received(client: socket.socket) -> bytes:
    """All that comes before the other side hangs up."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while data := client.recv(4096):
            found += data
    return found


def ended(client: socket.socket) -> bool:
    """Whether the other side hangs up; a reset is that, too."""
    try:
        while client.recv(4096):
            pass
    except ConnectionError:
        return True
    return True


def test_a_user_of_this_host_outside_the_group_is_told_so_and_types_nothing(
    bench: ConsoleBench, bridge: Bridge
) -> None:
    refusing = Bridge(socket_path(bench.runtime), bridge._device, 115200, user_of=lambda _guest: 65_534)
    with guest(refusing) as stranger:
        stranger.sendall(b"reboot\r")
        assert b"only members of the group" in received(stranger)
    refusing.close()
    with guest(bridge) as good:
        good.sendall(b"typed")
        assert bench.adapters[0].heard(5) == b"typed", "nothing came before it"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_user_of_a_client_is_known_from_the_kernel(address: str) -> None:
    with socket.create_server((address, 0), family=family_of(address)) as listening:
        listening.settimeout(DEADLINE_S)
        port = listening.getsockname()[1]
        program = (
            "import encodings.idna, os, socket, sys\n"
            "os.setuid(int(sys.argv[1]))\n"
            "socket.create_connection((sys.argv[2], int(sys.argv[3]))).recv(1)\n"
        )
        uid = 65_534 if os.getuid() == 0 else os.getuid()
        with subprocess.Popen([sys.executable, "-c", program, str(uid), address, str(port)]):
            accepted, _ = listening.accept()
            with accepted:
                assert peer_user(accepted) == uid
                assert may_use(uid) == (uid == os.getuid())


def test_roots_connection_from_the_same_port_to_another_server_admits_nobody(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        head, *rows = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()
        client, server = (f"0100007F:{end[1]:04X}" for end in (accepted.getpeername(), accepted.getsockname()))
        own = next(row.split() for row in rows if row.split()[1:3] == [client, server])
        roots = [*own[:2], "0100007F:0050", *own[3:7], "0", *own[8:]]
        table = [head, " ".join(roots), " ".join([*own[:7], "4711", *own[8:]])]
        (tmp_path / "net").mkdir()
        (tmp_path / "net" / "tcp").write_text("\n".join(table), encoding="ascii")
        assert peer_user(accepted, tmp_path) == 4711


@pytest.mark.parametrize(
    "sent",
    [b"\xff\xf0", b"\xff\xfa\x2c\x01\x00\xff\xf0", b"\xff\xfa" + b"x" * 100_000],
    ids=["end without begin", "short speed", "endless"],
)
def test_bad_telnet_ends_its_client_without_a_traceback(
    bench: ConsoleBench, bridge: Bridge, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracebacks: list[object] = []
    monkeypatch.setattr("threading.excepthook", tracebacks.append)
    with guest(bridge) as bad:
        with contextlib.suppress(ConnectionError):
            bad.sendall(sent)
        assert ended(bad)
    with guest(bridge) as good:
        good.sendall(b"typed")
        assert bench.adapters[0].heard(5) == b"typed"
    assert tracebacks == []


def test_a_client_that_cannot_be_accepted_does_not_end_the_listener(
    bench: ConsoleBench, bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[int] = []
    accept = socket.socket.accept

    def once(listener: socket.socket) -> tuple[socket.socket, object]:
        client, address = accept(listener)
        if not failed:
            failed.append(client.fileno())
            client.close()
            raise OSError(errno.EMFILE, "Too many open files")
        return client, address

    monkeypatch.setattr("socket.socket.accept", once)
    with guest(bridge), guest(bridge), guest(bridge) as good:
        wait_for(lambda: bool(failed), "a client is not accepted")
        good.sendall(b"typed")
        assert bench.adapters[0].heard(5) == b"typed"


def test_a_guest_that_is_gone_without_a_word_is_noticed(bridge: Bridge) -> None:
    with guest(bridge) as client:
        client.sendall(b"x")
        wait_for(lambda: len(bridge._guests) == 1, "the guest is served")
        (theirs,) = bridge._guests
        wait_for(
            lambda: theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000, "its silence is bounded"
        )


def test_a_guest_is_not_told_of_an_adapter_that_was_lost_before_it_came(bench: ConsoleBench, bridge: Bridge) -> None:
    adapter = bench.adapters[0]
    with bench.client() as other:
        other.attach(other.open(adapter.link).name)
        adapter.unplug()
        wait_for(lambda: isinstance(other.read_event(0.1), Gap), "the loss is noticed")
        adapter.plug()
        wait_for(lambda: isinstance(other.read_event(0.1), Gap), "the adapter is back")
    with guest(bridge) as client:
        wait_for(lambda: len(bridge._guests) == 1, "the guest is served")
        client.sendall(b"x")
        assert adapter.heard(1) == b"x"
        adapter.say(b"hello")
        said = b""
        while b"hello" not in said:
            said += client.recv(4096)
        assert b"went away" not in said
