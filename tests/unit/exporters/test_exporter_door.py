"""Clients that drip, stall or come by the hundred cost the exporter neither threads nor Prometheus its scrape."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import bcrypt
import pytest
import requests
from support import certificates
from support.exporter_serving import exposition, get, serving

from exporters import server as exporter
from exporters.server import ExporterServer
from lab.http import connections, server
from lab.http.access import Guard, origin
from lab.http.web_config import WebConfig, load

DEADLINE_S = 30.0
HALF = b"GET /metrics HTTP/1.1\r\nX-Slow: "
LARGE_BYTES = 1 << 25
WHOLE = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextlib.contextmanager
def clients(url: str, count: int, said: bytes) -> Iterator[list[socket.socket]]:
    """So many connections on which this was said."""
    port = int(url.rpartition(":")[2].partition("/")[0])
    with contextlib.ExitStack() as stack:
        yield [connected(stack, port, said) for _ in range(count)]


def connected(stack: contextlib.ExitStack, port: int, said: bytes) -> socket.socket:
    client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S))
    client.sendall(said)
    return client


def drip_until_sent_away(dripping: Sequence[socket.socket], count: int) -> None:
    """Send a byte on each connection again and again, until so many of them are closed."""
    gone: set[socket.socket] = set()
    deadline = time.monotonic() + DEADLINE_S
    while len(gone) < count:
        assert time.monotonic() < deadline, f"{len(gone)} of {count} were sent away"
        for client in set(dripping) - gone:
            with contextlib.suppress(ConnectionError):
                client.send(b"x")
        gone |= set(select.select(dripping, [], [], 0.05)[0])  # nothing is said to them: they can only be closed
    assert all(closed(client) for client in gone)


def closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_scrape_comes_through_while_300_clients_drip_and_none_of_them_has_a_thread() -> None:
    with serving() as url:
        assert get(url).ok
        threads = threading.active_count()
        with clients(url, 300, HALF) as dripping:
            assert "boardlab_live" in get(url).text
            assert threading.active_count() < threads + 10
            for client in dripping:
                client.send(b"x")
            assert "boardlab_live" in get(url).text


def test_who_drips_is_sent_away_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 0.5)
    with serving() as url, clients(url, 20, HALF) as dripping:
        drip_until_sent_away(dripping, 20)
        assert get(url).ok


def test_a_drip_inside_tls_has_no_more_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 0.5)
    certificates.make(tmp_path, "server")
    (tmp_path / "tls.yml").write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
    with serving(load(tmp_path / "tls.yml")) as url, clients(url, 20, b"\x16\x03\x01\x02\x00") as dripping:
        drip_until_sent_away(dripping, 20)
        assert get(url, verify=str(tmp_path / "ca.crt")).ok


def test_when_the_house_is_full_the_longest_there_leave_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "MOST_OPEN", 10)
    with serving() as url, clients(url, 40, HALF) as dripping:
        assert "boardlab_live" in get(url).text
        drip_until_sent_away(dripping[:30], 30)
        assert select.select(dripping[32:], [], [], 0)[0] == []
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.getMessage().startswith("10 connections are open")


def test_an_address_at_its_limit_closes_only_its_own_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_OF_ADDRESS", 10)
    monkeypatch.setattr(connections, "origin", str)  # all of loopback counts as one else
    with serving() as url, contextlib.ExitStack() as stack:
        port = int(url.rpartition(":")[2].partition("/")[0])
        other = stack.enter_context(
            socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S, source_address=("127.0.0.2", 0))
        )
        dripping = [connected(stack, port, HALF) for _ in range(30)]
        drip_until_sent_away(dripping[:20], 20)
        other.sendall(WHOLE)
        assert other.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    ("addresses", "same"),
    [
        (("192.0.2.1", "::ffff:192.0.2.1"), True),
        (("192.0.2.1", "192.0.2.2"), False),
        (("2001:db8::1", "2001:db8::ffff:1"), True),
        (("2001:db8::1", "2001:db8:0:1::1"), False),
        (("fe80::1%eth0", "fe80::2%eth0"), False),
        (("127.0.0.1", "127.3.2.1"), True),
        (("127.0.0.1", "::1"), True),
    ],
)
def test_a_client_is_counted_by_what_it_cannot_choose(addresses: tuple[str, str], same: bool) -> None:
    assert (origin(addresses[0]) == origin(addresses[1])) is same


class Large:
    """Metrics that fill every buffer on their way."""

    def plain(self) -> tuple[int, Iterator[bytes]]:
        return LARGE_BYTES, iter([bytes(LARGE_BYTES)])

    gzipped = plain


def received(client: socket.socket) -> int:
    """How much comes until the connection ends."""
    count = 0
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(1 << 20):
            count += len(piece)
    return count


def test_who_takes_no_answer_keeps_nobody_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MOST_ANSWERED", 2)
    with serving(served=Large()) as url, clients(url, 5, WHOLE) as lazy:
        for client in lazy:
            assert select.select([client], [], [], DEADLINE_S)[0] == [client]  # its answer has begun
        assert len(get(url, headers={"Accept-Encoding": "identity"}).content) == LARGE_BYTES
        assert all(received(client) < LARGE_BYTES for client in lazy[:4])


def test_who_takes_the_answer_too_slowly_is_sent_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", 0.5)
    caplog.set_level("DEBUG", "lab.http")
    with serving(served=Large()) as url, clients(url, 1, WHOLE) as (lazy,):
        deadline = time.monotonic() + DEADLINE_S
        while "slower than 0.5 s" not in caplog.text:
            assert time.monotonic() < deadline
            select.select([], [], [], 0.05)
        assert received(lazy) < LARGE_BYTES


def test_one_at_a_time_is_tried_while_who_is_known_goes_past(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()
    trying, go_on = threading.Event(), threading.Event()
    admits = Guard.admits

    def slow(guard: Guard, header: str | None) -> bool:
        trying.set()
        assert go_on.wait(DEADLINE_S)
        return admits(guard, header)

    with serving(WebConfig(basic_auth_users={"prom": secret})) as url:
        assert get(url, auth=("prom", "right")).ok
        monkeypatch.setattr(Guard, "admits", slow)
        guess = threading.Thread(target=lambda: get(url, auth=("prom", "wrong")))
        guess.start()
        try:
            assert trying.wait(DEADLINE_S)
            assert get(url, auth=("prom", "right")).ok
        finally:
            go_on.set()
            guess.join()


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", b"405"),
        (b"HEAD /metrics HTTP/1.0\r\n\r\n", b"200"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/2\r\n\r\n", b"400"),
        (b"\x16\x03\x01\r\n\r\n", b"400"),
        (b"GET /nothing HTTP/1.0\r\n\r\n", b"404"),
        (b"GET /-/healthy?x HTTP/1.0\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nHost: localhost:9870\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nHost: [::1]:9870\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nHost: rebound.example:9870\r\n\r\n", b"403"),
    ],
)
def test_a_request_has_its_answer_and_then_the_connection_ends(said: bytes, status: bytes) -> None:
    with serving() as url, clients(url, 1, said) as (client,):
        answer = b""
        while piece := client.recv(4096):
            answer += piece
    assert answer.split(b" ")[1] == status
    head, _, body = answer.partition(b"\r\n\r\n")
    if said.startswith(b"HEAD"):
        assert body == b""
    elif status == b"400":  # the end of the connection ends it
        assert b"connection: close" in head.lower()
    else:
        assert f"content-length: {len(body)}".encode() in head.lower()


def test_a_request_without_end_is_cut_off() -> None:
    with serving() as url, clients(url, 1, HALF + b"x" * (1 << 15)) as (client,):
        assert received(client) < 1000


def test_a_server_that_is_told_to_end_before_it_began_ends() -> None:
    server = ExporterServer("127.0.0.1", 0, exposition(), None)
    server.shutdown()
    server.serve_forever()
    server.close()
    with pytest.raises(requests.ConnectionError):
        get(server.url)
