"""A published number against the releases before it: what is noise, what is drift, and which release came before."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from support.facts import missing_facts

from exporters.results import ResultsReader
from lab.judge import labels, noise
from lab.judge.baseline import JudgedNumber, judge_release, judge_run
from lab.judge.compare import Judgement, Verdict
from lab.judge.noise import Noise
from lab.judge.number import Number, NumberEvidence
from lab.judge.store import review
from lab.metrics import Metric
from lab.metrics.catalogue import BOOT_TIME, published
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.results.records import EVIDENCE, PUBLISHED
from lab.results.snapshot import StoreSnapshot, watch

START = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
MODEL = noise.load()
PIPE = next(
    metric for metric in published() if metric.name == "lmbench.latency"
)  # 25 % in noise.toml, follows the clock


def number(value: float, source: str, metric: Metric = BOOT_TIME, **known: object) -> Number:
    return Number(source, metric, {"medium": "sd"}, value, None, NumberEvidence(**known))  # type: ignore[arg-type]


def judged(*values: float, metric: Metric = BOOT_TIME) -> Judgement:
    *before, old, new = [number(value, f"{9 + place}.00", metric) for place, value in enumerate(values)]
    return judge_release(before, old, new, MODEL)


# --- noise from history -----------------------------------------------------------------------------------------------------


def test_a_drift_does_not_excuse_itself() -> None:
    """15 % a release, then 32 %: ten seconds became twenty, and nobody was to hear of it."""
    found = judged(10, 11.5, 13.2, 15.2, 20)
    assert (found.verdict, found.rule) == (Verdict.REGRESSION, "moved")
    assert judged(20, 15.2, 13.2, 11.5, 8).verdict is Verdict.IMPROVEMENT


def test_a_history_widens_the_noise_to_three_times_the_catalogue_s_at_most() -> None:
    usual = MODEL.of("boot.time", {"medium": "sd"}).relative
    assert MODEL.history.widest == 3
    assert MODEL.of_releases(Noise(usual), [10, 15, 10, 15]).relative == pytest.approx(3 * usual)
    within, beyond = (judged(15, 10, 15, 10, 10 * (1 + times * usual)) for times in (2.8, 3.2))
    assert within.verdict is Verdict.NOISE
    assert beyond.verdict is Verdict.REGRESSION, "though it moved by half each time"


@given(st.lists(st.floats(1, 1e6), min_size=3, max_size=12), st.floats(0.001, 1), st.booleans())
def test_numbers_of_one_direction_never_widen_the_noise(values: list[float], usual: float, falls: bool) -> None:
    assert MODEL.of_releases(Noise(usual), sorted(values, reverse=falls)) == Noise(usual)
    assert MODEL.of_releases(Noise(usual), values).relative <= MODEL.history.widest * usual * (1 + 1e-9)


@pytest.mark.parametrize(("least", "value"), [("widest", 0.5), ("releases", 1), ("window", 0)])
def test_a_history_rule_that_makes_no_sense_is_refused(least: str, value: float) -> None:
    with pytest.raises(ValueError, match=least):
        evolve(MODEL.history, **{least: value})


# --- small steps ------------------------------------------------------------------------------------------------------------


def test_small_steps_that_add_up_are_a_regression_by_a_rule_of_its_own() -> None:
    found = judged(10.0, 10.2, 10.4, 10.6)
    assert (found.verdict, found.rule, found.crept_from) == (Verdict.REGRESSION, "crept", "9.00")
    assert not missing_facts(found.reason, "1.06 times 9.00", "steps")
    assert found.effect == pytest.approx(10.6 / 10.4 - 1)
    better = judged(10.6, 10.4, 10.2, 10.0)
    assert (better.verdict, better.rule) == (Verdict.IMPROVEMENT, "crept")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ((10.0, 10.2, 10.4, 10.4), "the last step is none"),
        ((10.0, 12.0, 12.1, 12.2), "the first step was told when it came"),
        ((10.0, 10.3, 10.1, 10.35), "to and fro"),
        ((10.0, 10.1, 10.2), "not beyond noise yet"),
    ],
)
def test_what_did_not_creep_is_noise(values: Sequence[float], why: str) -> None:
    found = judged(*values)
    assert (found.verdict, found.crept_from) == (Verdict.NOISE, ""), why


# --- what is no history -----------------------------------------------------------------------------------------------------


def test_suspect_numbers_are_neither_a_level_nor_noise() -> None:
    old, new = number(10.0, "11.00"), number(15.0, "12.00")
    said = judge_release([number(15.0, "10.00")], old, new, MODEL)
    assert said.returns_to == "10.00"
    doubtful = number(15.0, "10.00", suspicions=("stuck (rule-x)",))
    assert judge_release([doubtful], old, new, MODEL).returns_to == ""
    steady = [number(value, f"{release}.00") for release, value in ((7, 10.0), (8, 10.1), (9, 10.0), (10, 10.1))]
    wild = [evolve(one, value=15.0, evidence=doubtful.evidence) for one in steady[1::2]]
    mixed = [steady[0], wild[0], steady[2], wild[1]]
    assert judge_release(mixed, old, number(10.8, "12.00"), MODEL).verdict is Verdict.REGRESSION


def test_numbers_at_another_clock_are_neither_a_level_nor_noise() -> None:
    def at(mhz: float, value: float, source: str, metric: Metric = PIPE) -> Number:
        return number(value, source, metric, clock_mhz=mhz)

    old, new = at(1400, 20.0, "11.00"), at(1400, 30.0, "12.00")
    assert judge_release([at(1400, 30.0, "10.00")], old, new, MODEL).returns_to == "10.00"
    assert judge_release([at(1000, 30.0, "10.00")], old, new, MODEL).returns_to == ""
    assert judge_release([at(1402, 30.0, "10.00")], old, new, MODEL).returns_to == "10.00", "one clock, read twice"
    slow = [at(1000, 30.0, "7.00"), at(1400, 20.0, "8.00"), at(1000, 30.0, "9.00"), at(1400, 20.0, "10.00")]
    assert judge_release(slow, old, new, MODEL).verdict is Verdict.REGRESSION
    boots = [
        at(1000, 15.0, "10.00", BOOT_TIME),
        at(1400, 10.0, "11.00", BOOT_TIME),
        at(1400, 15.0, "12.00", BOOT_TIME),
    ]
    assert judge_release(boots[:1], *boots[1:], MODEL).returns_to == "10.00", "a boot does not follow the clock"


def test_what_another_clock_is_says_the_noise_of_the_clock() -> None:
    usual = MODEL.of("cpu.clock", {}).relative
    assert not noise.is_another_clock(1400, 1400 * (1 + 0.9 * usual))
    assert noise.is_another_clock(1400, 1400 * (1 + 1.1 * usual))
    assert noise.is_another_clock(1400, 1250)


# --- which release is which -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("09.02.00", "9.2", True),
        ("09.02.01", "09.02", False),
        ("09.02-rt", "09.02", False),
        ("9.2-RT", "09.02.00-rt", True),
        ("v9.2", "9.2", False),
        ("2026-03-02", "2026-03-02", True),
        ("feature/2", "feature-2", False),
    ],
)
def test_a_release_is_known_by_its_numbers_and_its_kernel(one: str, other: str, same: bool) -> None:
    assert labels.same_release(one, other) is same


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


def put(store: Store, release: str, value: float) -> int:
    """A published guide with one number, as an import keeps it."""
    params = {"medium": "sd"}
    run = store.begin_run(PUBLISHED, "a1-fs", "a1-fs", release, plan={}, provenance={}).id
    sample = SampleRecord(BOOT_TIME.name, params, value, 0.0)
    details = {EVIDENCE: [{"metric": BOOT_TIME.name, "params": params}]}
    store.record_attempt(run, AttemptRecord(1, 1, {}, "ok", None, None, "", START, 1.0, (sample,), details=details))
    store.finish_run(run, "completed")
    return run


def only(store: Store, run: int, against: str | None = None) -> JudgedNumber:
    with watch(store.url).snapshot() as snapshot:
        (found,) = judge_run(snapshot, run, against).numbers
    return found


def exported(store: Store) -> dict[str, tuple[str, Verdict]]:
    return {
        change.key.release: (change.against, change.verdict)
        for change in ResultsReader(watch(store.url)).read().changes
    }


def test_the_release_before_is_of_the_same_kernel_in_whichever_order_they_were_imported(store: Store) -> None:
    before = put(store, "11.00", 10.0)
    put(store, "09.00", 20.0)
    put(store, "11.00-rt", 30.0)
    new = put(store, "11.01", 10.1)
    found = only(store, new)
    assert found.baseline is not None
    assert found.baseline.runs == (before,), "neither the latest import nor the other kernel"
    assert found.judgement.verdict is Verdict.NOISE
    again = put(store, "11.00.00", 10.2)
    newest = only(store, new).baseline
    assert newest is not None
    assert newest.runs == (again,), (
        "of one release the last import counts, though it came after the guide that is judged"
    )
    review(store, again, "rejected", "alice", "another board")
    kept = only(store, new).baseline
    assert kept is not None
    assert kept.runs == (before,)


def test_the_exporter_compares_each_kernel_with_itself(store: Store) -> None:
    for release, value in (("11.00", 10.0), ("11.01-rt", 30.0), ("11.00.00-rt", 20.0), ("11.01", 10.1)):
        put(store, release, value)
    assert exported(store) == {
        "11.01": ("11.00", Verdict.NOISE),
        "11.01-rt": ("11.00.00-rt", Verdict.REGRESSION),
    }


def test_other_kernels_and_later_imports_are_no_history_of_a_release(store: Store) -> None:
    """The standard kernel moves to and fro; the real-time kernel between them is steady, and would say that it does not."""
    new = 0
    for release, value in (("10.00", 10.4), ("8.00", 10.4), ("9.00", 10.0), ("11.00", 10.0), ("12.00", 10.8)):
        new = put(store, release, value)
        put(store, f"{release}-rt", 20.0)
    assert not missing_facts(only(store, new).judgement.reason, "last 4 releases")
    assert exported(store)["12.00"][1] is Verdict.NOISE


def test_a_release_that_is_written_another_way_is_no_step_of_the_history(store: Store) -> None:
    for release, value in (("9.00", 10.0), ("09.02.00", 10.4), ("9.2", 10.0), ("10.00", 10.4)):
        put(store, release, value)
    new = put(store, "11.00", 11.0)
    assert "releases differ" not in only(store, new).judgement.reason, (
        "two releases before the last one, and not three"
    )
    with watch(store.url).snapshot() as snapshot:
        judged_run = judge_run(snapshot, new, "9.02")
    (found,) = judged_run.numbers
    assert found.baseline is not None
    assert found.baseline.value == 10.0


def test_no_more_releases_are_looked_at_than_a_guide_is_compared_with(store: Store) -> None:
    window = MODEL.history.window
    put(store, "1.00", 15.0)
    for release in range(2, window + 2):
        put(store, f"{release}.00", 10.0)
    put(store, f"{window + 2}.00", 10.0)
    new = put(store, f"{window + 3}.00", 15.0)
    found = only(store, new).judgement
    assert (found.verdict, found.returns_to) == (Verdict.REGRESSION, ""), "1.00 is too long ago"
    put(store, "2.00", 15.0)
    assert only(store, new).judgement.returns_to == "2.00"


def test_a_published_guide_is_judged_without_a_look_at_every_run_of_the_store(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "11.00", 10.0)
    new = put(store, "11.01", 10.1)
    monkeypatch.delattr(StoreSnapshot, "heads")
    assert only(store, new).baseline is not None


@pytest.mark.parametrize(
    ("line", "members"),
    [
        ("main", ["main-0412", "main-g1a2b3c4", "main_20261120", "Main-2026-11-20"]),
        ("11.01", ["11.01", "11.01.07", "v11.01.00.12", "11.01-rc2", "11.01-143-g1a2b3c4d"]),
        ("11.01-rt", ["11.01-rt", "11.01.02-rt"]),
        ("feature-login", ["feature/login-77", "feature-login"]),
        ("", ["20261120", "1a2b3c4d5e6f"]),
    ],
)
def test_a_line_is_its_label_without_hashes_dates_and_counts(line: str, members: list[str]) -> None:
    assert {labels.line_of(label) for label in members} == {line}


@given(st.lists(st.sampled_from(["main-1", "main-2", "11.01.1", "11.02.1"]), max_size=12))
def test_each_line_goes_on_from_the_one_measured_before_its_first_run(measured: list[str]) -> None:
    lines = labels.Lines()
    for count, label in enumerate(measured):
        before = lines.before(label)
        own = [index for index in range(count) if labels.line_of(measured[index]) == labels.line_of(label)]
        assert before == sorted(before)
        assert before[len(before) - len(own) :] == own
        if not own and count:
            assert before == lines.runs[labels.line_of(measured[count - 1])]
        lines.add(label)
    assert sorted({index for runs in lines.runs.values() for index in runs}) == list(range(len(measured)))
