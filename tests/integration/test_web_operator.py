"""An operator in a real Chromium at a `lab web` process: what is done there, real programs keep to."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import page_looks
import pytest
import requests
from page_looks import Look, Step
from support import certificates, web_people
from support.facts import missing_facts
from support.measuring_lab import ROOT, Lab, measuring_pytest, running_lab
from support.web_process import DEADLINE_S, LAB, WebProcess, running_web

from lab.console.client import ConsoleClient
from lab.host import process
from lab.host.clock import utc_now
from lab.host.process import PERSON_VARIABLE
from lab.host.runtime import socket_path
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.judge.records import NewVerdict
from lab.judge.store import reviews, write_verdicts
from lab.results import open_store
from lab.results.audit import Audit

BOARD = "am62xx_sk-1"
PAGE = f"/boards/{BOARD}"
ME = process.person()
BUSY = 75
ASKS = ("power-cycle", "cancel")  # actions that a person confirms
LOG_IN = (Step("focus", "main form.act button"), Step("press", "Enter"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("web")
    with running_lab(folder, "sim", "--type", "am62xx_sk", "--time-scale", "0.05") as lab:
        (folder / "envs").mkdir()
        (folder / "envs" / "one.yaml").symlink_to(folder / "bench" / BOARD / "env.yaml")
        measured = run(lab)  # there are a console and results, whichever test is first
        assert measured.returncode == 0, measured.stdout + measured.stderr
        yield lab


@pytest.fixture(scope="module")
def web(lab: Lab) -> Iterator[WebProcess]:
    with running_web(lab.folder, lab.environ) as web:
        yield web


def acting(web: WebProcess, page: str, *steps: Step, ask: str = "", **how: object) -> Look:
    """A page as the operator sees it, who logs in with the keyboard alone."""
    path = f"{web.link}&next={quote(page, safe='')}"
    there = (*LOG_IN, Step("wait", "header form.who"))
    return Look(web.own, path, steps=(*there, *steps), ask=ask, **how)  # type: ignore[arg-type]


def sent(action: str, **fields: str) -> tuple[Step, ...]:
    """A form of the board's page is filled in and sent with the keyboard alone; a dangerous one is opened before."""
    form = f"form[action$='/{action}']"
    typed = [
        step for name, text in fields.items() for step in (Step("focus", f"{form} [name={name}]"), Step("type", text))
    ]
    opened = (Step("focus", f"details:has({form}) summary"), Step("press", "Enter")) if action in ASKS else ()
    return (*opened, *typed, Step("focus", f"{form} button"), Step("press", "Enter"))


def run(lab: Lab, *words: str, person: str = ME) -> subprocess.CompletedProcess[str]:
    """`lab run` of somebody."""
    return subprocess.run(
        [LAB, "run", "--env", "one", "--cycles", "1", "--medium", "sd", *words],
        cwd=lab.folder,
        env=lab.environ | {PERSON_VARIABLE: person},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )


def test_a_reservation_made_in_the_browser_stops_lab_run_and_pytest_with_that_name(lab: Lab, web: WebProcess) -> None:
    reserve = (*sent("reserve", reason="a new PMIC"), Step("wait", "#use ~ p.hold"))
    (seen,) = page_looks.look([acting(web, PAGE, *reserve, ask="document.querySelector('#use ~ p.hold').textContent")])
    assert re.search(rf"reserved\s+by {ME} until .* UTC: a new PMIC", seen.answer), seen.answer
    assert seen.complaints == []
    timer = run(lab, person="timer")
    assert (timer.returncode, f"{BOARD} is reserved by {ME} until" in timer.stdout) == (BUSY, True), timer
    assert "(a new PMIC)" in timer.stdout
    mine = run(lab)
    assert (mine.returncode, "it is yours: add --ignore-reservation" in mine.stdout) == (BUSY, True), mine
    session = subprocess.run(
        [*measuring_pytest(lab.folder / "bench" / BOARD), "tests_perf/test_boot.py", "--lab-ignore-reservation"],
        cwd=ROOT,
        env=lab.environ | {PERSON_VARIABLE: "another"},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert session.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"is reserved by {ME} until" in session.stdout + session.stderr
    going = run(lab, "--ignore-reservation")
    assert going.returncode == 0, going.stdout + going.stderr


def writer(lab: Lab) -> int | None:
    """Who types at the board."""
    with ConsoleClient(socket_path(lab.folder / "runtime")) as client:
        return next(port.writer for port in client.status().ports if port.board == BOARD)


def test_power_is_switched_and_the_console_is_typed_at_until_the_page_closes(lab: Lab, web: WebProcess) -> None:
    came = """
new Promise((done, broken) => {
  const live = document.getElementById('live');
  setTimeout(() => broken(new Error(live.textContent.slice(-2000))), 180000);
  const state = document.getElementById('typing-state');
  const look = () => /login: root[^]*#/.test(live.textContent) && state.textContent.startsWith('Sent') && done(state.textContent);
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
  look();
})
"""
    booted = """
new Promise((done) => {
  const live = document.getElementById('live');
  const look = () => /login: *$/.test(live.textContent) && done();
  new MutationObserver(look).observe(live, { childList: true, subtree: true, characterData: true });
  look();
})
"""
    mine = (*sent("reserve", reason="to type at it"), Step("wait", "#use ~ p.hold"))
    page_looks.look([acting(web, PAGE, *mine), acting(web, PAGE, *sent("power-cycle"), Step("wait", "#live"))])
    with open_store(lab.environ["LAB_DB"]) as store:
        states = [(entry.action, entry.outcome) for entry in Audit(store).entries(board=BOARD)]
    assert ("power-cycle", "done") in states, states
    typing = acting(
        web,
        PAGE,
        Step("run", booted),
        Step("focus", "#hold"),
        Step("press", "Enter"),
        Step("wait", "#hold[aria-pressed=true]"),
        Step("focus", "#typing [name=line]"),
        Step("type", "root"),
        Step("press", "Enter"),
        ask=came,
    )
    (seen,) = page_looks.look([typing])
    assert seen.answer.startswith("Sent; you have the console"), seen
    assert seen.complaints == []
    deadline = time.monotonic() + DEADLINE_S
    while writer(lab) is not None:
        assert time.monotonic() < deadline, "the page has closed"
    with open_store(lab.environ["LAB_DB"]) as store:
        while not (given_back := Audit(store).entries(board=BOARD, action="release console")):
            assert time.monotonic() < deadline
    assert not missing_facts(given_back[0].outcome, "5 bytes", "closed")


def test_a_verdict_that_is_decided_on_stays_so_when_the_page_is_loaded_again(lab: Lab, web: WebProcess) -> None:
    with open_store(lab.environ["LAB_DB"]) as store:
        newest = store.runs(1)[0].id
        params = {"medium": "sd"}
        write_verdicts(
            store, newest, [NewVerdict("boot.time", 1, params, "regression", 1, newest, 3, 0.05, 0.04, 0.06)]
        )
        form = "form[action='/triage/review']"
        accept = (Step("focus", f"{form} [name=reason]"), Step("type", "the compiler"))
        accept += (
            Step("focus", f"{form} button[value=accept]"),
            Step("press", "Enter"),
            Step("wait", "article:not(.open)"),
        )
        again = (Step("run", "location.reload()"), Step("wait", "article:not(.open)"))
        ask = "document.querySelector('article.verdict').textContent"
        (seen,) = page_looks.look([acting(web, "/metrics/boot.time", *accept, *again, ask=ask)])
        assert f"accepted by {ME}: the compiler" in seen.answer
        assert (reviews(store)[newest].by, reviews(store)[newest].reason) == (ME, "the compiler")


# A page that is loaded now has a job to cancel, which measures.
STARTED = """
(async () => {
  const running = async () => new DOMParser().parseFromString(await (await fetch(location)).text(), 'text/html').querySelector('details form[action$="/cancel"]');
  while (!(await running())) { await new Promise(requestAnimationFrame); }
})()
"""


def test_a_job_is_queued_and_cancelled_with_the_keyboard_alone(lab: Lab, web: WebProcess) -> None:
    queued = (*sent("run", cycles="5000", release="by hand"), Step("wait", "#queued ~ ul li"))
    cancelled = (
        Step("run", STARTED),
        Step("run", "location.reload()"),
        Step("wait", "details:has(form[action$='/cancel'])"),
        *sent("cancel"),
        Step("wait", "#live"),
    )
    page_looks.look([acting(web, PAGE, *queued, *cancelled)])
    deadline = time.monotonic() + DEADLINE_S
    with open_store(lab.environ["LAB_DB"]) as store:
        (job,) = [view.job for view in listing.jobs(store, 9, utc_now()) if view.job.release == "by hand"]
        assert (job.cancelled_by, job.cycles) == (ME, 5000)
        while (
            JobQueue(store, "", process.has_died).job(job.id).state != "cancelled"
            or process.has_died(job.holder) is False
        ):
            assert time.monotonic() < deadline, "it ends, and the board is free for others"


# What a person can act on or scroll, in a page without hidden parts; `walked` is what Tab led to.
REACHED = """
(() => {
  const acts = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
  const open = [...document.querySelectorAll(acts)].filter((each) => each.checkVisibility() && !each.disabled);
  const name = (each) => each.outerHTML.slice(0, 120);
  const key = (each) => each.id || each;  // a tile of the wall may be a new one since
  const reached = new Set(walked.map((each) => key(each.element)));
  return {
    missed: open.filter((each) => !reached.has(key(each))).map(name),
    unseen: walked.filter((each) => each.shows === false).map((each) => name(each.element)),
    forms: walked.filter((each) => each.element.matches('form.act button')).length,
  };
})()
"""


# A script shows that button, where the board is this person's.
SHOWN = """
new Promise((done) => {
  const hold = document.querySelector('#hold');
  const look = () => (hold && hold.hidden ? requestAnimationFrame(look) : done());
  look();
})
"""


def test_every_action_is_reached_with_tab_and_what_has_the_focus_shows_it(lab: Lab, web: WebProcess) -> None:
    pages = {"/": 0, PAGE: 4, "/metrics/boot.time": 0, "/audit": 0}
    start = Step("run", "document.activeElement.blur()")
    walk = (Step("run", SHOWN), start, Step("walk", "400"))
    looks = [acting(web, page, *walk, ask=REACHED) for page in pages]
    looks.append(Look(web.url, "/runs/1", steps=walk, ask=REACHED))
    for look, seen, forms in zip(looks, page_looks.look(looks), (*pages.values(), 0), strict=True):
        assert (seen.answer["missed"], seen.answer["unseen"]) == ([], []), look.path
        assert seen.answer["forms"] >= forms, look.path


@pytest.mark.parametrize("mode", ["light", pytest.param("dark", marks=pytest.mark.soak)])
def test_an_operators_pages_fit_and_have_no_fault(lab: Lab, web: WebProcess, mode: str) -> None:
    pages = [PAGE, "/audit", "/metrics/boot.time"]
    looks = [acting(web, page, width=width, mode=mode, axe=width == 400) for page in pages for width in (1400, 400)]
    looks += [Look(web.url, path, width=400, mode=mode, axe=True) for path in ("/login", web.link)]
    for look, seen in zip(looks, page_looks.look(looks), strict=True):
        assert (seen.wide, seen.axe_faults(), seen.complaints, seen.beyond) == ([], [], [], 0), look.path


def test_users_come_over_tls_and_their_cookie_never_without_it(lab: Lab, tmp_path: Path) -> None:
    certificates.make(tmp_path, "server")
    (tmp_path / "web.yml").write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
    users = web_people.users(tmp_path)
    words = ("--web-config", tmp_path / "web.yml", "--users", users.path)
    with running_web(lab.folder, lab.environ, *words) as web:
        browser = web_people.Browser(web.url)
        browser.session.verify = str(tmp_path / "ca.crt")
        assert browser.get("/", allow_redirects=False).headers["location"] == "/login?next=%2F"
        cookie = browser.log_in("olga").headers["set-cookie"]
        assert cookie.startswith(f"__Host-boardlab-{web.url.rpartition(':')[2]}=")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
        assert browser.send(f"{PAGE}/comment", text="over TLS").status_code == 303
        assert "over TLS" in browser.get(PAGE).text
        with pytest.raises(requests.ConnectionError):
            requests.get(web.url.replace("https", "http"), timeout=DEADLINE_S)


def test_beyond_loopback_the_command_refuses_without_tls_and_users(lab: Lab, tmp_path: Path) -> None:
    certificates.make(tmp_path, "server")
    (tmp_path / "web.yml").write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
    nobody = ("--users", str(tmp_path / "none.json"))
    for words, lacks in ((nobody, "TLS"), ((*nobody, "--web-config", str(tmp_path / "web.yml")), "users")):
        refused = subprocess.run(
            [LAB, "web", "--listen", "0.0.0.0:0", *words],
            cwd=lab.folder,
            env={**os.environ, **lab.environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )
        assert (refused.returncode, refused.stdout) == (2, "")
        assert f"is open to other machines: that needs TLS and users. It lacks {lacks}" in refused.stderr
