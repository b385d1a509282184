"""Each kind of change is called what it is, in time, with a size that is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from attrs import evolve
from support.atlength import either
from support.judge_histories import calls, history, mapped, with_cause

from lab.judge.history import CONSTANTS, Outcome, Series, judge
from lab.judge.history.kalman import Bank, SeriesParameters
from lab.judge.history.model import inliers, spread
from lab.judge.history.walk import Creep

pytestmark = pytest.mark.longer


def test_nothing_is_called_where_nothing_changed() -> None:
    assert sum(len(found) for found in map(calls, map(history, range(either(6, 20))))) == 0


@pytest.mark.parametrize(("size", "within"), [(0.05, 1), (0.02, 1), (0.01, 3), (-0.02, 1)])
def test_a_step_with_a_new_image_is_called_with_its_size(size: float, within: int) -> None:
    for seed in range(either(2, 5)):
        (call,) = calls(history(seed, step=size, at=84))
        assert call.outcome is (Outcome.REGRESSION if size > 0 else Outcome.IMPROVEMENT)
        assert 84 <= call.run < 84 + within
        assert call.since == 84
        assert call.low is not None
        assert call.high is not None
        assert call.effect is not None
        assert call.low < call.effect < call.high
        assert abs(call.effect - size) < 0.005
        assert call.differs == {"image": ("image 11", "image 12")}
        assert call.n == 20 * (call.run - 84 + 1)


def test_a_small_step_of_few_boots_is_called_by_more_reruns() -> None:
    found = judge([history(seed, nights=91, boots=3, step=0.01, at=84) for seed in range(60)], everything=False)
    assert sum(any(call.since in {84, 85} for call in verdicts) for verdicts in found) >= 54
    assert sum(any(call.since is not None and 84 <= call.run < 90 for call in verdicts) for verdicts in found) >= 58


def test_a_gross_boot_of_three_moves_no_run() -> None:
    logs = np.log([[1.0, 1.002, 1.2], [1.0, 1.002, 1.004], [0.8, 1.0, 1.001]])
    mean, number, variance = inliers(spread(logs), np.full(3, 0.004), CONSTANTS.outlier)
    assert mean == pytest.approx([0.001, 0.002, 0.0005], abs=1e-4)
    assert number.tolist() == [2, 3, 2]
    assert np.sqrt(variance) == pytest.approx([0.0014, 0.002, 0.0007], abs=1e-4)


@pytest.mark.parametrize("reruns", [3, None])
@pytest.mark.parametrize(
    "size", [-0.5, 0.2, 3.0, *(pytest.param(size, marks=pytest.mark.soak) for size in (-0.3, 0.5, 1.0))]
)
def test_a_gross_step_is_called_once_with_its_size(size: float, reruns: int | None) -> None:
    held = 0
    for seed in range(3):
        (call,) = calls(history(seed, nights=100, step=size, at=84, reruns=reruns))
        assert call.outcome is (Outcome.REGRESSION if size > 0 else Outcome.IMPROVEMENT)
        assert call.run == (84 if reruns else 85)
        assert call.since == 84
        assert call.effect == pytest.approx(size, abs=0.008 * (1 + size))
        assert call.low is not None
        assert call.high is not None
        assert call.high - call.low < 0.02 * (1 + size)
        held += call.low < size < call.high
    assert held >= 2, "of three intervals of 95 %"


@pytest.mark.parametrize("reruns", [3, None])
@pytest.mark.parametrize("size", [-0.5, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("night", [84, 87])  # of a new image, and of none
def test_one_night_that_is_grossly_off_is_no_change(night: int, size: float, reruns: int | None) -> None:
    series = history(nights=100, reruns=reruns)
    runs = list(series.runs)
    runs[night] = evolve(runs[night], samples=runs[night].samples * (1 + size))
    assert calls(evolve(series, runs=tuple(runs))) == []


def test_a_step_is_called_later_where_nothing_can_be_run_again() -> None:
    (call,) = calls(history(step=0.02, at=84, reruns=None))
    assert (call.outcome, call.since, call.reruns) == (Outcome.REGRESSION, 84, 0)
    assert 84 < call.run <= 86


def test_where_more_is_better_more_is_an_improvement() -> None:
    (call,) = calls(evolve(history(step=0.05, at=84), higher_is_better=True))
    assert call.outcome is Outcome.IMPROVEMENT


def test_a_change_under_one_image_is_the_environments() -> None:
    for seed in range(either(2, 5)):
        (call,) = calls(history(seed, step=0.02, at=87))
        assert call.outcome is Outcome.ENVIRONMENT
        assert 87 <= call.run < 93
        assert call.since == 87
        assert call.differs == {}


@pytest.mark.parametrize(
    ("known", "outcome"),
    [
        ({"image": "sha256 one", "release": "another"}, Outcome.ENVIRONMENT),
        ({"software": "Linux 6.12"}, Outcome.ENVIRONMENT),
        ({"software": "Linux 6.12", "release": "another"}, Outcome.REGRESSION),
        ({"software": "Linux 6.12", "image": "first known with the change", "release": "another"}, Outcome.REGRESSION),
        ({"release": "another"}, Outcome.REGRESSION),
    ],
    ids=["the hash is the same", "the label is the same", "only lines are the same", "no hash before", "only a label"],
)
def test_another_release_is_the_suspect_unless_the_hash_of_its_image_is_the_same(
    known: dict[str, str], outcome: Outcome
) -> None:
    at = 87
    before = {cause: value for cause, value in known.items() if not value.startswith("first")} | {"release": "one"}
    plain = history(step=0.02, at=at)
    runs = (
        evolve(run, provenance=before if night < at else {"release": "one", **known})
        for night, run in enumerate(plain.runs)
    )
    (call,) = calls(evolve(plain, runs=tuple(runs)))
    assert (call.outcome, call.since) == (outcome, at)


@pytest.mark.parametrize("image", [{}, {"image": "sha256 one"}])
def test_another_user_space_alone_is_another_image(image: dict[str, str]) -> None:
    at = 87
    plain = history(step=0.02, at=at)
    runs = (
        evolve(run, provenance={**image, "release": "one", "user_space": "BUILD_ID=7" if night < at else "BUILD_ID=8"})
        for night, run in enumerate(plain.runs)
    )
    (call,) = calls(evolve(plain, runs=tuple(runs)))
    assert (call.outcome, call.since) == (Outcome.REGRESSION, at)
    assert call.differs == {"user_space": ("BUILD_ID=7", "BUILD_ID=8")}


@pytest.mark.parametrize(
    ("content", "outcome"),
    [(("sha-1", "sha-2"), Outcome.REGRESSION), (("sha-1", "sha-1"), Outcome.ENVIRONMENT)],
    ids=["another root file system", "the same root file system"],
)
@pytest.mark.parametrize("image", [{}, {"image": "sha256 of the boot loaders"}])
def test_the_digest_of_what_was_provisioned_decides(
    image: dict[str, str], content: tuple[str, str], outcome: Outcome
) -> None:
    at = 87
    plain = history(step=0.02, at=at)
    runs = (
        evolve(run, provenance={**image, "release": f"11.0{night >= at:d}", "content": content[night >= at]})
        for night, run in enumerate(plain.runs)
    )
    (call,) = calls(evolve(plain, runs=tuple(runs)))
    assert (call.outcome, call.since) == (outcome, at)


@pytest.mark.parametrize("cause", ["board", "card", "adapter", "host", "tester"])
def test_a_swap_that_moves_the_number_is_the_environments_and_names_the_swap(cause: str) -> None:
    swapped = with_cause(with_cause(history(step=0.01, at=87), cause, "old", 0), cause, "new", 87)
    (call,) = calls(swapped)
    assert call.outcome is Outcome.ENVIRONMENT
    assert call.since == 87
    assert call.differs == {cause: ("old", "new")}
    assert call.effect == pytest.approx(0.01, abs=0.004)


@pytest.mark.parametrize("step", [0.03, 0.06, 0.5, -0.5])
@pytest.mark.parametrize("reruns", [3, None])
def test_a_swap_that_moves_the_number_by_far_began_with_the_swap_and_not_a_night_later(
    step: float, reruns: int | None
) -> None:
    swapped = with_cause(history(step=step, at=87, reruns=reruns), "board", "B", 87)
    (call,) = calls(swapped)
    assert (call.outcome, call.since, call.differs) == ("environment", 87, {"board": ("A", "B")})
    assert call.effect == pytest.approx(step, abs=0.005)


@pytest.mark.filterwarnings("error")
def test_boots_that_are_all_alike_are_no_trouble_for_the_arithmetic_when_another_series_jumps() -> None:
    alike = mapped(history(), lambda samples: np.full_like(samples, 1e6))
    quiet, jumped = judge([alike, history(step=0.05, at=87)], everything=False)
    assert [verdict for verdict in quiet if verdict.since is not None] == []
    assert [verdict.since for verdict in jumped if verdict.since is not None] == [87]


@pytest.mark.parametrize("boots", [5, 20])
@pytest.mark.parametrize("reruns", [None, 0], ids=["impossible", "never done"])
def test_a_new_host_that_moves_the_number_is_told_on_its_second_night_without_reruns(
    boots: int, reruns: int | None
) -> None:
    for seed in range(5):
        one = with_cause(history(seed, nights=100, boots=boots, step=0.03, at=85, reruns=reruns), "image", "one", 0)
        (call,) = calls(with_cause(one, "host", "lab2", 85))
        assert call.outcome is Outcome.ENVIRONMENT
        assert (call.run, call.since) == (86, 85)
        assert call.differs == {"host": ("lab1", "lab2")}


def test_a_swap_that_moves_nothing_is_not_mentioned() -> None:
    assert calls(with_cause(history(), "board", "B", 87)) == []


def test_without_images_a_change_is_nobodys_and_so_a_regression() -> None:
    bare = history(step=0.03, at=87)
    bare = evolve(bare, runs=tuple(evolve(run, provenance={}) for run in bare.runs))
    (call,) = calls(bare)
    assert call.outcome is Outcome.REGRESSION


@pytest.mark.parametrize("sign", [1, -1])
def test_a_new_mode_of_single_boots_is_called_a_mode(sign: int) -> None:
    rng = np.random.default_rng(3)

    def slower(night: int) -> Callable[[np.ndarray], np.ndarray]:
        return lambda samples: samples * np.where((rng.random(len(samples)) < 0.2) & (night >= 84), 1 + sign * 0.1, 1)

    plain = history(2)
    runs = (mapped(evolve(plain, runs=(run,)), slower(night)).runs[0] for night, run in enumerate(plain.runs))
    found = [call for call in calls(evolve(plain, runs=tuple(runs))) if call.mode]
    assert found[0].outcome is (Outcome.REGRESSION if sign > 0 else Outcome.IMPROVEMENT)
    assert 84 <= found[0].run < 94
    assert found[0].effect == pytest.approx(sign * 0.1, abs=0.03)
    assert found[0].low is None


def test_a_new_mode_within_an_images_life_is_the_environments() -> None:
    for seed in range(either(2, 8)):
        rng = np.random.default_rng(seed)
        plain = history(seed)
        runs = list(plain.runs)
        for night in range(88, len(runs)):  # the image came in night 84
            slow = rng.random(len(runs[night].samples)) < 0.25
            runs[night] = evolve(runs[night], samples=runs[night].samples * np.where(slow, 1.1, 1))
        (found,) = [call for call in calls(evolve(plain, runs=tuple(runs))) if call.mode]
        assert (found.outcome, found.since) == (Outcome.ENVIRONMENT, 88)


def branches(seed: int, names: Sequence[str], apart: float, step: float, at: int) -> Series:
    """Branches measured in turn, `apart` from each other; the first has a step from night `at` on."""
    plain = history(seed, nights=120)
    runs = []
    for night, run in enumerate(plain.runs):
        which = (night - 20) % len(names) if night >= 20 else 0
        size = (1 + apart) ** which * (1 + step * (night >= at and which == 0))
        label = {"image": f"image {night}", "board": "A", "release": f"{names[which]}{night:04d}"}
        runs.append(evolve(mapped(evolve(plain, runs=(run,)), lambda s, k=size: s * k).runs[0], provenance=label))
    return evolve(plain, runs=tuple(runs))


@pytest.mark.parametrize("names", [("main-", "stable-"), ("11.02.", "11.01."), ("main-", "next-", "11.01-")])
@pytest.mark.parametrize("apart", [0.03, -0.06])
def test_branches_in_turn_are_judged_along_their_lines(names: tuple[str, ...], apart: float) -> None:
    seed, at = len(names), 20 + 18 * len(names)
    found = judge([branches(seed, names, apart, 0.03, at)], everything=False)[0]
    called = [call for call in found if call.since is not None]
    assert [call.since for call in called] == [*range(21, 20 + len(names)), at], "each new branch once, then the step"
    step = called[-1]
    assert step.outcome is Outcome.REGRESSION
    assert step.effect == pytest.approx(0.03, abs=0.006)
    assert step.differs["release"] == (f"{names[0]}{at - len(names):04d}", f"{names[0]}{at:04d}")
    assert sum(call.reruns for call in found if 20 + len(names) <= call.run < at) <= 12


def test_a_second_mode_of_runs_that_was_always_there_is_no_change() -> None:
    rng = np.random.default_rng(4)
    plain = history(3, nights=300)
    runs = []
    for run in plain.runs:
        parts = (np.rint(part * (1 + 0.015 * (rng.random() < 0.1))) for part in (run.samples, *(run.reruns or ())))
        samples, *reruns = parts
        runs.append(evolve(run, samples=samples, reruns=tuple(reruns)))
    assert [call for call in calls(evolve(plain, runs=tuple(runs))) if call.run > 60] == []


def test_one_odd_night_is_run_again_and_forgotten() -> None:
    plain = history(5)
    odd = evolve(plain.runs[84], samples=plain.runs[84].samples * 1.03)  # the first night of an image
    verdicts = judge([evolve(plain, runs=(*plain.runs[:84], odd, *plain.runs[85:]))], everything=False)[0]
    after = [verdict for verdict in verdicts if verdict.run >= 84]
    assert after[0].run == 84
    assert after[0].reruns > 0
    assert all(verdict.outcome is Outcome.UNCHANGED for verdict in after)


def test_a_rerun_is_asked_for_where_it_can_be_had_and_was_not_made() -> None:
    series = history(step=0.02, at=84)
    last = evolve(series.runs[84], reruns=())
    verdict = judge([evolve(series, runs=(*series.runs[:84], last))])[0][-1]
    assert verdict.outcome is Outcome.UNSURE
    assert verdict.reruns == 0


def test_drift_is_no_change() -> None:
    plain = history(6, nights=365)
    drifting = (
        mapped(evolve(plain, runs=(run,)), lambda samples, night=night: samples * (1 + 0.01 * night / 365)).runs[0]
        for night, run in enumerate(plain.runs)
    )
    assert calls(evolve(plain, runs=tuple(drifting))) == []


def slowly(seed: int, whole: float, nights: int = 300, image: int = 1) -> Series:
    """A history whose level moves by `whole` from its 21st night on, an equal step every `image` nights."""
    plain = history(seed, nights=21 + nights)
    steps = (max(night - 20, 0) // image * image / nights for night in range(len(plain.runs)))
    runs = (
        mapped(evolve(plain, runs=(run,)), lambda samples, by=by: samples * (1 + whole) ** by).runs[0]
        for run, by in zip(plain.runs, steps, strict=True)
    )
    return evolve(plain, runs=tuple(runs))


@pytest.mark.parametrize(("whole", "image"), [(0.05, 1), (0.08, 7), (-0.05, 1), (-0.08, 14)])
def test_small_steps_that_add_up_are_told_with_their_sum_and_again_as_it_grows(whole: float, image: int) -> None:
    for seed in range(either(1, 4)):
        found = [call for call in calls(slowly(seed, whole, image=image)) if call.crept]
        assert {call.outcome for call in found} == {Outcome.REGRESSION if whole > 0 else Outcome.IMPROVEMENT}
        assert all(second.run - first.run >= 7 for first, second in pairwise(found))
        assert all(abs(second.effect) > abs(first.effect) for first, second in pairwise(found))
        for call in found:
            truth = (1 + whole) ** ((call.run - max(call.since, 20)) / 300) - 1
            assert call.effect == pytest.approx(truth, abs=0.007)
            assert call.low < call.effect < call.high
            assert call.differs == {}
        assert found[-1].effect == pytest.approx(whole, abs=0.012)


@pytest.mark.parametrize("whole", [0.02, -0.02])
def test_what_boards_and_seasons_do_is_no_drift(whole: float) -> None:
    assert [call for call in calls(slowly(3, whole)) if call.crept] == []


@pytest.mark.parametrize("whole", [0.03, -0.03])
def test_a_slow_drift_is_not_blamed_on_images(whole: float) -> None:
    drifting = [slowly(seed, whole, nights=110) for seed in range(4)]
    found = judge(drifting, everything=False)
    assert sum(verdict.since is not None and not verdict.crept for verdicts in found for verdict in verdicts) <= 1
    assert sum(verdict.reruns for verdicts in found for verdict in verdicts) <= 4 * 20


@pytest.mark.parametrize("step", [0.02, -0.02])
def test_a_silent_step_and_half_as_much_drift_are_no_small_steps(step: float) -> None:
    drifting = slowly(5, step / 2, nights=200)
    runs = (
        mapped(evolve(drifting, runs=(run,)), lambda samples: samples * (1 + step)).runs[0] if night >= 87 else run
        for night, run in enumerate(drifting.runs)
    )
    found = calls(evolve(drifting, runs=tuple(runs)))
    assert [(call.outcome, call.since, call.crept) for call in found] == [(Outcome.ENVIRONMENT, 87, False)]


def test_slow_waves_of_a_history_are_no_drift() -> None:
    """Each board of a lab that waves by a random walk, and one that drifts as far while it waves little."""

    def told(seed: int, wander: float, whole: float) -> bool:
        rng = np.random.default_rng(seed)
        creep, walk, crept = Creep(1, CONSTANTS), 0.0, False
        for t in range(365):
            walk += rng.normal(0, wander)
            creep.take(walk + whole * t / 365 + rng.normal(0, 0.002, 1), yes, no, t)
            crept |= bool(len(creep.grown(yes, t)[0]))
        return crept

    yes, no = np.array([True]), np.array([False])
    waves = [told(seed, 0.002, 0.0) for seed in range(40)]  # 4 % a year, as far as the drift
    assert sum(waves) <= 16
    assert all(told(seed, 0.0003, 0.06) for seed in range(40))


@pytest.mark.parametrize("size", [0.05, -0.05])
def test_one_odd_week_is_no_drift(size: float) -> None:
    creep, rng, told = Creep(1, CONSTANTS), np.random.default_rng(1), []
    yes, no = np.array([True]), np.array([False])
    for t in range(14 * CONSTANTS.creep_block):
        moved = size if t >= 12 * CONSTANTS.creep_block else 0.0
        creep.take(moved + rng.normal(0, 0.0005, 1), yes, no, t)
        rows, _, effect, _ = creep.grown(yes, t)
        told += [(t, effect[0])] if len(rows) else []
    assert told == [(14 * CONSTANTS.creep_block - 1, pytest.approx(size, abs=0.002))]


@pytest.mark.parametrize("step", [0.05, 0.5, -0.3])
def test_a_step_that_was_told_is_no_drift(step: float) -> None:
    assert [call for call in calls(history(2, nights=200, step=step, at=84)) if call.crept] == []


@pytest.mark.parametrize("swap", [0.04, -0.04])
def test_a_swap_that_was_told_is_no_drift(swap: float) -> None:
    swapped = with_cause(history(3, nights=200, step=swap, at=87), "board", "B", 87)
    assert [call for call in calls(swapped) if call.crept] == []


def test_a_drift_within_one_image_is_the_environments() -> None:
    drifting = slowly(4, 0.06, nights=150)
    runs = (evolve(run, provenance={"image": "one", "board": "A"}) for run in drifting.runs)
    found = calls(evolve(drifting, runs=tuple(runs)))
    assert {call.outcome for call in found} == {Outcome.ENVIRONMENT}
    assert any(call.crept for call in found)


def test_after_a_step_the_new_level_is_what_nothing_changed_means() -> None:
    back = history(7, step=0.03, at=70)
    runs = (
        mapped(evolve(back, runs=(run,)), lambda samples: samples / 1.03).runs[0] if night >= 98 else run
        for night, run in enumerate(back.runs)
    )
    found = calls(evolve(back, runs=tuple(runs)))
    assert [(call.outcome, call.since) for call in found] == [(Outcome.REGRESSION, 70), (Outcome.IMPROVEMENT, 98)]
    assert all(first.run < second.run for first, second in pairwise(found))


def test_a_run_that_can_only_be_ordinary_is_taken_as_by_kalman() -> None:
    root = np.array([[0.02, 0.0, 0.0], [0.004, 0.01, 0.0], [-0.003, 0.002, 0.008]])
    before, mean, seen, noise = root @ root.T, np.array([2.7, 0.01, -0.01]), 2.75, 1e-5
    entries = np.triu_indices(3)
    bank = Bank(mean[:, None, None].copy(), before[entries][:, None, None].copy(), np.zeros((1, 1)))
    learned = SeriesParameters(*(np.zeros(1) for _ in range(6)))
    bank.update(np.array([seen]), np.array([noise]), learned, CONSTANTS)
    gain = before.sum(axis=1) / (before.sum() + noise)
    assert bank.mean[:, 0, 0] == pytest.approx(mean + gain * (seen - mean.sum()))
    assert bank.cov[:, 0, 0] == pytest.approx((before - np.outer(gain, before.sum(axis=0)))[entries])
