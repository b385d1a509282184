"""A console that several look at: it is read once, and a second viewer misses nothing of what came before."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from support.console_bench import DEADLINE_S, ConsoleBench, running_bench

from lab.console.client import ConsoleClient
from lab.errors import LabStableError
from lab.host.runtime import socket_path
from lab.web import consoles
from lab.web.consoles import LiveConsoles, Viewer


@pytest.fixture
def bench() -> Iterator[ConsoleBench]:
    with running_bench() as bench:
        yield bench


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
    consoles, loop = LiveConsoles(bench.runtime), asyncio.get_running_loop()
    first, second = Viewer(loop), Viewer(loop)
    await asyncio.to_thread(consoles.attach, "b1", first)
    adapter.say(b"first line\r\nsecond line\r\n")
    assert b"second line" in await until(first, b"second line")
    before = await asyncio.to_thread(consoles.attach, "b1", second)
    assert before.text.splitlines() == ["first line", "second line"], "the whole of what came before, once"
    adapter.say(b"third line\r\n")
    for viewer in (first, second):
        came = await until(viewer, b"third line")
        assert (came.count(b"third line"), b"first line" in came) == (1, False)
    with ConsoleClient(socket_path(bench.runtime)) as client:
        (port,) = client.status().ports
        assert port.readers == 1, "the port is read once for all who look"
    consoles.leave("b1", first)
    consoles.leave("b1", second)


async def look_at_what_cannot_be_read(bench: ConsoleBench, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench.client() as client:
        client.open(bench.adapter().link, name="uart0", board="b1")
    live = LiveConsoles(bench.runtime)

    def unreadable(*_: object) -> str:
        raise LabStableError("the recording cannot be read")

    with monkeypatch.context() as broken:
        broken.setattr(consoles, "last_lines", unreadable)
        for _ in range(2):
            with pytest.raises(LabStableError, match="cannot be read"):
                await asyncio.to_thread(live.attach, "b1", Viewer(asyncio.get_running_loop()))
    assert live._feeds["b1"].viewers == []
    with bench.client() as client:
        async with asyncio.timeout(DEADLINE_S):
            while client.status().ports[0].readers:  # the thread that read it has ended
                await asyncio.sleep(0.01)


def test_who_cannot_be_shown_what_came_before_looks_no_more(
    bench: ConsoleBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(look_at_what_cannot_be_read(bench, monkeypatch))


def test_a_second_viewer_has_the_backlog_and_then_what_the_first_one_has(bench: ConsoleBench) -> None:
    asyncio.run(look_twice(bench))


def test_a_console_server_that_does_not_answer_for_one_board_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, asked = threading.Event(), threading.Event()

    def attach(board: str, *_: object, **__: object) -> tuple[object, object]:
        if board == "slow":
            asked.set()
            answers.wait()
        raise LabStableError(f"no port of {board} is open")

    monkeypatch.setattr(consoles, "attach_to_port", attach)
    live, loop = LiveConsoles(), asyncio.new_event_loop()

    def look(board: str) -> None:
        with pytest.raises(LabStableError, match=board):
            live.attach(board, Viewer(loop))

    slow, other = (threading.Thread(target=look, args=(board,), daemon=True) for board in ("slow", "other"))
    slow.start()
    asked.wait()
    other.start()
    other.join(DEADLINE_S)
    is_delayed = other.is_alive()
    answers.set()
    slow.join()
    loop.close()
    assert not is_delayed
