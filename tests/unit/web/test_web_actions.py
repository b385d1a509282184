"""What operators do in the browser, by forms alone: done, shown on the next page, and in the audit."""

from __future__ import annotations

import csv
import datetime as dt
import io
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import requests
from support import web_people
from support.facts import missing_facts
from support.web_people import BOARD, PASSWORDS, Browser, GuardedSite, logged_in
from support.web_serving import serving

from lab.farm import job_queue
from lab.farm.board_state import BoardNow
from lab.health import QuarantineRule
from lab.health.reservations import IGNORE, ReservationBook
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.jobs.records import Order
from lab.judge.records import UNSURE, NewVerdict
from lab.judge.store import mutes, read_verdicts, reviews, write_verdicts
from lab.results import open_store
from lab.results.audit import Audit, Entry
from lab.web import console_input, job_control
from lab.web.site import Site
from lab.web.wall import Filter, Tile

HERE = f"/boards/{BOARD}"
ORDER = Order("am62xx_sk", BOARD, ("boot",), "one.yaml", "11.01", 20)
HOSTILE = "<script>alert('b')</script>\u202e\x1b]0;x\x07"


@pytest.fixture
def olga(guarded: GuardedSite) -> Browser:
    return logged_in(guarded.url, "olga")


def audit(guarded: GuardedSite) -> Entry:
    """The newest entry."""
    with guarded.store() as store:
        return Audit(store).entries(limit=1)[0]


def done(browser: Browser, path: str, **fields: str) -> str:
    """Send a form that works; returns the page that it leads to."""
    answer = browser.send(path, **fields)
    assert answer.status_code == 303, answer.text
    return browser.get(answer.headers["location"]).text


def refused(browser: Browser, path: str, **fields: str) -> str:
    """Send a form that is refused; returns what is said."""
    answer = browser.send(path, **fields)
    assert answer.status_code in {409, 422}, answer.text
    assert "Nothing was done" in answer.text
    return answer.text


def test_a_reservation_is_shown_refuses_others_and_is_given_back(guarded: GuardedSite, olga: Browser) -> None:
    page = done(olga, f"{HERE}/reserve", hours="4", reason="a new PMIC")
    assert "reserved</strong>\nby olga until" in page
    assert "a new PMIC" in page
    assert (audit(guarded).action, audit(guarded).about, audit(guarded).outcome) == (
        "reserve",
        "4 h: a new PMIC",
        "done",
    )
    with guarded.store() as store:
        timer = JobQueue(store, "lab-9/b/1/1", lambda _who: None, person="timer")
        assert timer.start(timer.enqueue(ORDER).id) is None
        assert not missing_facts(listing.obstacle(timer, BOARD), f"{BOARD}", "olga until")
    for page in ("/", "/?who=olga"):
        wall = olga.get(page).text
        assert "<strong>held</strong>" in wall, "the wall shows whose it is"
        assert re.search(r"reserved by olga .*a new PMIC", wall)
    assert f"/boards/{BOARD}" not in olga.get("/?who=lena").text
    assert "Not reserved" in done(olga, f"{HERE}/release")
    assert not missing_facts(refused(olga, f"{HERE}/release"), "not reserved")
    assert audit(guarded).action == "release"
    assert not missing_facts(audit(guarded).outcome, BOARD, "not reserved")


def test_the_wall_shows_who_has_logged_in_only_their_own_boards(guarded: GuardedSite, olga: Browser) -> None:
    vera = logged_in(guarded.url, "vera")

    def shown(browser: Browser) -> bool:
        return f'href="{HERE}"' in browser.get("/?mine=1").text

    assert 'name="mine"' in olga.get("/").text
    assert f'href="{HERE}"' in olga.get("/").text
    assert not shown(olga)
    done(olga, f"{HERE}/reserve", hours="4", reason="x")
    assert (shown(olga), shown(vera)) == (True, False)


@pytest.mark.parametrize(
    ("who", "mine"),
    [
        ("lena (lab run, pid 7)", True),
        ("lena, root (lab run, pid 7)", True),
        ("lena on host-1", True),
        ("lenard (lab run, pid 7)", False),
        ("ann, lena (lab run, pid 7)", False),
        ("", False),
    ],
)
def test_a_board_whose_job_is_of_that_person_is_held_by_that_person(who: str, mine: bool) -> None:
    assert Filter(mine="lena").takes(Tile("b", "am62xx_sk", "measuring", who)) == mine


def test_maintenance_is_put_on_and_off(guarded: GuardedSite, olga: Browser) -> None:
    assert "a fuse" in done(olga, f"{HERE}/maintain", reason="a fuse")
    with guarded.store() as store:
        assert [hold.kind for hold in ReservationBook(store).standing(BOARD)] == ["maintenance"]
    assert "not in maintenance" in done(olga, f"{HERE}/maintained")
    assert audit(guarded).action == "maintenance off"


WRONG = [
    ("reserve", {"hours": "many", "reason": "x"}, "a number, e.g. 4"),
    ("reserve", {"hours": "nan", "reason": "x"}, "a board is reserved for at most 336 h"),
    ("reserve", {"hours": "1", "reason": " "}, "at most 500 characters"),
    ("reserve", {"hours": "1", "reason": "x" * 501}, "at most 500 fit"),
    ("comment", {"text": ""}, "a comment has between 1 and 4000"),
    ("cancel", {"job": "x"}, "is no job"),
    ("cancel", {"job": "j7"}, "no job j7"),
    ("run", {"suite": "none"}, "there are boot, low_power, sections, guide"),
    ("run", {"suite": "boot", "cycles": "0"}, "a whole number from 1"),
    ("run", {"suite": "boot", "cycles": "10000000"}, "a whole number from 1"),
]


def test_a_wrong_form_is_refused_with_what_is_wrong(guarded: GuardedSite, olga: Browser) -> None:
    for action, fields, says in WRONG:
        assert says in refused(olga, f"{HERE}/{action}", **fields)
        assert says in audit(guarded).outcome


def test_a_board_that_there_is_not_is_not_reserved(guarded: GuardedSite, olga: Browser) -> None:
    assert "no board" in refused(olga, "/boards/nosuch/reserve", hours="1", reason="x")
    assert (audit(guarded).board, audit(guarded).outcome[:8]) == ("nosuch", "no board")


def test_comments_are_text_and_nothing_else(guarded: GuardedSite, olga: Browser) -> None:
    page = done(olga, f"{HERE}/comment", text=f"loose cable {HOSTILE}")
    for shown in (page, olga.get("/audit").text, olga.get(HERE).text):
        assert "<script>alert" not in shown
        assert "\u202e" not in shown
        assert "\x1b" not in shown
        assert "loose cable" in shown
    (row,) = csv.DictReader(io.StringIO(olga.get("/audit.csv?action=comment").text))
    assert (row["person"], row["board"]) == ("olga", BOARD)
    assert olga.get("/api/v1/audit?limit=1").json()["entries"][0]["action"] == "comment"


def test_a_job_is_cancelled_by_who_asks(guarded: GuardedSite, olga: Browser) -> None:
    with guarded.store() as store:
        book = JobQueue(store, "lab-9/b/1/1", lambda _who: None, person="timer")
        job = book.start(book.enqueue(ORDER).id)
        assert job is not None
        assert "Cancel job j1" in olga.get(HERE).text
        assert "is of another board" in refused(olga, "/boards/another/cancel", job="j1")
        done(olga, f"{HERE}/cancel", job="j1")
        assert book.job(job.id).cancelled_by == "olga"
        assert book.beat(job.id)


def test_a_job_is_queued_as_lab_run_does_with_whose_it_is(
    guarded: GuardedSite, olga: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = guarded.folder / "said"
    program = f"""import os, sys
open({str(said)!r}, "a").write(repr((sys.argv[1:], os.environ["BOARDLAB_PERSON"], os.environ["LAB_DB"])) + "\\n")
print("job j7: boot on it, results in here")"""
    monkeypatch.setattr(job_control, "_LAB", (sys.executable, "-c", program))
    done(olga, f"{HERE}/run", suite="boot", release="11.01", cycles="3")
    done(olga, f"{HERE}/reserve", hours="1", reason="x")
    done(olga, f"{HERE}/run", suite="boot")
    first, second = [eval(line) for line in said.read_text().splitlines()]  # noqa: S307 - of the program above
    words = ["run", "--env=one.yaml", "--suite=boot", "--release=11.01", "--cycles=3", "--wait", "604800"]
    assert first == (words, "olga", guarded.database)
    assert IGNORE in second[0]
    assert audit(guarded).about == "j7: --suite=boot"


def test_what_lab_run_says_against_an_order_is_shown(guarded: GuardedSite, olga: Browser) -> None:
    said = refused(olga, f"{HERE}/run", suite="boot")
    assert "one.yaml" in said, said
    assert not list((guarded.folder / "runtime").glob("web-run-*")), "what it said is shown, and in the audit"
    assert "one.yaml" in audit(guarded).outcome


def test_what_a_queued_job_said_is_found_when_the_site_was_started_again(
    guarded: GuardedSite, olga: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded.store() as store:
        book = JobQueue(store, "lab-9/b/1/1", lambda _who: None, person="olga")
        job = book.enqueue(ORDER)
        go = guarded.folder / "go"
        os.mkfifo(go)
        program = (
            f"print('job {job.called}: boot', flush=True); open({str(go)!r}).read(); print('\\x1b[31mno <b>prompt')"
        )
        monkeypatch.setattr(job_control, "_LAB", (sys.executable, "-c", program))
        page = done(olga, f"{HERE}/run", suite="boot")
        assert f"{job.called}, queued: <a href=" in page
        assert f"Cancel job {job.called}" in page
        go.write_text("")  # the program goes on, whoever started it
        for thread in threading.enumerate():
            if thread.name == "lab run":
                thread.join(60)
        book.finish(job.id, "failed")
    access = web_people.access(guarded.folder)
    with serving(
        Site(guarded.database, runtime=guarded.folder / "runtime", folder=guarded.folder), access=access
    ) as url:
        again = logged_in(url, "olga")
        assert f'{job.called}, failed: <a href="/jobs/{job.called}/log">' in again.get(HERE).text
        log = again.get(f"/jobs/{job.called}/log")
        assert log.headers["content-type"] == "text/plain; charset=utf-8"
        assert "no <b>prompt" in log.text
        assert "\x1b" not in log.text
        assert "no log of j99" in again.get("/jobs/j99/log").text
        assert again.get("/jobs/j1%2F..%2Fx/log").status_code == 404
    other = guarded.folder / "other.db"  # whose jobs begin with j1, too
    with open_store(str(other)) as store:
        JobQueue(store, "lab-9/b/1/1", lambda _who: None, person="bert").enqueue(ORDER)
    with serving(Site(str(other), runtime=guarded.folder / "runtime", folder=guarded.folder), access=access) as url:
        theirs = logged_in(url, "olga")
        assert f"no log of {job.called}" in theirs.get(f"/jobs/{job.called}/log").text
        assert "/jobs/" not in theirs.get(HERE).text


def test_only_so_many_logs_are_kept(tmp_path: Path) -> None:
    for number in range(1, 61):
        log = tmp_path / f"web-run-j{number}.log"
        log.touch()
        os.utime(log, (time.time() - 60 + number,) * 2)
    old = tmp_path / "web-run-x7f3.log"
    old.touch()
    os.utime(old, (time.time() - 15 * 86_400,) * 2)
    job_control.remove_old_logs(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {f"web-run-j{number}.log" for number in range(11, 61)}


def test_power_is_switched_while_nobody_else_can_have_the_board(
    guarded: GuardedSite, olga: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = guarded.folder / "said"
    program = f"""import sys
from lab.jobs import listing
from lab.results import open_store
with open_store({guarded.database!r}) as store:
    (job,) = [view.job for view in listing.jobs(store, 0, __import__("lab.host.clock").host.clock.utc_now())]
open({str(said)!r}, "a").write(" ".join((*sys.argv[1:], job.state, job.person, job.program)))"""
    monkeypatch.setattr(job_control, "_LAB", (sys.executable, "-c", program))
    done(olga, f"{HERE}/power-cycle")
    assert said.read_text() == "power cycle --env one.yaml running olga lab web"
    said.unlink()
    with guarded.store() as store:
        assert listing.job(store, 1).state == "completed"
        timer = JobQueue(store, process.identity(), process.has_died, person="timer")
        held = timer.start(timer.enqueue(ORDER).id)
        assert held is not None
        assert not missing_facts(refused(olga, f"{HERE}/power-cycle"), "busy", "job j2 (boot)", "timer")
        timer.finish(held.id, "completed")
        ReservationBook(store).reserve(BOARD, "lena", "mine", 1)
    assert "is reserved by lena" in refused(olga, f"{HERE}/power-cycle")
    assert not said.exists(), "nothing was switched"


def test_a_power_switch_keeps_to_the_rule_of_the_sites_farm(
    guarded: GuardedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules: list[QuarantineRule] = []
    monkeypatch.setattr(job_queue, "JobQueue", lambda *_, rule, **__: rules.append(rule) or pytest.fail("enough"))
    (guarded.folder / "farm.yaml").write_text("health: {faults: 7}\n")
    site = Site(guarded.database, farm=guarded.folder / "farm.yaml", folder=guarded.folder)
    with guarded.store() as store, pytest.raises(pytest.fail.Exception, match="enough"):
        job_control.power_cycle(site, store, "olga", BoardNow("b1", "am62xx_sk", env="one.yaml"))
    assert [rule.faults for rule in rules] == [7]


def test_a_power_switch_that_fails_is_said_and_gives_the_board_back(
    guarded: GuardedSite, olga: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        job_control, "_LAB", (sys.executable, "-c", "print('error: the outlet does not answer'); exit(1)")
    )
    answer = olga.send(f"{HERE}/power-cycle")
    assert (answer.status_code, missing_facts(answer.text, "outlet", "not answer")) == (503, [])
    assert not missing_facts(audit(guarded).outcome, "outlet", "not answer")
    with guarded.store() as store:
        assert listing.job(store, 1).state == "failed"


class Switch:
    """Olga switches the power in a thread, by a program that does not end by itself."""

    def __init__(self, guarded: GuardedSite, olga: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told = guarded.folder / "told"
        os.mkfifo(self.told)
        program = f"import os, time; open({str(self.told)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
        monkeypatch.setattr(job_control, "_LAB", (sys.executable, "-c", program))
        self.answers: list[tuple[int, str]] = []
        self._thread = threading.Thread(target=lambda: self._send(olga))
        self._thread.start()
        self.pid = int(self.told.read_text())  # it runs

    def _send(self, olga: Browser) -> None:
        answer = olga.send(f"{HERE}/power-cycle")
        self.answers.append((answer.status_code, answer.text))

    def ended(self) -> tuple[int, str]:
        self._thread.join(60)
        with pytest.raises(ProcessLookupError):
            os.kill(self.pid, 0)
        (answer,) = self.answers
        return answer


def test_a_power_switch_that_is_cancelled_ends_and_the_site_does_not(
    guarded: GuardedSite, olga: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[int] = []  # this process is the site
    before = signal.signal(signal.SIGTERM, lambda number, _frame: ends.append(number))
    try:
        switch = Switch(guarded, olga, monkeypatch)
        assert "Not reserved" in done(logged_in(guarded.url, "olga"), f"{HERE}/cancel", job="j1")
        status, text = switch.ended()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (ends, status) == ([], 503)
    assert not missing_facts(text, "olga cancelled", "off or on")
    with guarded.store() as store:
        assert listing.job(store, 1).state == "cancelled"


def test_a_power_switch_whose_lease_is_lost_leaves_no_program_behind(
    guarded: GuardedSite, olga: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = Switch(guarded, olga, monkeypatch)
    with guarded.store() as store:
        JobQueue(store, process.identity(), process.has_died).finish(1, "failed")
    status, text = switch.ended()
    assert (status, "was taken over" in text) == (503, True)


def test_what_fails_in_an_unforeseen_way_is_in_the_audit(
    guarded: GuardedSite, olga: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(job_control, "power_cycle", full)
    assert olga.send(f"{HERE}/power-cycle").status_code == 500
    assert "No space left on device" in audit(guarded).outcome


def verdict(guarded: GuardedSite, outcome: str = "regression") -> int:
    """A verdict on the run that calls something; its number."""
    called = NewVerdict("boot.time", 1, {"medium": "sd"}, outcome, 1, 1, 3, 0.05, 0.04, 0.06)  # type: ignore[arg-type]
    with guarded.store() as store:
        write_verdicts(store, 1, [called])
        return read_verdicts(store, run_id=1)[0].id


def test_a_run_is_accepted_where_its_verdict_is_shown(guarded: GuardedSite, olga: Browser) -> None:
    verdict(guarded)
    assert "Accept run 1" in olga.get("/metrics/boot.time").text
    assert "Accept run 1" not in logged_in(guarded.url, "vera").get("/metrics/boot.time").text
    fields = {"run": "1", "decision": "accept", "next": "/metrics/boot.time"}
    page = done(olga, "/triage/review", reason="the new compiler", **fields)
    for shown in (page, olga.get("/metrics/boot.time").text):
        assert not missing_facts(shown, "accepted", "olga", "new compiler")
        assert "Accept run 1" not in shown
    with guarded.store() as store:
        assert (reviews(store)[1].decision, reviews(store)[1].by) == ("accepted", "olga")
    assert "say what was wrong" in refused(olga, "/triage/review", run="1", decision="reject")
    assert olga.send("/triage/review", **fields | {"next": "//attacker.example"}).headers["location"] == "/"


def test_a_number_is_muted_on_its_board_until_a_day(guarded: GuardedSite, olga: Browser) -> None:
    number = str(verdict(guarded))
    until = utc_now().date() + dt.timedelta(days=7)
    fields = {"verdict": number, "until": until.isoformat(), "next": "/metrics/boot.time"}
    page = done(olga, "/triage/mute", reason="known", **fields)
    assert f"muted until {until} by olga: known" in page
    with guarded.store() as store:
        (mute,) = mutes(store)
        assert read_verdicts(store, run_id=1)[0].muted == mute
    assert (mute.metric, mute.board, dict(mute.params), mute.by) == ("boot.time", BOARD, {"medium": "sd"}, "olga")
    for wrong, says in (
        ({"until": "2020-01-01"}, "is past"),
        ({"until": "soon"}, "is no day"),
        ({"verdict": "99"}, "no verdict v99"),
        ({"reason": ""}, "say why"),
    ):
        assert says in refused(olga, "/triage/mute", **{"reason": "x", **fields, **wrong})


def test_where_to_go_is_no_reason_to_say_that_nothing_was_done(guarded: GuardedSite, olga: Browser) -> None:
    verdict(guarded)
    there = "/metrics/boot.time?board=" + "b" * 180
    answer = olga.send("/triage/review", run="1", decision="accept", reason="x" * 50, next=there)
    assert (answer.status_code, answer.headers["location"]) == (303, there)
    with guarded.store() as store:
        assert reviews(store)[1].reason == "x" * 50


@pytest.mark.parametrize("wrong", ["1" * 13, "1" * 150, "0", "x", "٣", "9" * 400])
def test_a_number_that_is_none_is_refused_and_in_the_audit(guarded: GuardedSite, olga: Browser, wrong: str) -> None:
    for path, fields in (
        ("/triage/review", {"run": wrong, "decision": "accept"}),
        ("/triage/mute", {"verdict": wrong, "until": "2099-01-01"}),
    ):
        refused(olga, path, reason="x", **fields)
        assert (audit(guarded).person, audit(guarded).outcome != "done") == ("olga", True)
    with guarded.store() as store:
        noted = [entry.action for entry in Audit(store).entries(limit=2)]
    assert noted == ["mute", "accept"]


def test_the_page_of_a_release_is_of_who_asks_with_a_password_and_the_role_now(guarded: GuardedSite) -> None:
    """It is kept, but for each person and role alone."""

    def shown(name: str) -> str:
        return requests.get(f"{guarded.url}/releases/11.01", auth=(name, PASSWORDS[name]), timeout=60).text

    vera, olga = shown("vera"), shown("olga")
    assert ("vera" in vera, "olga" in vera, "olga" in olga, "vera" in olga) == (True, False, True, False)


def test_measuring_again_queues_the_judges_confirmation(
    guarded: GuardedSite, olga: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not missing_facts(refused(olga, "/runs/1/again"), "nothing", "run 1")
    verdict(guarded, UNSURE)
    words: list[list[str]] = []
    monkeypatch.setattr(job_control, "queue_run", lambda _site, person, given: words.append([person, *given]) or "j9")
    assert 'action="/runs/1/again"' in olga.get("/releases/11.01").text
    assert 'action="/runs/1/again"' not in logged_in(guarded.url, "vera").get("/releases/11.01").text
    done(olga, "/runs/1/again")
    assert words == [["olga", "--env=one.yaml", "--confirms=1", "--release=11.01"]]
    assert audit(guarded).about == f"j9: run 1 of {BOARD}"


def test_only_who_has_reserved_a_board_types_at_it(guarded: GuardedSite, olga: Browser) -> None:
    assert not missing_facts(refused(olga, f"{HERE}/type", line="ls"), f"{BOARD}", "only", "person")
    with guarded.store() as store:
        ReservationBook(store).reserve(BOARD, "lena", "mine", 1)
    for action in ("type", "hold"):
        assert "it is reserved by lena" in refused(olga, f"{HERE}/{action}", line="ls")


@pytest.mark.parametrize(("line", "end"), [("a\x1b", "enter"), ("a\nb", "enter"), ("ls", "format")])
def test_a_line_has_no_control_characters_but_the_key_that_ends_it(line: str, end: str) -> None:
    with pytest.raises(console_input.ConfigurationError):
        console_input.encode_line(line, end)
    assert console_input.encode_line("ls ±", "ctrl-c") == "ls ±".encode() + b"\x03"


def test_the_page_of_a_viewer_has_no_action(guarded: GuardedSite, olga: Browser, tmp_path: Path) -> None:
    viewer = logged_in(guarded.url, "vera").get(HERE).text
    assert 'method="post" action="/boards' not in viewer
    assert "vera may look" in viewer
    assert olga.get(HERE).text.count('method="post" action="/boards') >= 5
