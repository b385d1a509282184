"""What a run is judged against, however a lab names its releases; and that the exporter says the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from exporters.results import ResultsReader
from exporters.verdicts import MetricChange
from lab.errors import BoardlabError, ConfigurationError
from lab.judge import latest, noise
from lab.judge.baseline import JudgedNumber, JudgedRun, judge_number, judge_run
from lab.judge.compare import Verdict
from lab.judge.labels import same_release
from lab.judge.latest import Reference
from lab.judge.store import review
from lab.metrics import summarise
from lab.metrics.catalogue import BOOT_TIME
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.results.series import BoardSeries
from lab.results.snapshot import watch
from lab.results.sums import Average

START = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
QUIET = (2.500, 2.502, 2.498, 2.501, 2.499, 2.503, 2.497, 2.500, 2.502, 2.498, 2.501, 2.499)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


def measure(
    store: Store,
    value: float,
    release: str = "main",
    *,
    board: str = "b1",
    medium: str = "sd",
    status: str = "completed",
    flags: frozenset[str] = frozenset(),
    values: Sequence[float] | None = None,
) -> int:
    run = store.begin_run("boot", "am62xx_sk", board, release, plan={}, provenance={}).id
    for cycle, each in enumerate(values or (value - 0.001, value, value + 0.001), start=1):
        sample = SampleRecord("boot.time", {"medium": medium}, each, 0.0001, flags)
        at = START + dt.timedelta(hours=run, seconds=cycle)
        params = {"medium": medium}
        store.record_attempt(run, AttemptRecord(cycle, 1, params, "ok", None, None, "", at, 1.0, (sample,)))
    store.finish_run(run, status)  # type: ignore[arg-type]
    return run


def judged(store: Store, run: int, against: str | None = None) -> JudgedRun:
    with watch(store.url).snapshot() as snapshot:
        return judge_run(snapshot, run, against)


def only(store: Store, run: int, against: str | None = None) -> JudgedNumber:
    (number,) = judged(store, run, against).numbers
    return number


def exported(store: Store, kind: Reference = Reference.BASELINE) -> list[MetricChange]:
    return [change for change in ResultsReader(watch(store.url)).read().changes if change.kind is kind]


@pytest.mark.parametrize(
    "labels",
    [
        ["main"] * 13,
        [f"v6.6-{n}-g{n:07x}" for n in range(13)],
        [f"2026-03-{n + 1:02}" for n in range(13)],
        ["11.01"] * 13,
        ["main"] * 11 + ["feature/x", "feature/y"],
    ],
    ids=["nightlies under one label", "git describe", "dates", "the same build again", "a branch of a branch"],
)
def test_a_slower_run_is_a_regression_whatever_its_release_is_called(store: Store, labels: list[str]) -> None:
    for value, label in zip(QUIET, labels, strict=False):
        measure(store, value, label)
    slow = measure(
        store, 2.56, labels[-1]
    )  # 2.4 %, less than boot.time's 3 % in noise.toml: the board's own runs tell
    number = only(store, slow)
    assert number.judgement.verdict is Verdict.REGRESSION
    assert number.judgement.effect == pytest.approx(0.024, abs=1e-3)
    assert number.baseline is not None
    assert number.baseline.runs == tuple(range(3, 13)), "the last ten"
    assert number.baseline.value == pytest.approx(2.5, abs=0.001)
    (change,) = exported(store)
    assert (change.key.release, change.regression, change.verdict) == (labels[-1], True, Verdict.REGRESSION)
    assert change.ratio == pytest.approx(number.judgement.effect)


def test_the_release_before_is_compared_also_where_it_is_not_among_the_last_runs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "_LATEST", 0)
    for value, label in ((2.3, "9.02"), (2.5, "10.00"), (2.9, "11.01")):
        measure(store, value, label)
    with watch(store.url).snapshot() as snapshot:
        (number,) = latest.worse_numbers(snapshot, BoardSeries("b1", "am62xx_sk", "boot"))
    assert (number.release, number.against) == ("11.01", "10.00")


def test_one_more_run_like_the_others_is_noise(store: Store) -> None:
    runs = [measure(store, value) for value in QUIET]
    assert only(store, runs[-1]).judgement.verdict is Verdict.NOISE
    assert [change.regression for change in exported(store)] == [False]


def test_the_first_run_has_no_history_and_says_so(store: Store) -> None:
    number = only(store, measure(store, 2.5))
    assert number.judgement.verdict is Verdict.NO_HISTORY
    assert number.baseline is None
    assert "the last accepted runs" in number.judgement.reason
    assert exported(store) == []


def test_two_runs_are_judged_by_the_catalogue(store: Store) -> None:
    measure(store, 2.5)
    assert only(store, measure(store, 2.56)).judgement.verdict is Verdict.NOISE
    assert only(store, measure(store, 2.7)).judgement.verdict is Verdict.REGRESSION


def test_a_run_without_numbers_is_a_plain_answer(store: Store) -> None:
    measure(store, 2.5)
    run = store.begin_run("boot", "am62xx_sk", "b1", "main", plan={}, provenance={}).id
    store.finish_run(run, "failed")
    assert judged(store, run).numbers == ()


def test_only_runs_of_the_same_board_medium_kind_and_reality_count(store: Store) -> None:
    measure(store, 9.0, board="b2")
    measure(store, 9.0, medium="emmc")
    measure(store, 9.0, flags=frozenset({"simulated"}))
    measure(store, 9.0, status="interrupted")
    assert only(store, measure(store, 2.5)).judgement.verdict is Verdict.NO_HISTORY


def test_a_rejected_run_counts_for_nothing_and_is_not_judged(store: Store) -> None:
    good = measure(store, 2.5)
    bad = measure(store, 9.0)
    review(store, bad, "rejected", "alice", "the fan was off")
    number = only(store, measure(store, 2.5))
    assert number.baseline is not None
    assert number.baseline.runs == (good,)
    assert number.judgement.verdict is Verdict.NOISE
    last = measure(store, 9.0)
    assert [change.regression for change in exported(store)] == [True]
    review(store, last, "rejected", "alice", "again")
    assert [change.regression for change in exported(store)] == [False], "the one before it is the latest now"


def test_an_accepted_run_is_the_new_normal(store: Store) -> None:
    for value in QUIET:
        measure(store, value, "11.00")
    slower = measure(store, 2.7, "11.01")
    assert [c.regression for kind in Reference for c in exported(store, kind)] == [True, True]
    review(store, slower, "accepted", "alice", "the new driver needs it")
    assert [c.regression for kind in Reference for c in exported(store, kind)] == [False, False]
    number = only(store, measure(store, 2.7, "11.01"))
    assert number.baseline is not None
    assert number.baseline.runs == (slower,)
    assert number.judgement.verdict is Verdict.NOISE
    assert [c.regression for kind in Reference for c in exported(store, kind)] == [False, False]


def test_a_named_release_is_what_is_compared_with(store: Store) -> None:
    old = [measure(store, 2.5, "11.00") for _ in range(3)]
    for _ in range(4):
        measure(store, 2.7, "11.01")
    run = measure(store, 2.7, "11.01")
    assert only(store, run).judgement.verdict is Verdict.NOISE, "it is as slow as its own reruns"
    number = only(store, run, "11.0")
    assert number.judgement.verdict is Verdict.REGRESSION
    assert number.baseline is not None
    assert number.baseline.runs == tuple(old)
    assert exported(store, Reference.RELEASE)[0].against == "11.00"
    with pytest.raises(ConfigurationError, match=r"'10\.00'.*: 11\.00"):
        judged(store, run, "10.00")
    with pytest.raises(ConfigurationError, match="no run 999"):
        judged(store, 999)


def test_what_a_run_of_the_past_is_judged_against_lies_before_it(store: Store) -> None:
    first, second = measure(store, 2.5), measure(store, 2.5)
    measure(store, 9.0)
    number = only(store, second)
    assert number.baseline is not None
    assert number.baseline.runs == (first,)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("9.2", "09.02", True),
        ("9.2", "9.20", False),
        ("main", "main", True),
        ("main", "Main", False),
        ("9.2", "v9.2", False),
    ],
)
def test_a_release_is_the_same_by_its_numbers_or_its_name(one: str, other: str, same: bool) -> None:
    assert same_release(one, other) is same


@pytest.mark.parametrize("flags", [frozenset(), frozenset({"uncertain"})])
def test_the_databases_averages_are_those_of_the_summary(store: Store, flags: frozenset[str]) -> None:
    run = measure(store, 2.5, values=(2.5, 2.7, 2.9, 2.55), flags=flags)
    other = measure(store, 2.5, values=(1.0,))
    with watch(store.url).snapshot() as snapshot:
        found = {average.run_id: average for average in snapshot.averages([run, other])}
    for each in (run, other):
        (measurement,) = store.measurements(each)
        wanted = summarise(measurement.samples)
        average = found[each]
        assert (average.n, average.value) == (wanted.n, pytest.approx(wanted.mean))
        assert average.uncertainty == pytest.approx(wanted.uncertainty)


def test_samples_that_are_uncertain_are_left_out_while_there_are_others(store: Store) -> None:
    run = store.begin_run("boot", "am62xx_sk", "b1", "main", plan={}, provenance={}).id
    for cycle, (value, flags) in enumerate([(2.5, ()), (2.6, ()), (9.0, ("uncertain", "uncertain"))], start=1):
        sample = SampleRecord("boot.time", {}, value, 0.1, frozenset(flags))
        store.record_attempt(run, AttemptRecord(cycle, 1, {}, "ok", None, None, "", START, 1.0, (sample,)))
    with watch(store.url).snapshot() as snapshot:
        (average,) = snapshot.averages([run])
    assert (average.n, average.value) == (2, pytest.approx(2.55))


@pytest.mark.parametrize("flags", [frozenset(), frozenset({"uncertain"})])
@pytest.mark.parametrize("column", ["value", "uncertainty"])
def test_a_sample_that_is_no_number_is_said_and_no_average(store: Store, column: str, flags: frozenset[str]) -> None:
    run = measure(store, 2.5, values=(2.5, 2.7), flags=flags)
    with store._engine.begin() as connection:
        connection.execute(text(f"UPDATE samples SET {column} = 9e999 WHERE id = 1"))  # noqa: S608 - a name from above
        connection.execute(text("UPDATE measurements SET sums = NULL"))  # or they are read in place of the samples
    with (
        watch(store.url).snapshot() as snapshot,
        pytest.raises(BoardlabError, match=r"number, found inf"),
    ):
        list(snapshot.averages([run]))


# --- what may never change a verdict ----------------------------------------------------------------------------------------

values = st.floats(0.5, 50.0)
histories = st.lists(values, min_size=0, max_size=25)


def average(run: int, value: float) -> Average:
    return Average(run, BOOT_TIME, {}, 3, value, value / 1000, simulated=False)


def of(history: Sequence[float], value: float, metric: object = BOOT_TIME, factor: float = 1.0) -> JudgedNumber:
    runs = [evolve(average(n, each * factor), metric=metric) for n, each in enumerate(history, start=1)]
    new = evolve(average(99, value * factor), metric=metric)
    return judge_number(new, runs, runs, "the last accepted runs", noise.load())


def test_one_sample_alone_is_as_unsure_as_one_sample_of_earlier_runs() -> None:
    """Boots scatter by 4 %: the mean of 20 is known to .05 s, one of them to .2 s."""
    history = [evolve(average(run, 2.5), n=20, uncertainty=0.047) for run in range(1, 13)]
    one = evolve(average(99, 2.64), n=1, uncertainty=0.0001)
    twenty = evolve(one, n=20)
    verdicts = [
        judge_number(new, history, history, "the last accepted runs", noise.load()).judgement.verdict
        for new in (one, twenty)
    ]
    assert verdicts == [Verdict.NOISE, Verdict.REGRESSION]


def test_a_number_that_may_be_anything_is_not_within_noise() -> None:
    history = [average(run, 2.5) for run in range(1, 13)]
    unsure = evolve(average(99, 4.0), uncertainty=3.0)
    judgement = judge_number(unsure, history, history, "the last accepted runs", noise.load()).judgement
    assert judgement.verdict is Verdict.NOT_COMPARABLE
    assert "75 %" in judgement.reason


@given(histories, values, st.sampled_from([1e-3, 60.0, 1e9]))
def test_the_unit_changes_nothing_but_what_the_method_resolves(
    history: list[float], value: float, factor: float
) -> None:
    fine, scaled = evolve(BOOT_TIME, resolution=1e-4), evolve(BOOT_TIME, resolution=1e-4 * factor)
    found, other = of(history, value, fine), of(history, value, scaled, factor)
    if found.judgement.effect is not None:
        assert other.judgement.effect == pytest.approx(found.judgement.effect, abs=1e-9)
        assert other.judgement.low == pytest.approx(found.judgement.low, rel=1e-6, abs=1e-9)
    else:
        assert other.judgement == found.judgement


@given(histories, values)
def test_better_and_worse_exchanged_exchange_only_the_words(history: list[float], value: float) -> None:
    found = of(history, value).judgement
    other = of(history, value, evolve(BOOT_TIME, better="higher")).judgement
    swapped = {Verdict.REGRESSION: Verdict.IMPROVEMENT, Verdict.IMPROVEMENT: Verdict.REGRESSION}
    assert other.verdict is swapped.get(found.verdict, found.verdict)
    assert (other.effect, other.low, other.high) == (found.effect, found.low, found.high)


@given(values)
def test_a_constant_series_is_no_change(value: float) -> None:
    assert of([value] * 20, value).judgement.verdict is Verdict.NOISE
    assert of([value] * 20, value * 1.1).judgement.verdict is Verdict.REGRESSION


def test_a_measurement_of_nan_is_a_plain_answer() -> None:
    number = of([2.5] * 12, float("nan"))
    assert number.judgement.verdict is Verdict.NO_SAMPLES
