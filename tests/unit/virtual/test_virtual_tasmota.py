from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.virtual import http, tasmota
from lab.virtual.http import JsonResponse, Request
from lab.virtual.tasmota import OutletAction, PowerCommand


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Power1 on", PowerCommand(1, OutletAction.ON)),
        ("Power2 OFF", PowerCommand(2, OutletAction.OFF)),
        ("POWER12 1", PowerCommand(12, OutletAction.ON)),
        ("power3 0", PowerCommand(3, OutletAction.OFF)),
        ("Power1", PowerCommand(1, OutletAction.QUERY)),
        ("Power", PowerCommand(1, OutletAction.QUERY)),
        ("Power off", PowerCommand(1, OutletAction.OFF)),
        (" Power1 On ", PowerCommand(1, OutletAction.ON)),
    ],
)
def test_the_power_commands_of_tasmota_are_understood(text: str, expected: PowerCommand) -> None:
    assert tasmota.parse(text) == expected


@pytest.mark.parametrize("text", ["", "Status", "Power1 blink", "Power1 on off", "PowerX on", "Power-1 on", "xPower1"])
def test_other_commands_are_not_guessed_at(text: str) -> None:
    assert tasmota.parse(text) is None


def test_the_answer_names_the_outlet_as_pdudaemon_expects_it() -> None:
    assert tasmota.done(7, on=True) == JsonResponse(HTTPStatus.OK, {"POWER7": "ON"})
    assert tasmota.done(7, on=False) == JsonResponse(HTTPStatus.OK, {"POWER7": "OFF"})


def test_failures_are_http_errors_with_a_reason() -> None:
    assert tasmota.failed("QEMU ended").status is HTTPStatus.INTERNAL_SERVER_ERROR
    assert "QEMU ended" in str(tasmota.failed("QEMU ended").body)
    assert tasmota.unknown("Dance").status is HTTPStatus.BAD_REQUEST
    assert "Dance" in str(tasmota.unknown("Dance").body)


@given(st.binary(max_size=200))
def test_no_request_breaks_the_parser(head: bytes) -> None:
    assert isinstance(http.parse(head), Request | JsonResponse)


def test_a_request_is_taken_apart() -> None:
    head = b"GET /cm?cmnd=Power1%20On&user=x HTTP/1.1\r\nHost: localhost"
    assert http.parse(head) == Request("/cm", {"cmnd": "Power1 On", "user": "x"})


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /cm HTTP/1.1", HTTPStatus.METHOD_NOT_ALLOWED),
        (b"GET /cm SPDY/3", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED),
        (b"hello", HTTPStatus.BAD_REQUEST),
        (b"GET /cm?cmnd HTTP/1.1", HTTPStatus.BAD_REQUEST),
    ],
)
def test_a_wrong_request_is_answered_with_what_is_wrong(head: bytes, status: HTTPStatus) -> None:
    answer = http.parse(head)
    assert isinstance(answer, JsonResponse)
    assert answer.status is status


def ask(url: str) -> tuple[int, Any]:
    """Status and JSON body, through an HTTP client that is not ours."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_an_http_client_gets_the_handlers_answer_and_its_errors() -> None:
    async def handler(request: Request) -> JsonResponse:
        return tasmota.done(1, on=True) if request.path == "/cm" else tasmota.failed("no such board")

    async def run() -> None:
        server = await http.serve(0, handler)
        port = server.sockets[0].getsockname()[1]
        async with server:
            assert await asyncio.to_thread(ask, f"http://127.0.0.1:{port}/cm?cmnd=Power1") == (200, {"POWER1": "ON"})
            status, body = await asyncio.to_thread(ask, f"http://127.0.0.1:{port}/else")
            assert status == 500
            assert body == {"error": "no such board"}

    asyncio.run(run())


def test_a_client_that_sends_too_much_is_cut_off_and_the_next_one_is_served() -> None:
    async def handler(_request: Request) -> JsonResponse:
        return tasmota.done(1, on=False)

    async def run() -> None:
        server = await http.serve(0, handler)
        host, port = server.sockets[0].getsockname()[:2]
        async with server:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"x" * (1 << 20))
            with contextlib.suppress(ConnectionError):  # cut off while we were still sending
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
            assert (await asyncio.to_thread(ask, f"http://{host}:{port}/cm"))[0] == 200

    asyncio.run(run())
