"""Whether a number moved within a run: Pettitt's test for one change point in a series.

A. N. Pettitt, "A Non-Parametric Approach to the Change-Point Problem", Applied Statistics 28 (1979). It looks at ranks, so
single slow boots do not count for more than others. How large its statistic gets by chance is found by shuffling, since the
published formula is far too careful for 20 cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
from attrs import frozen

from lab.metrics.model import Sample

CHANCE: Final = 0.005  # one series in so many that did not move is called; a run of three media is wrong in 1.5 %
FEWEST: Final = 12  # samples: fewer cannot be that sure, however they lie
_SHUFFLES: Final = 10_000


@frozen
class Drift:
    """A number that moved within its run.

    Attributes:
        cycle: the first one after the change. before, after: medians of the samples before it and from it on.
        chance: how often a series that did not move looks like this, 0 to CHANCE.
    """

    cycle: int
    before: float
    after: float
    chance: float

    @property
    def ratio(self) -> float:
        """The change, relative to the median before; 0 where that is 0."""
        return (self.after - self.before) / abs(self.before) if self.before else 0.0


def drift(samples: Sequence[Sample]) -> Drift | None:
    """Where the series moved, in the order of its cycles; None where nothing says that it did."""
    ordered = sorted((s for s in samples if np.isfinite(s.value)), key=lambda s: s.cycle)
    if len(ordered) < FEWEST:
        return None
    values = np.array([s.value for s in ordered])
    walk = np.abs(np.cumsum(_centred_ranks(values)))[:-1]
    chance = float(np.mean(_by_chance(len(values)) >= walk.max() - 1e-9))
    if chance > CHANCE:
        return None
    at = int(walk.argmax()) + 1
    return Drift(ordered[at].cycle, float(np.median(values[:at])), float(np.median(values[at:])), chance)


def _centred_ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ranks less their mean; equal values share one."""
    below = (values[:, None] > values[None, :]).sum(axis=1)
    equal = (values[:, None] == values[None, :]).sum(axis=1)
    ranks: npt.NDArray[np.float64] = below + (equal + 1) / 2 - (len(values) + 1) / 2
    return ranks


@cache
def _by_chance(count: int) -> npt.NDArray[np.float64]:
    """The statistic of shuffled series, always the same ones."""
    ranks = np.tile(np.arange(count) - (count - 1) / 2, (_SHUFFLES, 1))
    shuffled = np.random.default_rng(count).permuted(ranks, axis=1)
    statistic: npt.NDArray[np.float64] = np.abs(np.cumsum(shuffled, axis=1)[:, :-1]).max(axis=1)
    return statistic
