"""A job's run is judged as it ends, and measured again only as far as the judge asks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts
from support.judged_store import Nights

from lab.farm.rerun import MOST_RERUNS, asks_diagnosis, judge_with_reruns, report, report_parts
from lab.judge.boot_breakdown import OF
from lab.judge.store import mute, read_verdicts
from lab.results import open_store
from lab.results.records import DIAGNOSIS

QUIET = 15
SOON = dt.timedelta(minutes=10)
END = dt.datetime(2999, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(autouse=True)
def remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    with open_store(str(tmp_path / "results.db")) as store:
        made = Nights(store)
        made.quiet(QUIET)
        yield made


def slower(nights: Nights) -> tuple[int, list[int], list[str], bool]:
    """A slower image's run is judged: the run, those that confirm it, what was said, whether all is well."""
    first, again, said = nights.run(1.04, image="slow", after=SOON), list[int](), list[str]()

    def measure(run: int) -> int:
        assert run == first
        again.append(nights.run(1.04, image="slow", after=SOON, provenance={"confirms": run}))
        return again[-1]

    well = judge_with_reruns(nights.store, first, measure, said.append)
    return first, again, said, well


def test_what_may_have_moved_is_measured_again_until_it_is_sure(nights: Nights) -> None:
    first, again, said, well = slower(nights)
    assert not well
    assert 1 <= len(again) <= MOST_RERUNS
    assert not missing_facts(said[0], f"run {first}: ", "1 number", "sd", "again", "1 of at most 3")
    assert not missing_facts(said[-1], "verdict: ", "boot.time (sd)", "0042", "regression", "+")
    (verdict,) = read_verdicts(nights.store, outcomes=["regression"])
    assert (verdict.run.id, verdict.reruns) == (first, len(again))


def test_diagnostic_boots_are_asked_for_once_after_a_regression_that_is_sure(nights: Nights) -> None:
    quiet = nights.run(1.0)
    assert judge_with_reruns(nights.store, quiet, lambda _run: None, lambda _line: None)
    assert not asks_diagnosis(nights.store, quiet)
    first, again, _, _ = slower(nights)
    assert asks_diagnosis(nights.store, first)
    assert not any(asks_diagnosis(nights.store, run) for run in again)
    run = nights.store.run(first)
    nights.store.begin_run(DIAGNOSIS, run.board_type, run.board, run.release, plan={}, provenance={OF: first})
    assert not asks_diagnosis(nights.store, first), "whatever became of it"
    said: list[str] = []
    report_parts(nights.store, first, said.append)
    assert said[-1].endswith(f"lab results where {first}")


def test_a_muted_number_is_said_and_fails_nothing(nights: Nights) -> None:
    mute(nights.store, "boot.time", board=None, params={}, until=END, reason="known", by="ann")
    _, _, said, well = slower(nights)
    assert well
    assert "regression" in said[-1]


def test_what_has_not_moved_is_not_measured_again(nights: Nights) -> None:
    run, said = nights.run(image="image 2"), list[str]()

    def never(_run: int) -> int:
        raise AssertionError

    assert judge_with_reruns(nights.store, run, never, said.append)
    (line,) = said
    assert not missing_facts(line, f"run {run}: ", "1 of 1 numbers compared", f"lab judge show {run}")


def test_numbers_that_nothing_can_be_said_of_are_not_judged(nights: Nights) -> None:
    """Neither those of a board's first run, nor those that the judge never had."""
    first = Nights(nights.store, "0043").run()
    later, said = nights.run(), list[str]()
    assert judge_with_reruns(nights.store, first, lambda _run: None, said.append)
    assert report(nights.store, later, said.append)
    of_first, of_later = said
    assert not missing_facts(
        of_first, "not judged: ", f"run {first}", "8 earlier runs", "0", f"lab judge show {first}"
    )
    assert not missing_facts(of_later, "not judged: ", f"run {later}", f"lab judge run {later}")


def test_a_run_whose_cycles_all_failed_says_so(nights: Nights) -> None:
    run, said = nights.run(boots=0, failed=2), list[str]()
    assert judge_with_reruns(nights.store, run, lambda _run: None, said.append)
    (line,) = said
    assert not missing_facts(line, "not judged: ", f"run {run}", "no samples", "1 number", f"lab judge show {run}")


def test_a_night_that_was_not_judged_is_told_with_the_next_one(nights: Nights) -> None:
    runs, said = [nights.run(1.03, image="slow") for _ in range(3)], list[str]()
    assert not judge_with_reruns(nights.store, runs[-1], lambda _run: None, said.append)
    assert "regression, +3" in said[-1] or "regression, +2" in said[-1]
    assert f"since run {runs[0]}" in said[-1]


def test_it_ends_where_nothing_more_can_be_measured(nights: Nights) -> None:
    run, asked, said = nights.run(1.04, image="slow"), list[int](), list[str]()

    def gone(wanted: int) -> None:
        asked.append(wanted)

    assert judge_with_reruns(nights.store, run, gone, said.append)
    assert asked == [run]
    (line,) = said[1:]
    facts = ("not judged: ", f"run {run}", "1 number", f"lab run --confirms {run} --env ENV")
    assert not missing_facts(line, *facts), "what the judge wanted to see again is not said to be well"


def test_the_store_is_asked_for_no_more_than_three_further_runs(nights: Nights) -> None:
    run, asked = nights.run(1.04, image="slow", after=SOON), list[int]()

    def unlike(wanted: int) -> int:
        asked.append(wanted)
        return nights.run(1.0 + 0.04 * (len(asked) % 2), image="slow", after=SOON, provenance={"confirms": wanted})

    judge_with_reruns(nights.store, run, unlike, lambda _line: None)
    assert len(asked) <= MOST_RERUNS
