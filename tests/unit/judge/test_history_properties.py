"""What changes nothing, and histories of which there is little to say."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from attrs import astuple, evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from support.atlength import either
from support.judge_histories import calls, history, mapped, told

from lab.judge.history import CONSTANTS, HistoryRun, Outcome, Series, judge
from lab.judge.history.table import nights
from lab.judge.history.walk import Walk

pytestmark = pytest.mark.longer

FEW = settings(max_examples=either(6, 100))
STEPS = st.sampled_from([0.0, 0.01, 0.02, -0.03])
OPPOSITE = {"regression": "improvement", "improvement": "regression"}


def made(seed: int, step: float) -> Series:
    return history(seed, nights=60, step=step, at=42)


@FEW
@given(st.integers(0, 99), STEPS, st.floats(1e-9, 1e9))
def test_another_unit_changes_nothing(seed: int, step: float, factor: float) -> None:
    series = made(seed, step)
    plain, scaled = judge([series])[0], judge([mapped(series, lambda samples: samples * factor)])[0]
    assert told(plain) == told(scaled)
    effects = [[verdict.effect or 0.0 for verdict in verdicts] for verdicts in (plain, scaled)]
    assert effects[0] == pytest.approx(effects[1], abs=1e-9)


@FEW
@given(st.integers(0, 99), STEPS)
def test_the_reciprocal_of_a_number_of_which_more_is_better_says_the_same(seed: int, step: float) -> None:
    series = made(seed, step)
    rate = evolve(mapped(series, lambda samples: 1 / samples), higher_is_better=True)
    assert told(judge([series])[0]) == told(judge([rate])[0])


@FEW
@given(st.integers(0, 99), STEPS)
def test_mirroring_better_and_worse_changes_only_the_word(seed: int, step: float) -> None:
    series = made(seed, step)
    mirrored = told(judge([evolve(series, higher_is_better=True)])[0])
    assert told(judge([series])[0]) == [(run, OPPOSITE.get(said, said), *rest) for run, said, *rest in mirrored]


@FEW
@given(st.integers(0, 99), STEPS, st.integers(0, 99))
def test_the_order_of_samples_changes_nothing(seed: int, step: float, order: int) -> None:
    series = made(seed, step)

    rng = np.random.default_rng(order)
    assert told(judge([series])[0]) == told(judge([mapped(series, rng.permutation)])[0])


@FEW
@given(st.integers(0, 99), STEPS, st.integers(1, 59))
def test_later_runs_change_no_verdict(seed: int, step: float, length: int) -> None:
    series = made(seed, step)
    assert judge([evolve(series, runs=series.runs[:length])])[0] == judge([series])[0][:length]


def test_a_rerun_that_was_not_asked_for_is_not_looked_at() -> None:
    series = history(8, step=0.02, at=84)
    plain = judge([series])[0]
    spoilt = evolve(
        series,
        runs=tuple(
            evolve(run, reruns=(*(run.reruns or ())[: said.reruns], *([np.ones(20)] * (3 - said.reruns))))
            for run, said in zip(series.runs, plain, strict=True)
        ),
    )
    assert judge([spoilt])[0] == plain


def test_company_changes_no_verdict() -> None:
    group = [made(1, 0.02), history(2, nights=90, boots=3), made(3, 0.0), Series("empty", ())]
    assert judge(group) == [judge([series])[0] for series in group]


def bare(runs: list[list[float]]) -> Series:
    return Series("bare", tuple(HistoryRun(np.array(samples, dtype=float), {"image": "one"}, ()) for samples in runs))


def outcomes(runs: list[list[float]]) -> list[str]:
    return [str(verdict.outcome) for verdict in judge([bare(runs)])[0]]


def test_no_run_has_no_verdict() -> None:
    assert judge([]) == []
    assert judge([Series("empty", ())]) == [[]]


def test_the_first_runs_have_no_history() -> None:
    assert outcomes([[1.0, 2.0]]) == ["no history"]
    said = outcomes([[1.0, 1.1]] * 10)
    assert said == ["no history"] * CONSTANTS.first_runs + ["none"] * 2


@pytest.mark.parametrize("nothing", [[], [np.nan], [0.0], [-1.0, np.inf]])
def test_a_run_without_a_number_says_so_and_is_left_out(nothing: list[float]) -> None:
    assert outcomes([nothing] * 3) == ["no samples"] * 3
    said = outcomes([*[[5.0, 5.1, 5.2]] * 12, nothing, *[[5.0, 5.1, 5.2]] * 3])
    assert said[12:] == ["no samples", "none", "none", "none"]


def test_a_change_on_a_night_without_a_number_is_found_on_the_next() -> None:
    series = history(9, step=0.03, at=84)
    runs = (*series.runs[:84], evolve(series.runs[84], samples=np.array([np.nan])), *series.runs[85:])
    (call,) = calls(evolve(series, runs=runs))
    assert (call.outcome, call.since) == (Outcome.REGRESSION, 84)


def test_nan_among_samples_does_not_count() -> None:
    series = history(10, step=0.02, at=84)
    holes = mapped(series, lambda samples: np.append(samples, [np.nan, np.nan]))
    assert told(judge([series])[0]) == told(judge([holes])[0])


def test_a_constant_series_is_unchanged_until_it_jumps() -> None:
    assert set(outcomes([[5.0] * 3] * 40)[8:]) == {"none"}
    runs = [HistoryRun(np.full(3, 5.0 + (night >= 28)), {"image": str(night // 7)}) for night in range(40)]
    found = calls(Series("constant", tuple(runs)))
    assert (found[0].outcome, found[0].since) == (Outcome.REGRESSION, 28)
    assert found[0].run <= 30


def test_runs_of_one_sample_are_judged_by_their_spread_from_run_to_run() -> None:
    def ones(seed: int, step: float) -> Series:
        return history(seed, boots=1, step=step, at=84)

    assert sum(len(calls(ones(seed, 0.0))) for seed in range(either(4, 10))) <= 1
    found = [calls(ones(seed, 0.05)) for seed in range(either(2, 5))]
    assert all(each and each[0].outcome is Outcome.REGRESSION and 84 <= each[0].run < 90 for each in found)


@FEW
@given(
    st.lists(
        st.lists(st.one_of(st.floats(), st.sampled_from([1.0, 2.0, 1e300, 5e-324])), max_size=4),
        min_size=1,
        max_size=40,
    )
)
def test_nothing_is_too_strange_for_a_plain_verdict(runs: list[list[float]]) -> None:
    said = judge([bare(runs)])[0]
    assert [verdict.run for verdict in said] == list(range(len(runs)))
    assert all(verdict.effect is None or np.isfinite(verdict.effect) for verdict in said)


def test_a_walk_that_was_put_away_goes_on_where_it_was() -> None:
    group = [made(1, 0.02), made(2, 0.0)]
    walk, put_away = Walk(2, CONSTANTS), Walk(2, CONSTANTS)
    for night in nights(group, CONSTANTS):
        put_away = pickle.loads(pickle.dumps(put_away))  # noqa: S301 - our own
        said, again = astuple(walk.step(night)), astuple(put_away.step(night))
        assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(said, again, strict=True))
