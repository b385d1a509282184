"""Paired comparison of two builds on one board, with early stopping.

Each pair boots both builds in an order that a coin gives, so under "equal" the sign of a difference is a coin, whatever
drifts. The test is Wilcoxon's signed rank without gross differences; which those are follows from the sizes alone.
Looks follow Wang and Tsiatis (Biometrics 43, 1987) with shape 1/4: 12 looks, 4 % error over all of them. The limits are
the quantiles of 400,000 simulated Brownian motions. `tests/unit/judge/test_paired.py` simulates the error and the power
under drift and outliers.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen, validators

LOOKS: Final = 12
EFFECT: Final = 0.005  # smallest relative difference that matters
# Standard deviation of a boot time, relative, for which `PAIRS` find `EFFECT` in 97 % of sessions.
JITTER: Final = 0.006
PAIRS: Final = 60
_DIFFERENT: Final = (4.27, 3.59, 3.24, 3.02, 2.85, 2.73, 2.62, 2.54, 2.46, 2.40, 2.34, 2.29)
_EQUAL: Final = (4.73, 3.98, 3.60, 3.35, 3.17, 3.03, 2.91, 2.82, 2.73, 2.66, 2.60, 2.54)  # one-sided, 1 % each
# Medians of the sizes, beyond which a difference is dropped; 1.4826 makes one a standard deviation.
_GROSS: Final = 3.5 * 1.4826
_POWER_95: Final = 1.645  # quantile of the normal distribution

Floats = npt.NDArray[np.float64]


class PairedOutcome(enum.StrEnum):
    """The outcome of a paired comparison."""

    DIFFERENT = "different"
    EQUAL = "equal"  # within the effect
    UNDECIDED = "undecided"


@frozen
class PairedPlan:
    """The size of a comparison.

    Attributes:
        pairs: at most; a multiple of `LOOKS`.
        effect: "equal" means less than this, relative.
    """

    pairs: int = field(default=PAIRS)
    effect: float = field(default=EFFECT, validator=validators.gt(0.0))

    @pairs.validator
    def _whole(self, _attribute: object, value: int) -> None:
        if value < LOOKS or value % LOOKS:
            raise ValueError(f"expected a multiple of {LOOKS} pairs, got {value}")

    @classmethod
    def of(cls, effect: float, jitter: float = JITTER) -> PairedPlan:
        """The plan that finds `effect` at this jitter (relative standard deviation of a boot)."""
        pairs = PAIRS * (jitter / JITTER) ** 2 * (EFFECT / effect) ** 2
        return cls(max(1, math.ceil(pairs / LOOKS)) * LOOKS, effect)

    def look_after(self, pairs: int) -> int | None:
        """The look, from 0, due after so many pairs, if any."""
        spacing = self.pairs // LOOKS
        return pairs // spacing - 1 if pairs and pairs % spacing == 0 and pairs <= self.pairs else None


@frozen
class PairedVerdict:
    """A comparison so far; differences are relative, B to A.

    Attributes:
        estimate: Hodges and Lehmann's; biased outward where the comparison stopped early.
        low, high: interval that the looks do not spoil (repeated confidence interval, 96 %); None: unbounded so far.
        dropped: gross differences that were dropped.
        findable: the smallest difference that so many pairs find in 95 % of sessions; None: not known as yet.
    """

    outcome: PairedOutcome
    pairs: int
    estimate: float
    low: float | None
    high: float | None
    dropped: int
    findable: float | None


def order(seed: int, pair: int) -> tuple[str, str]:
    """The order of a pair, from 1, by its coin: ("a", "b") or ("b", "a")."""
    first = random.Random(f"{seed}:{pair}").random() < 0.5  # noqa: S311 - repeatable, not secret
    return ("a", "b") if first else ("b", "a")


def judge_pairs(differences: Sequence[float], plan: PairedPlan) -> PairedVerdict:
    """Judge the pairs of a session at its latest look.

    Args:
        differences: log(B / A) of each pair, in order, at least one.
    """
    d = np.asarray(differences, dtype=np.float64)
    spacing = plan.pairs // LOOKS
    look = min(len(d) // spacing, LOOKS) - 1
    estimate = hodges_lehmann(d)
    dropped = int(np.sum(~_is_usual(d[None, :])))
    if look < 0:
        return PairedVerdict(PairedOutcome.UNDECIDED, len(d), math.expm1(estimate), None, None, dropped, None)
    observed, limit = d[: spacing * (look + 1)], _DIFFERENT[look]
    outcome = PairedOutcome.UNDECIDED
    if abs(_z(observed)) > limit:
        outcome = PairedOutcome.DIFFERENT
    elif (
        _z(observed - math.log1p(plan.effect)) < -_EQUAL[look]
        and _z(observed + math.log1p(plan.effect)) > _EQUAL[look]
    ):
        outcome = PairedOutcome.EQUAL
    low, high = interval(observed, limit)
    findable = None if low is None or high is None else (high - low) / 2 * (1 + _POWER_95 / limit)
    return PairedVerdict(outcome, len(d), math.expm1(estimate), _relative(low), _relative(high), dropped, findable)


def _relative(log: float | None) -> float | None:
    return None if log is None else math.expm1(log)


def signed_rank(differences: Floats) -> Floats:
    """z of Wilcoxon's signed rank without gross differences; rows are samples."""
    size = np.abs(differences)
    mask = _is_usual(differences)
    rank = np.argsort(np.argsort(np.where(mask, size, -1.0), axis=1), axis=1) + 1.0 - (~mask).sum(1, keepdims=True)
    rank = np.where(mask, rank, 0.0)
    z: Floats = (rank * np.sign(differences)).sum(1) / np.sqrt(np.maximum((rank * rank).sum(1), 1.0))
    return z


def _is_usual(differences: Floats) -> npt.NDArray[np.bool_]:
    size = np.abs(differences)
    mask: npt.NDArray[np.bool_] = size <= _GROSS * np.median(size, axis=1, keepdims=True)
    return mask


def _z(differences: Floats) -> float:
    return float(signed_rank(differences[None, :])[0])


def hodges_lehmann(differences: Floats) -> float:
    """Median of all pairs' mean differences (Hodges and Lehmann, 1963)."""
    return float(np.median(_walsh(differences)))


def _walsh(differences: Floats) -> Floats:
    i, j = np.triu_indices(len(differences))
    means: Floats = (differences[i] + differences[j]) / 2
    return means


def interval(differences: Floats, limit: float) -> tuple[float | None, float | None]:
    """The shifts that the test does not refuse at this limit of |z|; None: unbounded on that side."""
    count = len(differences)
    if count * (count + 1) / 2 <= limit * math.sqrt(count * (count + 1) * (2 * count + 1) / 6):
        return None, None
    shifts = np.unique(_walsh(differences))
    held = np.abs(signed_rank(differences[None, :] - shifts[:, None])) <= limit
    middle = int(np.searchsorted(shifts, hodges_lehmann(differences)).clip(0, len(shifts) - 1))
    if not held[middle]:
        return float(shifts[middle]), float(shifts[middle])
    # A shift far off drops other differences than one nearby: only those connected to the estimate count.
    refused = np.flatnonzero(~held)
    below, above = refused[refused < middle], refused[refused > middle]
    first = int(below[-1]) + 1 if len(below) else 0
    last = int(above[0]) - 1 if len(above) else len(shifts) - 1
    return float(shifts[first]), float(shifts[last])
