"""QEMU's serial port with the test in QEMU's place."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from lab.host.clock import MonotonicRaw
from lab.virtual.qemu.machine import Serial
from lab.virtual.truth_log import Truth, TruthLog, read_truth
from lab.virtual.uart import TX_FIFO_BYTES, Pacer, UartAdapter

DEADLINE_S = 20.0
BYTE_NS = 10 * 1e9 / 115200


def write_like_qemu(sock: socket.socket, data: bytes) -> int:
    """One byte a call, as QEMU's PL011 does, until the socket is full; returns how many went in."""
    written = 0
    with contextlib.suppress(BlockingIOError):
        for byte in data:
            written += sock.send(bytes([byte]))
    return written


def with_serial(tmp_path: Path, body: Callable[[Serial, UartAdapter], Awaitable[None]]) -> Truth:
    async def run() -> None:
        pacer = Pacer(MonotonicRaw(), asyncio.get_running_loop())
        truth = TruthLog(tmp_path / "truth.log", 115200)
        adapter = UartAdapter(tmp_path / "uart0", pacer, truth)
        serial = Serial(adapter)
        serial.remote.setblocking(False)
        serial.listen()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await body(serial, adapter)
        finally:
            serial.close()
            adapter.close()
            truth.close()
            pacer.close()

    asyncio.run(run())
    return read_truth(tmp_path / "truth.log")


async def delivered(adapter: UartAdapter, count: int) -> bytes:
    """What the host reads until it has `count` bytes."""
    host = os.open(adapter.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    data = bytearray()
    try:
        while len(data) < count:
            with contextlib.suppress(BlockingIOError):
                data += os.read(host, 4096)
            await asyncio.sleep(0)
    finally:
        os.close(host)
    return bytes(data)


def test_the_guest_is_held_back_by_a_fifo_and_not_by_a_buffer(tmp_path: Path) -> None:
    async def body(serial: Serial, _adapter: UartAdapter) -> None:
        held = write_like_qemu(serial.remote, b"x" * 10_000)
        assert 8 <= held <= 2 * TX_FIFO_BYTES

    with_serial(tmp_path, body)


def test_the_guest_prints_at_the_speed_of_the_line(tmp_path: Path) -> None:
    text = bytes(range(256)) * 4

    async def body(serial: Serial, adapter: UartAdapter) -> None:
        async def guest() -> None:
            rest = text
            while rest:
                rest = rest[write_like_qemu(serial.remote, rest) :]
                await asyncio.sleep(0)

        printing = asyncio.create_task(guest())
        assert await delivered(adapter, len(text)) == text
        await printing

    truth = with_serial(tmp_path, body)
    took_ns = truth.left_ns(len(text) - 1) - truth.left_ns(0)
    assert took_ns >= (len(text) - 1 - 4) * BYTE_NS


def test_the_guest_receives_what_the_host_writes(tmp_path: Path) -> None:
    async def body(serial: Serial, adapter: UartAdapter) -> None:
        host = os.open(adapter.path, os.O_RDWR | os.O_NOCTTY)
        os.write(host, b"root\r")
        received = bytearray()
        while len(received) < 5:
            with contextlib.suppress(BlockingIOError):
                received += serial.remote.recv(64)
            await asyncio.sleep(0)
        assert bytes(received) == b"root\r"
        os.close(host)

    with_serial(tmp_path, body)


def test_a_guest_that_ends_lets_its_last_words_out(tmp_path: Path) -> None:
    async def body(serial: Serial, adapter: UartAdapter) -> None:
        write_like_qemu(serial.remote, b"panic")
        serial.remote.close()
        assert await delivered(adapter, 5) == b"panic"

    with_serial(tmp_path, body)


def test_power_off_stops_in_the_middle_of_the_text(tmp_path: Path) -> None:
    async def body(serial: Serial, adapter: UartAdapter) -> None:
        write_like_qemu(serial.remote, b"x" * 10_000)
        serial.close()
        adapter.transmit(b"|")
        assert (await delivered(adapter, 1))[-1:] == b"|"

    assert with_serial(tmp_path, body).data.count(b"x") < 16


def test_what_a_starved_guest_does_not_take_waits_in_the_adapter_and_in_its_port(tmp_path: Path) -> None:
    text = bytes(range(256)) * 12
    arrived = bytearray()

    async def body(serial: Serial, adapter: UartAdapter) -> None:
        adapter.typed_hook = arrived.extend
        host = os.open(adapter.path, os.O_RDWR | os.O_NOCTTY)
        assert os.write(host, text) == len(text)
        received = bytearray()
        while len(arrived) < 400:  # QEMU takes nothing, and the socket has no room for as many single bytes
            await asyncio.sleep(0)
        while len(received) < len(text):
            with contextlib.suppress(BlockingIOError):
                received += serial.remote.recv(64)
            await asyncio.sleep(0)
        assert bytes(received) == text
        os.close(host)

    with_serial(tmp_path, body)
