"""Slow clients of `lab web` are closed, live views are not, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from starlette.types import Receive, Scope, Send
from support.web_people import BOARD, GuardedSite, logged_in

from lab.http import connections, server
from lab.http.server import LimitedServer
from lab.web import middleware as guard

DEADLINE_S = 60.0
LARGE_BYTES = 1 << 25  # more than all buffers on its way hold
VIEW, PAGE, LARGE = "/view", "/page", "/large"
END = b"0\r\n\r\n"  # of a chunked answer


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """A page, a large page, and a live view, which lasts until its reader goes."""
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == VIEW:
        await send({"type": "http.response.body", "body": b"live", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    if scope["path"] == LARGE:
        for _ in range(2):
            await send({"type": "http.response.body", "body": bytes(LARGE_BYTES), "more_body": True})
    await send({"type": "http.response.body", "body": b"page"})


@contextlib.contextmanager
def serving() -> Iterator[int]:
    """The port of the application."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = LimitedServer(application, lifespan="off", timeout_graceful_shutdown=1)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


@contextlib.contextmanager
def client(port: int, say: bytes) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as opened:
        opened.sendall(say)
        yield opened


def until(client: socket.socket, text: bytes) -> None:
    """Read until a text has come."""
    heard = b""
    while text not in heard:
        piece = client.recv(4096)
        assert piece, heard
        heard += piece


def drip(client: socket.socket) -> None:
    """Send a byte again and again, until the server has closed the connection."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        assert time.monotonic() < deadline, "the server keeps a client that never ends its request"
        with contextlib.suppress(ConnectionError):
            client.send(b"x")
        if select.select([client], [], [], 0.05)[0]:
            with contextlib.suppress(ConnectionError):
                assert client.recv(1) == b""
            return


def page(port: int) -> str:
    return requests.get(f"http://127.0.0.1:{port}{PAGE}", timeout=DEADLINE_S).text


def test_a_request_has_a_deadline_on_a_new_and_on_a_used_connection_and_a_live_view_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 0.5)
    monkeypatch.setattr(connections, "ANSWER_S", 0.5)
    with serving() as port, client(port, request(VIEW)) as view:
        until(view, b"live")
        with client(port, b"GET /page HTTP/1.1\r\nX-Slow: ") as new, client(port, request(PAGE)) as used:
            until(used, END)
            used.sendall(b"GET /page HTTP/1.1\r\nX-Slow: ")
            drip(new)
            drip(used)
        assert page(port) == "page"
        assert select.select([view], [], [], 0)[0] == [], "the view goes on"


def test_a_client_that_takes_no_answer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", 0.5)
    with serving() as port, client(port, request(LARGE)) as lazy:
        until(lazy, b"200")
        with client(port, request(PAGE)) as used:  # its next request never ends: it is closed later than the other
            until(used, END)
            used.sendall(b"GET")
            drip(used)
        count = 0
        with contextlib.suppress(ConnectionResetError):
            while piece := lazy.recv(1 << 20):
                count += len(piece)
        assert count < 2 * LARGE_BYTES


def test_a_client_that_has_begun_to_ask_stays_before_silent_ones_of_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MOST_OF_ADDRESS", 10)
    monkeypatch.setattr(connections, "_SILENT_S", 0.0)
    with serving() as port, contextlib.ExitStack() as stack:
        asking = stack.enter_context(client(port, request(PAGE)))
        until(asking, END)
        asking.sendall(request(PAGE)[:10])
        for _ in range(2):
            silent = [stack.enter_context(client(port, b"")) for _ in range(20)]
            assert silent[10].recv(1) == b""
        asking.sendall(request(PAGE)[10:])
        until(asking, END)


def test_at_the_limit_silent_clients_are_closed_before_live_views_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "MOST_OPEN", 10)
    with serving() as port, contextlib.ExitStack() as stack:
        view = stack.enter_context(client(port, request(VIEW)))
        until(view, b"live")
        silent = [stack.enter_context(client(port, b"")) for _ in range(40)]
        assert page(port) == "page"
        for each in silent[:30]:
            assert each.recv(1) == b""
        for _ in range(10):
            until(stack.enter_context(client(port, request(VIEW))), b"live")
        assert page(port) == "page", "a limit that live views reach leaves pages to others"
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert record.getMessage().startswith("10 connections are open")


def test_a_form_that_never_ends_is_refused(guarded: GuardedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "REQUEST_S", 0.5)
    browser = logged_in(guarded.url, "olga")
    cookies = "; ".join(f"{name}={value}" for name, value in browser.session.cookies.items())
    head = (
        f"POST /boards/{BOARD}/comment HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookies}\r\nContent-Length: 100\r\n\r\n"
    )
    with client(int(guarded.url.rpartition(":")[2]), head.encode()) as slow:
        until(slow, b" 408 ")


def test_a_request_of_a_connection_that_is_being_closed_waits_for_its_end_without_an_answer() -> None:
    messages: list[dict[str, Any]] = [{"type": "http.disconnect"}, {"type": "http.request"}]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return messages.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    async def app(*_given: object) -> None:
        raise AssertionError("nobody waits for the answer")

    served = LimitedServer(app)
    asyncio.run(served._answer(app, None, {"type": "http", "client": ("127.0.0.1", 9)}, receive, send))
    assert (messages, sent) == ([], [])
