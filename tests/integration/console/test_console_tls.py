"""Consoles over TCP with TLS: the same bytes, stamps and recovery as over a socket of the host, and nobody without a certificate."""

from __future__ import annotations

import random
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from support import certificates
from support.console_bench import DEADLINE_S, Adapter, ConsoleBench, read_bytes, running_bench, taken
from support.prometheus_server import until
from support.tlsfront import HOST, Front, running_front

from lab.console import ConsoleClient, Recording
from lab.console.resuming import PortOrder, ResumingClient
from lab.errors import ConfigurationError, LabTransientError

pytestmark = pytest.mark.soak

CUTS = 3  # twenty in bench/remote.py
LINE = b"[%8d] the quick brown fox jumps over the lazy dog\r\n"
BEHIND_BYTES = 3 << 20  # more than the server, both sockets and the front hold


@pytest.fixture(scope="module")
def bench() -> Iterator[ConsoleBench]:
    with running_bench() as bench:
        bench.client().close()
        yield bench


@pytest.fixture(scope="module")
def running(bench: ConsoleBench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with running_front(tmp_path_factory.mktemp("front"), bench.runtime) as front:
        yield front


@pytest.fixture
def front(running: Front) -> Front:
    """It runs, and has said nothing yet."""
    running.log.write_bytes(b"")
    return running


@pytest.fixture
def adapter(bench: ConsoleBench) -> Adapter:
    return bench.adapter(f"uart{len(bench.adapters)}")


def reader(front: Front, device: Path) -> ResumingClient:
    connect = partial(ConsoleClient, front.way())
    return ResumingClient(connect, lambda: None, PortOrder(str(device), 115200), HOST, write=True)


def test_what_comes_and_goes_is_what_the_server_stamped_and_one_line_says_who_is_here(
    adapter: Adapter, front: Front
) -> None:
    with ConsoleClient(front.way()) as client:
        info = client.open(adapter.link, elsewhere=True)
        client.attach(info.name, write=True, since=info.position)
        adapter.say(b"hello \xff\x00")
        heard = read_bytes(client, 8)
        assert heard == list(Recording.open(Path(f"{info.recording}.log")).chunks())
        client.write(b"typed" * 10_000)
        assert adapter.heard(50_000) == b"typed" * 10_000
        assert client.clock().line
        assert [port.readers for port in client.status().ports if port.info.name == info.name] == [1]
        until(lambda: front.said().count(b"client is here") == 1, "its name is in the log")
    until(lambda: front.said().count(b"client has gone") == 1, "so is its end")
    assert front.stop() == 0
    front.start()


def test_cuts_cost_no_byte_and_no_stamp(adapter: Adapter, front: Front) -> None:
    chance = random.Random(19)
    with reader(front, adapter.link) as client:
        said, heard = b"", []
        for number in range(CUTS):
            text = b"".join(LINE % n for n in range(number * 100, number * 100 + 100))
            adapter.say(text)
            said += text
            heard += taken(client, chance.randrange(1, len(text) // 2))
            front.kill()
            front.start()
            heard += taken(client, len(said) - sum(len(chunk.data) for chunk in heard))
            client.status()
            assert client.cuts == number + 1
        client.write(b"still the one who writes")
        assert adapter.heard(24) == b"still the one who writes"
        assert b"".join(chunk.data for chunk in heard) == said
        recorded = list(Recording.open(Path(f"{client.info.recording}.log")).chunks())
        assert heard == recorded[-len(heard) :]


def test_a_slow_reader_holds_up_nobody_and_gets_everything(adapter: Adapter, front: Front) -> None:
    with reader(front, adapter.link) as slow, ConsoleClient(front.way()) as quick:
        quick.attach(slow.info.name, since=slow.info.position)
        text = (LINE % 7) * 64
        said = 0
        while said < BEHIND_BYTES:
            adapter.say(text)
            said += len(text)
            assert sum(len(chunk.data) for chunk in read_bytes(quick, len(text))) == len(text)
        assert b"".join(chunk.data for chunk in taken(slow, said)) == text * (said // len(text))
        assert slow.cuts == 0


def test_a_console_server_that_is_away_is_said_to_who_asks(bench: ConsoleBench, front: Front) -> None:
    bench.end_server()
    with pytest.raises(LabTransientError, match="no console server answers") as caught:
        ConsoleClient(front.way())
    assert caught.value.failure == "no_console_server"
    bench.client().close()
    ConsoleClient(front.way()).close()


def foreign(front: Front) -> None:
    other = front.folder / "other"
    other.mkdir()
    certificates.make(other, "foreign")
    made = certificates.identity(other, "foreign", front.folder / "foreign")
    shutil.copy(front.folder / "client" / "ca.crt", made / "ca.crt")


def expired(front: Front) -> None:
    certificates.sign(front.folder / "made", "expired", days=-1)
    certificates.identity(front.folder / "made", "expired", front.folder / "expired")


def of_servers_only(front: Front) -> None:
    certificates.sign(front.folder / "made", "of_servers_only", purpose="serverAuth")
    certificates.identity(front.folder / "made", "of_servers_only", front.folder / "of_servers_only")


@pytest.mark.parametrize(
    ("made", "here", "there"),
    [
        (foreign, "ours is not of its authority", b"self-signed certificate|local issuer"),
        (expired, "ours has expired", b"certificate has expired"),
        (
            of_servers_only,
            "not made for this purpose",
            b"unsuitable certificate purpose|unsupported certificate purpose",
        ),
    ],
)
def test_a_certificate_that_is_not_accepted_is_said_on_both_sides(
    front: Front, made: Callable[[Front], None], here: str, there: bytes
) -> None:
    made(front)
    with pytest.raises(ConfigurationError, match=here):
        ConsoleClient(front.way(made.__name__))
    until(lambda: b"refused" in front.said(), "the front says it as well")
    (line,) = [line for line in front.said().splitlines() if b"refused" in line]
    assert any(words in line for words in there.split(b"|")), line
    ConsoleClient(front.way()).close()


def test_a_server_that_its_certificate_does_not_name_is_refused(front: Front) -> None:
    certificates.sign(front.folder / "made", "server", hosts="DNS:lab-2,IP:127.0.0.2")
    shutil.rmtree(front.folder / "server")
    certificates.identity(front.folder / "made", "server", front.folder / "server")
    front.kill()
    front.start()
    with pytest.raises(ConfigurationError, match=r"not valid for '127\.0\.0\.1'"):
        ConsoleClient(front.way())
    until(lambda: b"must name the host" in front.said(), "the front says it as well")
    shutil.rmtree(front.folder / "server")
    certificates.sign(front.folder / "made", "server")
    certificates.identity(front.folder / "made", "server", front.folder / "server")
    front.kill()
    front.start()


def test_who_shows_no_certificate_or_speaks_no_tls_gets_nothing_and_costs_nobody_anything(
    adapter: Adapter, front: Front
) -> None:
    with reader(front, adapter.link) as client:
        silent = [socket.create_connection((HOST, front.port), DEADLINE_S) for _ in range(20)]
        for text in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 4096, b'\x18\x00\x00\x00\x01{"op": "hello"}'):
            with socket.create_connection((HOST, front.port), DEADLINE_S) as scanner:
                scanner.sendall(text)
                scanner.shutdown(socket.SHUT_WR)
                assert b"{" not in scanner.recv(100)  # an alert of TLS, or nothing
        bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        bare.load_verify_locations(front.folder / "client" / "ca.crt")
        with (
            bare.wrap_socket(socket.create_connection((HOST, front.port), DEADLINE_S), server_hostname=HOST) as opened,
            pytest.raises(OSError, match="certificate required"),
        ):
            opened.recv(1)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match="alert protocol version"):
            old.wrap_socket(socket.create_connection((HOST, front.port), DEADLINE_S), server_hostname=HOST)
        for words in (
            b"shown no certificate",
            b"speaks HTTP without TLS",
            b"does not speak TLS",
            b"does not speak TLS 1.3",
        ):
            until(lambda words=words: words in front.said(), words.decode())  # type: ignore[misc]
        adapter.say(b"nobody else hears this")
        assert b"".join(chunk.data for chunk in taken(client, 22)) == b"nobody else hears this"
        assert client.cuts == 0
        for each in silent:
            each.close()
