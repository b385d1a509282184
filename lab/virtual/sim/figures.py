"""The figures that simulated benchmarks print: published numbers with noise.

`data/figures` holds them, one file for each board type and release; `tools/guide_figures.py` makes them from the
guides' tables. Figures that no guide has for a board are its nearest relative's in the file, or made up.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from lab.virtual.sim.timing import Normal

FOLDER = Path(__file__).parent / "data" / "figures"
NOISE = 0.005  # standard deviation of a number that was published without a range, as a share of it
_RANGE_OF_5_SIGMA = 2.326  # expected range of five normal draws (Tippett 1925): file systems are written five times


@frozen
class PublishedValue:
    """A published number; the range is that of its samples."""

    params: Mapping[str, str]
    value: float
    low: float | None = None
    high: float | None = None


@frozen
class PublishedValues:
    """The figures of a board type in a release.

    Attributes:
        by_metric: empty where no guide has numbers of the board.
    """

    by_metric: Mapping[str, tuple[PublishedValue, ...]]

    def figure(self, metric: str, otherwise: float, **params: str) -> PublishedValue:
        """Published figure with most of these parameters, else a made-up one."""
        known = self.by_metric.get(metric)
        if not known:
            return PublishedValue(params, otherwise)
        return max(
            known, key=lambda one: len(one.params.items() & params.items()) - len(one.params.keys() - params.keys())
        )

    def has(self, metric: str, **params: str) -> bool:
        """Return whether exactly this was published."""
        return any(dict(one.params) == params for one in self.by_metric.get(metric, ()))

    def draw(self, dice: random.Random, metric: str, otherwise: float = 1.0, **params: str) -> float:
        """One run's value, above 0."""
        one = self.figure(metric, otherwise, **params)
        sd = NOISE * one.value
        if one.low is not None and one.high is not None:
            sd = (one.high - one.low) / _RANGE_OF_5_SIGMA
        return max(Normal(one.value, sd).draw(dice), one.value * 0.01)


def file_name(board_type: str, release: str) -> str:
    """File of a board type's figures in a release."""
    return f"{board_type}-{release}.csv"


@functools.cache
def load(board_type: str, release: str) -> PublishedValues:
    """Load the figures of a board type in a release.

    Without any they are those of its latest earlier release, or of any.
    """
    there = sorted(path.name for path in FOLDER.glob(f"{board_type}-*.csv"))
    wanted = file_name(board_type, release)
    usable = [name for name in there if name <= wanted] or there
    if not usable:
        return PublishedValues({})
    found: dict[str, list[PublishedValue]] = {}
    for line in (FOLDER / usable[-1]).read_text(encoding="utf-8").splitlines():
        metric, params, *numbers = line.split(",")
        value, low, high = (float(text) if text else None for text in numbers)
        named = dict(pair.split("=", 1) for pair in params.split(";") if pair)
        found.setdefault(metric, []).append(PublishedValue(named, value or 0.0, low, high))
    return PublishedValues({metric: tuple(figures) for metric, figures in found.items()})
