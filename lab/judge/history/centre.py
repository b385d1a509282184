"""A run's samples made one number that a few slow boots do not move."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from attrs import frozen

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Index = Any  # what numpy takes between brackets

_NORMAL: Final = 1.4826  # median of absolute deviations -> standard deviation, normal samples
# Croux and Rousseeuw, "Time-efficient algorithms for two highly robust estimators of scale" (1992), for 2 to 9 samples.
_FEW: Final = np.array([np.nan, np.nan, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107])


@frozen(eq=False)
class Spread:
    """Runs before they are centred; all but `ordered` have the shape (runs,).

    Attributes:
        ordered: logarithms of the samples in ascending order, NaN at the end; shape (runs, samples).
        count: usable samples.
        median: NaN where there is no sample.
        deviation: standard deviation by the median of absolute deviations; NaN of fewer than two samples.
    """

    ordered: Floats
    count: Ints
    median: Floats
    deviation: Floats


def spread(logs: Floats) -> Spread:
    """What a run's samples say by their order alone. `logs`: shape (runs, samples), NaN where there is none."""
    ordered = np.sort(logs, axis=-1)
    count = np.isfinite(ordered).sum(axis=-1)
    median = _middle(ordered, count)
    deviations = np.sort(np.abs(ordered - median[:, None]), axis=-1)
    few = np.where(count < len(_FEW), _FEW[np.minimum(count, len(_FEW) - 1)], count / (count - 0.8))
    return Spread(ordered, count, median, _NORMAL * few * _middle(deviations, count))


def centre(runs: Spread, scale: Floats, huber: float) -> Floats:
    """One Huber step from the median. `scale`: of one sample, shape (runs,)."""
    away = runs.ordered - runs.median[:, None]
    bound = huber * scale[:, None]
    inside = np.maximum((np.abs(away) <= bound).sum(axis=-1), 1)
    pulled: Floats = np.nansum(np.clip(away, -bound, bound), axis=-1)
    return np.where(runs.count > 2, runs.median + pulled / inside, runs.median)


def _middle(ordered: Floats, count: Ints) -> Floats:
    """Medians of rows whose first `count` values are finite and ascending."""
    low = np.maximum(count - 1, 0) // 2
    high = np.minimum(np.maximum(count, 1) // 2, ordered.shape[-1] - 1)
    both = np.take_along_axis(ordered, np.stack([low, high], axis=-1), axis=-1)
    middle: Floats = both.mean(axis=-1)
    return middle
