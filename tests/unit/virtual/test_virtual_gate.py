"""The gate before pdudaemon, with a stand-in for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import pytest
import requests

from lab.errors import LabStableError
from lab.virtual import ports
from lab.virtual.pdudaemon import Gate, House

NAMED = "/power/control/on?hostname=bench&port=3"


def with_gate(body: Callable[[Gate, str, list[str]], Awaitable[None]]) -> None:
    """Run `body` on a gate, its address, and the requests that came to the pdudaemon behind it."""

    async def run() -> None:
        asked: list[str] = []

        async def pdudaemon(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            asked.append(head.split(b" ")[1].decode())
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nOK\n")
            writer.close()

        server = await asyncio.start_server(pdudaemon, ports.LOOPBACK, 0)
        gate = Gate(0, "bench", ["am62xx_sk-1", "am62axx_sk-1"])
        gate.house = House(server.sockets[0].getsockname()[1], "5ec7e7")
        async with server:
            address = await gate.open()
            await body(gate, address, asked)
        gate.close()

    asyncio.run(run())


def get(address: str, target: str) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(f"http://{address}{target}", timeout=10)


def test_the_power_switch_has_another_name_behind_the_gate() -> None:
    async def body(_gate: Gate, address: str, asked: list[str]) -> None:
        answer = await asyncio.to_thread(get, address, NAMED)
        assert (answer.status_code, answer.text) == (200, "OK\n")
        assert asked == ["/power/control/on?hostname=5ec7e7&port=3"]

    with_gate(body)


def test_a_board_is_switched_by_its_name_wherever_it_is_on_the_bench() -> None:
    async def body(_gate: Gate, address: str, asked: list[str]) -> None:
        for board in ("am62axx_sk-1", "am62xx_sk-1"):
            answer = await asyncio.to_thread(get, address, f"/power/control/off?hostname=bench/{board}&port=1")
            assert answer.status_code == 200
        assert asked == [f"/power/control/off?hostname=5ec7e7&port={number}" for number in (2, 1)]

    with_gate(body)


@pytest.mark.parametrize("named", ["bench/am654x-evm-1&port=1", "bench/am62xx_sk-1&port=2", "bench/&port=1"])
def test_a_board_that_is_not_on_the_bench_switches_no_other_one(named: str) -> None:
    async def body(_gate: Gate, address: str, asked: list[str]) -> None:
        answer = await asyncio.to_thread(get, address, f"/power/control/off?hostname={named}")
        assert answer.status_code == HTTPStatus.NOT_FOUND
        assert all(f"bench/{board}" in answer.json()["error"] for board in ("am62xx_sk-1", "am62axx_sk-1"))
        assert asked == []

    with_gate(body)


def test_what_is_not_about_the_switch_passes_as_it_is() -> None:
    async def body(_gate: Gate, address: str, asked: list[str]) -> None:
        for target in ("/", "/power/control/on?hostname=other&port=3"):
            await asyncio.to_thread(get, address, target)
        assert asked == ["/", "/power/control/on?hostname=other&port=3"]

    with_gate(body)


def test_who_asks_while_pdudaemon_starts_anew_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = asyncio.Event()
    connect = asyncio.open_connection

    async def connecting(*where: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await connect(*where)
        except ConnectionRefusedError:
            refused.set()
            raise

    monkeypatch.setattr(asyncio, "open_connection", connecting)

    async def body(gate: Gate, address: str, asked: list[str]) -> None:
        house, gate.house = gate.house, House(ports.free_port(), "")
        asking = asyncio.create_task(asyncio.to_thread(get, address, NAMED))
        await refused.wait()
        gate.house = house
        assert (await asking).status_code == HTTPStatus.OK
        assert asked == ["/power/control/on?hostname=5ec7e7&port=3"]

    with_gate(body)


def test_where_pdudaemon_is_gone_nothing_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.virtual.pdudaemon.PATIENCE_S", 0.0)

    async def body(gate: Gate, address: str, _asked: list[str]) -> None:
        gate.house = House(ports.free_port(), "")
        with pytest.raises(
            requests.ConnectionError
        ):  # as from a pdudaemon that does not run; StampedPDUDaemonDriver tries again
            await asyncio.to_thread(get, address, NAMED)

    with_gate(body)


def test_a_put_and_a_page_are_refused_at_the_gate() -> None:
    async def body(_gate: Gate, address: str, asked: list[str]) -> None:
        put = await asyncio.to_thread(requests.put, f"http://{address}{NAMED}", timeout=10)
        assert put.status_code == HTTPStatus.METHOD_NOT_ALLOWED
        origin = {"Origin": "http://evil.example"}
        page = await asyncio.to_thread(requests.get, f"http://{address}{NAMED}", timeout=10, headers=origin)
        assert page.status_code == HTTPStatus.FORBIDDEN
        assert asked == []

    with_gate(body)


def test_a_port_in_use_is_one_line() -> None:
    async def body(_gate: Gate, address: str, _asked: list[str]) -> None:
        with pytest.raises(LabStableError, match="--pdu-port"):
            await Gate(int(address.partition(":")[2]), "bench", []).open()

    with_gate(body)
