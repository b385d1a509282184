"""`lab web` as a process, in a real Chromium, while a simulated board boots."""

from __future__ import annotations

import datetime as dt
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import page_looks
import pytest
from attrs import define, field, frozen
from page_looks import Look, Seen
from support import scripted_lab
from support.atlength import LONG
from support.measuring_lab import ROOT, Lab, measuring_pytest, running_lab
from support.web_process import DEADLINE_S, LAB, running_web
from support.web_serving import serving

from lab.farm.board_state import BoardNow
from lab.farm.status import LabNow
from lab.host.clock import utc_now
from lab.results import open_store
from lab.web import site, streams
from lab.web.site import Site

BOARD = "am62xx_sk-1"
PAGES = (
    "/",
    f"/boards/{BOARD}",
    "/runs",
    "/runs/1",
    "/releases",
    "/releases/unreleased",
    "/metrics",
    "/metrics/boot.time",
)
WHOLE_GUIDE = "/guides/unreleased?form=html"
PAGES += ("/guides", "/guides/unreleased", WHOLE_GUIDE, "/audit", "/search?q=boot", "/look", "/nosuch")
LIVE = PAGES[:2]
LEAST_SHIFT = 0.01  # of the cumulative score; 0.1 counts as good (web.dev/cls)
# How long the longest line of prose is, in letters, and how far the page's sides are from the window's.
USED = """
(() => {
  const range = document.createRange();
  const letters = (text) => {
    range.selectNodeContents(text);
    const size = parseFloat(getComputedStyle(text.parentElement).fontSize);
    return Math.max(0, ...[...range.getClientRects()].map((line) => line.width / size * 2));
  };
  const prose = [...document.querySelectorAll('p, li, caption, figcaption, summary')].flatMap((one) => [...one.childNodes].filter((node) => node.nodeType === 3));
  const { left, right, width } = document.body.getBoundingClientRect();
  return { longest: Math.max(0, ...prose.map(letters)), askew: left - (document.documentElement.clientWidth - right), width };
})()
"""
# `ask` of a look is a promise: kept once the page shows what is waited for, broken where that never comes.
WAITING = """
new Promise((done, broken) => {
  setTimeout(() => broken(new Error(`it did not come: ${document.body.innerText.slice(-2000)}`)), 180000);
  %s
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
  look();
})
"""
TILE = "[...document.querySelectorAll('#wall-rows tr')].find((each) => each.querySelector('th').textContent === '%s')"
# What the board's tile says that it does, once it measures.
MEASURES = (
    WAITING
    % f"""
  const look = () => {{
    const tile = {TILE};
    if (tile && tile.querySelector('.state strong').textContent === 'measuring') {{ done(tile.querySelector('.state').textContent.match(/boot/)[0]); }}
  }};
"""
)
# What the tile says when the run has ended.
ENDED = (
    WAITING
    % f"""
  const look = () => {{ const tile = {TILE}; if (tile && /run 1, boot/.test(tile.textContent)) {{ done(tile.textContent); }} }};
"""
)
# Another boot on its console, and when its kernel started; whether what came is text and nothing else.
ANOTHER_BOOT = (
    WAITING
    % """
  const live = document.getElementById('live');
  const boots = () => live.textContent.split('Starting kernel').length;
  const before = boots();
  const moments = document.getElementById('moments');
  const kernel = /starting_kernel (\\d+\\.\\d+) s ± \\d+\\.\\d+ ms/;
  const look = () => boots() > before && kernel.test(moments.textContent) && done(!live.querySelector(':not(div.line)') && !live.querySelector('.line *'));
"""
)
# The rails' plot has two seconds of samples, and names the rails.
LIVE_RAILS = (
    WAITING
    % """
  const rails = document.getElementById('rails-live');
  const look = () => Number(rails.dataset.steps) > 20 && rails.querySelector('canvas') && done(rails.textContent);
  new MutationObserver(look).observe(rails, { attributes: true });
"""
)


@frozen
class Followed:
    """A lab whose board was measured twice: interrupted, and to the end.

    Attributes:
        wall, console: while it was measured. ended: the wall after the interruption.
    """

    wall: Seen
    console: Seen
    ended: Seen


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("web"), "sim", "--type", "am62xx_sk", "--time-scale", "0.05") as lab:
        yield lab


@pytest.fixture(scope="module")
def url(lab: Lab) -> Iterator[str]:
    envs = lab.folder / "here" / "envs"
    envs.mkdir(parents=True)
    (envs / "one.yaml").symlink_to(lab.folder / "bench" / BOARD / "env.yaml")
    with running_web(lab.folder / "here", lab.environ) as web:
        yield web.url


def boots(lab: Lab, cycles: str) -> list[str]:
    """The command of a session that boots the board so often."""
    words = ["tests_perf/test_boot.py", "--lab-cycles", cycles, "--lab-medium", "sd"]
    return [*measuring_pytest(lab.folder / "bench" / BOARD), *words]


def shifted(seen: Seen) -> list[tuple[float, str]]:
    """What moved on its own; nothing where that is less than anybody sees."""
    return [] if sum(score for score, _ in seen.shifts) < LEAST_SHIFT else seen.shifts


@contextmanager
def measuring(lab: Lab) -> Iterator[None]:
    """While this lasts, the board boots again and again; at its end the session is ended as by Ctrl-C."""
    log = lab.folder / "measuring.log"
    with log.open("wb") as to:
        child = subprocess.Popen(boots(lab, "10000"), env=lab.environ, cwd=ROOT, stdout=to, stderr=to)
    try:
        yield
        assert child.poll() is None, log.read_text()
    finally:
        child.send_signal(signal.SIGINT)
        child.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def followed(lab: Lab, url: str) -> Followed:
    with measuring(lab):
        looks = [Look(url, "/", ask=MEASURES % BOARD), Look(url, f"/boards/{BOARD}", ask=ANOTHER_BOOT)]
        wall, console = page_looks.look(looks)
    (ended,) = page_looks.look([Look(url, "/", ask=ENDED % BOARD)])
    subprocess.run(boots(lab, "2"), env=lab.environ, cwd=ROOT, check=True, timeout=DEADLINE_S)
    return Followed(wall, console, ended)


def test_the_wall_and_the_console_follow_a_board_that_is_measured(followed: Followed) -> None:
    assert followed.wall.answer == "boot"
    assert followed.console.answer is True, "what a console says is text, never elements"
    assert (followed.wall.complaints, followed.console.complaints) == ([], [])
    assert shifted(followed.console) == [], "what follows the lab moves nothing else"
    assert shifted(followed.wall) == []
    assert "run 1, boot: interrupted" in followed.ended.answer


def test_the_rails_are_shown_while_a_sampler_runs(lab: Lab, url: str) -> None:
    env, trace = lab.folder / "bench" / BOARD / "env.yaml", lab.folder / "live.trace"
    sampler = subprocess.Popen(
        [LAB, "rails", "trace", "--env", env, "-o", trace], env=lab.environ, stdout=subprocess.DEVNULL
    )
    try:
        (seen,) = page_looks.look([Look(url, f"/boards/{BOARD}", ask=LIVE_RAILS)])
    finally:
        sampler.send_signal(signal.SIGINT)
        assert sampler.wait(DEADLINE_S) == 0
    assert "vdd_core" in seen.answer
    assert seen.complaints == []
    assert not list((lab.folder / "runtime" / "samplers").iterdir()), "a sampler that ended takes its word back"


@pytest.mark.longer
@pytest.mark.usefixtures("followed")
@pytest.mark.parametrize(
    ("mode", "widths"),
    [("light", (1400, 2560, 400) if LONG else (1400,)), ("dark", (400, 2560, 1400) if LONG else (400, 2560))],
)
def test_every_page_fits_stays_where_it_is_and_has_no_fault(url: str, mode: str, widths: tuple[int, ...]) -> None:
    looks = [Look(url, page, width=width, mode=mode, axe=width == 400, ask=USED) for page in PAGES for width in widths]
    wrong = []
    for look, seen in zip(looks, page_looks.look(looks), strict=True):
        complaints = [each for each in seen.complaints if "404" not in each or look.path != "/nosuch"]
        moved = shifted(seen) if look.width == widths[0] else []  # a window that a person makes larger may move it
        wrong += [
            f"{look.path} at {look.width}: {what}" for what in (*seen.wide, *seen.axe_faults(), *complaints, *moved)
        ]
        assert seen.beyond == 0, look
        assert seen.answer["longest"] < 200, look
        assert look.width < 2560 or (seen.answer["width"] > 1300 and abs(seen.answer["askew"]) < 2), (look, seen)
    assert wrong == []


@pytest.mark.usefixtures("followed")
def test_every_page_can_be_read_without_javascript(url: str) -> None:
    ask = "({ text: document.body.innerText, scripts: document.scripts.length })"
    plain = page_looks.look([Look(url, page, scripts=False, ask=ask) for page in PAGES])
    for page, seen in zip(PAGES, plain, strict=True):
        assert not [each for each in seen.asked if "/events/" in each], "no script ran"
        assert page in (*LIVE, WHOLE_GUIDE) or seen.answer["scripts"] == 0, page  # a guide opens its evidence with one
        assert (seen.beyond, len(seen.answer["text"]) > 200) == (0, True), page
    wall, board, *_ = (seen.answer["text"] for seen in plain)
    assert re.search(rf"{BOARD}\s+free", wall), wall
    assert re.search(r"sd, last \d: \d\.\d+ ", wall), wall
    for words in ("lab console tail", "lab rails watch", "interrupted", "Wiring", "Provenance", "Not reserved"):
        assert words in board, words


# Whether the wall that changed step by step is what a page that is loaded now shows.
SAME = (
    WAITING
    % """
  const look = async () => {
    if (!document.querySelector('main').textContent.includes('the last')) { return; }
    const page = new DOMParser().parseFromString(await (await fetch(location)).text(), 'text/html');
    while (document.querySelector('.htmx-added, .htmx-swapping, .htmx-settling')) { await new Promise(requestAnimationFrame); }
    const [whole, changed] = [page, document].map((each) => ['#wall-head', '#wall-boards', '#wall-rows'].map((part) => (each.querySelector(part)?.innerHTML ?? '').replace(/\\s*(<|>)\\s*/g, '$1')));
    done({ whole: whole.join(''), changed: changed.join('') });
  };
"""
)


@define
class ChangingSite(Site):
    """A site with other boards at each look; the last look stays."""

    looks: list[tuple[BoardNow, ...]] = field(kw_only=True)
    at: dt.datetime = field(factory=utc_now, init=False)

    def look(self) -> site.Look:
        """The next look."""
        boards = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return site.Look(time.monotonic(), LabNow(self.at, "lab", "", "", boards, ()), (), {}, {})


@pytest.mark.parametrize("page", ["/", "/wall"])
def test_a_wall_that_changes_step_by_step_is_the_whole_wall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    dice = random.Random(36)
    names = ["ä <b>/1", "a b", *(f"b{number}" for number in range(14))]
    looks = [
        tuple(
            BoardNow(name, port=dice.choice(("", "", "its console port is lost")))
            for name in names
            if dice.random() < 0.8
        )
        for _ in range(40)
    ]
    last = (*(board for board in looks[-1] if board.board != "b0"), BoardNow("b0", port="the last"))
    monkeypatch.setattr(streams, "WALL_S", 0.01)
    with serving(ChangingSite(runtime=tmp_path, folder=tmp_path, looks=[*looks, last])) as url:
        (seen,) = page_looks.look([Look(url, page, ask=SAME)])
    assert seen.answer["changed"] == seen.answer["whole"]
    assert seen.complaints == []


# What of the wall is cut or goes beyond its card, and the areas of its cards.
CUT = """
(() => {
  const area = (one) => { const box = one.getBoundingClientRect(); return box.width * box.height; };
  const beyond = (one) => one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().bottom > one.closest('li').getBoundingClientRect().bottom;
  const shown = [...document.querySelectorAll('li h2, li .word, li .cause')].filter((one) => one.checkVisibility());
  const lines = shown.map((one) => one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).lineHeight));
  return {
    beyond: shown.filter(beyond).map((one) => one.textContent), broken: shown.filter((one, n) => one.tagName === 'H2' && lines[n] > 1.5).length,
    faults: [...document.querySelectorAll('li .state')].filter((one) => one.checkVisibility() && one.textContent.startsWith('lab: ')).length,
    problems: [...document.querySelectorAll('li.problem')].map(area), others: [...document.querySelectorAll('li:not(.problem)')].map(area),
    high: document.documentElement.scrollHeight - innerHeight,
  };
})()
"""


@pytest.mark.parametrize(
    ("boards", "width", "height"), [(24, 1400, 900), (24, 1920, 1080), (200, 1920, 1080), (200, 2560, 1440)]
)
def test_no_name_breaks_and_no_line_is_cut_on_the_wall(tmp_path: Path, boards: int, width: int, height: int) -> None:
    lost = "its console port is lost: plug the adapter of pci-0000:00:14.0-usb-0:3.2 in again, then look at the hub"
    farm = tuple(
        BoardNow(f"am62xx_sk-fs-rack{n}-shelf1", port=lost * (n % 4 == 0), console="ada" * (n % 5 == 1))
        for n in range(boards)
    )
    with serving(ChangingSite(runtime=tmp_path, folder=tmp_path, looks=[farm])) as url:
        (seen,) = page_looks.look([Look(url, "/wall", width, height, ask=CUT, axe=True)])
    assert (seen.answer["beyond"], seen.answer["broken"], seen.answer["high"], seen.beyond) == ([], 0, 0, 0)
    assert seen.answer["faults"] == len(seen.answer["problems"]) > 0, "whose fault it is stands on each"
    assert min(seen.answer["problems"]) >= 1.99 * max(seen.answer["others"], default=0)
    assert seen.axe_faults() == []


# How far down the first element that says it ends, in px of the window.
ENDS = """
new Promise((done) => {
  const look = () => {
    const said = [...document.querySelectorAll('main *')].filter((one) => one.textContent.includes(%s) && ![...one.children].some((inner) => inner.textContent.includes(%s)));
    const ends = said.filter((one) => one.checkVisibility()).map((one) => one.getBoundingClientRect().bottom);
    if (ends.length) { done(Math.min(...ends)); }
  };
  setTimeout(() => done('nowhere'), 120000);
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
  look();
})
"""
# The boards of a release's page, top down, once all are judged.
SECTIONS = (
    WAITING
    % """
  const look = () => {
    const heads = [...document.querySelectorAll('h2[id^=run-]')].map((one) => one.textContent);
    if (document.querySelector('#judged.all')) { done(heads); }
  };
"""
)


def test_the_worst_is_in_the_first_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        runs = scripted_lab.fill(store, seed=3)
    worst = [
        ("/", "board-failed"),
        ("/", "Kernel panic"),
        ("/", "board-worse"),
        ("/wall", "board-failed"),
        ("/wall", "board-worse"),
        ("/boards/board-failed", "kernel_panic"),
        ("/boards/board-worse", "+23 %"),
        (f"/runs/{runs['board-failed']}", "kernel_panic"),
        (f"/runs/{runs['board-worse']}", "+23 %"),
        ("/releases", "11.01"),
        (f"/releases/{scripted_lab.NEW}", "board-failed"),
        (f"/releases/{scripted_lab.NEW}", "board-worse"),
    ]
    with serving(scripted_lab.site(tmp_path, monkeypatch)) as url:
        looks = [Look(url, page, height=900, ask=ENDS % ((repr(said),) * 2)) for page, said in worst]
        looks.append(Look(url, f"/releases/{scripted_lab.NEW}", ask=SECTIONS))
        *seen, release = page_looks.look(looks)
    ends = {where: each.answer for where, each in zip(worst, seen, strict=True)}
    assert release.answer[:1] == ["board-worse: boot"]
    assert {where: end for where, end in ends.items() if end == "nowhere" or end > 900} == {}
