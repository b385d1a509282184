"""`lab web` as a process, in a real Chromium, while a simulated board boots."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import page_looks
import pytest
import requests
from measuring_lab import ROOT, Lab, measuring_pytest, running_lab
from page_looks import Look, Seen

LAB = Path(sys.executable).with_name("lab")
DEADLINE_S = 180
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
# The states of the board's tile until it has been measured.
STATES = (
    WAITING
    % """
  const seen = new Set();
  const look = () => {
    const tile = [...document.querySelectorAll('li.board')].find((each) => each.querySelector('h2').textContent === '%s');
    if (tile) { seen.add(tile.querySelector('.state strong').textContent); }
    if (tile && /run 1, boot: completed, 2 of 2/.test(tile.textContent)) { done([...seen]); }
  };
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
    server = subprocess.Popen(
        [LAB, "web", "--listen", "127.0.0.1:0"],
        env=lab.environ | {"PYTHONUNBUFFERED": "1"},
        cwd=lab.folder / "here",
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    found = re.fullmatch(r"serving (http://127\.0\.0\.1:\d+)\n", server.stdout.readline())
    assert found is not None
    try:
        yield found[1]
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(DEADLINE_S) in {0, 130}


def measured(lab: Lab, look: Look) -> Seen:
    """What a page shows while the board boots twice."""
    command = [*measuring_pytest(lab.folder / "bench" / BOARD), "tests_perf/test_boot.py", "--cycles", "2"]
    child = subprocess.Popen(
        [*command, "--medium", "sd"], env=lab.environ, cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    (seen,) = page_looks.look([look])
    said, _ = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, said
    return seen


def test_the_wall_and_the_console_follow_a_board_that_is_measured(lab: Lab, url: str) -> None:
    wall = measured(lab, Look(url, "/", ask=STATES % BOARD))
    assert "measures" in wall.answer
    console = measured(lab, Look(url, f"/boards/{BOARD}", ask=ANOTHER_BOOT))
    assert console.answer is True, "what a console says is text, never elements"
    assert (wall.complaints, console.complaints) == ([], [])


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
