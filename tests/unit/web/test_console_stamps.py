"""Each line of a live console has the stamp of its first byte, and the last moments are there from the beginning."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from support.console_bench import BOOT, BOOT_MOMENTS, ConsoleBench, read_bytes, running_bench
from support.web_serving import serving

from lab.console.lookup import last_events
from lab.console.model import Chunk, LineTiming
from lab.console.moments import MomentFinder
from lab.errors import LabStableError
from lab.metrics import Moment
from lab.web.consoles import ConsoleParser, ConsoleText, LiveConsoles, Viewer, boot_starts, stamp_text
from lab.web.site import Site
from lab.web.streams import recent_text, stamps

LIMIT_S = 60


@pytest.fixture
def bench() -> Iterator[ConsoleBench]:
    with running_bench() as bench:
        yield bench


def lines(pending: ConsoleText) -> list[tuple[int | None, str]]:
    return list(zip(pending.begun_ns, pending.text.split("\n"), strict=True))


def test_a_line_has_the_stamp_of_the_read_that_brought_its_first_byte() -> None:
    pending, parser, at = ConsoleText(), ConsoleParser(MomentFinder([], LineTiming(115200))), 0
    for t_ns, data in enumerate(
        (b"one", b" goes on\r", b"\ntwo\r\n\r\nth", b"ree \xe2", b"\x82\xac\r\n", b"<b>"), start=1
    ):
        parser.feed(Chunk(t_ns, at, data), pending)
        at += len(data)
    assert lines(pending) == [(1, "one goes on\r"), (3, "two\r"), (3, "\r"), (3, "three €\r"), (6, "<b>")]
    (told,) = re.findall(r"^data: (.*)$", pending.text_event(), re.MULTILINE)
    assert json.loads(told)["lines"] == [0.001, 0.003, 0.003, 0.003, 0.006]


def test_what_was_recorded_before_has_its_stamps_where_they_are_known() -> None:
    data = b"old\r\nolder and new\r\nlast"
    pending = stamp_text(data, [Chunk(7, 12, b"d new\r\n"), Chunk(9, 19, b"last")])
    assert lines(pending) == [(None, "old\r"), (None, "older and new\r"), (9, "last")]


def test_a_boot_begins_with_the_line_of_its_first_moment() -> None:
    def moment(name: str) -> Moment:
        return Moment(name, 0, 0, 0, "")

    found = [(moment("spl"), 5), (moment("uboot"), 7), (moment("spl"), 50), (moment("uboot"), 60)]
    assert boot_starts(found) == [5, 50]
    pending = ConsoleText("\r\n".join("abcde"), [3, 5, 7, 50_000_000_050, None], found)
    assert [(line.at, line.text) for line in stamps(pending)] == [
        ("0.000", "a"),
        ("0.000", "b"),
        ("0.000", "c"),
        ("50.000", "d"),
        ("", "e"),
    ]


def test_who_looks_after_a_boot_has_its_moments_and_its_lines_stamps(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    with bench.client() as client:
        client.open(adapter.link, name="uart0", board="b")
    reader, _ = bench.opened(adapter)
    with reader:
        adapter.say(BOOT)
        read_bytes(reader, len(BOOT))
        info = reader.attach("uart0", write=False)

    async def look() -> tuple[ConsoleText, str]:
        live, viewer = LiveConsoles(bench.runtime), Viewer(asyncio.get_running_loop())
        pending = await asyncio.to_thread(live.attach, "b", viewer, "qemu-virt")
        async with asyncio.timeout(LIMIT_S):
            piece, _ = await viewer.queue.get()
        later = await asyncio.to_thread(live.attach, "b", Viewer(asyncio.get_running_loop()))
        assert [each.name for each, _ in later.moments] == BOOT_MOMENTS, "a second viewer has them, too"
        live.leave("b", viewer)
        return pending, piece.events.decode()

    pending, events = asyncio.run(look())
    assert re.findall(r'"name": "(\w+)"', events) == BOOT_MOMENTS
    chunks = list(bench.recording().chunks())
    at, begins = 0, {}
    for chunk in chunks:  # the stamp of each line's first byte, from the recording
        for offset in range(len(chunk.data)):
            if (at + offset) == 0 or BOOT[at + offset - 1 : at + offset] == b"\n":
                begins[at + offset] = chunk.t_ns
        at += len(chunk.data)
    assert [ns for ns, _ in lines(pending)] == list(begins.values())
    moments = {each.name: line_ns for each, line_ns in recent_text(info, "qemu-virt").moments}
    kernel = BOOT.index(b"Starting kernel")
    assert moments["starting_kernel"] == begins[kernel]
    assert b"".join(each.data for each in last_events(info, 10) if isinstance(each, Chunk)) == BOOT[-10:]


def test_the_last_lines_are_a_page_without_a_script(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    with bench.client() as client:
        client.open(adapter.link, name="uart0", board="b")
    reader, _ = bench.opened(adapter)
    with reader:
        output = b"<script>alert(1)</script>\r\n\x1b[31mred\r\n"
        adapter.say(output)
        read_bytes(reader, len(output))
    with serving(Site(str(bench.folder / "r.db"), runtime=bench.runtime, folder=bench.folder)) as url:
        page = requests.get(f"{url}/consoles/b", timeout=60).text
        assert requests.get(f"{url}/consoles/none", timeout=60).status_code == 404
    found = re.findall(r'<div class="line" data-at="(\d+\.\d{3})">(.*)', page)
    assert [text for _, text in found] == ["&lt;script&gt;alert(1)&lt;/script&gt;", "^[[31mred"]
    assert found[0][0] == "0.000"
    assert "<script" not in page


def test_a_viewer_opens_no_device(bench: ConsoleBench, tmp_path: Path) -> None:
    adapter = bench.adapter()
    bench.client().close()

    async def look() -> None:
        with pytest.raises(LabStableError, match="no port"):
            await asyncio.to_thread(
                LiveConsoles(bench.runtime).attach, str(adapter.link), Viewer(asyncio.get_running_loop())
            )

    asyncio.run(look())
    with bench.client() as client:
        assert client.status().ports == []
