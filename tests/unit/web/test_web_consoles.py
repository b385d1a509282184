"""A console that several look at: it is read once, and a second viewer misses nothing of what came before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from console_bench import DEADLINE_S, ConsoleBench

from lab.console.client import ConsoleClient
from lab.host.runtime import socket_path
from lab.web.consoles import Consoles, Viewer


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[ConsoleBench]:
    found = ConsoleBench(tmp_path)
    yield found
    found.close()


async def until(viewer: Viewer, word: bytes) -> bytes:
    """What a viewer is given, up to a word."""
    came = b""
    async with asyncio.timeout(DEADLINE_S):
        while word not in came:
            piece, lost = await viewer.queue.get()
            assert lost == 0
            came += piece.events
    return came


async def look_twice(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    with bench.client() as client:
        client.open(adapter.link, name="uart0", board="b1")
    consoles, loop = Consoles(bench.runtime), asyncio.get_running_loop()
    first, second = Viewer(loop), Viewer(loop)
    await asyncio.to_thread(consoles.look, "b1", first)
    adapter.say(b"first line\r\nsecond line\r\n")
    assert b"second line" in await until(first, b"second line")
    before = await asyncio.to_thread(consoles.look, "b1", second)
    assert before.splitlines() == ["first line", "second line"], "the whole of what came before, once"
    adapter.say(b"third line\r\n")
    for viewer in (first, second):
        came = await until(viewer, b"third line")
        assert (came.count(b"third line"), b"first line" in came) == (1, False)
    with ConsoleClient(socket_path(bench.runtime)) as client:
        (port,) = client.status().ports
        assert port.readers == 1, "the port is read once for all who look"
    consoles.leave("b1", first)
    consoles.leave("b1", second)


def test_a_second_viewer_has_the_backlog_and_then_what_the_first_one_has(bench: ConsoleBench) -> None:
    asyncio.run(look_twice(bench))
