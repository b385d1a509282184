"""The page of a release: its figures are the judge's, whatever it keeps, and only what may have changed is judged again."""

from __future__ import annotations

import csv
import datetime as dt
import html
import http.client
import io
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from attrs import define
from markupsafe import Markup
from sqlalchemy import delete, update
from sqlalchemy.orm import Session
from support.facts import missing_facts
from support.farm_store import fill
from support.web_serving import serving

from lab.errors import LabStableError
from lab.host.clock import utc_now
from lab.judge.baseline import document, judge_run, read_run_averages
from lab.judge.labels import release_before
from lab.judge.records import NewVerdict
from lab.judge.store import review, write_verdicts
from lab.report.names import Names
from lab.report.view import JudgedRow, comparison
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.results.models import AttemptRow, MeasurementRow, RunRow, SampleRow
from lab.results.records import RunHead
from lab.terminal import MOST_BYTES
from lab.web import releasepages, releases
from lab.web.releases import ComparedRelease, ReleaseRun
from lab.web.site import Site

BOARDS, RELEASES = 3, 6
LAST, BEFORE = f"{RELEASES:02}.00", f"{RELEASES - 1:02}.00"
NEWEST = [BOARDS * (RELEASES - 1) + board for board in (1, 2, 3)]  # the runs of the last release, board by board
_SECTION = re.compile(r'<h2 id="run-(\d+)">(.*?)</section>', re.DOTALL)
_STRIP_CELL = re.compile(r"<td data-label=\"strip\".*?</td>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_QUIET = re.compile(r'<a id="run-(\d+)"')
_STRIP = re.compile(r'<svg class="row-strip".*?<title>(.*?)</title>(.*?)</svg>', re.DOTALL)
_CELL = re.compile(r"<t[hd] (?:scope=\"row\"|data-label)[^>]*>(.*?)</t[hd]>", re.DOTALL)


@define
class Lab:
    store: Store
    url: str
    judged: list[int]  # the runs that the page asked the judge about

    def page(self, *against: str) -> dict[int, tuple[str, list[str]]]:
        """Run -> the line and the cells that the page has of it."""
        answer = requests.get(f"{self.url}/releases/{LAST}", params={"against": against}, timeout=300)
        assert answer.status_code == 200, answer.text
        return {
            int(run): (
                html.unescape(part).partition(":\n")[2].split(".</p>")[0],
                [_TAG.sub("", text) for text in _CELL.findall(_STRIP_CELL.sub("", html.unescape(part)))],
            )
            for run, part in _SECTION.findall(answer.text)
        } | {int(run): ("unchanged", []) for run in _QUIET.findall(answer.text)}

    def get(self, path: str, *against: str) -> requests.Response:
        """An answer of the site."""
        answer = requests.get(self.url + path, params={"against": against}, timeout=300)
        assert answer.status_code == 200, answer.text
        return answer

    def direct(self, runs: list[int], against: str = BEFORE) -> dict[int, tuple[str, list[str]]]:
        """The same of the judge itself, who keeps nothing."""
        found = {}
        with self.store.snapshot() as seen:
            for run in runs:
                said = comparison(judge_run(seen, run, against), Names(self.store.run(run)))
                cells = [
                    (row.title, row.before or "nothing", row.now, row.change or "none", row.verdict)
                    for row in said.rows
                ]
                line = f"{said.line}, against {said.against}" if cells or said.missing else "unchanged"
                found[run] = (line, [cell for row in cells for cell in row])
        return found

    def measured(self, board: int, release: str, *, cycles: int = 2, finished: bool = True) -> int:
        run = self.store.begin_run("boot", "am62xx_sk", f"board-{board:04}", release, plan={}, provenance={}).id
        for cycle in range(1, cycles + 1):
            self.boot(run, cycle)
        if finished:
            self.store.finish_run(run, "completed")
        return run

    def boot(self, run: int, cycle: int, value: float = 9.0) -> None:
        sample = SampleRecord("boot.time", {"medium": "sd"}, value, 0.001)
        params = {"medium": "sd"}
        self.store.record_attempt(
            run, AttemptRecord(cycle, 1, params, "ok", None, None, "", utc_now(), 6.0, (sample,))
        )

    def failing(
        self,
        board: int,
        release: str,
        *,
        good: int = 1,
        failed: int = 3,
        how: str = "kernel_panic",
        fault: str = "board",
    ) -> int:
        """A run that failed: its good boots, and those that did not come up."""
        run = self.measured(board, release, cycles=good, finished=False)
        for cycle in range(good + 1, good + failed + 1):
            its = (cycle, 1, {"medium": "sd"}, how, fault, True, "", utc_now(), 6.0)
            self.store.record_attempt(run, AttemptRecord(*its))
        self.store.finish_run(run, "failed")
        return run

    def verdict(self, release: str) -> tuple[str, str, dict[str, Any]]:
        """How a release's page looks, its line there, and the comparison of the JSON; the comment says the line, too."""
        page = html.unescape(self.get(f"/releases/{release}").text)
        ((state, line),) = re.findall(r'<p class="mark ([a-z]*)"><strong>(.*?)</strong>\nagainst', page)
        (said,) = self.get(f"/api/v1/releases/{release}").json()["comparisons"]
        assert said["verdict"] == line
        comment = self.get(f"/releases/{release}/comment.md").text.splitlines()[0]
        assert comment.replace("\\", "") == f"**{line}**"
        return state, line, said

    def with_sql(self, *statements: object) -> None:
        with Session(self.store._engine) as session, session.begin():
            for statement in statements:
                session.execute(statement)  # type: ignore[call-overload]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    url = fill(tmp_path / "results.db", boards=BOARDS, metrics=3, samples=4, releases=RELEASES)
    judged: list[int] = []

    def counted(seen: object, run_id: int, against: str | None) -> object:
        judged.append(run_id)
        return judge_run(seen, run_id, against)  # type: ignore[arg-type]

    monkeypatch.setattr(releases, "judge_run", counted)
    with open_store(url) as store:
        lab = Lab(store, "", judged)
        numbers = MeasurementRow.run_id == NEWEST[0], MeasurementRow.metric == "boot.time"
        number = MeasurementRow.__table__.select().with_only_columns(MeasurementRow.id).where(*numbers)
        its = SampleRow.measurement_id == number.scalar_subquery()
        lab.with_sql(update(SampleRow).where(its).values(value=SampleRow.value * 3))
        with serving(Site(url, runtime=tmp_path / "runtime", folder=tmp_path)) as lab.url:
            yield lab


def test_the_figures_are_the_judges(lab: Lab) -> None:
    page = lab.page()
    assert page == lab.direct(NEWEST)
    assert "regression" in page[NEWEST[0]][1]  # or there would be nothing to compare
    assert lab.page("02.00") == lab.direct(NEWEST, "02.00")
    assert sorted(lab.judged) == sorted(2 * NEWEST)


def test_a_slower_release_is_worse_however_often_it_is_measured(lab: Lab) -> None:
    for _ in range(3):
        for release, value in (("20.01", 9.0), ("20.02", 9.9)):
            run = lab.measured(7, release, cycles=0, finished=False)
            for cycle in range(1, 5):
                lab.boot(run, cycle, value + 0.001 * cycle)
            lab.store.finish_run(run, "completed")
        state, line, said = lab.verdict("20.02")
        assert (state, line, said["counts"]) == ("bad", "1 worse", {"worse": 1})
        assert [each["against"] for each in said["runs"]] == ["release 20.01"]
    state, line, said = lab.verdict("20.01")
    assert state == "bad"
    assert not missing_facts(line, "3 without a", "9 not measured", "1 with nothing")
    (own,) = [run for run in said["runs"] if run["release"] == "20.01"]
    assert (own["against"], "no release before 20.01" in own["problem"]) == ("", True)


def test_boards_that_only_the_release_before_was_measured_on_are_missing_everywhere(lab: Lab) -> None:
    for board in (7, 8, 9):
        lab.measured(board, "20.01")
    review(lab.store, lab.measured(9, "20.01-wrong"), "rejected", "lena", "a label with a slip")
    now = [lab.measured(board, "20.02") for board in (7, 8)]
    line = "1 without a completed run; 1 not measured, 2 unchanged"
    assert lab.verdict("20.02")[:2] == ("bad", line)
    (said,) = lab.get("/api/v1/releases/20.02").json()["comparisons"]
    assert said["needs_a_person"]
    assert {(run["board"], run["status"]) for run in said["runs"]} == {
        ("board-0007", "completed"),
        ("board-0008", "completed"),
        ("board-0009", "not measured"),
    }
    comment = lab.get("/releases/20.02/comment.md").text.replace("\\", "")
    assert not missing_facts(comment, "board-0009", "20.02", "no completed boot run")
    (row,) = csv.DictReader(io.StringIO(lab.get("/releases/20.02/numbers.csv").text))
    assert (row["board"], row["against"], row["verdict"]) == ("board-0009", "release 20.01", "not measured")
    page = html.unescape(lab.get("/releases/20.02").text)
    assert page.index("<h2 id=") == page.index(f'<h2 id="run-{now[0] - 2}">board-0009'), "missing before unchanged"
    (listed,) = [row for row in lab.get("/api/v1/releases").json() if row["release"] == "20.02"]
    assert listed["verdict"] == line

    lab.measured(9, "20.02")
    assert lab.verdict("20.02")[:2] == ("good", "3 unchanged")


def test_labels_without_a_number_want_the_boards_of_the_label_measured_before(lab: Lab) -> None:
    for board in (7, 8):
        lab.measured(board, "main-7")
    lab.measured(7, "main-8")
    lab.measured(9, "main-6")  # later, by hand
    state, line = lab.verdict("main-8")[:2]
    assert state == "bad"
    assert not missing_facts(line, "1 without a", "1 not measured", "1 unchanged")


def test_a_board_without_the_release_that_is_asked_for_is_not_unchanged(lab: Lab) -> None:
    lab.measured(7, "20.01")
    for board in (7, 8):
        lab.measured(board, "20.02")
    (said,) = lab.get("/api/v1/releases/20.02", "20.01").json()["comparisons"]
    assert not missing_facts(said["verdict"], "1 with nothing", "1 unchanged")
    assert 'class="mark good"' not in lab.get("/releases/20.02", "20.01").text


def test_all_failed_attempts_of_a_release_count_also_of_a_run_that_was_not_completed(lab: Lab) -> None:
    for board in (7, 8):
        for release in ("20.01", "20.02"):
            lab.measured(board, release)
    assert lab.verdict("20.02")[:2] == ("good", "2 unchanged")
    failed = lab.failing(8, "20.02")
    state, line, said = lab.verdict("20.02")
    assert (state, said["needs_a_person"]) == ("bad", True)
    assert not missing_facts(line, "3 of 8", "kernel_panic 3", "2 unchanged")
    assert said["attempts"] == {"good": 5, "failed": {"kernel_panic": 3}, "runs": [failed]}
    assert [run["attempts"]["failed"] for run in said["runs"]] == [{}, {"kernel_panic": 3}]
    for form in ("", "/comment.md"):
        text = html.unescape(lab.get(f"/releases/20.02{form}").text).replace("\\", "")
        assert not missing_facts(text, "kernel_panic", "3 attempts on 1 board, by the board's fault", "board-0008")
        assert (f'<a href="/runs/{failed}">board-0008</a>' if not form else f"board-0008 (run {failed})") in text
    (row,) = csv.DictReader(io.StringIO(lab.get("/releases/20.02/numbers.csv").text))
    assert (row["board"], row["run"], row["verdict"]) == ("board-0008", str(failed), "failed attempts")

    review(lab.store, failed, "accepted", "lena", "a known fault of this board")
    assert lab.verdict("20.02")[:2] == ("", line)
    review(lab.store, failed, "rejected", "lena", "the power supply was loose")
    assert lab.verdict("20.02")[:2] == ("good", "2 unchanged")


def test_a_board_that_never_completed_a_run_with_a_release_is_on_its_page(lab: Lab) -> None:
    lab.measured(8, "20.01")
    failed = lab.failing(8, "20.02", good=0, failed=4)
    state, line, said = lab.verdict("20.02")
    assert state == "bad"
    assert not missing_facts(line, "4 of 4 attempts failed", "kernel_panic 4", "1 without a", "no numbers")
    assert [(run["run"], run["status"]) for run in said["runs"]] == [(failed, "failed")]
    assert f"run {failed} failed" in said["runs"][0]["problem"]


def test_what_failed_by_the_labs_fault_is_said_and_needs_nobody(lab: Lab) -> None:
    for release in ("20.01", "20.02"):
        lab.measured(8, release)
    lab.failing(8, "20.02", good=2, failed=1, how="pdu_timeout", fault="lab")
    state, line, said = lab.verdict("20.02")
    assert (state, said["needs_a_person"]) == ("", False)
    assert not missing_facts(line, "1 of 5", "pdu_timeout 1", "1 unchanged")


@pytest.mark.parametrize(
    ("measured", "release", "before"),
    [
        (["11.02", "11.00", "10.01", "11.01", "11.02"], "11.02", "11.01"),
        (["11.02", "11.03", "9.2"], "11.02", "9.2"),
        (["09.02.00", "9.2", "09.01"], "09.02", "09.01"),
        (["11.01", "11.01-rt", "11.02-rt"], "11.02-rt", "11.01-rt"),
        (["11.02", "11.03"], "11.02", None),
        (["main-3", "main-1", "main-3", "main-2", "main-1"], "main-2", "main-3"),
        (["nightly", "nightly"], "nightly", None),
        (["nightly", "11.02", "nightly"], "11.02", "nightly"),
    ],
)
def test_the_release_before_goes_by_number_else_by_what_was_measured_before_its_first_run(
    measured: list[str], release: str, before: str | None
) -> None:
    assert release_before(measured, release) == before


def test_each_row_has_its_number_among_those_of_the_runs_before(lab: Lab) -> None:
    strips = _STRIP.findall(lab.get(f"/releases/{LAST}").text)
    assert len(strips) == sum(len(cells) for _, cells in lab.page().values()) // 5
    with lab.store.snapshot() as seen:
        number = next(
            each for each in judge_run(seen, NEWEST[0], BEFORE).numbers if each.average.metric.name == "boot.time"
        )
        assert number.baseline is not None
        before = {each.run_id: each.value for run in number.baseline.runs for each in read_run_averages(seen, run)[:1]}
    assert number.baseline.values == tuple(before[run] for run in number.baseline.runs)
    words, drawn = strips[0]
    assert words.startswith("1 run before: ")
    assert drawn.count('class="was"') == 1


def test_another_boards_attempts_leave_a_release_as_it_was(lab: Lab) -> None:
    before = lab.page()
    running = lab.measured(9, "next", finished=False)
    lab.judged.clear()
    for cycle in range(3, 6):
        lab.boot(running, cycle)
        assert lab.page() == before
    assert lab.judged == []


def test_only_the_board_where_something_was_completed_or_decided_is_judged_again(lab: Lab) -> None:
    lab.page()
    lab.judged.clear()
    review(lab.store, NEWEST[1] - BOARDS, "rejected", "lena", "another SD card")
    second = lab.direct([NEWEST[1]], "04.00")
    assert lab.page() == lab.direct([NEWEST[0]]) | second | lab.direct([NEWEST[2]])
    assert lab.judged == [NEWEST[1]]

    lab.judged.clear()
    again = lab.measured(2, LAST)  # board-0002 is the third: its newest run with this release is another now
    assert lab.page() == lab.direct([NEWEST[0]]) | second | lab.direct([again])
    assert lab.judged == [again]


def test_a_run_that_is_gone_on_with_counts_when_it_is_completed(lab: Lab) -> None:
    killed = lab.measured(0, LAST, finished=False)
    lab.store.finish_run(killed, "interrupted")
    assert lab.page() == lab.direct(NEWEST)
    lab.store.reopen_run(killed)
    lab.boot(killed, 3)
    assert lab.page() == lab.direct(NEWEST)
    lab.store.finish_run(killed, "completed")
    assert lab.page() == lab.direct([killed, *NEWEST[1:]])


def test_a_run_of_another_host_whose_clock_is_behind_is_seen(lab: Lab) -> None:
    late = lab.measured(0, LAST, finished=False)
    assert lab.page() == lab.direct(NEWEST)
    long_ago = utc_now() - dt.timedelta(days=400)
    lab.with_sql(update(RunRow).where(RunRow.id == late).values(status="completed", finished_at=long_ago))
    assert lab.page() == lab.direct([late, *NEWEST[1:]])


def test_a_run_that_was_deleted_is_not_in_the_page(lab: Lab) -> None:
    lab.page()
    gone = NEWEST[2]
    mine = SampleRow.attempt_id.in_(
        AttemptRow.__table__.select().with_only_columns(AttemptRow.id).where(AttemptRow.run_id == gone)
    )
    lab.with_sql(
        delete(SampleRow).where(mine),
        delete(AttemptRow).where(AttemptRow.run_id == gone),
        delete(MeasurementRow).where(MeasurementRow.run_id == gone),
        delete(RunRow).where(RunRow.id == gone),
    )
    page = lab.page()
    text, numbers = page.pop(gone - BOARDS)
    assert (missing_facts(text, f"release {LAST}", "no completed boot run"), numbers) == ([], [])
    assert page == lab.direct(NEWEST[:2])


def test_what_was_not_measured_is_counted_and_named(lab: Lab) -> None:
    again = lab.measured(0, LAST)  # one number of three
    lab.with_sql(update(RunRow).where(RunRow.id == NEWEST[2]).values(release="other"))
    page = lab.get(f"/releases/{LAST}", "05.00").text
    with lab.store.snapshot() as seen:
        judged = judge_run(seen, again, "05.00")
        gone = read_run_averages(seen, NEWEST[2] - BOARDS)
    assert len(judged.missing) == 2
    assert len(gone) == 3
    assert "5 not measured, " in page  # of a board nothing was
    names = Names(judged.head)
    for average in [*judged.missing, *gone]:
        assert f"<li>{html.escape(names.number(average.metric, average.params))}</li>" in page
    assert not missing_facts(page, f"release {LAST}", "no completed boot run")

    (said,) = lab.get(f"/api/v1/releases/{LAST}", "05.00").json()["comparisons"]
    assert (said["against"], said["counts"]["not measured"]) == ("05.00", 5)
    found = {run["run"]: len(run["not_measured"]) for run in said["runs"]}
    assert found == {again: 2, NEWEST[1]: 0, NEWEST[2] - BOARDS: 3}
    rows = list(csv.DictReader(io.StringIO(lab.get(f"/releases/{LAST}/numbers.csv", "05.00").text)))
    assert [row["verdict"] for row in rows].count("not measured") == 5
    assert said["verdict"] in lab.get(f"/releases/{LAST}/comment.md", "05.00").text

    lab.measured(2, LAST)
    assert "release has no" not in lab.get(f"/releases/{LAST}", "05.00").text


def test_several_releases_are_compared_each_by_itself(lab: Lab) -> None:
    page = lab.get(f"/releases/{LAST}", "02.00", "05.00", "02.00", "").text
    for run in NEWEST:
        part = html.unescape(page).partition(f'id="run-{run}"')[2].partition("</section>")[0]
        for against in ("02.00", "05.00"):
            assert part.count(lab.direct([run], against)[run][0]) == 1
    assert page.count("</strong>\nagainst release") == 2
    both = lab.get(f"/api/v1/releases/{LAST}", "02.00", "05.00").json()["comparisons"]
    assert both == [lab.get(f"/api/v1/releases/{LAST}", each).json()["comparisons"][0] for each in ("02.00", "05.00")]
    assert [len(each["runs"]) for each in both] == [BOARDS, BOARDS]


def test_the_documents_have_the_judges_figures(lab: Lab) -> None:
    answer = lab.get(f"/api/v1/releases/{LAST}")
    (said,) = answer.json()["comparisons"]
    moved = [number for run in said["runs"] for number in run["numbers"]]
    with lab.store.snapshot() as seen:
        judged = [judge_run(seen, run, BEFORE) for run in NEWEST]
    known = [document(each, (), comparison(each, Names(each.head)).reported)["numbers"] for each in judged]
    assert moved == [number for numbers in known for number in numbers]
    assert "regression" in {number["verdict"] for number in moved}
    tag = {"If-None-Match": answer.headers["etag"]}
    assert requests.get(answer.url, headers=tag, timeout=60).status_code == 304
    rows = list(csv.DictReader(io.StringIO(lab.get(f"/releases/{LAST}/numbers.csv").text)))
    assert [(float(row["was"]), float(row["value"]), row["verdict"]) for row in rows] == [
        (number["was"], number["value"], number["verdict"]) for number in moved
    ]
    comment = lab.get(f"/releases/{LAST}/comment.md")
    assert comment.headers["content-type"] == "text/markdown; charset=utf-8"
    assert comment.text.startswith(f"**{said['verdict']}**\n")
    line = next(line for line in comment.text.splitlines() if "| regression |" in line)
    assert f"| run {NEWEST[0]}: " in line


def test_a_comment_is_short_enough_and_no_name_is_markup_in_it() -> None:
    hostile = "| <b>@lena [x](http://y) `\u202e" + "n" * 500
    head = RunHead(1, "boot", hostile, hostile, hostile, "completed", utc_now(), None)
    row = JudgedRow("boot.time", hostile, hostile, hostile, hostile, "regression", hostile, bad=True)
    said = {"run": 1, "against": hostile, "notes": [], "numbers": [], "not_measured": []}
    run = ReleaseRun(head, {"worse": 1}, True, Markup(), said, rows=(row,), missing=(hostile,))
    text = releases.markdown(hostile, [ComparedRelease(hostile, [run] * 2000)] * 8, "http://127.0.0.1/")
    assert len(text.encode()) <= MOST_BYTES
    text = releases.markdown(hostile, [ComparedRelease(hostile, [run])], "http://127.0.0.1/")
    (line,) = [line for line in text.splitlines() if "| regression |" in line]
    assert len(re.findall(r"(?<!\\)\|", line)) == 8
    assert not re.search(r"(?<!\\)(?:<b|\[|`)|@lena|\u202e", text)


@pytest.mark.parametrize(
    ("counts", "bad", "left", "state"),
    [
        ({"unchanged": 3}, False, 0, "good"),
        ({"unchanged": 3}, False, 1, "plain"),
        ({"unchanged": 3, "not measured": 1}, False, 0, "bad"),
        ({"better": 1}, False, 0, ""),
        ({"with nothing to compare": 2}, False, 0, "plain"),
        ({}, False, 0, "plain"),
        ({"unchanged": 3}, False, 0, ""),  # beside a run without a number
        ({"worse": 1, "unchanged": 3}, True, 1, "bad"),
    ],
)
def test_a_verdict_looks_like_what_it_says(counts: dict[str, int], bad: bool, left: int, state: str) -> None:
    head = RunHead(1, "boot", "am62xx_sk", "one", LAST, "completed", utc_now(), None)
    runs = [ReleaseRun(head, each, bad, Markup(), {}) for each in ([counts] if state else [counts, {}])]
    assert ComparedRelease(None, runs, left).state == state


def test_causes_come_first_with_the_boards_that_have_them(lab: Lab) -> None:
    def built(run: int, image: str) -> object:
        return update(RunRow).where(RunRow.id == run).values(provenance={"images_sha256": {"tiboot3.bin": image}})

    lab.with_sql(*(built(run - BOARDS, "a" * 64) for run in NEWEST), *(built(run, "b" * 64) for run in NEWEST))
    (said,) = lab.get(f"/api/v1/releases/{LAST}", "05.00").json()["comparisons"]
    moved = [run["run"] for run in said["runs"] if run["numbers"]]
    (cause,) = said["causes"]
    assert NEWEST[0] in moved
    assert cause["runs"] == moved
    assert cause["differs"].keys() == {"image", "release"}
    assert cause["differs"]["release"] == ["05.00", LAST]
    assert cause["counts"]["worse"] >= 1
    page = html.unescape(lab.get(f"/releases/{LAST}", "05.00").text)
    assert 0 < page.index(f"release 05.00 -> {LAST}</strong>: ") < page.index('<h2 id="run-')
    comment = lab.get(f"/releases/{LAST}/comment.md", "05.00").text
    assert comment.index(f"release 05.00 -\\> {LAST}**: ") < comment.index("| Number |")

    lab.with_sql(built(NEWEST[0], "c" * 64))
    review(lab.store, NEWEST[0], "accepted", "lena", "its numbers count")
    (said,) = lab.get(f"/api/v1/releases/{LAST}", "05.00").json()["comparisons"]
    assert sorted(each["runs"] for each in said["causes"]) == [[NEWEST[0]], [run for run in moved if run != NEWEST[0]]]


def test_the_evidence_is_of_the_same_comparison_also_where_a_release_is_called_as_a_run(lab: Lab) -> None:
    run = NEWEST[2] - BOARDS
    called = str(run)  # and run 15, of the third board, is of another release
    lab.with_sql(update(RunRow).where(RunRow.id.in_([run - 1, run - 2])).values(release=called))
    page = lab.get(f"/releases/{LAST}", called).text
    links = dict(re.findall(r'<p class="lead">am62xx_sk, <a href="([^"]*)">run (\d+)</a>', page))
    assert set(re.findall(r'<th scope="row"><a href="([^"#]*)', page)) <= set(links)
    links |= {link: run for run, link in re.findall(r'<a id="run-(\d+)" href="([^"]*)"', page)}
    said = {each: _compared_with(lab, link) for link, each in links.items()}
    assert said == {str(each): (200, f"release {called}") for each in NEWEST[:2]} | {
        str(NEWEST[2]): (200, "the last accepted runs")  # its board was never measured with that release
    }
    assert _compared_with(lab, f"/runs/{NEWEST[2]}?against={called}") == (200, f"run {run}, release 05.00")
    assert _compared_with(lab, f"/runs/{NEWEST[2]}?against=99") == (404, "")


def _compared_with(lab: Lab, address: str) -> tuple[int, str]:
    """What the page of a run compares with: the page and the JSON that it leads to say the same."""
    page = requests.get(lab.url + address, timeout=60)
    if page.status_code != 200:
        json = f"/api/v1{address.replace('?', '/verdicts?')}"
        assert requests.get(lab.url + json, timeout=60).status_code == page.status_code
        return page.status_code, ""
    (json,) = re.findall(r'download="run-\d+-verdict.json" href="([^"]*)"', page.text)
    against: str = lab.get(html.unescape(json)).json()["against"]
    assert f"against {against}" in html.unescape(page.text)
    return page.status_code, against


def test_the_list_of_releases_has_each_ones_verdict_once_it_is_judged(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasepages, "_NEWEST", 1)
    deadline = time.monotonic() + 60
    while "being judged" in (page := html.unescape(lab.get("/releases").text)):
        assert time.monotonic() < deadline, page
    verdicts = dict(
        re.findall(r'<a href="/releases/([\d.]+)">.*?<span class="verdict">([^<]*)</span>', page, re.DOTALL)
    )
    assert verdicts == {f"{number:02}.00": lab.verdict(f"{number:02}.00")[1] for number in range(1, RELEASES + 1)}
    judged = len(lab.judged)
    lab.get("/releases")
    assert len(lab.judged) == judged, "what is known is not judged again"


def test_a_board_of_which_there_is_nothing_to_say_is_a_name(lab: Lab) -> None:
    equal = [
        update(SampleRow).where(SampleRow.measurement_id == MeasurementRow.id, MeasurementRow.run_id == run)
        for run in (NEWEST[2], NEWEST[2] - BOARDS)
    ]
    lab.with_sql(*(one.values(value=2.0) for one in equal))
    page = lab.get(f"/releases/{LAST}").text
    assert "<h2>1 unchanged</h2>" in page
    assert re.search(rf'<a id="run-{NEWEST[2]}" href="/runs/{NEWEST[2]}\?against={BEFORE}">board-0002</a>', page)
    lab.failing(2, LAST, good=3)
    assert "<h2>1 unchanged, with failed attempts</h2>" in lab.get(f"/releases/{LAST}").text


def test_a_release_begins_with_what_moved_and_equal_failures_are_one_line(lab: Lab) -> None:
    boards = [36, 4, *range(10, 30)]
    for board in boards:
        lab.failing(board, LAST, good=0, failed=2, how="pdu_timeout", fault="lab")
    lab.failing(1, LAST, good=0, failed=1)
    state, line, said = lab.verdict(LAST)
    attempts = "1 of 57 attempts failed (kernel_panic 1), 44 more by the lab's fault (pdu_timeout 44)"
    assert (state, f"{attempts}; 22 without a" in line) == ("bad", True)
    assert said["attempts"]["failed"] == {"pdu_timeout": 44, "kernel_panic": 1}
    page = html.unescape(lab.get(f"/releases/{LAST}").text)
    failures = page.partition('<section aria-label="Failed attempts">')[2].partition("</section>")[0]
    lines = re.findall(r"<li><strong>(.*?)</strong>, (.*?):", failures)
    assert lines == [
        ("kernel_panic", "1 attempt on 1 board, by the board's fault"),
        ("pdu_timeout", f"44 attempts on {len(boards)} boards, by the lab's fault"),
    ]
    named = re.findall(r'href="/runs/\d+">board-(\d+)</a>', failures.partition("pdu_timeout")[2])
    assert list(map(int, named)) == sorted(boards)
    assert page.index('aria-label="Causes') < page.index('aria-label="Failed attempts"') < page.index('<h2 id="run-')
    assert _SECTION.findall(page)[0][0] == str(NEWEST[0]), "a board that moved, not one of those that failed alike"
    assert "<h2>22 without a completed run: failed</h2>" in page


def test_boards_stand_as_a_person_counts() -> None:
    heads = [
        RunHead(1, "boot", "am62x", board, LAST, "completed", utc_now(), None)
        for board in ("rack36", "rack4-shelf10", "rack4-shelf9")
    ]
    boards = [head.board for head in sorted(heads, key=releases.order)]
    assert boards == ["rack4-shelf9", "rack4-shelf10", "rack36"]


def test_beyond_the_worst_boards_each_has_a_line(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releasepages, "MOST_SECTIONS", 1)
    page = lab.get(f"/releases/{LAST}").text
    (worst, _), *others = _SECTION.findall(page)
    assert (int(worst), others) == (NEWEST[0], [])
    lines = re.findall(r'<tr id="run-(\d+)">.*?href="([^"]+)">(.*?)</a></th><td[^>]*>(.*?)</td>', page)
    assert f"<h2>{len(lines)} more</h2>" in page
    document = lab.get(f"/api/v1/releases/{LAST}").json()["comparisons"][0]["runs"]
    counts = {run["run"]: ", ".join(f"{count} {word}" for word, count in run["counts"].items()) for run in document}
    moved = {run for run in counts if f'<a id="run-{run}"' not in page} - {NEWEST[0]}
    assert {int(run): text for run, _, _, text in lines} == {run: counts[run] for run in moved} != {}
    assert {address for _, address, _, _ in lines} == {f"/runs/{run}?against={BEFORE}" for run in moved}


def test_the_history_of_a_metric_marks_the_runs_since_which_it_changed(lab: Lab) -> None:
    since = NEWEST[0] - BOARDS
    moved = NewVerdict("boot.time", 1, {"medium": "sd"}, "regression", 1, since, 4, 0.5, 0.4, 0.6)
    lab.with_sql(update(RunRow).where(RunRow.id == NEWEST[0]).values(started_at=utc_now()))
    write_verdicts(lab.store, NEWEST[0], [moved])
    page = lab.get("/metrics/boot.time").text
    ((ring, text),) = re.findall(r'<circle class="step" cx="([\d.]+)".*?<text class="step"[^>]*>([^<]*)', page)
    assert text == f"+50 % ± 10 %, {BEFORE}"
    dot = re.search(rf'href="/runs/{since}" aria-label="[^"]*{re.escape(text)}".*?cx="([\d.]+)"', page)
    assert dot is not None
    assert ring == dot[1]
    assert f'regression since <a href="/runs/{since}">run {since}</a>, {BEFORE}: <strong>+50 % ± 10 %</strong>' in page
    first = re.search(r'<tr class="s0">.*?</a></th>', page, re.DOTALL)
    assert first is not None
    assert "board-0000" in first[0], "what changed stands first"

    review(lab.store, NEWEST[0], "rejected", "lena", "another power supply")
    assert 'class="step"' not in lab.get("/metrics/boot.time").text


def test_a_release_that_takes_long_is_shown_as_far_as_it_is_judged(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releasepages, "AT_ONCE", 0)
    goes_on = threading.Semaphore(0)

    def slowly(seen: object, run: int, against: str | None) -> object:
        assert goes_on.acquire(timeout=60)
        return judge_run(seen, run, against)  # type: ignore[arg-type]

    monkeypatch.setattr(releases, "judge_run", slowly)
    for done in range(BOARDS):
        page = page_with(lab, f"{done} of {BOARDS} comparisons so far")
        assert page.count('<h2 id="run-') == done
        assert page.count('hx-trigger="load delay:1s, every 5s"') == page.count("/static/htmx-") == 1
        assert not missing_facts(page, " so far</strong>", f"{done} of {BOARDS} comparisons")
        goes_on.release(1 if done < BOARDS - 1 else 100)
    page = page_with(lab, f'<h2 id="run-{NEWEST[-1]}">')
    assert "so far" not in page
    assert "/static/htmx-" not in page
    assert lab.page() == lab.direct(NEWEST)


def test_a_program_gets_all_of_a_release_however_long_it_takes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = lab.get(f"/api/v1/releases/{LAST}", "05.00").json()
    monkeypatch.setattr(releasepages, "AT_ONCE", 0)
    lab.measured(0, "05.00")
    (said,) = lab.get(f"/api/v1/releases/{LAST}", "05.00", "04.00").json()["comparisons"][1:]
    assert [run["run"] for run in said["runs"]] == NEWEST
    again = lab.get(f"/api/v1/releases/{LAST}", "05.00").json()
    assert [run["run"] for run in again["comparisons"][0]["runs"]] == NEWEST
    assert again["comparisons"][0]["runs"][1:] == direct["comparisons"][0]["runs"][1:]


@pytest.mark.timeout(600)  # a process starts, on a host that may have other work
def test_many_runs_are_judged_in_a_process_with_the_same_figures(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releasepages, "AT_ONCE", 0)
    monkeypatch.setattr(releasepages, "WORTH_A_PROCESS", BOARDS)
    whole = lab.get(f"/api/v1/releases/{LAST}").json()["comparisons"][0]
    assert [run["run"] for run in whole["runs"]] == NEWEST
    assert lab.judged == [], "not in this process"
    assert lab.page() == lab.direct(NEWEST)
    assert lab.judged == []


def test_however_many_programs_wait_for_a_release_other_pages_come(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    def waits(seen: object, run: int, against: str | None) -> object:
        assert goes_on.wait(120)
        return judge_run(seen, run, against)  # type: ignore[arg-type]

    monkeypatch.setattr(releasepages, "AT_ONCE", 0)
    monkeypatch.setattr(releases, "judge_run", waits)
    asking = [http.client.HTTPConnection(lab.url.removeprefix("http://"), timeout=120) for _ in range(60)]
    try:
        for place, each in enumerate(asking):
            form = (f"/releases/{LAST}/comment.md", f"/releases/{LAST}/numbers.csv", f"/api/v1/releases/{LAST}")
            each.request("GET", form[place % 3])
        assert lab.get("/static/site.css").status_code == 200  # 60 are more than the server has threads
        assert "so far" in lab.get(f"/releases/{LAST}").text
        goes_on.set()
        assert {each.getresponse().status for each in asking} == {200}
    finally:
        goes_on.set()
        for each in asking:
            each.close()


def test_what_goes_wrong_in_the_background_is_said_once_and_tried_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasepages, "AT_ONCE", 1)

    def fails(*_asked: object) -> object:
        raise LabStableError("the disk is gone", failure="results")

    monkeypatch.setattr(releases, "judge_run", fails)
    answer = requests.get(f"{lab.url}/api/v1/releases/{LAST}", timeout=60)
    assert (answer.status_code, "the disk is gone" in answer.text) == (503, True)
    monkeypatch.setattr(releases, "judge_run", judge_run)
    while (answer := requests.get(f"{lab.url}/api/v1/releases/{LAST}", timeout=60)).status_code != 200:
        assert answer.status_code == 503
    assert [run["run"] for run in answer.json()["comparisons"][0]["runs"]] == NEWEST


def test_what_failed_a_while_ago_is_tried_again_and_told_to_nobody(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(releasepages, "AT_ONCE", 0)
    monkeypatch.setattr(releasepages, "REPORT_S", 0.0)

    def fails(*_asked: object) -> object:
        raise LabStableError("the disk is gone", failure="results")

    monkeypatch.setattr(releases, "judge_run", fails)
    assert "so far" in lab.get(f"/releases/{LAST}").text
    until_logged(caplog, "the disk is gone")
    monkeypatch.setattr(releases, "judge_run", judge_run)
    assert "so far" not in page_with(lab, f'<h2 id="run-{NEWEST[-1]}">')  # each answer of it was whole


def test_what_goes_wrong_before_somebody_asks_is_logged_and_told_to_nobody(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_asked: object) -> object:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(releasepages, "AT_ONCE", 0)
    monkeypatch.setattr(releases, "judge_run", fails)
    with serving(Site(str(tmp_path / "results.db"), runtime=tmp_path, folder=tmp_path), ahead=True) as lab.url:
        until_logged(caplog, "a mistake of ours")
        monkeypatch.setattr(releases, "judge_run", judge_run)
        page_with(lab, f'<h2 id="run-{NEWEST[-1]}">')


def until_logged(caplog: pytest.LogCaptureFixture, text: str) -> None:
    """Wait until something was logged."""
    deadline = time.monotonic() + 60
    while text not in caplog.text:
        assert time.monotonic() < deadline, caplog.text


def test_the_release_that_was_measured_last_is_judged_before_somebody_asks(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    lab.measured(0, "next", finished=False)  # of which nothing can be judged yet

    def counted(seen: object, run: int, against: str | None) -> object:
        found = judge_run(seen, run, against)  # type: ignore[arg-type]
        lab.judged.append(run)
        if len(lab.judged) == BOARDS:
            done.set()
        return found

    monkeypatch.setattr(releases, "judge_run", counted)
    with serving(Site(str(tmp_path / "results.db"), runtime=tmp_path / "runtime", folder=tmp_path), ahead=True):
        assert done.wait(60)
    assert sorted(lab.judged) == NEWEST
    with serving(Site(str(tmp_path / "none.db"), runtime=tmp_path / "runtime", folder=tmp_path), ahead=True) as url:
        assert requests.get(f"{url}/releases/{LAST}", timeout=60).status_code == 503


def page_with(lab: Lab, text: str) -> str:
    """The page of the release, once it has this text."""
    deadline = time.monotonic() + 60
    while text not in (page := lab.get(f"/releases/{LAST}").text):
        assert time.monotonic() < deadline, page
    return page
