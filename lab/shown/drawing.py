"""What figures have in common, whoever draws them: colours, and the figures of an axis."""

from __future__ import annotations

import math
from typing import Final

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # Okabe & Ito, safe for colour-blind readers


def ticks(low: float, high: float, about: int) -> list[tuple[float, str]]:
    """About so many round values from low to high, as far apart as 1, 2 or 5 of some decimal place, with their texts."""
    raw = (high - low) / about
    place = math.floor(math.log10(raw))
    factor = next(factor for factor in (1, 2, 5, 10) if factor * 10.0**place >= raw * (1 - 1e-9))
    places = max(0, -place - (factor == 10))
    step = factor * 10.0**place
    return [(n * step, f"{n * step:z.{places}f}") for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
