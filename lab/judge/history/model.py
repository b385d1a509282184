"""The records of a history and its verdicts."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

# The parts of a run's provenance that the judge uses. The hashes of an image show that two runs had the same; the version lines of the
# kernel and U-Boot (software) and the release's label can only show that they had not, since user space may differ.
CAUSES = ("image", "software", "release", "board", "card", "adapter", "host", "tester")


class Outcome(enum.StrEnum):
    """The outcome of judging one run of a series."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    ENVIRONMENT = "environment"  # something other than a new image moved the number
    UNSURE = "unsure: rerun asked"
    NO_HISTORY = "no history"
    NO_SAMPLES = "no samples"  # nothing was measured; nothing is said of it
    UNCHANGED = "none"


@frozen(eq=False)
class HistoryRun:
    """One run of one metric.

    Attributes:
        samples: in the metric's unit, shape (n,); what is not finite and above 0 does not count.
        provenance: the causes (CAUSES) as far as they are known.
        reruns: samples of further runs of the same night and image, in order; None: unavailable.
    """

    samples: npt.NDArray[np.float64]
    provenance: Mapping[str, str] = field(factory=dict)
    reruns: tuple[npt.NDArray[np.float64], ...] | None = None


@frozen(eq=False)
class Series:
    """One metric of one board with its runs, oldest first."""

    name: str
    runs: tuple[HistoryRun, ...]
    higher_is_better: bool = False


@frozen
class StepVerdict:
    """The verdict on a run.

    Attributes:
        series, run: the series' name and the run's index in it.
        reruns: number of used reruns; of UNSURE: number of requested ones.
        since: index of the change's first run; None: no change.
        n: samples since then.
        effect: relative change of the number, 0.02 is 2 % more (not: worse). low, high: its 95 % interval.
        mode: the change is a new mode of single boots; the effect is then the modes' distance, and has no interval.
        differs: cause -> (before, since), of causes known of both runs.
    """

    series: str
    run: int
    outcome: Outcome
    reruns: int = 0
    since: int | None = None
    n: int = 0
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    mode: bool = False
    differs: Mapping[str, tuple[str, str]] = field(factory=dict)


# --- Robust centre of a run ---


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
        median: NaN without a sample.
        deviation: standard deviation by the median of absolute deviations; NaN of fewer than two samples.
    """

    ordered: Floats
    count: Ints
    median: Floats
    deviation: Floats


def spread(logs: Floats) -> Spread:
    """Order statistics of a run's samples.

    `logs`: shape (runs, samples), NaN for no sample.
    """
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
    """Medians of rows with `count` finite, ascending values first."""
    low = np.maximum(count - 1, 0) // 2
    high = np.minimum(np.maximum(count, 1) // 2, ordered.shape[-1] - 1)
    both = np.take_along_axis(ordered, np.stack([low, high], axis=-1), axis=-1)
    middle: Floats = both.mean(axis=-1)
    return middle
