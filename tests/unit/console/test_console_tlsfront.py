"""The TLS front alone: a handshake that stalls is ended, and a crowd of one address does not keep others out."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import certificates
from support.prometheus_server import until
from support.tlsfront import HOST, identities

from lab.console import tlsfront, tlsguest
from lab.console.stream import Stream
from lab.console.tlsdoor import TlsDoor
from lab.console.tlsfront import TlsFront
from lab.console.tlsservices import Pdudaemon, Services
from lab.console.tlsway import TlsWay
from lab.console.tlswords import RAILS, power
from lab.errors import ConfigurationError
from lab.host.tcp import first_line
from lab.host.tls import Identity

DEADLINE_S = 60.0
FLOOD_BYTES = 32 << 20  # more than all sockets on the way hold


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    identities(folder)
    return folder


def services(folder: Path, *pdudaemons: Pdudaemon) -> Services:
    return Services(folder / "console.sock", folder / "rails.sock", pdudaemons)


@pytest.fixture
def start(made: Path, tmp_path: Path) -> Iterator[Callable[[], int]]:
    """Starts a front, without a console server behind it."""
    threads = []

    def started() -> int:
        front = TlsFront(services(tmp_path), HOST, 0, Identity(made / "server"))
        thread = threading.Thread(target=front.run)
        thread.start()
        threads.append((front, thread))
        return front.port

    yield started
    for front, thread in threads:
        front.stop()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), DEADLINE_S)


def agreed(made: Path, port: int) -> ssl.SSLSocket:
    return Identity(made / "client").client().wrap_socket(connected(port), server_hostname=HOST)


def test_a_handshake_that_stalls_is_ended(
    start: Callable[[], int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tlsguest, "HANDSHAKE_S", 0.2)
    with connected(start()) as silent:
        silent.sendall(b"\x16\x03\x01\x02\x00")  # the head of a record that does not come
        assert silent.recv(1) == b""
    until(lambda: "refused: no TLS within 0.2 s" in caplog.text, "the log says it")


def test_a_crowd_without_certificates_is_bounded_and_those_who_are_in_stay(
    made: Path, start: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tlsfront, "MOST_NEW", 3)
    port = start()
    with agreed(made, port) as inside:
        assert b"no console server answers" in inside.recv(4096)  # it got in, and was heard
        crowd = [connected(port) for _ in range(3)]
        with connected(port) as one_more:
            assert one_more.recv(1) == b""
        for each in crowd:
            each.close()


def test_an_address_that_is_not_this_hosts_is_said(made: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is it an address of this host"):
        TlsFront(services(tmp_path), "192.0.2.1", 0, Identity(made / "server"))


def test_a_key_that_others_may_read_stops_the_front(made: Path, tmp_path: Path) -> None:
    folder = certificates.identity(made / "made", "server", tmp_path / "open")
    (folder / "host.key").chmod(0o644)
    with pytest.raises(ConfigurationError, match="others may read it"):
        TlsFront(services(tmp_path), HOST, 0, Identity(folder))


def test_a_connection_that_is_cut_is_no_refusal(made: Path) -> None:
    with socket.create_server((HOST, 0)) as listening:

        def agree_and_vanish() -> None:
            accepted, _ = listening.accept()
            with Identity(made / "server").server().wrap_socket(accepted, server_side=True) as agreed:
                socket.socket(fileno=agreed.detach()).close()  # without a word of TLS

        thread = threading.Thread(target=agree_and_vanish)
        thread.start()
        stream = TlsWay(HOST, listening.getsockname()[1], Identity(made / "client")).connect(DEADLINE_S)
        thread.join(DEADLINE_S)
        with pytest.raises(OSError, match=r"EOF|reset|Broken pipe"):
            send_until_cut(stream)
        stream.close()


def send_until_cut(stream: Stream) -> None:
    while True:
        stream.send(b"x", DEADLINE_S)


def test_who_does_not_read_holds_up_nobody_and_misses_nothing(
    made: Path, tmp_path: Path, start: Callable[[], int]
) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "rails.sock"))
        server.listen()

        def flood_the_first_and_answer_the_second() -> None:
            with server.accept()[0] as first:
                flood = threading.Thread(target=first.sendall, args=(b"x" * FLOOD_BYTES,))
                flood.start()
                with server.accept()[0] as second:
                    second.sendall(second.recv(4))
                flood.join()

        thread = threading.Thread(target=flood_the_first_and_answer_the_second)
        thread.start()
        door = TlsDoor(TlsWay(HOST, start(), Identity(made / "client")), RAILS)
        with door.connect(DEADLINE_S) as slow:
            with door.connect(DEADLINE_S) as quick:
                quick.sendall(b"ping")
                assert first_line(quick.recv, 4) == b"ping"
            assert thread.is_alive()
            came = 0
            while more := slow.recv(1 << 16):
                came += len(more)
            assert came == FLOOD_BYTES
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_a_front_of_an_earlier_boardlab_is_said_before_anything_is_asked_of_it(made: Path) -> None:
    with socket.create_server((HOST, 0)) as listening:
        heard = []

        def serve_consoles_only() -> None:
            accepted, _ = listening.accept()
            with Identity(made / "server").server().wrap_socket(accepted, server_side=True) as agreed:
                heard.append(agreed.recv(1))

        thread = threading.Thread(target=serve_consoles_only)
        thread.start()
        door = TlsDoor(TlsWay(HOST, listening.getsockname()[1], Identity(made / "client")), RAILS)
        with pytest.raises(ConfigurationError, match="of an earlier boardlab, which serves only consoles"):
            door.connect(DEADLINE_S)
        thread.join(DEADLINE_S)
        assert heard == [b""]


@pytest.mark.parametrize(("address", "port"), [("10.0.0.1", 16421), ("localhost", 16421), ("127.0.0.1", 0), ("", 1)])
def test_only_a_pdudaemon_on_loopback_can_be_named(address: str, port: int) -> None:
    with pytest.raises(ConfigurationError, match="expected an address of this host's loopback"):
        Pdudaemon(address, port)


def test_two_pdudaemons_of_one_port_could_not_be_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="two have this port"):
        services(tmp_path, Pdudaemon("127.0.0.1", 16421), Pdudaemon("::1", 16421))


def test_what_neither_accepts_nor_refuses_is_not_waited_for_for_ever(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose queue is full: Linux lets one more connect than `listen` says, and then answers nobody."""
    monkeypatch.setattr(tlsguest, "CALL_S", 0.2)
    with socket.create_server((HOST, 0), backlog=0) as full, connected(full.getsockname()[1]):
        front = TlsFront(
            services(tmp_path, Pdudaemon(HOST, full.getsockname()[1])), HOST, 0, Identity(made / "server")
        )
        thread = threading.Thread(target=front.run)
        thread.start()
        way = TlsWay(HOST, front.port, Identity(made / "client"))
        with pytest.raises(ConnectionRefusedError, match=r"nothing answers at .* within 0\.2 s"):
            TlsDoor(way, power(full.getsockname()[1])).connect(DEADLINE_S)
        front.stop()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
