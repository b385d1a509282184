"""The page of a release that takes long to judge, in a real Chromium: it goes on by itself."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import page_looks
import psutil
import pytest
import requests
from page_looks import Look
from support.farm_store import fill
from support.web_process import DEADLINE_S, running_web
from support.web_serving import serving

from lab.errors import LabStableError
from lab.judge.baseline import judge_run
from lab.judge.latest import WORTH_A_PROCESS
from lab.web import releasepages, releases
from lab.web.releasepages import BackgroundJudge
from lab.web.site import Site

BOARDS = 3
WHOLE = """
new Promise((done, broken) => {
  const choice = document.querySelector('form.filter select');
  choice.focus();
  choice.value = '01.00';
  setTimeout(() => broken(new Error(`it did not come: ${document.body.innerText.slice(-2000)}`)), 120000);
  const look = () => {
    const parts = document.querySelectorAll('h2[id^=run-]');
    if (parts.length === %d && !document.querySelector('[hx-get]')) done({
      contents: document.querySelectorAll('main#content').length,
      focus: document.activeElement === choice, choice: choice.value,
      verdict: document.querySelector('#so-far').innerText,
      strips: [...document.querySelectorAll('.row-strip')].map((each) => each.getBoundingClientRect().width),
    });
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  look();
})
"""


def test_a_page_that_is_judged_meanwhile_goes_on_by_itself_also_after_a_failed_request_and_disturbs_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = fill(tmp_path / "results.db", boards=BOARDS, metrics=3, samples=4, releases=4)
    asked = threading.Event()
    requests: list[int] = []

    def counted(self: BackgroundJudge) -> int:
        """Each request of the page asks for this."""
        requests.append(self._progress)
        if len(requests) == 2:
            raise LabStableError("the disk is full", failure="results")
        if len(requests) > 2:
            asked.set()
        return self._progress

    def waits(*given: object) -> object:
        assert asked.wait(120), "the page did not ask again"
        return judge_run(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(releasepages, "AT_ONCE", 0)
    monkeypatch.setattr(releases, "judge_run", waits)
    monkeypatch.setattr(BackgroundJudge, "progress", property(counted))
    with serving(Site(url, runtime=tmp_path / "runtime", folder=tmp_path)) as address:
        (seen,) = page_looks.look([Look(address, "/releases/04.00?against=02.00", ask=WHOLE % BOARDS, axe=True)])
    assert [complaint for complaint in seen.complaints if "503" not in complaint] == []
    assert len(seen.complaints) <= 2  # the request that failed, as the browser and htmx say it
    assert len(requests) > 2
    assert (seen.answer["focus"], seen.answer["choice"]) == (True, "01.00")
    assert "so far" not in seen.answer["verdict"]
    assert seen.axe_faults() == []
    assert seen.answer["contents"] == 1
    assert seen.answer["strips"]
    assert min(seen.answer["strips"]) > 60


def test_the_processes_that_judge_end_with_the_site(tmp_path: Path) -> None:
    url = fill(tmp_path / "results.db", boards=WORTH_A_PROCESS, metrics=3, samples=2, releases=2)
    environ = {**os.environ, "LAB_DB": url, "BOARDLAB_RUNTIME": str(tmp_path / "runtime")}
    deadline = time.monotonic() + DEADLINE_S
    with running_web(tmp_path, environ) as web:
        site = psutil.Process(web.pid)
        while len(children := site.children(recursive=True)) < 2:  # one that judges, and multiprocessing's tracker
            assert time.monotonic() < deadline, "no process judges"
            requests.get(web.url, timeout=DEADLINE_S).raise_for_status()
    assert psutil.wait_procs(children, DEADLINE_S)[1] == []
