"""The boards' CAN buses, as python-can's own client of socketcand and other clients find them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import can

from lab.virtual.socketcand import READY_ID, SocketCanDaemon

DEADLINE_S = 20.0


def with_buses(body: Callable[[SocketCanDaemon, str, int], Awaitable[None]]) -> None:
    """Run `body` on the buses of two boards, and their host and port."""

    async def run() -> None:
        daemon = SocketCanDaemon(["sim-1", "sim-2"])
        host, _, port = (await daemon.listen()).partition(":")
        try:
            async with asyncio.timeout(DEADLINE_S):
                await body(daemon, host, int(port))
        finally:
            daemon.close()

    asyncio.run(run())


def test_a_frame_reaches_the_clients_of_its_boards_bus_with_the_instant_of_sending() -> None:
    async def body(daemon: SocketCanDaemon, host: str, port: int) -> None:
        def opened(board: str) -> can.BusABC:
            return can.Bus(interface="socketcand", channel=board, host=host, port=port)

        first, other = await asyncio.to_thread(opened, "sim-1"), await asyncio.to_thread(opened, "sim-2")
        before = time.time()
        daemon.send("sim-1", data=b"\x01\x0a")
        after = time.time()
        message = await asyncio.to_thread(first.recv, DEADLINE_S)
        assert message is not None
        assert (message.arbitration_id, bytes(message.data)) == (READY_ID, b"\x01\x0a")
        assert before - 1e-6 <= message.timestamp <= after + 1e-6
        assert await asyncio.to_thread(other.recv, 0) is None
        for bus in (first, other):
            bus.shutdown()

    with_buses(body)


def test_a_wrong_command_is_answered_and_a_client_that_leaves_is_forgotten() -> None:
    async def body(daemon: SocketCanDaemon, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        for command, answer in {
            b"": b"< hi >",
            b"< rawmode >": b"< error unknown command >",
            b"< open can0 >": b"< error no bus can0; there are sim-1 sim-2 >",
            b"< echo >": b"< echo >",
            b"<open sim-1>": b"< ok >",
            b"\n< rawmode >": b"< ok >",
        }.items():
            writer.write(command)
            assert await reader.readuntil(b">") == answer
        daemon.send("sim-1")
        assert (await reader.readuntil(b">")).startswith(b"< frame 123 ")
        writer.write(b"x" * 1000)  # no command ends
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        daemon.send("sim-1")

    with_buses(body)
