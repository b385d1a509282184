"""The small line of a board's last boot times on its tile."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from support.facts import missing_facts
from support.web_serving import serving

from lab.errors import LabStableError
from lab.farm.board_state import BoardNow
from lab.host.clock import utc_now
from lab.metrics.catalogue import BOOT_TIME
from lab.results import AttemptRecord, SampleRecord, Store, averages, listing, open_store
from lab.results.sums import Average
from lab.web.site import Site
from lab.web.wall import HEIGHT, Sparks, spark

OLDER = dt.timedelta(hours=1)


def measured(store: Store, board: str, *boots: float, medium: str = "sd", status: str = "completed") -> None:
    """A run of a board with these boot times."""
    run = store.begin_run("boot", "am62xx_sk", board, "11.01", plan={"cycles": len(boots)}, provenance={})
    for cycle, value in enumerate(boots, 1):
        samples = (SampleRecord(BOOT_TIME.name, {"medium": medium}, value, 0.001),)
        store.record_attempt(
            run.id, AttemptRecord(cycle, 1, {"medium": medium}, "ok", None, None, "", utc_now(), 30.0, samples)
        )
    if status != "running":
        store.finish_run(run.id, status)


def failed(store: Store, board: str, *outcomes: str) -> None:
    """A run of a board whose attempts ended so, the last one now."""
    run = store.begin_run("boot", "am62xx_sk", board, "11.01", plan={"cycles": 9}, provenance={})
    for number, outcome in enumerate(outcomes, 1):
        at = utc_now() - OLDER * (len(outcomes) - number)
        store.record_attempt(
            run.id, AttemptRecord(1, number, {"medium": "sd"}, outcome, "board", True, "no prompt", at, 30.0)
        )
    store.finish_run(run.id, "completed")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as opened:
        yield opened


def test_the_last_twelve_ended_runs_of_each_board_are_its_line(store: Store) -> None:
    for number in range(14):
        measured(store, "a", 5.0 + number / 10, 5.2 + number / 10)
        measured(store, "b", 9.0)
    measured(store, "a", 70.0, status="running")
    found = averages.boots(store, ["a", "b", "nosuch"])
    assert [each.value for each in found["a"]] == pytest.approx([5.1 + number / 10 for number in range(2, 14)])
    assert (len(found["b"]), set(found)) == (averages.RUNS, {"a", "b"})


def test_only_boots_like_the_newest_ones_stand_in_a_line(store: Store) -> None:
    measured(store, "a", 5.0)
    measured(store, "a", 1.0, medium="emmc")
    failed(store, "a", "hang_kernel")
    measured(store, "a", 6.0)
    assert [each.value for each in averages.boots(store, ["a"])["a"]] == [5.0, 6.0]


def test_a_line_says_in_words_what_it_shows() -> None:
    def boot(run_id: int, value: float) -> Average:
        return Average(run_id, BOOT_TIME, {"medium": "sd"}, 3, value, 0.01, False)

    found = spark([boot(1, 5.9), boot(2, 6.0), boot(3, 5.95)])
    assert not missing_facts(found.text, "sd", "last 3", "5.900 to 6.000 s")
    heights = [float(point.split(",")[1]) for point in found.points.split()]
    assert heights[1] < heights[2] < heights[0], "the longest boot is on top"
    assert all(0 <= height <= HEIGHT for height in heights)
    assert spark([boot(1, 5.9)]).text == "sd, last 1: 5.900 s"


def test_a_board_is_read_again_only_when_another_run_of_it_has_ended(store: Store) -> None:
    opened = []

    @contextmanager
    def opens() -> Iterator[Store]:
        opened.append(1)
        yield store

    def now() -> list[BoardNow]:
        return [BoardNow(each.run.board, last=each) for each in listing.latest(store, running=False)]

    sparks = Sparks()
    measured(store, "a", 5.0)
    assert sparks.of(now(), opens)["a"].text == "sd, last 1: 5.0000 s"
    sparks.of(now(), opens)
    assert len(opened) == 1
    measured(store, "a", 6.0)
    assert not missing_facts(sparks.of(now(), opens)["a"].text, "sd", "last 2", "5.0000 to 6.0000 s")

    @contextmanager
    def broken() -> Iterator[Store]:
        raise LabStableError("the file is gone", failure="results")
        yield store

    measured(store, "a", 7.0)
    assert "last 2" in sparks.of(now(), broken)["a"].text, "what was read stays"
    assert "last 3" in sparks.of(now(), opens)["a"].text


def test_a_run_that_was_resumed_and_ended_as_before_is_read_again(store: Store) -> None:
    def now() -> list[BoardNow]:
        return [BoardNow(each.run.board, last=each) for each in listing.latest(store, running=False)]

    @contextmanager
    def opens() -> Iterator[Store]:
        yield store

    run = store.begin_run("boot", "am62xx_sk", "a", "11.01", plan={"cycles": 2}, provenance={})
    sparks = Sparks()
    for cycle, value in enumerate((5.0, 7.0), 1):
        sample = SampleRecord(BOOT_TIME.name, {"medium": "sd"}, value, 0.001)
        store.record_attempt(
            run.id, AttemptRecord(cycle, 1, {"medium": "sd"}, "ok", None, None, "", utc_now(), 30.0, (sample,))
        )
        store.finish_run(run.id, "failed")
        line = sparks.of(now(), opens)["a"].text
        store.reopen_run(run.id)
    assert line == "sd, last 1: 6 s"


def test_a_large_lab_is_read_some_boards_at_a_look(store: Store) -> None:
    for number in range(30):
        measured(store, f"b{number:02}", 5.0)
    now = [BoardNow(each.run.board, last=each) for each in listing.latest(store, running=False)]

    @contextmanager
    def opens() -> Iterator[Store]:
        yield store

    sparks = Sparks()
    assert [len(sparks.of(now, opens)) for _ in range(3)] == [25, 30, 30]


def test_a_tile_has_the_line_its_words_and_the_class_of_the_last_failure(store: Store, tmp_path: Path) -> None:
    measured(store, "a", 5.0)
    failed(store, "a", "hang_kernel", "hang_kernel", "reset")
    with serving(Site(str(tmp_path / "results.db"), runtime=tmp_path / "runtime", folder=tmp_path)) as url:
        page = requests.get(url, timeout=60).text
    assert '<span class="unseen"> sd, last 1: 5.0000 s</span>' in page
    assert '<polyline points="2.0,10.0">' in page
    assert not missing_facts(page, "3 failed", "24 h", "reset")
