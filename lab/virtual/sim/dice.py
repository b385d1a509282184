"""Chance that can be repeated: every draw follows from the board's seed, its cycle, and what is drawn."""

from __future__ import annotations

import random

from attrs import field, frozen, validators

from lab.boards import PublishedRange

CUT_SIGMA = 3.0  # draws beyond are drawn again
# The expected range of 20 normal draws in standard deviations (Tippett 1925); the guides publish the range of 20 cycles.
RANGE_OF_20_SIGMA = 3.735


@frozen
class Normal:
    """A normal distribution, cut at three standard deviations.

    Attributes:
        mean, sd: in the unit of the caller.
    """

    mean: float
    sd: float = field(default=0.0, validator=validators.ge(0.0))

    @classmethod
    def of(cls, figure: PublishedRange) -> Normal:
        """The distribution that a published mean, minimum and maximum of 20 cycles point to."""
        return cls(figure.mean, (figure.max - figure.min) / RANGE_OF_20_SIGMA)

    def draw(self, dice: random.Random) -> float:
        """A value within the cut."""
        while True:
            value = dice.gauss(0.0, 1.0)
            if abs(value) <= CUT_SIGMA:
                return self.mean + value * self.sd


def dice(seed: int, *what: object) -> random.Random:
    """A source of chance for one purpose. The same arguments give the same draws, on any machine and Python."""
    return random.Random(":".join(str(part) for part in (seed, *what)))  # noqa: S311 - repeatable, not secret
