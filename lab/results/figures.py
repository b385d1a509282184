"""How numbers are written: the performance guide's form, and values no longer than their uncertainty allows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from lab.metrics import Metric, Summary

_GUIDE_DECIMALS: Final = 2
_MOST_DECIMALS: Final = 9


def guide_cell(summary: Summary) -> str:
    """A cell of the performance guide's boot table: `16.24 (min 15.96, max 16.42)`."""
    mean, low, high = (f"{value:.{_GUIDE_DECIMALS}f}" for value in (summary.mean, summary.min, summary.max))
    return f"{mean} (min {low}, max {high})"


def decimals(uncertainty: float, resolution: float = 0.0) -> int:
    """How many decimals a value with this ± deserves: two digits of the ±, and none finer than the method resolves."""
    finest = _places(resolution, 1) if resolution > 0 else _MOST_DECIMALS
    return finest if uncertainty <= 0 else min(finest, _places(uncertainty, 2))


def number(value: float, uncertainty: float, metric: Metric) -> str:
    """A value without its unit, with as many decimals as its uncertainty allows."""
    return f"{value:.{decimals(uncertainty, metric.resolution)}f}"


def with_uncertainty(value: float, uncertainty: float, metric: Metric) -> str:
    """`3.214 ± 0.012 s`."""
    return f"{number(value, uncertainty, metric)} ± {number(uncertainty, uncertainty, metric)} {metric.unit}"


def label(params: Mapping[str, str]) -> str:
    """Parameters in a few words: `sd`, or `medium=sd, stage=Kernel` where there are several."""
    if len(params) == 1:
        return next(iter(params.values()))
    return ", ".join(f"{key}={value}" for key, value in sorted(params.items()))


def duration(seconds: float) -> str:
    """`42 s`, `5 min 12 s` or `3 h 07 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _places(value: float, digits: int) -> int:
    """Decimals that show `digits` significant digits of a positive value."""
    return min(_MOST_DECIMALS, max(0, digits - 1 - math.floor(math.log10(value) + 1e-9)))
