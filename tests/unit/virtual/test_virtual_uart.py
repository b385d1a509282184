"""The adapter on a real pty, with the real clock."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lab.host.clock import MonotonicRaw
from lab.virtual.truth_log import Truth, TruthLog, read_truth
from lab.virtual.uart import Pacer, UartAdapter

DEADLINE_S = 10.0
SPEED_BD = 115200


def unread(fd: int) -> int:
    """Number of bytes that wait to be read."""
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]


async def read_exactly(fd: int, count: int) -> bytes:
    """Wait for `count` bytes on a descriptor."""
    loop = asyncio.get_running_loop()
    data = bytearray()
    done = loop.create_future()

    def readable() -> None:
        data.extend(os.read(fd, count - len(data)))
        if len(data) == count and not done.done():
            done.set_result(None)

    loop.add_reader(fd, readable)
    try:
        async with asyncio.timeout(DEADLINE_S):
            await done
    finally:
        loop.remove_reader(fd)
    return bytes(data)


def open_host(adapter: UartAdapter) -> int:
    return os.open(adapter.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)


def with_adapter(
    tmp_path: Path,
    body: Callable[[UartAdapter], Awaitable[None]],
    *,
    speed_bd: int = SPEED_BD,
    fifo_bytes: int = 16,
) -> Truth:
    """Run `body` on an adapter and return what its truth log says afterwards."""

    async def run() -> None:
        pacer = Pacer(MonotonicRaw(), asyncio.get_running_loop())
        truth = TruthLog(tmp_path / "truth.log", speed_bd)
        adapter = UartAdapter(tmp_path / "board" / "uart0", pacer, truth, speed_bd=speed_bd, fifo_bytes=fifo_bytes)
        try:
            await body(adapter)
        finally:
            adapter.close()
            pacer.close()
            truth.close()

    asyncio.run(run())
    return read_truth(tmp_path / "truth.log")


def test_the_host_reads_what_the_board_sends_and_the_truth_is_paced(tmp_path: Path) -> None:
    text = bytes(range(256)) * 2  # raw mode: no byte is special

    async def body(adapter: UartAdapter) -> None:
        host = open_host(adapter)
        adapter.transmit(text)
        assert await read_exactly(host, len(text)) == text
        os.close(host)

    truth = with_adapter(tmp_path, body)
    assert truth.data == text
    took_ns = truth.left_ns(len(text) - 1) - truth.left_ns(0)
    assert took_ns >= (len(text) - 1 - 2 * 2) * 10 * 1e9 / SPEED_BD  # both ends may be late by a slip


def test_no_byte_is_stamped_before_it_was_sent_nor_after_it_was_read(tmp_path: Path) -> None:
    clock = MonotonicRaw()
    times: list[int] = []

    async def body(adapter: UartAdapter) -> None:
        host = open_host(adapter)
        for _ in range(5):
            times.append(clock.now_ns())
            adapter.transmit(b"#")
            await read_exactly(host, 1)
            times.append(clock.now_ns())
        os.close(host)

    truth = with_adapter(tmp_path, body)
    stamps = truth.find(b"#")
    assert len(stamps) == 5
    for number, stamp in enumerate(stamps):
        assert times[2 * number] + 10 * 1e9 / SPEED_BD - 1 <= stamp <= times[2 * number + 1]


def test_the_board_receives_each_byte_of_the_host_in_order(tmp_path: Path) -> None:
    text = bytes(range(256)) * 3  # more than the adapter holds at once

    async def body(adapter: UartAdapter) -> None:
        received = bytearray()
        done = asyncio.get_running_loop().create_future()

        def receive(data: bytes) -> None:
            received.extend(data)
            if len(received) == len(text):
                done.set_result(None)

        adapter.listen(receive)
        host = open_host(adapter)
        rest = text
        async with asyncio.timeout(DEADLINE_S):
            while rest:
                try:
                    rest = rest[os.write(host, rest) :]
                except BlockingIOError:
                    await asyncio.sleep(0)
            await done
        assert bytes(received) == text
        os.close(host)

    with_adapter(tmp_path, body)


@pytest.mark.parametrize("late", [True, False], ids=["the bench is late", "the bench reads at once"])
@pytest.mark.parametrize("typed", [b"\r", b"x" * 1000], ids=["a key", "more than the adapter holds"])
def test_a_board_hears_nothing_of_what_was_typed_before_its_power(tmp_path: Path, typed: bytes, late: bool) -> None:
    async def body(adapter: UartAdapter) -> None:
        received = bytearray()
        host = open_host(adapter)
        os.write(host, typed)
        until_s = time.monotonic() + DEADLINE_S
        while unread(adapter._master) < len(typed):  # the kernel hands it on a little later, in pieces
            assert time.monotonic() < until_s
        if not late:
            await asyncio.sleep(0)
        adapter.listen(received.extend)
        os.write(host, b"root")
        async with asyncio.timeout(DEADLINE_S):
            while len(received) < 4:
                await asyncio.sleep(0)
        assert bytes(received) == b"root"
        os.close(host)

    with_adapter(tmp_path, body)


def test_a_reader_that_leaves_hangs_nothing_up(tmp_path: Path) -> None:
    async def body(adapter: UartAdapter) -> None:
        os.close(open_host(adapter))
        host = open_host(adapter)
        adapter.transmit(b"still here")
        assert await read_exactly(host, 10) == b"still here"
        os.close(host)

    with_adapter(tmp_path, body)


def test_the_room_hook_lets_a_board_keep_the_line_busy_without_a_gap(tmp_path: Path) -> None:
    total = 400

    async def body(adapter: UartAdapter) -> None:
        left = total

        def refill() -> None:
            nonlocal left
            count = min(adapter.room, left)
            left -= count
            adapter.transmit(b"z" * count)

        adapter.room_hook = refill
        host = open_host(adapter)
        refill()
        await read_exactly(host, total)
        os.close(host)

    assert with_adapter(tmp_path, body).data == b"z" * total


def test_bytes_that_nobody_reads_are_lost_and_counted(tmp_path: Path) -> None:
    total = 1 << 20  # far more than the pty holds
    lost = 0

    async def body(adapter: UartAdapter) -> None:
        nonlocal lost
        sent = asyncio.get_running_loop().create_future()
        adapter.room_hook = lambda: None if adapter.queued or sent.done() else sent.set_result(None)
        adapter.transmit(b"x" * total)
        async with asyncio.timeout(DEADLINE_S):
            await sent
        lost = adapter.overruns

    truth = with_adapter(tmp_path, body, speed_bd=1_000_000_000, fifo_bytes=4096)
    assert lost > 0
    assert truth.lost == lost
    assert len(truth.data) == total - lost


def test_closing_takes_the_link_away(tmp_path: Path) -> None:
    async def body(adapter: UartAdapter) -> None:
        assert adapter.path.is_symlink()

    with_adapter(tmp_path, body)
    assert list((tmp_path / "board").iterdir()) == []


def test_what_a_killed_bench_has_left_is_no_adapter(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    (tmp_path / "board" / "uart0-ttyUSB1").symlink_to("/dev/pts/7777")

    async def body(adapter: UartAdapter) -> None:
        assert sorted(path.name for path in adapter.path.parent.iterdir()) == ["uart0", "uart0-ttyUSB0"]

    with_adapter(tmp_path, body)


def test_an_adapter_comes_back_as_the_same_device_or_the_next_one_and_its_link_leads_there(tmp_path: Path) -> None:
    async def body(adapter: UartAdapter) -> None:
        devices = [str(adapter.path.readlink())]
        for renumbered in (False, True):
            adapter.unplug()
            assert not adapter.path.exists()
            adapter.plug(renumbered=renumbered)
            devices.append(str(adapter.path.readlink()))
            assert str(adapter.path.resolve()) == adapter.tty
        assert devices == ["uart0-ttyUSB0", "uart0-ttyUSB0", "uart0-ttyUSB1"]

    with_adapter(tmp_path, body)


def test_after_power_off_the_host_gets_nothing_more(tmp_path: Path) -> None:
    async def body(adapter: UartAdapter) -> None:
        host = open_host(adapter)
        adapter.transmit(b"x" * 100_000)  # 8.7 s
        adapter.discard()
        adapter.transmit(b"e")
        data = b""
        while not data.endswith(b"e"):
            data += await read_exactly(host, 1)
        assert len(data) < 1000  # what had left the UART by then
        os.close(host)

    with_adapter(tmp_path, body)
