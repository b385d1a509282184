"""Boots of two or more builds under drift and outliers, for the tests of A/B and bisection.

A boot time, in logarithms and per cent: jitter N(0, 0.6), 2 % outliers of +5 to +30, an offset N(0, 0.2) that is new every 20 boots,
and a drift of 1 % over 120 boots.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import define, field

DRIFTS = ("none", "straight", "walk", "step")
_BOOTS = 2000
_SESSION = 120


@define
class DriftingBoard:
    """Boots builds one after the other.

    Attributes:
        offsets: of the builds, relative. boots: so many it made.
    """

    seed: int
    drift: str
    offsets: list[float]
    boots: int = 0
    rng: np.random.Generator = field(init=False)
    _noise: np.ndarray = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        t = np.arange(_BOOTS)
        drift = {
            "none": np.zeros(_BOOTS),
            "straight": self.rng.choice([-1.0, 1.0]) * t / _SESSION,
            "walk": np.cumsum(self.rng.normal(0, 1 / math.sqrt(_SESSION), _BOOTS)),
            "step": self.rng.choice([-1.0, 1.0]) * (t >= self.rng.integers(0, _SESSION)),
        }[self.drift]
        noise = self.rng.normal(0, 0.6, _BOOTS) + drift + np.repeat(self.rng.normal(0, 0.2, _BOOTS // 20), 20)
        noise += (self.rng.random(_BOOTS) < 0.02) * self.rng.uniform(5, 30, _BOOTS)
        self._noise = noise / 100

    def boot(self, build: int) -> float:
        """The logarithm of a boot time."""
        self.boots += 1
        return float(self._noise[self.boots - 1] + self.offsets[build])

    def pair(self, reference: int, build: int) -> float:
        """Boot both in an order by a coin; the difference."""
        if self.rng.random() < 0.5:
            before = self.boot(reference)
            return self.boot(build) - before
        after = self.boot(build)
        return after - self.boot(reference)
