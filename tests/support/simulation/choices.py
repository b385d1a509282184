"""The decisions of a schedule: drawn from a seed, replayed, and shrunk to those that matter.

Each decision is a small number, and 0 is the dull one: the same process goes on, nothing fails, nothing is late.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from attrs import define, field

SHRINK_S: Final = 30.0


@define
class Choices:
    """The decisions of one schedule.

    Attributes:
        chance: draws new decisions; None: they are `given`, and 0 behind these.
        taken: so far.
    """

    chance: random.Random | None
    given: Sequence[int] = ()
    taken: list[int] = field(factory=list, init=False)

    @classmethod
    def of(cls, seed: int) -> Choices:
        """Those of a seed."""
        return cls(random.Random(seed))

    def pick(self, weights: Sequence[float]) -> int:
        """One of so many, by their weights; the first is the dull one."""
        if self.chance is None:
            at = len(self.taken)
            found = min(self.given[at] if at < len(self.given) else 0, len(weights) - 1)
        else:
            (found,) = self.chance.choices(range(len(weights)), weights)
        self.taken.append(found)
        return found

    def happens(self, probability: float) -> bool:
        """True if an event of that probability happens."""
        return self.pick((1.0 - probability, probability)) == 1


def shrunk(taken: Sequence[int], fails: Callable[[Sequence[int]], bool], limit_s: float = SHRINK_S) -> list[int]:
    """The decisions of which none can be made dull without the failure going.

    Args:
        fails: replays decisions; true where the same invariant breaks. limit_s: of real time.
    """
    until = time.monotonic() + limit_s
    best = _without_tail(taken)
    size = len(best)
    while size:
        for at in range(0, len(best), size):
            part = best[at : at + size]
            if not any(part):
                continue
            if time.monotonic() > until:
                return best
            tried = _without_tail([*best[:at], *[0] * len(part), *best[at + size :]])
            if fails(tried):
                best = [*tried, *[0] * (len(best) - len(tried))]
        best = _without_tail(best)
        size //= 2
    return best


def _without_tail(taken: Sequence[int]) -> list[int]:
    end = max((at for at, each in enumerate(taken, start=1) if each), default=0)
    return list(taken[:end])
