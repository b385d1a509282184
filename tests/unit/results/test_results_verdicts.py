"""Verdicts, reviews and mutes, on every database; see conftest.py for which."""

from __future__ import annotations

import datetime as dt

import pytest
from attrs import evolve, fields_dict
from support.recorded_run import record

from lab.errors import ConfigurationError, TestStableError
from lab.host.clock import utc_now
from lab.judge.records import NewVerdict, StoredVerdict
from lab.judge.store import mute, mutes, read_verdicts, review, reviews, write_verdicts
from lab.results import Store

SD = {"medium": "sd"}
NOTHING = NewVerdict("boot.time", 1, {"medium": "emmc"}, "none")
DAY = dt.timedelta(days=1)


@pytest.fixture
def runs(store: Store) -> tuple[int, int]:
    """Two runs that were measured."""
    return record(store, cycles=1).id, record(store, cycles=1, virtual=False).id


def slower(since: int, **changes: object) -> NewVerdict:
    verdict = NewVerdict(
        "boot.time", 1, SD, "regression", 1, since, 40, 0.031, 0.024, 0.038, reruns=2, differs={"image": ("a", "b")}
    )
    return evolve(verdict, **changes)


def as_written(verdict: StoredVerdict) -> NewVerdict:
    return NewVerdict(**{name: getattr(verdict, name) for name in fields_dict(NewVerdict)})


def test_a_verdict_comes_back_as_it_was_written_with_its_run_and_metric(store: Store, runs: tuple[int, int]) -> None:
    write_verdicts(store, runs[1], [slower(runs[0]), NOTHING])
    called, unchanged = read_verdicts(store)
    assert as_written(called) == slower(runs[0])
    assert as_written(unchanged) == NOTHING
    assert (called.run, called.unit, called.better, called.worse, called.open) == (
        store.run(runs[1]),
        "s",
        "lower",
        True,
        True,
    )
    assert not unchanged.worse
    assert not unchanged.open
    assert abs(utc_now() - called.judged_at) < DAY


def test_judging_a_run_again_replaces_what_was_said_of_it_alone(store: Store, runs: tuple[int, int]) -> None:
    write_verdicts(store, runs[0], [NOTHING])
    write_verdicts(store, runs[1], [slower(runs[0]), NOTHING])
    write_verdicts(store, runs[1], [slower(runs[1])])
    assert [(v.run.id, v.since_run) for v in read_verdicts(store)] == [(runs[1], runs[1]), (runs[0], None)]


def test_verdicts_are_found_by_run_id_board_metric_time_and_outcome(store: Store, runs: tuple[int, int]) -> None:
    write_verdicts(store, runs[0], [NOTHING])
    write_verdicts(store, runs[1], [slower(runs[0])])
    (called,) = read_verdicts(store, run_id=runs[1])
    assert read_verdicts(store, verdict_id=called.id) == [called]
    assert read_verdicts(store, board=store.run(runs[1]).board) == [called]
    assert read_verdicts(store, outcomes=["regression"]) == [called]
    assert read_verdicts(store, outcomes=[]) == []
    assert len(read_verdicts(store, metric="boot.time", since=utc_now() - DAY)) == 2
    assert read_verdicts(store, metric="boot.stage") == []
    assert read_verdicts(store, since=utc_now() + DAY) == []


def test_the_newest_review_of_a_run_counts_and_closes_its_verdicts(store: Store, runs: tuple[int, int]) -> None:
    write_verdicts(store, runs[1], [slower(runs[0])])
    review(store, runs[1], "rejected", "ann", "loose cable")
    newest = review(store, runs[1], "accepted", "bob", "meant so")
    assert reviews(store) == {runs[1]: newest}
    (verdict,) = read_verdicts(store)
    assert (verdict.review, verdict.open) == (newest, False)


@pytest.mark.parametrize(
    ("metric", "board", "params", "covers"),
    [
        ("boot.time", None, {}, True),
        ("boot.*", "SK-AM62-0042", {"medium": "s?"}, True),
        ("boot.time", "another", {}, False),
        ("boot.stage", None, {}, False),
        ("boot.time", None, {"medium": "emmc"}, False),
        ("boot.time", None, {"stage": "*"}, False),
    ],
)
def test_a_mute_covers_what_fits_its_patterns(
    store: Store, runs: tuple[int, int], metric: str, board: str | None, params: dict[str, str], covers: bool
) -> None:
    write_verdicts(store, runs[1], [slower(runs[0])])
    kept = mute(store, metric, board=board, params=params, until=utc_now() + DAY, reason="known", by="ann")
    assert mutes(store) == [kept]
    (verdict,) = read_verdicts(store)
    assert verdict.muted == (kept if covers else None)
    assert verdict.open is not covers


def test_a_mute_ends_on_its_day(store: Store, runs: tuple[int, int]) -> None:
    write_verdicts(store, runs[1], [slower(runs[0])])
    mute(store, "*", board=None, params={}, until=utc_now() + DAY, reason="known", by="ann")
    (later,) = read_verdicts(store, at=utc_now() + 2 * DAY)
    assert later.muted is None
    with pytest.raises(ConfigurationError, match=r"past.*--until"):
        mute(store, "*", board=None, params={}, until=utc_now() - DAY, reason="", by="ann")


def test_what_is_no_run_or_no_verdict_is_refused(store: Store, runs: tuple[int, int]) -> None:
    with pytest.raises(ConfigurationError, match="no run 99"):
        write_verdicts(store, 99, [])
    with pytest.raises(ConfigurationError, match="no run 99"):
        review(store, 99, "accepted", "ann", "")
    with pytest.raises(TestStableError, match=r"verdict is regression"):
        slower(runs[0], outcome="slower")
    with pytest.raises(TestStableError, match="must be finite"):
        slower(runs[0], effect=float("nan"))


def test_a_verdict_keeps_its_number_when_its_run_is_judged_again(store: Store, runs: tuple[int, int]) -> None:
    write_verdicts(store, runs[1], [NOTHING, slower(runs[0])])
    before = {verdict.params["medium"]: verdict.id for verdict in read_verdicts(store)}
    write_verdicts(store, runs[0], [NOTHING])
    write_verdicts(store, runs[1], [slower(runs[1]), NOTHING])
    assert {verdict.params["medium"]: verdict.id for verdict in read_verdicts(store, run_id=runs[1])} == before


def test_a_rerun_that_was_asked_for_is_open_until_a_later_run_of_the_number_is_judged(store: Store) -> None:
    asked, other, later = (record(store, cycles=1).id for _ in range(3))
    write_verdicts(store, asked, [NewVerdict("boot.time", 1, SD, "unsure: rerun asked")])
    write_verdicts(store, other, [NOTHING])
    assert [verdict.open for verdict in read_verdicts(store, run_id=asked)] == [True]
    write_verdicts(store, later, [NewVerdict("boot.time", 1, SD, "none")])
    assert [(verdict.outdated, verdict.open) for verdict in read_verdicts(store, run_id=asked)] == [(True, False)]


def test_a_rerun_that_was_asked_for_stays_open_when_another_kind_of_run_has_the_number(store: Store) -> None:
    asked = record(store, cycles=1)
    write_verdicts(store, asked.id, [NewVerdict("boot.time", 1, SD, "unsure: rerun asked")])
    other = store.begin_run("measure", asked.board_type, asked.board, asked.release, plan={}, provenance={})
    write_verdicts(store, other.id, [NewVerdict("boot.time", 1, SD, "none")])
    assert [(verdict.outdated, verdict.open) for verdict in read_verdicts(store, run_id=asked.id)] == [(False, True)]
