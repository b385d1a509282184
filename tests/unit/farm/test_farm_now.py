"""`lab status` and `lab watch`: the lab on one screen, from what is there, however long its names are."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts

from lab import package_data, terminal
from lab.cli import main
from lab.cli.watch import scroll, view
from lab.console.recording import RecordingMeta
from lab.console.status import PortInfo, PortStatus, ports_of
from lab.farm import services, status
from lab.farm.board_state import BoardNow, JobNow
from lab.farm.services import Service
from lab.farm.status import LabNow
from lab.health import Health
from lab.host import process
from lab.jobs.queue import JobQueue, Order
from lab.results import AttemptRecord, Run, Store, open_store
from lab.results.listing import ListedRun
from lab.terminal import Marked
from lab.web.wall import tiles

ENV = """targets:
  main:
    drivers:
    - StampedConsoleDriver: {}
    - BoardStrategy: {board: am62x-1, board_type: am62xx_sk}
imports: [STRATEGY]
""".replace("STRATEGY", str(package_data.strategy_file()))
LONG = "board-" + "x" * 250
AT = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)


FARM = (
    "pdudaemon: {address: '127.0.0.1:1'}\nexporter: {listen: '127.0.0.1:1'}\ndatabase: sqlite:////nowhere/results.db\n"
)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab's folder with one environment; no services, and no results yet."""
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "am62x.yaml").write_text(ENV)
    (tmp_path / "envs" / "broken.yaml").write_text("targets: [")
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "farm.yaml").write_text(FARM)  # a draft, whose ports nobody listens at: on the usual ones somebody may
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_DB", str(tmp_path / "results.db"))
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    monkeypatch.setattr(services, "FARM_FILES", (services.DRAFT,))
    return tmp_path


@pytest.fixture
def store(lab: Path) -> Iterator[Store]:
    with open_store() as store:
        yield store


def attempt(store: Store, run_id: int, cycle: int, outcome: str = "ok") -> None:
    bad = outcome != "ok"
    fault, transient = ("board", True) if bad else (None, None)
    params = {"medium": "sd"}
    store.record_attempt(
        run_id, AttemptRecord(cycle, 1, params, outcome, fault, transient, "", dt.datetime.now(dt.UTC), 1.0)
    )


def begun(store: Store, board: str = "am62x-1", board_type: str = "am62xx_sk") -> int:
    return store.begin_run("boot", board_type, board, "11.01", plan={}, provenance={}).id


def board(found: LabNow, name: str = "am62x-1") -> BoardNow:
    return next(board for board in found.boards if board.board == name)


def queue(store: Store) -> JobQueue:
    return JobQueue(store, process.identity(), process.has_died)


ORDER = Order("am62xx_sk", "am62x-1", ("boot",), "envs/am62x.yaml", "11.01", None)


def test_a_lab_without_results_shows_its_boards_and_why_there_are_none(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status"]) == 0
    out = capsys.readouterr().out
    (board_line,) = re.findall(r"^am62x-1 .*", out, re.MULTILINE)
    assert not missing_facts(board_line, "unknown", "without results")
    assert not missing_facts(out, "results:", "no results")
    assert re.search(r"failed .*: not known", out)
    (server_line,) = re.findall(r"^console server .*", out, re.MULTILINE)
    assert not missing_facts(server_line, " - ", "does not run")


def test_a_board_is_not_free_when_the_results_cannot_be_read(store: Store, lab: Path) -> None:
    begun(store)
    assert board(status.look()).state.name == "failed"
    with sqlite3.connect(lab / "results.db") as database:
        database.execute("DROP TABLE runs")
    found = status.look()
    assert found.trouble
    assert board(found).state.name == "unknown"
    assert board(found).state.explains


def test_nothing_is_started_and_nothing_is_written(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(lab.rglob("*"))
    assert main(["status", "--json"]) == 0
    assert sorted(lab.rglob("*")) == before


def test_a_board_that_is_measured_names_the_job_the_person_and_how_far_it_is(store: Store) -> None:
    before = begun(store)
    attempt(store, before, 1)
    store.finish_run(before, "completed")
    jobs = queue(store)
    jobs.start(jobs.enqueue(ORDER).id)
    jobs.enqueue(ORDER)
    run = begun(store)
    attempt(store, run, 1)
    attempt(store, run, 2, "hang_kernel")
    found = board(status.look())
    assert found.job is not None
    assert (found.job.id, found.job.state, found.job.died, found.waiting) == (1, "running", False, 1)
    assert found.job.who.endswith(f"pid {os.getpid()})")
    assert (found.current and found.current.run.id, found.last and found.last.run.id) == (run, before)
    lines = "\n".join(status.lines(status.look(), 200))
    assert re.search(r"boot \(job j1\) for \d+ s", lines)
    assert not missing_facts(lines, f"{found.job.who}", f"run {run}", "1 good", "1 failed", "1 waiting")
    (last,) = re.findall(rf"{before} boot .* ago", lines)
    assert not missing_facts(last, "11.01", "completed", "1/1", " s ago")
    assert not missing_facts(lines, "24 h", ": 1")


def test_a_job_whose_process_is_gone_is_bad(store: Store) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    who = process.identity().rsplit("/", 2)[0] + f"/{ended.pid}/1"
    jobs = JobQueue(store, who, process.has_died)
    jobs.start(jobs.enqueue(ORDER).id)
    (line,) = [line for line in status.lines(status.look(), 200) if "its process is gone" in line]
    assert isinstance(line, Marked)


def test_a_run_of_a_job_says_how_many_samples_there_will_be_and_when_it_ends() -> None:
    ends = AT + dt.timedelta(hours=2)
    job = JobNow(12, "running", "boot", "ada (lab run)", AT, False, {7: 60}, ends)
    plain = {"plan": {}, "provenance": {}, "started_at": AT, "finished_at": None}
    run = Run(id=7, kind="boot", board_type="t", board="am62x-1", release="11.01", status="running", **plain)
    measured = BoardNow("am62x-1", job=job, current=ListedRun(run, {"ok": 23}, []))
    (line,) = [line for line in status.lines(LabNow(AT, "h", "db", "", (measured,), ()), 200) if "am62x-1" in line]
    assert not missing_facts(line, "j12", "ada", "run 7", "23 of 60", "14:00 UTC")
    (document,) = status.document(LabNow(AT, "h", "db", "", (measured,), ()))["boards"]
    assert document["job"]["job"] == "j12"
    assert (document["job"]["planned"], document["job"]["expected_end"]) == ({"7": 60}, ends.isoformat())
    assert json.loads(json.dumps(document)) == document


def test_a_run_of_sections_counts_whole_sections_and_not_their_rows(store: Store) -> None:
    jobs = queue(store)
    job = jobs.start(jobs.enqueue(ORDER).id)
    plan = {"sections": ["ssl", "lmbench"], "repeats": {"ssl": 2, "lmbench": 1}}
    run = store.begin_run(
        "sections", "am62xx_sk", "am62x-1", "11.01", plan=plan, provenance={}, job_id=job.id if job else None
    ).id
    for params in (*({"section": "ssl", "row": row} for row in ("md5", "sha1", "sha256", "aes")), {"section": "ssl"}):
        its = AttemptRecord(1, 1, params, "ok", None, None, "", dt.datetime.now(dt.UTC), 1.0)
        store.record_attempt(run, its)
    seen = status.look()
    assert board(seen).progress == (1, 3)
    assert f"run {run}: 1 of 3 good" in "\n".join(status.lines(seen, 200))
    (tile,) = [tile for tile in tiles(seen) if tile.board == "am62x-1"]
    assert (tile.good, tile.planned) == (1, 3)
    (document,) = [each for each in status.document(seen)["boards"] if each["board"] == "am62x-1"]
    assert (document["job"]["good"], document["job"]["planned"]) == ({str(run): 1}, {str(run): 3})


def test_a_board_that_is_bad_for_no_known_reason_is_shown_all_the_same() -> None:
    found = LabNow(AT, "h", "db", "", (BoardNow("am62x-1", health=Health("am62x-1", "bad")),), ())
    (line,) = [line for line in status.lines(found, 200) if "am62x-1" in line]
    assert "bad: nothing says why" in line
    (tile,) = tiles(found)
    assert tile.state == "needs a person"


def test_a_job_of_another_host_is_named_by_it(store: Store) -> None:
    jobs = JobQueue(store, "farm-2/boot-id/77/5", lambda _who: None, person="lena")
    jobs.start(jobs.enqueue(ORDER).id)
    found = board(status.look()).job
    assert found is not None
    assert (found.who, found.died) == ("lena on farm-2", False)


def test_a_run_that_nobody_measures_was_killed(store: Store) -> None:
    run = begun(store)
    found = board(status.look())
    assert (found.current, found.last and found.last.run.id) == (None, run)
    assert any("boot 11.01 killed 0/0" in line for line in status.lines(status.look(), 200))
    assert f"`pytest --lab-resume {run}`" in found.state.cause


def test_a_board_that_only_the_results_know_is_shown_for_a_month(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.finish_run(begun(store, "old-1"), "failed")
    assert board(status.look(), "old-1").last is not None
    monkeypatch.setattr(Store, "now", lambda _store: dt.datetime.now(dt.UTC) + dt.timedelta(days=31))
    assert [each.board for each in status.look().boards] == ["am62x-1"]


def port(**other: object) -> PortStatus:
    meta = RecordingMeta(
        name="ttyUSB0", device="/dev/ttyUSB0", speed_bd=115200, adapter_latency_ns=0, fifo_bytes=1, scheduling_ns=0
    )
    status = PortStatus(PortInfo(meta, "", 0), "open", 0, 0, None, 0, os.getpid(), "", 0, 0, None, 0, "", "am62x-1")
    return evolve(status, **other)


def test_a_console_that_is_held_names_the_person_and_a_lost_port_is_bad() -> None:
    held = status._with_port(BoardNow("am62x-1"), port())
    assert held.console.endswith(f"pid {os.getpid()})")
    lost = status._with_port(BoardNow("am62x-1"), port(writer=None, state="Input/output error"))
    assert (lost.console, lost.port, lost.away) == ("", "", "port ttyUSB0: Input/output error")
    shown = status.lines(LabNow(AT, "h", "db", "", (lost,), ()), 80)
    assert any(isinstance(line, Marked) and "Input/output error" in line for line in shown)


def test_of_two_ports_of_a_board_the_one_in_use_is_shown_whichever_comes_first() -> None:
    def of(name: str, **other: object) -> PortStatus:
        its = port(writer=None, last_byte_age_s=5.0)
        return evolve(its, info=evolve(its.info, meta=evolve(its.info.meta, name=name)), **other)

    lost, quiet = of("lost", state="Input/output error", last_byte_age_s=0.1), of("quiet", last_byte_age_s=None)
    heard, written = of("heard", last_byte_age_s=2.0), of("written", writer=os.getpid())
    another = of("another", board="am62x-2")
    for ports in itertools.permutations([lost, quiet, heard, written, another]):
        assert [each.info.name for each in ports_of(ports, "am62x-1")] == ["written", "heard", "quiet", "lost"]
    assert ports_of([written, of("am62x-1", board="")], "am62x-1")[0].info.name == "am62x-1"


def test_what_an_installed_farm_yaml_names_must_run_and_what_a_draft_names_need_not(lab: Path) -> None:
    (lab / "farm.yaml").write_text(FARM)
    found = {each.name: each for each in status.look(farm=lab / "farm.yaml").services}
    assert (found["pdudaemon"].state, found["exporter"].state) == ("bad", "bad")
    assert "systemctl start boardlab-exporter" in found["exporter"].hint
    draft = services.listening(services.HostFile(services.host_file(lab / "farm.yaml").farm, installed=False))
    assert [(each.state, "127.0.0.1:1" in each.said) for each in draft] == [("absent", True)] * 2


def test_the_results_are_those_that_are_given_then_the_variables_then_the_farms(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lab / "farm.yaml").write_text(FARM)
    farm = services.host_file(lab / "farm.yaml").farm
    assert farm is not None
    there = evolve(farm, database=f"sqlite:///{lab}/there.db")
    (lab / "there.db").touch()
    assert services.database("given.db", there) == "given.db"
    assert services.database(None, there) is None, "$LAB_DB is what open_store takes by itself"
    monkeypatch.delenv("LAB_DB")
    assert services.database(None, there) == there.database
    assert services.database(None, farm) is None, "a draft's folder that nobody has made"
    assert services.database(None, None) is None


def long_lab(count: int = 3) -> LabNow:
    job = JobNow(2**31 - 1, "running", "boot,low_power,sections", LONG, AT - dt.timedelta(days=2), died=True)
    long = BoardNow(LONG, LONG, LONG, job, 99, LONG, f"port {LONG}: {LONG}", failures={LONG: 10**6})
    many = (evolve(long, board=f"{number}{LONG}") for number in range(count))
    return LabNow(AT, "host", "db", "", tuple(many), (Service(LONG, "bad", LONG, LONG),))


def test_the_screen_is_never_wider_than_80_columns() -> None:
    assert max(map(terminal.cells, status.lines(long_lab(), 80)[3:])) <= 80


def test_as_json_it_is_all_there(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = queue(store)
    jobs.start(jobs.enqueue(ORDER).id)
    run = begun(store)
    attempt(store, run, 1)
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["boards"]
    assert (found["board"], found["env"], found["job"]["id"]) == ("am62x-1", "am62x.yaml", 1)
    assert (found["current"]["id"], found["current"]["good"], found["last"]) == (run, 1, None)


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0 s"), (59, "59 s"), (60, "1 min"), (7300, "2 h"), (90_000, "1 d")]
)
def test_how_long_ago_is_short(seconds: float, text: str) -> None:
    assert status.ago(seconds) == text


def test_a_screen_that_is_too_small_scrolls() -> None:
    found = long_lab(9)
    total = len(status.lines(found, 80))
    shown, first = view(found, 0, 80, 10)
    assert (len(shown), first) == (10, 0)
    assert shown[-1].plain.endswith(f"{total - 9} more lines below")
    shown, first = view(found, 10**6, 80, 10)
    assert (len(shown), first) == (10, total - 9)
    assert "more" not in shown[-1].plain
    tall, _ = view(found, 5, 80, total + 10)
    assert len(tall) == total + 10
    assert any(span.style == "red" for line in tall for span in line.spans)


@pytest.mark.parametrize(
    ("key", "top"), [(b"j", 6), (b"\x1b[B", 6), (b"k", 4), (b"\x1b[A", 4), (b" ", 25), (b"\x1b[5~", 0), (b"x", 5)]
)
def test_keys_scroll(key: bytes, top: int) -> None:
    assert scroll(5, key, 20) == top


def test_watch_draws_the_lab_and_ends_with_q_and_leaves_the_terminal_as_it_was(store: Store) -> None:
    store.finish_run(begun(store), "failed")
    terminal, other_end = pty.openpty()
    program = "from lab.cli import main; raise SystemExit(main(['watch']))"
    watching = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", "NO_COLOR": ""},
    )
    before = termios.tcgetattr(other_end)
    said = b""
    while b"q ends" not in said:
        said += os.read(terminal, 65536)
    assert b"\x1b[31mfailed" in said
    assert b"am62x-1" in said
    os.write(terminal, b"q")
    assert watching.wait() == 0
    assert termios.tcgetattr(other_end) == before
    os.close(other_end)
    with contextlib.suppress(OSError):  # EIO: nobody holds the other end any more
        while chunk := os.read(terminal, 65536):
            said += chunk
    os.close(terminal)
    assert b"\x1b[?1049h" in said
    assert said.rfind(b"\x1b[?1049l") > said.rfind(b"\x1b[?1049h"), "the alternate screen is left"


def test_boards_stand_in_the_order_of_their_numbers() -> None:
    names = ["rack4-b", "rack36-b", "rack4-b10", "rack4-b9", "12", "a"]
    assert sorted(names, key=status.name_key) == ["12", "a", "rack4-b", "rack4-b9", "rack4-b10", "rack36-b"]
