"""The one way to compare two numbers: what it says, and what may never change it."""

from __future__ import annotations

import math
import tomllib
from importlib import resources

import pytest
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st
from support.facts import missing_facts

from lab.guide import catalogue
from lab.judge import noise
from lab.judge.compare import Verdict, compare
from lab.judge.noise import ClockRules, HistoryRules, Noise, SpikeRules
from lab.judge.number import Number, NumberEvidence, Work, of_average
from lab.metrics import Metric
from lab.metrics.catalogue import ALL, BOOT_TIME, published

USUAL = Noise(0.03)
OPPOSITE = {Verdict.REGRESSION: Verdict.IMPROVEMENT, Verdict.IMPROVEMENT: Verdict.REGRESSION}
positive = st.floats(1e-3, 1e6)
scales = st.sampled_from([1e-9, 1e-3, 60.0, 1e3, 2.0**20, 1e12])


def number(
    value: float | None, pm: float | None = 0.0, *, metric: Metric | None = BOOT_TIME, **known: object
) -> Number:
    return Number("a run", metric, {"medium": "sd"}, value, pm, NumberEvidence(**known))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (2.50, 2.70, Verdict.REGRESSION),
        (2.50, 2.30, Verdict.IMPROVEMENT),
        (2.50, 2.56, Verdict.NOISE),
        (2.50, 2.50, Verdict.NOISE),
        (0.0, 2.5, Verdict.REGRESSION),
        (2.5, 0.0, Verdict.IMPROVEMENT),
        (-1.0, 2.5, Verdict.REGRESSION),
        (2.5, None, Verdict.NO_SAMPLES),
        (2.5, math.nan, Verdict.NO_SAMPLES),
        (2.5, math.inf, Verdict.NO_SAMPLES),
        (None, 2.5, Verdict.NO_HISTORY),
        (math.nan, 2.5, Verdict.NO_HISTORY),
    ],
)
def test_a_number_moved_beyond_what_equal_runs_differ_by_or_it_says_why_not(
    old: float | None, new: float | None, verdict: Verdict
) -> None:
    found = compare(number(old), number(new), USUAL)
    assert found.verdict is verdict
    assert found.reason


@pytest.mark.parametrize(("old", "new"), [((0.0, 0.14), (0.005, 0.1)), ((0.017, 0.17), (0.0, 0.14))])
def test_what_is_zero_within_its_uncertainty_is_neither_better_nor_worse_than_what_is_nearly_so(
    old: tuple[float, float], new: tuple[float, float]
) -> None:
    assert compare(number(*old), number(*new), USUAL).verdict is Verdict.NOISE
    found = compare(number(0.0, 0.01), number(0.1, 0.01), USUAL)
    assert found.verdict is Verdict.REGRESSION
    assert not missing_facts(found.reason, "zero", "0.1 s", "±")


def test_the_effect_and_its_interval_are_relative_and_hold_the_noise_and_both_uncertainties() -> None:
    found = compare(number(2.0, 0.08), number(2.2, 0.0), USUAL)
    half = math.hypot(math.log1p(0.03), 0.04)
    assert found.effect == pytest.approx(0.1)
    assert found.low == pytest.approx(1.1 * math.exp(-half) - 1)
    assert found.high == pytest.approx(1.1 * math.exp(half) - 1)
    assert found.verdict is Verdict.REGRESSION
    assert compare(number(2.0, 0.2), number(2.2, 0.0), USUAL).verdict is Verdict.NOISE


@pytest.mark.parametrize(
    ("old", "new", "verdict", "says"),
    [
        ({"broken": "it fell over"}, {}, Verdict.BROKEN_RUN, "it fell over"),
        ({}, {"incomparable": "of another board"}, Verdict.NOT_COMPARABLE, "of another board"),
        (
            {"definition": "a", "definition_text": "counts apples"},
            {"definition": "b", "definition_text": "counts boxes"},
            Verdict.DEFINITION_CHANGED,
            "counts apples, a run counts boxes",
        ),
        ({"definition": "a"}, {"definition": ""}, Verdict.REGRESSION, ""),
        ({"conditions": ("card A",)}, {"conditions": ("card B",)}, Verdict.CONDITIONS_CHANGED, "'card A'"),
        ({"conditions": ()}, {"conditions": ("card B",)}, Verdict.REGRESSION, ""),
        ({"resolution": 1.5}, {}, Verdict.BELOW_RESOLUTION, "within the resolution, 1.5"),
        ({"low": 1.0, "high": 3.0}, {"low": 2.9, "high": 4.0}, Verdict.NOISE, "the ranges overlap"),
        ({"low": 1.0, "high": 3.0}, {"low": 2.9, "high": 4.0, "recovered": True}, Verdict.REGRESSION, "recovered"),
        ({"clock_mhz": 1400.0}, {"clock_mhz": 1000.0}, Verdict.CONDITIONS_CHANGED, "1000 MHz instead of 1400"),
        ({"clock_mhz": 1400.0}, {"clock_mhz": 1300.0}, Verdict.REGRESSION, "1.30 times per clock"),
        ({"work": Work(10.0, "w", "", 0.1)}, {"work": Work(20.0, "w", "", 0.1)}, Verdict.NOT_COMPARABLE, "2.00 times"),
        ({"work": Work(10.0, "w", "", 0.1)}, {"work": Work(10.5, "w", "", 0.1)}, Verdict.REGRESSION, ""),
        ({}, {"notes": ("all boards agree on less",)}, Verdict.REGRESSION, "a note on a run: all boards"),
        ({}, {"suspicions": ("stuck (rule-x)",)}, Verdict.SUSPECT, "1.40 times; suspect in a run: stuck (rule-x)"),
        ({"suspicions": ("stuck (rule-x)",)}, {}, Verdict.SUSPECT, "suspect in a run: stuck (rule-x)"),
        ({"low": 2.0, "high": 4.0}, {}, Verdict.NOISE, "3.5 lies inside the range of a run, 2 to 4"),
        ({}, {"low": 2.4, "high": 4.0}, Verdict.NOISE, "2.5 lies inside the range of a run, 2.4 to 4"),
        ({}, {"low": 2.6, "high": 4.0}, Verdict.REGRESSION, ""),
        ({"recovered": True}, {"low": 2.4, "high": 4.0}, Verdict.NOISE, "2.5 lies inside"),
    ],
)
def test_what_is_known_of_a_number_comes_before_the_difference(
    old: dict[str, object], new: dict[str, object], verdict: Verdict, says: str
) -> None:
    rules = Noise(0.03, follows_clock=True, is_load=True)
    found = compare(number(2.5, **old), number(3.5, **new), rules)
    assert found.verdict is verdict
    assert says in found.reason


def test_two_versions_of_a_definition_are_not_compared() -> None:
    found = compare(number(2.5), number(3.5, metric=evolve(BOOT_TIME, version=2)), USUAL)
    assert found.verdict is Verdict.DEFINITION_CHANGED
    assert "version 2" in found.reason


def test_a_metric_that_nobody_knows_has_no_direction() -> None:
    assert compare(number(2.5, metric=None), number(3.5, metric=None), USUAL).verdict is Verdict.NOT_COMPARABLE


def test_what_is_known_survives_the_store() -> None:
    known = NumberEvidence(
        1.0, 2.0, "a", "counts a", ("card",), "busy", 0.5, "digits", Work(1, "w", "x", 0.1), 1400.0, notes=("n",)
    )
    assert NumberEvidence.of_document({**known.document(), "metric": "boot.time", "of_tomorrow": 1}) == known
    assert NumberEvidence().document() == {}


def test_a_run_whose_cycles_all_failed_has_no_samples() -> None:
    empty = Number("run 2", BOOT_TIME, {}, None)
    full = of_average(BOOT_TIME, {}, 2.5, 0.001, "run 1")
    assert compare(full, empty, USUAL).verdict is Verdict.NO_SAMPLES
    assert compare(empty, full, USUAL).verdict is Verdict.NO_HISTORY


def scaled(number: Number, factor: float) -> Number:
    """The same number in a unit that is `factor` times smaller; its metric's name stays."""

    def times(value: float | None) -> float | None:
        return None if value is None else value * factor

    e = number.evidence
    metric = number.metric and evolve(number.metric, resolution=number.metric.resolution * factor)
    evidence = evolve(e, low=times(e.low), high=times(e.high), resolution=times(e.resolution))
    return evolve(
        number,
        metric=metric,
        value=times(number.value),
        uncertainty=times(number.uncertainty),
        evidence=evidence,
    )


numbers = st.builds(
    lambda value, pm, low, high, resolution: number(value, value * pm, low=low, high=high, resolution=resolution),
    positive,
    st.floats(0, 0.2),
    st.none() | positive,
    st.none() | positive,
    st.none() | st.floats(0, 10),
)
noises = st.builds(Noise, st.floats(0, 2), slack=st.just(0.0) | st.floats(0, 10))


@given(numbers, numbers, noises, scales)
def test_the_unit_changes_nothing(old: Number, new: Number, rules: Noise, factor: float) -> None:
    assume(not _on_an_edge(old, new, rules))
    found = compare(old, new, rules)
    other = compare(scaled(old, factor), scaled(new, factor), evolve(rules, slack=rules.slack * factor))
    assert other.verdict is found.verdict
    assert (other.effect, other.low, other.high) == pytest.approx(
        (found.effect, found.low, found.high), rel=1e-9, abs=1e-9
    )


@given(numbers, numbers, noises)
def test_better_and_worse_exchanged_exchange_only_the_words(old: Number, new: Number, rules: Noise) -> None:
    mirrored = [evolve(n, metric=evolve(BOOT_TIME, better="higher")) for n in (old, new)]
    found, other = compare(old, new, rules), compare(*mirrored, rules)
    assert other.verdict is OPPOSITE.get(found.verdict, found.verdict)
    assert (other.effect, other.low, other.high, other.reason) == (found.effect, found.low, found.high, found.reason)


@given(positive, positive, st.floats(0, 0.2), st.floats(0, 2))
def test_there_and_back_again_is_the_opposite(a: float, b: float, pm: float, relative: float) -> None:
    assume(abs(abs(math.log(b / a)) - math.hypot(math.log1p(relative), pm)) > 1e-9)
    there = compare(number(a, a * pm), number(b), Noise(relative))
    back = compare(number(b), number(a, a * pm), Noise(relative))
    assert back.verdict is OPPOSITE.get(there.verdict, there.verdict)


def _on_an_edge(old: Number, new: Number, rules: Noise) -> bool:
    """Whether rounding alone decides."""
    a, b = old.value or 0.0, new.value or 0.0
    half = math.hypot(math.log1p(rules.relative), old.relative_uncertainty, new.relative_uncertainty)
    limits = [old.evidence.resolution or 0.0, new.evidence.resolution or 0.0, rules.slack]
    return abs(abs(math.log(b / a)) - half) < 1e-9 or any(math.isclose(abs(b - a), at, rel_tol=1e-9) for at in limits)


# --- noise.toml ---------------------------------------------------------------------------------------------------------


def test_the_thresholds_are_those_of_one_file() -> None:
    model = noise.load()
    assert model.of("boot.time", {"medium": "sd"}).relative == 0.03
    assert model.of("lmbench.lat_mem_rd", {"size": "31k"}).relative == 1.2
    assert model.of("lmbench.lat_mem_rd", {"size": "8mb"}).relative == 0.1
    assert model.of("ipsec.cpu_load", {}) == Noise(0.15, slack=2.0, is_load=True)
    assert not model.of("ethernet.udp.datagram", {}).judged
    assert model.of("of.tomorrow", {}) == Noise(0.05)
    assert model.history == HistoryRules(window=10, enough=9, longest=30, least=0.01, releases=3, widest=3)
    assert (model.clock, model.spike) == (ClockRules(together=0.05), SpikeRules(far=1.5, noises=3, agree=0.33))


def test_no_threshold_stands_in_the_guides_catalogue() -> None:
    entries = tomllib.loads((resources.files("lab.guide") / "catalogue.toml").read_text(encoding="utf-8"))["metric"]
    assert {key for entry in entries for key in entry} <= {"name", "table", "also", "row", "column"}


def test_every_metric_of_a_guide_has_its_noise() -> None:
    assert [m.name for m in catalogue.load().metrics() if not noise.load().knows(m.name)] == []


def test_every_metric_has_its_noise_or_the_usual_one() -> None:
    silent = {m.name for m in (*ALL, *published()) if not noise.load().knows(m.name)}
    assert silent == {"sysbench.events", "sysbench.memory", "stress_ng.rate"}


# --- noise of a board's own runs ------------------------------------------------------------------------------------------


def learned(values: list[float], errors: float = 0.0, compared: int = 10) -> Noise:
    return noise.load().learn(USUAL, values, [errors] * len(values), compared)


def test_a_quiet_board_is_judged_by_its_own_noise() -> None:
    quiet = [2.5 + 0.0125 * (-1) ** i * (1 + i % 3) / 3 for i in range(30)]
    found = learned(quiet)
    assert 0.01 < found.relative < 0.03
    assert found.runs == 30
    assert compare(number(2.5), number(2.56), found).verdict is Verdict.REGRESSION
    assert not missing_facts(compare(number(2.5), number(2.56), found).reason, "last 30 runs")


def test_a_noisy_board_is_too() -> None:
    noisy = [2.5 + 0.2 * (-1) ** i * (1 + i % 3) / 3 for i in range(30)]
    assert learned(noisy).relative > 0.1


def test_one_step_in_the_history_is_no_noise() -> None:
    steady = [2.5 + 0.01 * (i % 3) for i in range(20)]
    stepped = [value * (1.2 if i >= 10 else 1) for i, value in enumerate(steady)]
    assert learned(stepped).relative == pytest.approx(learned(steady).relative, rel=0.05)


def test_a_constant_series_still_allows_the_least_change() -> None:
    assert learned([2.5] * 20).relative == noise.load().history.least


@pytest.mark.parametrize("values", [[], [2.5], [2.5] * 8, [0.0] * 20, [math.nan] * 20, [-1.0, 1.0] * 10])
def test_too_few_runs_or_no_logarithm_leave_the_catalogue(values: list[float]) -> None:
    assert learned(values) == USUAL


@given(st.lists(st.floats(1.0, 2.0), min_size=9, max_size=30), scales)
def test_the_unit_does_not_change_the_noise(values: list[float], factor: float) -> None:
    assert learned([v * factor for v in values]).relative == pytest.approx(learned(values).relative, rel=1e-6)


def test_what_the_uncertainties_explain_is_not_counted_twice() -> None:
    values = [2.5 + 0.05 * (-1) ** i for i in range(20)]
    assert learned(values, errors=0.2).relative == noise.load().history.least < learned(values).relative


def test_a_tick_of_the_accounting_clock_says_nothing_in_any_load() -> None:
    """Loads of tests of a second or more: a tick of 10 ms is 1 %."""
    loads = [metric for metric in (*ALL, *catalogue.load().metrics()) if metric.name.endswith("cpu_load")]
    assert len(loads) > 5
    for metric in loads:
        old, new = (number(value, None, metric=metric) for value in (0.5, 1.5))
        assert compare(old, new, noise.load().of(metric.name, {})).verdict is Verdict.NOISE, metric.name


def test_one_step_of_the_printed_digits_says_nothing_however_it_rounds() -> None:
    for old, new in ((0.13, 0.14), (4.40, 4.41), (0.01, 0.02), (1.15, 1.16)):
        found = compare(number(old, None, resolution=0.01), number(new, None, resolution=0.01), Noise(0.0))
        assert found.verdict is Verdict.BELOW_RESOLUTION


@given(st.lists(positive, max_size=12), st.floats(0.001, 2))
def test_earlier_releases_widen_the_noise_and_never_narrow_it(values: list[float], usual: float) -> None:
    found = noise.load().of_releases(Noise(usual), values)
    assert found.relative >= usual
    assert len(values) >= 3 or found == Noise(usual)


@given(st.floats(0.01, 0.5), st.integers(1, 4))
def test_one_step_in_the_releases_is_no_noise_and_steps_each_time_are(step: float, place: int) -> None:
    flat = [1.0] * 5
    stepped = [*flat[:place], *(value * (1 + step) for value in flat[place:])]
    assert noise.load().of_releases(Noise(0.001), stepped) == Noise(0.001)
    each_time = [1.0, 1 + step, 1.0, 1 + step]
    assert noise.load().of_releases(Noise(step), each_time).relative > step
