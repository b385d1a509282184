"""A live console: every viewer is given every byte once, as text, with the stamp of the last one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from support.console_bench import BOOT, BOOT_MOMENTS, ConsoleBench, running_bench

from lab.web import consoles
from lab.web.consoles import ConsolePiece, ConsoleText, LiveConsoles, Viewer
from lab.web.streams import console

LIMIT_S = 60


@pytest.fixture
def bench() -> Iterator[ConsoleBench]:
    with running_bench() as bench:
        yield bench


def told(data: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The events of a stream."""
    for each in data.split("\n\n"):
        if each.startswith("event: "):
            name, _, rest = each.removeprefix("event: ").partition("\n")
            yield name, json.loads(rest.removeprefix("data: "))


async def heard(pieces: Viewer, until: str) -> list[tuple[str, dict[str, object]]]:
    """The events that a viewer is given until a text has come."""
    found, text = [], ""
    async with asyncio.timeout(LIMIT_S):
        while until not in text:
            piece, lost = await pieces.queue.get()
            assert lost == 0
            found += told(piece.events.decode())
            text = "".join(str(said["text"]) for name, said in found if name == "text")
    return found


def test_an_enter_at_the_prompt_is_no_boot_and_the_next_boot_is_one(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    with bench.client() as client:
        client.open(adapter.link, name="uart0", board="b")
    prompt = BOOT.rsplit(b"\r\n", 1)[-1]

    async def look() -> list[tuple[str, dict[str, object]]]:
        live, viewer = LiveConsoles(bench.runtime), Viewer(asyncio.get_running_loop())
        await asyncio.to_thread(live.attach, "b", viewer, "qemu-virt")
        adapter.say(b"\r\n" + prompt + b"\r\n" + BOOT + (b"\r\n" + prompt) * 3 + b"\r\n" + BOOT + b"\r\nend\r\n")
        events = await heard(viewer, "end")
        live.leave("b", viewer)
        return events

    found = asyncio.run(look())
    assert b"login" in prompt
    assert [said["name"] for name, said in found if name == "moment"] == BOOT_MOMENTS * 2


def test_a_second_viewer_misses_nothing_and_the_stamps_are_the_consoles(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    with bench.client() as client:
        client.open(adapter.link, name="uart0", board="b")

    async def look() -> tuple[list[tuple[str, dict[str, object]]], str]:
        live, loop = LiveConsoles(bench.runtime), asyncio.get_running_loop()
        first, second = Viewer(loop), Viewer(loop)
        assert (await asyncio.to_thread(live.attach, "b", first, "qemu-virt")).text == ""
        adapter.say(BOOT)
        events = await heard(first, "login: ")
        before = await asyncio.to_thread(live.attach, "b", second)
        adapter.say(b"root\r\nlast\r\n")
        later = await heard(second, "last")
        await heard(first, "last")
        live.leave("b", first)
        live.leave("b", second)
        return events, before.text + "".join(str(said["text"]) for name, said in later if name == "text")

    events, second_saw = asyncio.run(look())
    text = "".join(str(said["text"]) for name, said in events if name == "text")
    assert text.replace("\b", "").count("\r\n") == BOOT.count(b"\r\n")
    assert [said["name"] for name, said in events if name == "moment"] == BOOT_MOMENTS
    assert second_saw.endswith("login: root\r\nlast\r\n"), "what came before, and then what comes: nothing twice"
    stamps = {chunk.t_ns / 1000 for chunk in bench.recording().chunks()}
    assert {said["t_us"] for name, said in events if name == "text"} <= stamps


def test_a_viewer_who_is_too_slow_is_told_how_much_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look() -> str:
        viewer = Viewer(asyncio.get_running_loop(), asyncio.Queue(2))
        for number in range(5):
            viewer.enqueue(ConsolePiece(f"event: text\ndata: {json.dumps({'text': str(number)})}\n\n".encode()))
        stream = console(LiveConsoles(), "b", viewer, ConsoleText())
        said = [await anext(stream) for _ in range(3)]
        viewer.enqueue(ConsolePiece(b"event: text\ndata: {}\n\n"))
        viewer.enqueue(ConsolePiece(b'event: gone\ndata: {"error": "x"}\n\n', "x"))
        async with asyncio.timeout(LIMIT_S):
            said += [each async for each in stream]
        return "".join(each if isinstance(each, str) else each.decode() for each in said)

    assert [(name, said.get("lost")) for name, said in told(asyncio.run(look()))] == [
        ("text", 0),
        ("text", None),
        ("text", None),
        ("text", 3),
        ("text", None),
        ("gone", None),
    ]


def test_a_port_that_is_gone_ends_the_stream(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    with bench.client() as client:
        client.open(adapter.link, name="uart0", board="b")

    async def look() -> str:
        live, viewer = LiveConsoles(bench.runtime), Viewer(asyncio.get_running_loop())
        await asyncio.to_thread(live.attach, "b", viewer)
        bench.end_server()
        async with asyncio.timeout(LIMIT_S):
            while not (piece := (await viewer.queue.get())[0]).error:
                pass
        return piece.error

    assert asyncio.run(look())


@pytest.mark.parametrize("viewers", [1, 20, 200, 5000])
def test_what_is_held_back_for_many_viewers_is_bounded(viewers: int) -> None:
    feed = consoles._Feed.__new__(consoles._Feed)
    feed.viewers = [None] * viewers  # type: ignore[list-item]
    assert 0.01 <= feed._batch_s <= 0.08
