"""`lab web` as a process, in a real Chromium, while a simulated board boots."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import page_looks
import pytest
import requests
from measuring_lab import ROOT, Lab, measuring_pytest, running_lab
from page_looks import Look
from web_process import DEADLINE_S, LAB, running_web

BOARD = "am62xx_sk-1"
# `ask` of a look is a promise: kept once the page shows what is waited for, broken where that never comes.
WAITING = """
new Promise((done, broken) => {
  setTimeout(() => broken(new Error(`it did not come: ${document.body.innerText.slice(-2000)}`)), 180000);
  %s
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
  look();
})
"""
TILE = "[...document.querySelectorAll('li.board')].find((each) => each.querySelector('h2').textContent === '%s')"
# What the board's tile says that it does, once it measures.
MEASURES = (
    WAITING
    % f"""
  const look = () => {{
    const tile = {TILE};
    if (tile && tile.querySelector('.state strong').textContent === 'measures') {{ done(tile.querySelector('.state').textContent.match(/boot/)[0]); }}
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
  const look = () => boots() > before && kernel.test(moments.textContent) && done(live.childElementCount === 0);
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


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("web"), "sim", "--type", "am62xx_sk", "--time-scale", "0.05") as lab:
        yield lab


@pytest.fixture(scope="module")
def url(lab: Lab) -> Iterator[str]:
    (lab.folder / "here").mkdir()
    with running_web(lab.folder / "here", lab.environ) as web:
        yield web.url


def boots(lab: Lab, cycles: str) -> list[str]:
    """The command of a session that boots the board so often."""
    words = ["tests_perf/test_boot.py", "--cycles", cycles, "--medium", "sd"]
    return [*measuring_pytest(lab.folder / "bench" / BOARD), *words]


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


def test_the_wall_and_the_console_follow_a_board_that_is_measured(lab: Lab, url: str) -> None:
    with measuring(lab):
        looks = [Look(url, "/", ask=MEASURES % BOARD), Look(url, f"/boards/{BOARD}", ask=ANOTHER_BOOT)]
        wall, console = page_looks.look(looks)
    assert wall.answer == "boot"
    assert console.answer is True, "what a console says is text, never elements"
    assert (wall.complaints, console.complaints) == ([], [])
    (ended,) = page_looks.look([Look(url, "/", ask=ENDED % BOARD)])
    assert "run 1, boot: interrupted" in ended.answer
    subprocess.run(boots(lab, "2"), env=lab.environ, cwd=ROOT, check=True, timeout=DEADLINE_S)


def test_the_rails_are_shown_while_a_sampler_runs(lab: Lab, url: str) -> None:
    env, trace = lab.folder / "bench" / BOARD / "env.yaml", lab.folder / "live.trace"
    sampler = subprocess.Popen([LAB, "rails", "trace", env, "-o", trace], env=lab.environ, stdout=subprocess.DEVNULL)
    try:
        (seen,) = page_looks.look([Look(url, f"/boards/{BOARD}", ask=LIVE_RAILS)])
    finally:
        sampler.send_signal(signal.SIGINT)
        assert sampler.wait(DEADLINE_S) == 0
    assert "vdd_core" in seen.answer
    assert seen.complaints == []
    assert not list((lab.folder / "runtime" / "samplers").iterdir()), "a sampler that ended takes its word back"


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_page_fits_and_has_no_serious_fault(lab: Lab, url: str, mode: str) -> None:
    (board,) = {run["board"] for run in requests.get(f"{url}/api/v1/runs", timeout=60).json()["runs"]}
    pages = ["/", f"/boards/{board}", "/runs", "/runs/1", "/releases", "/releases/unreleased", "/metrics"]
    pages += ["/metrics/boot.time", "/search?q=boot", "/nosuch"]
    looks = [Look(url, page, width=width, mode=mode, axe=width == 400) for page in pages for width in (1400, 400)]
    wrong = []
    for look, seen in zip(looks, page_looks.look(looks), strict=True):
        complaints = [each for each in seen.complaints if "404" not in each or look.path != "/nosuch"]
        wrong += [f"{look.path} at {look.width}: {what}" for what in (*seen.wide, *seen.serious(), *complaints)]
        assert seen.beyond == 0, look
    assert wrong == []
