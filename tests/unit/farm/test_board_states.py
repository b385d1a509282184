"""The state of a board is the same on the wall, its page, `lab status`, the exporter, and in the dashboards' queries."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest
import requests
import yaml
from attrs import evolve, frozen
from support import scripted_lab
from support.dashboards import ALL, panels
from support.facts import missing_facts
from support.scripted_lab import NEW, STATES

from exporters.farm.boards import families
from lab.cli import main
from lab.cli.exporter import export_boards
from lab.farm import services, status
from lab.farm.board_state import PROBLEMS, BoardNow, JobNow, brief
from lab.farm.board_state import STATES as ORDER
from lab.farm.config import Farm
from lab.guide.write import rst_writer, stored_release
from lab.health.state import BoardCheck, CheckedPart
from lab.health.store import HealthBook
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs.listing import running
from lab.jobs.queue import JobQueue
from lab.judge import latest, summary
from lab.judge.latest import LatestJudge
from lab.judge.records import NewVerdict, OutcomeName
from lab.judge.store import mute, review, write_verdicts
from lab.results import open_store
from lab.results.listing import LatestEnded
from lab.web.site import Site

from support.web_serving import serving  # isort: skip

ROOT = Path(__file__).resolve().parents[3]
WORSE = sorted(board for board, state in STATES.items() if state == "worse")
NUMBERS = 6  # of the worse board: two media, each with its boot time and two stages


@frozen
class ScriptedLab:
    folder: Path
    runs: dict[str, int]
    url: str

    @property
    def db(self) -> str:
        return str(self.folder / "results.db")

    def page(self, path: str) -> str:
        return requests.get(self.url + path, timeout=60).text

    def tiles(self) -> dict[str, dict[str, object]]:
        return {tile["board"]: tile for tile in json.loads(self.page("/api/v1/wall"))}

    def exported(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """Family of the exporter -> labels and value of each series."""
        host, judge = services.host_file(self.folder / "farm.yaml"), LatestJudge(60.0)
        boards = status.boards_of(host, self.db, self.folder / "runtime", LatestEnded(), judge, open_store)
        known = host.farm.known if host.farm is not None else ()
        return {
            each.name: [(one.labels, one.value) for one in each.samples]
            for each in families(export_boards(boards, known))
        }


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """A store with the lab, which no test changes."""
    folder = tmp_path_factory.mktemp("scripted")
    with open_store(str(folder / "results.db")) as store:
        return folder, scripted_lab.fill(store, seed=3)


@pytest.fixture
def lab(filled: tuple[Path, dict[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedLab]:
    folder, runs = filled
    (tmp_path / "results.db").write_bytes((folder / "results.db").read_bytes())
    monkeypatch.setenv("LAB_DB", str(tmp_path / "results.db"))
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "runtime"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(services, "FARM_FILES", (services.DRAFT,))
    with serving(scripted_lab.site(tmp_path, monkeypatch)) as url:
        yield ScriptedLab(tmp_path, runs, url)


def test_every_place_has_the_same_state_of_every_board(lab: ScriptedLab, capsys: pytest.CaptureFixture[str]) -> None:
    tiles = lab.tiles()
    assert {board: tile["state"] for board, tile in tiles.items()} == STATES
    assert main(["status", "--json"]) == 0
    terminal = {each["board"]: each for each in json.loads(capsys.readouterr().out)["boards"]}
    assert {board: each["state"] for board, each in terminal.items()} == STATES
    exported = lab.exported()
    assert {one["board"]: one["state"] for one, value in exported["boardlab_board_state"] if value} == STATES
    causes = {one["board"]: one["cause"] for one, _ in exported["boardlab_board_state_info"]}
    for board, state in STATES.items():
        if state in {*PROBLEMS, "in maintenance", "never reached"}:
            assert terminal[board]["cause"] == tiles[board]["trouble"] != ""
            assert causes[board][:90] == str(tiles[board]["trouble"])[:90], "a label is cut at 100 characters"
        page = lab.page(f"/boards/{board}")
        assert re.search(rf'<span class="badge [^"]*">{state}</span>', page), board


def test_a_board_is_never_reached_until_a_run_or_a_check_of_it(lab: ScriptedLab) -> None:
    def state() -> tuple[str, str]:
        found = status.look(lab.db, lab.folder / "farm.yaml", lab.folder / "runtime", lab.folder)
        its = next(each for each in found.boards if each.board == "board-new").state
        return its.name, its.cause

    assert state()[0] == "never reached"
    with open_store(lab.db) as store:
        parts = tuple(CheckedPart(name, "ok") for name in ("power", "console"))
        HealthBook(store).record(BoardCheck("board-new", scripted_lab.TYPE, "lab1", utc_now(), parts))
    assert state() == ("free", "")


def test_a_board_that_was_never_reached_waits_in_maintenance_or_is_held_as_others_are() -> None:
    new = BoardNow("b1", is_reached=False)
    assert new.state.name == "never reached"
    assert evolve(new, waiting=1).state.name == "waiting"
    assert evolve(new, console="lena").state.name == "held"
    assert evolve(new, away="port gone").state.name == "away"


def test_a_failed_board_is_not_hidden_by_a_job_that_is_gone_nor_by_a_missing_exporter(lab: ScriptedLab) -> None:
    found = status.look(lab.db, lab.folder / "farm.yaml", lab.folder / "runtime", lab.folder)
    failed, killed = (
        next(each for each in found.boards if each.board == f"board-{name}") for name in ("failed", "killed")
    )
    gone = JobNow(7, "running", "boot", "nobody", found.at, died=True)
    both = evolve(failed, job=gone, away="host-2 is away").state
    assert (both.name, both.fault, both.word) == ("failed", "board", "kernel_panic")
    assert not missing_facts(both.cause, "kernel_panic", "job j7: its process is gone", "host-2 is away")
    assert evolve(killed, job=gone).state.word == "job gone", "of a killed run that says more"


def test_a_board_whose_coordinator_does_not_answer_is_not_free(
    lab: ScriptedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "find_other_holders", lambda _farm: None)
    monkeypatch.setattr(status, "boards_by_place", lambda _farm: {"place-1": "board-free", "place-2": "board-failed"})
    states = {
        each.board: each.state
        for each in status.look(lab.db, lab.folder / "farm.yaml", lab.folder / "runtime", lab.folder).boards
    }
    assert (states["board-free"].name, "coordinator" in states["board-free"].cause) == ("unknown", True)
    assert (states["board-failed"].name, states["board-better"].name) == ("failed", "free")


def test_a_coordinator_without_an_answer_is_not_one_without_holders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "boards_by_place", lambda _farm: {"place-1": "b1"})
    monkeypatch.setattr(status, "GLANCE_S", 0.2)
    assert status.find_other_holders(Farm(coordinator="127.0.0.1:1")) is None


def test_a_run_whose_job_is_gone_is_killed_in_every_list(lab: ScriptedLab, capsys: pytest.CaptureFixture[str]) -> None:
    killed, measured = lab.runs["board-killed"], lab.runs["board-measuring"]
    wanted = {killed: "killed", measured: "running"}
    assert main(["results", "list", "--json", "--limit", "100"]) == 0
    terminal = {each["id"]: each["status"] for each in json.loads(capsys.readouterr().out)}
    assert {run: terminal[run] for run in wanted} == wanted
    api = {each["id"]: each["status"] for each in json.loads(lab.page("/api/v1/runs?limit=100"))["runs"]}
    assert api == terminal
    for run, status_of in wanted.items():
        assert json.loads(lab.page(f"/api/v1/runs/{run}"))["status"] == status_of
        assert [each["id"] for each in json.loads(lab.page(f"/api/v1/runs?status={status_of}"))["runs"]] == [run]
        assert f"<strong>{status_of}</strong>" in lab.page(f"/runs/{run}")
        assert main(["results", "show", str(run)]) == 0
        assert capsys.readouterr().out.splitlines()[0].endswith(f"release {NEW}, {status_of}")
        assert main(["results", "list", "--status", status_of]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2
    for path in ("/", "/wall", "/boards/board-killed"):
        assert f"<code>pytest --lab-resume {killed}</code>" in lab.page(path), path


def test_a_run_page_notices_that_its_job_has_ended(lab: ScriptedLab) -> None:
    run = lab.runs["board-measuring"]
    assert "<strong>running</strong>" in lab.page(f"/runs/{run}")
    with open_store(lab.db) as store:
        jobs = JobQueue(store, process.identity(), process.has_died)
        jobs.finish(next(each.id for each in running(jobs)), "interrupted")
    assert "<strong>killed</strong>" in lab.page(f"/runs/{run}")


def test_a_regression_is_told_in_every_place_by_its_size_and_its_count(
    lab: ScriptedLab, capsys: pytest.CaptureFixture[str]
) -> None:
    run, (board,) = lab.runs["board-worse"], WORSE
    text = rf"boot\.time (sd|emmc) \+2[23] % in 11\.01 against 11\.00, and {NUMBERS - 1} more numbers \(run {run}\)"
    assert re.search(text, str(lab.tiles()[board]["trouble"]))
    assert re.search(text, lab.page(f"/boards/{board}"))
    assert main(["judge", "list"]) == 0
    assert re.search(text, capsys.readouterr().out)
    found = status.look(lab.db, lab.folder / "farm.yaml", lab.folder / "runtime", lab.folder)
    assert any(re.search(text, line) for line in status.lines(found, 400))
    assert {one["board"]: value for one, value in lab.exported()["boardlab_board_worse_numbers"]}[board] == NUMBERS
    assert f"{NUMBERS} worse" in lab.page(f"/runs/{run}")
    assert f"{NUMBERS} worse" in lab.page(f"/releases/{NEW}/comment.md")
    main(["judge", "run", str(run)])
    assert re.search(text, capsys.readouterr().out), "the history is too short, which does not make it unknown"
    with open_store(lab.db) as store:
        assert re.search(text, summary.of_run(store, run).verdict)


@pytest.mark.parametrize("label", [NEW, "11.02", "nightly-0412"])
def test_what_the_wall_calls_worse_is_confirmed_by_the_next_run_of_any_label(lab: ScriptedLab, label: str) -> None:
    (board,) = WORSE
    assert not any(value for _, value in lab.exported()["boardlab_board_worse_confirmed"]), "one run is no alert"
    with open_store(lab.db) as store:
        scripted_lab.run(store, board, label, utc_now(), random.Random(7), scripted_lab.WORSE)
    exported = lab.exported()
    worse = {one["board"]: value for one, value in exported["boardlab_board_worse_numbers"] if value}
    confirmed = {one["board"]: value for one, value in exported["boardlab_board_worse_confirmed"] if value}
    assert worse == confirmed == {board: NUMBERS}
    rules = yaml.safe_load((ROOT / "farm/prometheus/rules/alerts.yml").read_text())["groups"]
    (alert,) = (
        each for group in rules for each in group["rules"] if each.get("alert") == "BoardlabRegressionConfirmed"
    )
    assert "boardlab_board_worse_confirmed" in alert["expr"]


def test_a_run_that_the_judge_asks_for_confirms_nothing_on_the_wall(lab: ScriptedLab) -> None:
    (board,) = WORSE
    with open_store(lab.db) as store:
        asked_by = lab.runs[board]
        for seed in (7, 8):  # the second of them is asked for by the first
            dice = random.Random(seed)
            asked_by = scripted_lab.run(store, board, NEW, utc_now(), dice, scripted_lab.WORSE, confirms=asked_by)
    exported = lab.exported()
    assert {one["board"] for one, value in exported["boardlab_board_worse_numbers"] if value} == {board}
    assert not any(value for _, value in exported["boardlab_board_worse_confirmed"]), "it is of the same night"


@pytest.mark.parametrize("outcome", ["regression", "environment"])
def test_a_number_that_a_verdict_tells_is_told_once(lab: ScriptedLab, outcome: OutcomeName) -> None:
    (board,) = WORSE
    with open_store(lab.db) as store:
        scripted_lab.run(store, board, NEW, utc_now(), random.Random(7), scripted_lab.WORSE)
        run = lab.runs[board]
        verdict = NewVerdict("boot.time", 1, {"medium": "sd"}, outcome, 1, run, 8, 0.23, 0.22, 0.24)
        write_verdicts(store, run, [verdict])
    exported = lab.exported()
    worse = {one["board"]: value for one, value in exported["boardlab_board_worse_numbers"] if value}
    confirmed = {one["board"]: value for one, value in exported["boardlab_board_worse_confirmed"] if value}
    assert (worse, confirmed) == ({board: NUMBERS}, {board: NUMBERS - 1})


def test_a_number_that_the_next_run_finds_as_before_is_neither_worse_nor_confirmed(lab: ScriptedLab) -> None:
    with open_store(lab.db) as store:
        scripted_lab.run(store, WORSE[0], NEW, utc_now(), random.Random(7))
    exported = lab.exported()
    assert not any(value for _, value in exported["boardlab_board_worse_numbers"])
    assert not any(value for _, value in exported["boardlab_board_worse_confirmed"])


def test_a_confirmed_number_has_the_state_of_its_known_failure(lab: ScriptedLab) -> None:
    (board,) = WORSE
    with open_store(lab.db) as store:
        scripted_lab.run(store, board, NEW, utc_now(), random.Random(7), scripted_lab.WORSE)
    known = "known:\n- {metric: boot.time, ticket: 'https://tracker/1'}\n"
    with (lab.folder / "farm.yaml").open("a") as file:
        file.write(known)
    found = lab.exported()["boardlab_board_worse_confirmed"]
    counts = {one["known"]: value for one, value in found if one["board"] == board}
    assert counts == {"open": 2, "": NUMBERS - 2}


def test_the_dashboards_count_what_the_exporter_has(lab: ScriptedLab) -> None:
    exported = lab.exported()
    expressions = {panel["title"]: panel["targets"][0]["expr"] for panel in panels(ALL["boardlab-overview"])}
    assert "boardlab_board_worse_numbers{" in expressions["Regressions"]
    assert sum(value for _, value in exported["boardlab_board_worse_numbers"]) == NUMBERS
    (asked,) = set(re.findall(r'state=~"([^"]+)"', expressions["Boards with a problem"]))
    assert set(asked.split("|")) == PROBLEMS
    counts = Counter(one["state"] for one, _ in exported["boardlab_board_state"])
    assert sum(counts[state] for state in asked.split("|")) == sum(state in PROBLEMS for state in STATES.values()) == 4
    assert all(one["board_type"] for one, _ in exported["boardlab_board_state"]), "the variables match no empty label"


def test_a_process_judges_the_same_part_by_part(lab: ScriptedLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest, "WORTH_A_PROCESS", 2)
    monkeypatch.setattr(latest, "_AT_ONCE", 4)
    judge, looks = LatestJudge(in_process=True), 0
    with open_store(lab.db) as store:
        wanted = LatestJudge(600.0).of(store, utc_now())
        while (found := judge.of(store, utc_now())).left:
            assert judge._part is not None
            wait([judge._part[1]], timeout=120)
            looks += 1
    assert found == wanted
    assert looks == -(-sum(state != "never reached" for state in STATES.values()) // 4)
    assert judge._process is None, "it has ended"


@pytest.mark.parametrize("idle", [False, True])
def test_a_process_that_was_killed_is_started_anew(
    lab: ScriptedLab, monkeypatch: pytest.MonkeyPatch, idle: bool
) -> None:
    monkeypatch.setattr(latest, "WORTH_A_PROCESS", 2)
    monkeypatch.setattr(latest, "_AT_ONCE", 4)
    judge, killed = LatestJudge(in_process=True), set[int]()
    with open_store(lab.db) as store:
        wanted = LatestJudge(600.0).of(store, utc_now())
        while (found := judge.of(store, utc_now())).left:
            if judge._part is None:
                continue
            if idle:
                wait([judge._part[1]], timeout=120)
            if not killed and judge._process is not None:
                (pid,) = judge._process._processes
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            wait([judge._part[1]], timeout=120)
    assert len(killed) == 1
    assert found == wanted


@pytest.mark.parametrize("decision", ["accepted", "rejected", "muted"])
def test_a_decision_ends_the_state_in_every_place(
    lab: ScriptedLab, decision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, (board,) = lab.runs["board-worse"], WORSE
    assert lab.tiles()[board]["state"] == "worse", "it was judged before: the cache has to notice"
    with open_store(lab.db) as store:
        if decision == "muted":
            until = utc_now().replace(year=utc_now().year + 1)
            mute(store, "boot.*", board=board, params={}, until=until, reason="a new SPL", by="lena")
        else:
            review(store, run, decision, "lena", "a new SPL")  # type: ignore[arg-type]
    site = Site(lab.db, lab.folder / "farm.yaml", lab.folder / "runtime", lab.folder)
    site._judge.budget_s = 600.0
    assert next(each for each in site.look().lab.boards if each.board == board).state.name == "free"
    assert main(["judge", "list"]) == 0
    assert board not in capsys.readouterr().out
    assert sum(value for _, value in lab.exported()["boardlab_board_worse_numbers"]) == 0


def test_a_judge_that_looks_again_sees_a_new_run_and_a_decision_and_judges_nothing_twice(lab: ScriptedLab) -> None:
    judge, (board,) = LatestJudge(60.0), WORSE
    with open_store(lab.db) as store:
        assert set(judge.of(store, utc_now()).worse) == {board}
        known = dict(judge._judged)
        assert set(judge.of(store, utc_now()).worse) == {board}
        assert all(judge._judged[series] is its for series, its in known.items())
        review(store, lab.runs[board], "accepted", "lena", "a new SPL")
        assert not judge.of(store, utc_now()).worse
        changed = {series.board for series, its in judge._judged.items() if known[series] is not its}
        assert changed == {board}


def test_a_look_with_little_time_names_the_boards_that_are_not_judged_yet(lab: ScriptedLab) -> None:
    judge, seen = LatestJudge(0.0), set[int]()
    with open_store(lab.db) as store:
        while left := judge.of(store, utc_now()).left:
            assert len(left) not in seen
            seen.add(len(left))
        assert set(judge.of(store, utc_now()).worse) == set(WORSE)
    assert len(seen) > 5


def test_problems_are_on_top_and_a_large_lab_fits_a_screen(lab: ScriptedLab) -> None:
    found = status.look(lab.db, lab.folder / "farm.yaml", lab.folder / "runtime", lab.folder)
    shown = [board.state.name for board in found.by_state]
    assert shown == sorted(shown, key=ORDER.index)
    many = (*found.boards, *(BoardNow(f"rack-{number}") for number in range(64)))
    lines = status.lines(evolve(found, boards=many), 120)
    first = next(number for number, line in enumerate(lines) if "board-failed" in line or "board-killed" in line)
    assert first < 8
    assert any("67 free" in line for line in lines)
    assert len(lines) < 60
    assert all(any(board.board in line for line in lines) for board in many)


def test_a_number_of_a_run_that_did_not_complete_is_marked_in_every_place(
    lab: ScriptedLab, capsys: pytest.CaptureFixture[str]
) -> None:
    run, board = lab.runs["board-stopped"], "board-stopped"
    points = json.loads(lab.page(f"/api/v1/metrics/boot.time?board={board}"))
    assert {point["run"] for point in points if point["status"] != "completed"} == {run}
    page = lab.page(f"/metrics/boot.time?board={board}")
    assert page.count(f'<a href="/runs/{run}">run {run}</a> (of a run that was interrupted)') == 2, "of each medium"
    assert re.search(rf"run {run}, {NEW}: [\d.]+ ± [\d.]+ s, of a run that was interrupted", page)
    now = re.findall(r"Now <strong>([\d.]+)", page)
    assert all(float(each) < 9.3 for each in now), "an incomplete run's number is not the present one"
    assert {one["board"]: value for one, value in lab.exported()["boardlab_board_worse_numbers"]}[board] == 0
    assert main(["results", "export", "--csv", str(run)]) == 0
    header, *rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert {row[header.index("status")] for row in rows} == {"interrupted"}


def test_a_written_guide_takes_a_complete_run_and_marks_what_it_has_of_an_incomplete_one(lab: ScriptedLab) -> None:
    board, release = "board-stopped", "11.02"
    with open_store(lab.db) as store:
        dice = random.Random(5)
        scripted_lab.run(store, board, release, utc_now(), dice, status="interrupted", boots=2)
        only = stored_release.collect(store, release, [board])
        assert only.entries
        assert all(each.evidence.note.endswith("did not complete (interrupted)") for each in only.entries)
        assert f"numbers of {board}." in next(
            line for line in rst_writer.write(only).splitlines() if "Incomplete, since run" in line
        )
        whole = scripted_lab.run(store, board, release, utc_now(), dice)
        scripted_lab.run(store, board, release, utc_now(), dice, status="interrupted", boots=2)
        both = stored_release.collect(store, release, [board])
        assert {entry.evidence.run_id for entry in both.entries} == {whole}
        assert "Incomplete" not in rst_writer.write(both)


def test_the_wall_at_a_distance_has_each_state_as_a_colour_with_its_word(lab: ScriptedLab) -> None:
    page = lab.page("/wall")
    tiles = re.findall(r'<li id="board-\w+" class="([\w-]+)( problem)?"><a href="/boards/([\w-]+)">', page)
    free = re.findall(
        r'<a href="/boards/([\w-]+)">', page[page.index('<p class="strip free">') :].partition("</p>")[0]
    )
    shown = {board: name.replace("-", " ") for name, _, board in tiles}
    assert shown | dict.fromkeys(free, "free") == STATES
    assert set(shown).isdisjoint(free)
    assert {board for _, problem, board in tiles if problem} == {b for b, state in STATES.items() if state in PROBLEMS}
    assert [ORDER.index(name.replace("-", " ")) for name, *_ in tiles] == sorted(  # type: ignore[arg-type]
        ORDER.index(state) for state in STATES.values() if state != "free"
    ), "what is wrong stands first"
    style = lab.page("/static/kiosk.css")
    assert all(f".{state.replace(' ', '-')}" in style for state in ORDER)
    assert re.search(
        r'<p class="state">release: worse \d h</p>\s*<p class="word"[^>]*>\+\d+ %</p>\s*<p class="cause">boot.time',
        page,
    )
    assert re.search(r'<p class="word"[^>]*>kernel_panic</p>', page)


def test_the_page_of_a_failed_run_says_why_before_all_else(lab: ScriptedLab) -> None:
    head = lab.page(f"/runs/{lab.runs['board-failed']}").partition('<nav aria-label="Contents"')[0]
    assert re.search(r"<strong>kernel_panic</strong> 8 of 8 attempts, the board's fault: Kernel panic", head)
    assert not missing_facts(head, "did not complete", "no attempt")
    assert "kernel_panic" in str(lab.tiles()["board-failed"]["trouble"])
    good = lab.page(f"/runs/{lab.runs['board-free']}").partition('<nav aria-label="Contents"')[0]
    assert "mark bad" not in good
    stopped = lab.page(f"/runs/{lab.runs['board-stopped']}")
    assert not missing_facts(stopped, "did not complete", "below")


def test_the_page_of_a_run_has_the_head_of_every_page(lab: ScriptedLab) -> None:
    def head(page: str) -> str:
        return page[page.index('<header class="site">') : page.index("</header>")]

    run = lab.page(f"/runs/{lab.runs['board-free']}")
    assert head(run) == head(lab.page("/runs"))
    assert "Content-Security-Policy" not in run, "its form would be refused"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "the kernel stopped: 'Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b' came; the attempt's log",
            "Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b",
        ),
        ("`mmc` did not end within 30 s, or its answer came in pieces; the attempt's log has more", None),
        ("short", "short"),
    ],
)
def test_a_cause_is_the_panics_own_text_or_a_whole_clause(message: str, cause: str | None) -> None:
    assert brief(message) == (cause or message.partition(";")[0])


@pytest.mark.parametrize("words", [5, 19, 20, 21, 22, 23, 40])
def test_a_long_cause_ends_with_a_word(words: int) -> None:
    message = " ".join(f"word{number}" for number in range(words))
    text = brief(message)
    assert len(text) <= 122
    assert message.startswith(text.removesuffix(" …"))
    assert text == message or text.endswith(" …")
