"""What boards say and what things are called is text in a real Chromium, whatever it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from urllib.parse import quote

import page_looks
import pytest
from page_looks import Look
from support.console_bench import Adapter, ConsoleBench, running_bench
from support.web_serving import serving

from lab.host.clock import utc_now
from lab.results import AttemptRecord, SampleRecord, open_store
from lab.web.site import Site

NAME = "<img src=x onerror='window.hacked=1'>\u202e\x1b]0;title\x07\"'&"
BLOCK = (
    b"\x1b[2J\x1b[31mred\x1b[0m \x1b]0;another title\x07 \x1b[6n \x9b31m\r\n"
    b"<script>window.hacked=1</script><img src=x onerror='window.hacked=1'></pre>\r\n"
    b"\xe2\x80\xaetxt.exe \x00\x00 \xff\xfe\xc3\x28 data: x\r\n\r\nevent: gone\r\ndata: {}\r\n\r\n"
    + b"x" * 10_000
    + b"\r\n"
)
MARK = b"the end of it %d.\r\n"  # the page keeps so many characters, so blocks are told apart by their numbers
SHOWN = """
new Promise((done, broken) => {
  setTimeout(() => broken(new Error(`it did not come: ${document.body.innerText.slice(-500)}`)), 120000);
  const live = document.getElementById('live');
  const last = () => Number([...live.textContent.matchAll(/the end of it (\\d+)[.]/g)].at(-1)?.[1] ?? 0);
  const before = last();
  const look = () => last() > before + 1 && done({ elements: live.querySelectorAll(':not(div.line)').length + live.querySelectorAll('.line *').length, hacked: window.hacked ?? null,
    title: document.title, odd: /[\\u202e\\u0000\\u001b]/.test(live.textContent), long: live.textContent.includes('x'.repeat(10000)),
    stamped: [...live.children].slice(-9).every((line) => /^\\d+[.]\\d{3}$/.test(line.dataset.at) && getComputedStyle(line, '::before').content.includes(line.dataset.at)),
    copied: (getSelection().selectAllChildren(live.lastChild), getSelection().toString().includes(live.lastChild.dataset.at)),
    markup: live.textContent.includes('<script>window.hacked=1</script>') });
  new MutationObserver(look).observe(live, { childList: true, subtree: true, characterData: true });
  look();
})
"""


@pytest.fixture(scope="module")
def bench() -> Iterator[ConsoleBench]:
    with running_bench() as bench:
        yield bench


@pytest.fixture(scope="module")
def url(bench: ConsoleBench) -> Iterator[str]:
    with open_store(str(bench.folder / "results.db")) as store:
        run = store.begin_run("boot", NAME, NAME, NAME, plan={"cycles": 1}, provenance={NAME: NAME})
        samples = (SampleRecord("boot.time", {"medium": NAME}, 2.0, 0.001),)
        good = AttemptRecord(1, 1, {"medium": NAME}, "ok", None, None, "", utc_now(), 30.0, samples)
        store.record_attempt(run.id, good)
        store.record_attempt(
            run.id, AttemptRecord(2, 1, {"medium": NAME}, NAME, "board", True, NAME * 20, utc_now(), 30.0)
        )
        store.finish_run(run.id, "failed")
    with serving(Site(str(bench.folder / "results.db"), runtime=bench.runtime, folder=bench.folder)) as address:
        yield address


def speak(adapter: Adapter, over: threading.Event) -> None:
    number = 0
    while not over.wait(0.2):
        number += 1
        adapter.say(BLOCK + MARK % number)


def test_a_console_that_sends_anything_is_text(bench: ConsoleBench, url: str) -> None:
    adapter, over = bench.adapter(), threading.Event()
    with bench.client() as client:
        client.open(adapter.link, name="uart0", board="b")
    board = threading.Thread(target=speak, args=(adapter, over))
    board.start()
    try:
        (seen,) = page_looks.look([Look(url, "/boards/b", width=400, ask=SHOWN)])
    finally:
        over.set()
        board.join()
    expected = {"elements": 0, "hacked": None, "title": "b", "odd": False, "long": True, "markup": True}
    expected |= {"stamped": True, "copied": False}
    assert seen.answer == expected
    assert (seen.beyond, seen.complaints) == (0, [])


def test_names_of_all_kinds_are_text_on_every_page(url: str) -> None:
    pages = ["/", f"/boards/{quote(NAME)}", "/runs", "/runs/1", "/releases", "/metrics/boot.time", "/guides"]
    looks = [
        Look(url, page, width=400, ask="({ hacked: window.hacked ?? null, pictures: document.images.length })")
        for page in pages
    ]
    for look, seen in zip(looks, page_looks.look(looks), strict=True):
        assert seen.answer == {"hacked": None, "pictures": 0}, look.path
        assert (seen.beyond, seen.complaints) == (0, []), look.path
