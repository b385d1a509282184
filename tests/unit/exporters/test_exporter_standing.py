"""The verdicts that stand as Prometheus sees them: each number, each change with its words, and how many are muted."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve
from support.facts import missing_facts
from support.told_verdicts import BEGAN, moved

from exporters.metrics import LONGEST_WORDS, MAX_CHANGES, families
from lab.judge.known_failures import KnownFailure
from lab.judge.records import StoredVerdict
from lab.judge.store import StandingChanges
from lab.judge.text import EvidenceLinks


def exported(
    *heard: StoredVerdict,
    muted: tuple[StoredVerdict, ...] = (),
    left_out: int = 0,
    known: Sequence[KnownFailure] = (),
) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Family -> labels and value of each series."""
    found = families(StandingChanges(heard, muted, BEGAN, left_out), EvidenceLinks("https://lab/{run}"), known)
    return {family.name: [(sample.labels, sample.value) for sample in family.samples] for family in found}


def test_each_number_has_its_change_and_its_uncertainty() -> None:
    found = exported(moved(effect=-0.03, about=0.004), moved("boot.stage", {"medium": "sd", "stage": "x"}, about=None))
    by_metric = {labels["metric"]: (labels, value) for labels, value in found["boardlab_verdict"]}
    labels, value = by_metric["boot.time"]
    assert value == -0.03
    assert labels == {
        "board": "am62x-1",
        "board_type": "am62xx_sk",
        "kind": "boot",
        "metric": "boot.time",
        "params": "sd",
        "outcome": "regression",
        "since_run": "12",
    }
    assert by_metric["boot.stage"][0]["params"] == "medium=sd, stage=x"
    ((its, about),) = found["boardlab_verdict_uncertainty"]
    assert (its, round(about, 6)) == (labels, 0.004), "a new mode has no interval"


def test_a_failure_rate_from_zero_has_its_shares_and_no_relative_change() -> None:
    rate = evolve(
        moved("boot.failure_rate", about=None), effect=None, differs={"failed": ("0 of 180", "4 of 60")}, unit="%"
    )
    found = exported(rate)
    assert found["boardlab_verdict"] == []
    shares = {labels["stat"]: round(value, 3) for labels, value in found["boardlab_verdict_failure_ratio"]}
    assert shares == {"before": 0.0, "avg": 0.067, "low": 0.026, "high": 0.159}
    ((words, _),) = found["boardlab_verdict_change_info"]
    assert not missing_facts(words["title"], "boot.failure_rate (sd)", "6.7 % (2.6 to 15.9 %)", "0 of 180", "run 12")
    assert not missing_facts(words["moved"], "boot.failure_rate (sd)", "6.7 % (2.6 to 15.9 %)", "0 of 180", "worse")


def test_what_moved_together_is_one_change_with_the_words_that_a_mail_gets() -> None:
    found = exported(moved(), moved("boot.stage"), muted=(moved("a", muted=True), moved("b", muted=True)), left_out=3)
    change = {"board": "am62x-1", "board_type": "am62xx_sk", "outcome": "regression", "since_run": "12", "known": ""}
    assert found["boardlab_verdict_change"] == [(change, 2.0)]
    ((words, _),) = found["boardlab_verdict_change_info"]
    assert not missing_facts(words["title"], "Regression", "am62x-1", "boot.stage (sd) +3.")
    assert words["moved"].count("\n") == 1
    assert words["report"] == "https://lab/12#boot.stage"
    assert {words[name] for name in change} == {*change.values()}
    assert found["boardlab_verdict_muted"] == [({"board": "am62x-1", "board_type": "am62xx_sk"}, 2.0)]
    assert found["boardlab_verdict_left_out"] == [({}, 3.0)]


def test_a_known_failure_is_a_series_of_its_own_with_its_state() -> None:
    known = KnownFailure("https://tracker/1", metric="boot.stage")
    numbers = (moved(), moved("boot.stage"))
    for fixed_in, state in (("", "open"), ("11.02", "returned"), ("main-12", "unclear")):
        found = exported(*numbers, known=[evolve(known, fixed_in=fixed_in)])
        assert {labels["known"]: value for labels, value in found["boardlab_verdict_change"]} == {"": 1.0, state: 1.0}
        titles = {labels["known"]: labels["title"] for labels, _ in found["boardlab_verdict_change_info"]}
        assert ["https://tracker/1" in titles[state], "https://tracker/1" in titles[""]] == [True, False]


def test_series_and_words_are_bounded_and_what_is_left_out_is_counted() -> None:
    many = [moved(board=f"b{n}", differs={}) for n in range(MAX_CHANGES + 5)]
    long = [moved("m" * 5000, board="a")]
    found = exported(*long, *many)
    assert len(found["boardlab_verdict_change"]) == len(found["boardlab_verdict_change_info"]) == MAX_CHANGES
    assert len(found["boardlab_verdict"]) == MAX_CHANGES
    assert found["boardlab_verdict_left_out"] == [({}, 6.0)]
    assert (
        max(len(value) for labels, _ in found["boardlab_verdict_change_info"] for value in labels.values())
        == LONGEST_WORDS
    )


def test_without_verdicts_there_is_no_series_but_the_count_of_what_is_left_out() -> None:
    found = exported()
    assert {name for name, series in found.items() if series} == {"boardlab_verdict_left_out"}
