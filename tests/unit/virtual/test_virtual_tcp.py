"""A UART's TCP port, on a real adapter and real sockets of loopback."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lab.errors import LabStableError
from lab.host.clock import MonotonicRaw
from lab.virtual.tcp import TcpUart
from lab.virtual.truth_log import TruthLog
from lab.virtual.uart import Pacer, UartAdapter

DEADLINE_S = 10.0


def with_uart(tmp_path: Path, body: Callable[[UartAdapter, str], Awaitable[None]]) -> None:
    """Run `body` on an adapter and the address of its TCP port."""

    async def run() -> None:
        pacer = Pacer(MonotonicRaw(), asyncio.get_running_loop())
        truth = TruthLog(tmp_path / "truth.log", 115200)
        adapter = UartAdapter(tmp_path / "uart0", pacer, truth)
        server = TcpUart(adapter.path)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await body(adapter, await server.listen(0))
        finally:
            await server.close()
            adapter.close()
            pacer.close()
            truth.close()

    asyncio.run(run())


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.partition(":")
    return await asyncio.open_connection(host, int(port))


async def lent(adapter: UartAdapter, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that has the UART: it has heard the board once."""
    reader, writer = await connect(address)
    heard = asyncio.Event()
    adapter.listen(lambda _data: heard.set())
    writer.write(b"?")
    await heard.wait()
    return reader, writer


def test_bytes_go_both_ways_unchanged(tmp_path: Path) -> None:
    text = bytes(range(256))

    async def body(adapter: UartAdapter, address: str) -> None:
        reader, writer = await lent(adapter, address)
        adapter.transmit(text)
        assert await reader.readexactly(len(text)) == text
        received = bytearray()
        done = asyncio.Event()

        def receive(data: bytes) -> None:
            received.extend(data)
            if len(received) == len(text):
                done.set()

        adapter.listen(receive)
        writer.write(text)
        await done.wait()
        assert received == text
        writer.close()

    with_uart(tmp_path, body)


def test_one_client_has_the_uart_and_the_next_gets_it_after_it(tmp_path: Path) -> None:
    async def body(adapter: UartAdapter, address: str) -> None:
        _, first = await lent(adapter, address)
        second, _ = await connect(address)
        assert await second.read() == b""
        first.close()
        taken = b""
        while not taken:  # the server notices in its own time that the first one has left
            reader, _ = await connect(address)
            adapter.transmit(b"x")
            taken = await reader.read(1)
        assert taken == b"x"

    with_uart(tmp_path, body)


def test_a_uart_that_somebody_reads_already_is_not_shared(tmp_path: Path) -> None:
    async def body(adapter: UartAdapter, address: str) -> None:
        host = os.open(adapter.path, os.O_RDWR | os.O_NOCTTY)
        fcntl.flock(host, fcntl.LOCK_EX)  # as the console server and pyserial do
        reader, _ = await connect(address)
        assert await reader.read() == b""
        os.close(host)

    with_uart(tmp_path, body)


def test_the_client_is_sent_away_when_the_adapter_is_unplugged(tmp_path: Path) -> None:
    async def body(adapter: UartAdapter, address: str) -> None:
        reader, _ = await lent(adapter, address)
        adapter.unplug()
        assert await reader.read() == b""
        late, _ = await connect(address)
        assert await late.read() == b""

    with_uart(tmp_path, body)


def test_a_port_that_is_taken_is_named_with_the_option_that_chooses_others(tmp_path: Path) -> None:
    async def body(adapter: UartAdapter, address: str) -> None:
        with pytest.raises(LabStableError, match=f"{address}: .*--tcp-port"):
            await TcpUart(adapter.path).listen(int(address.partition(":")[2]))

    with_uart(tmp_path, body)
