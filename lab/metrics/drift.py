"""Drift within a run: a step, or a climb to its end.

A rank test for a change at an unknown place. The samples' ranks are held against each step and each climb that begins
in the run (simple linear rank statistics, standardised: Hájek, Šidák, Theory of Rank Tests, 1967), and the best match
is compared with the best matches of shuffled ranks. Pettitt's test (Applied Statistics 28, 1979), which is the same
with steps alone that are not standardised, misses most changes near the ends, and a climb is no step. Ranks make
single slow boots count no more than others.

The rate of false alarms is CHANCE, which the shuffles ensure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
from attrs import frozen

from lab.metrics.model import Sample

CHANCE: Final = 0.01  # one series in so many that did not move is called; a run of three media is wrong in 3 %
LEAST: Final = 0.005  # a smaller change of the median does not count
FEWEST: Final = 12  # samples: fewer cannot be that sure, however they lie
_SHUFFLES: Final = 10_000
_TOGETHER: Final = 1000  # shuffles in memory at once
_PLACES: Final = 40  # at which a change may begin; in longer series not every sample is one
_EDGE: Final = 2  # samples before the first place, at least
_AFTER: Final = 3  # samples from the last place on

Floats = npt.NDArray[np.float64]


@frozen
class Drift:
    """A number that moved within its run.

    Attributes:
        cycle: the first one after the change.
        before, after: medians of the samples before it and from it on.
        chance: probability of such a match without a drift, 0 to CHANCE.
    """

    cycle: int
    before: float
    after: float
    chance: float

    @property
    def ratio(self) -> float:
        """The change relative to the median before; 0 if that is 0."""
        return (self.after - self.before) / abs(self.before) if self.before else 0.0


@frozen(eq=False)
class _Shapes:
    """The shapes to match in series of one length.

    Attributes:
        weights: one row a shape, of mean 0 and length 1.
        places: index of the first sample that moved.
        by_chance: the best matches of shuffled series, always the same ones.
    """

    weights: Floats
    places: npt.NDArray[np.int64]
    by_chance: Floats


def drift(samples: Sequence[Sample]) -> Drift | None:
    """The drift of a series in the order of cycles, or None."""
    ordered = sorted((s for s in samples if np.isfinite(s.value)), key=lambda s: s.cycle)
    if len(ordered) < FEWEST:
        return None
    values = np.array([s.value for s in ordered])
    # Ranks less their mean; equal values share one.
    below = (values[:, None] > values[None, :]).sum(axis=1)
    equal = (values[:, None] == values[None, :]).sum(axis=1)
    ranks: Floats = below + (equal + 1) / 2 - (len(values) + 1) / 2
    length = float(np.linalg.norm(ranks))
    if not length:
        return None
    shapes = _shapes(len(values))
    matches = np.abs(shapes.weights @ ranks) / length
    best = int(matches.argmax())
    chance = float(np.mean(shapes.by_chance >= matches[best] - 1e-9))
    if chance > CHANCE:
        return None
    at = int(shapes.places[best])
    before, after = float(np.median(values[:at])), float(np.median(values[at:]))
    change = Drift(ordered[at].cycle, before, after, chance)
    return change if not change.before or abs(change.ratio) >= LEAST else None


@cache
def _shapes(count: int) -> _Shapes:
    first, last = _EDGE, count - _AFTER
    places = np.unique(np.linspace(first, last, min(_PLACES, last - first + 1)).round().astype(np.int64))
    index = np.arange(count)
    steps = (index[None, :] >= places[:, None]).astype(float)
    weights = np.concatenate([steps, steps * (index[None, :] - places[:, None] + 1)])
    weights -= weights.mean(axis=1, keepdims=True)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    dice, ranks = np.random.default_rng(count), index - (count - 1) / 2
    best = [
        np.abs(dice.permuted(np.tile(ranks, (_TOGETHER, 1)), axis=1) @ weights.T).max(axis=1)
        for _ in range(_SHUFFLES // _TOGETHER)
    ]
    by_chance = np.concatenate(best) / np.linalg.norm(ranks)
    return _Shapes(weights, np.concatenate([places, places]), by_chance)
