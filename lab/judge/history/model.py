"""The records of a history and its verdicts."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen


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
        provenance: the causes (lab.judge.causes) as far as they are known.
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
        effect: relative change of the number, 0.02 is 2 % more (not: worse).
        low, high: its 95 % interval.
        mode: the change is a new mode of single boots; the effect is then the modes' distance, and has no interval.
        crept: the change is the sum of small steps.
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
    crept: bool = False
    differs: Mapping[str, tuple[str, str]] = field(factory=dict)


Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Index = Any  # what numpy takes between brackets

_NORMAL: Final = 1.4826  # median of absolute deviations -> standard deviation, normal samples
# Croux and Rousseeuw, "Time-efficient algorithms for two highly robust estimators of scale" (1992), for 2 to 9 samples.
_FEW: Final = np.array([np.nan, np.nan, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107])


@frozen(eq=False)
class Spread:
    """Order statistics of runs; all but `ordered` have the shape (runs,).

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
    """Return the order statistics of runs' samples.

    Args:
        logs: logarithms of the samples, shape (runs, samples); NaN: no sample.
    """
    ordered = np.sort(logs, axis=-1)
    count = np.isfinite(ordered).sum(axis=-1)
    median = _middle(ordered, count)
    deviations = np.sort(np.abs(ordered - median[:, None]), axis=-1)
    few = np.where(count < len(_FEW), _FEW[np.minimum(count, len(_FEW) - 1)], count / (count - 0.8))
    return Spread(ordered, count, median, _NORMAL * few * _middle(deviations, count))


def inliers(runs: Spread, scale: Floats, outlier: float) -> tuple[Floats, Ints, Floats]:
    """Return the mean, number and variance of runs' samples without outliers.

    Args:
        scale: usual standard deviation of one sample, shape (runs,).
        outlier: largest distance from the median, in standard deviations.

    Returns:
        Three arrays of shape (runs,); the mean of a run without samples is 0.
    """
    bound = outlier * np.fmax(scale, runs.deviation)
    inside = np.abs(runs.ordered - runs.median[:, None]) <= bound[:, None]
    number = inside.sum(axis=-1)
    mean = np.where(inside, runs.ordered, 0.0).sum(axis=-1) / np.maximum(number, 1)
    squares = np.where(inside, runs.ordered - mean[:, None], 0.0) ** 2
    return mean, number, squares.sum(axis=-1) / np.maximum(number - 1, 1)


def _middle(ordered: Floats, count: Ints) -> Floats:
    """Medians of rows with `count` finite, ascending values first."""
    low = np.maximum(count - 1, 0) // 2
    high = np.minimum(np.maximum(count, 1) // 2, ordered.shape[-1] - 1)
    both = np.take_along_axis(ordered, np.stack([low, high], axis=-1), axis=-1)
    middle: Floats = both.mean(axis=-1)
    return middle


@frozen(kw_only=True)
class Constants:
    """All constants, each with its reason; tests and benches may use other sets than `CONSTANTS`.

    Relative sizes are differences of natural logarithms: 0.01 is one per cent.
    """

    # The value of a run: the mean of its samples, and the usual standard deviation of one sample, s
    outlier: float = 4.0  # samples this many s (or the run's own, if larger) from its median do not count
    spread_memory: float = 0.05  # weight of a new run in s: s follows a board that grows noisier within some 20 runs
    spread_boots: float = 120.0  # s averages at least this many boots
    spread_most: float = 3.0  # a run's own deviation counts as this many times s at most

    # Nothing changed
    first_runs: int = 8  # a series begins at the median of this many; fewer could all be of a second mode
    drift: float = 0.0002  # deviation of the level's drift in a night: some 0.4 % in a year, by ageing and seasons
    trend_gain: float = 0.013  # share of a run's distance from its expectation that is added to the nightly trend
    trend_memory: float = 0.98  # share of the trend that the next night keeps: it lasts some fifty nights
    trend_most: float = 2.0  # larger distances count as this many deviations: a step is no trend
    rerun_shared: float = 0.85  # share of the night's own offset that a rerun of it has, too
    rerun_own: float = 0.5  # variance that is the rerun's own, as a share of the variance of nights
    least_night: float = 0.0003  # no series repeats better than this from night to night

    # The states of a run: ordinary, in the known second mode, or odd
    odd_size: float = 0.03  # a disturbed night is off by some 3 %,
    odd_gross_size: float = 0.5  # or by any amount:
    odd_gross: float = 0.02  # one in fifty of them

    # Priors of what is learned, each worth so many observations
    night: float = 0.0025  # boot times of boards of the lab
    night_worth: float = 10.0
    night_correlation: float = 0.4
    night_correlation_worth: float = 30.0
    odd: float = 0.04
    odd_worth: float = 25.0
    image: float = 0.0005  # from image to image without anybody's doing: code layout, cache colours
    image_worth: float = 6.0
    image_scale: float = 0.01  # an image whose own variance is much above this one's square teaches little
    mode_least_hits: float = 3.0  # fewer runs that lie together are no second mode
    mode_most: float = 0.4  # a "second" mode in more runs than this is the first one
    learn_runs: int = 366  # learn from the last year
    learn_every_at_first: int = 5  # runs
    learn_every: int = 20
    learn_at_first: int = 60  # runs that count as the first ones

    # Known changes: the deviation of the level that they may bring
    swap_board: float = 0.006  # two boards of one type
    swap_other: float = 0.003  # card, adapter, host, tester

    # Rivals of "nothing changed"
    rival_sizes: tuple[float, ...] = (0.01, 0.04, 0.5)  # a step is of the size of one of these,
    rival_shares: tuple[float, ...] = (0.49, 0.49, 0.02)  # as often as this
    rival_life: int = 12  # nights; what has not shown by then is the drift's
    rival_end: float = -3.0  # log ratio at which a rival is given up
    silent_surprise: float = 3.0  # deviations of a run without a cause from which on it gets a rival of its own
    silent_rivals: int = 2  # at most so many at a time

    # Decisions, as logarithms of the mean likelihood ratio
    # A rerun is asked for above:
    ask: float = -0.3  # on a rival's first night; a step as large as a second mode's shows no more evidence at first
    ask_again: float = 0.8  # after a rerun, which must have made the rival likelier
    ask_silent: float = 2.5  # for a rival without a new image: runs in the second mode surprise on one night in ten
    ask_later: float = 2.5  # on a later night: the next night comes anyway;
    ask_later_noisy: float = 1.2  # in runs of few boots a rerun tells more than waiting for the next night
    most_reruns: int = 3  # reruns in a night
    # A change is reported above:
    first_night: float = 5.0  # on a rival's first night, after all its reruns
    later_night: float = 5.5  # on a later night: one in 250, times some four rivals a month
    later_without_reruns: float = 6.5  # on a later night, if no rerun is possible
    without_reruns: float = 12.0  # on the first night without all reruns: one run in its second mode must not suffice
    silent: float = 10.0  # there are more nights without a new image than with one
    silent_odds: float = 2.5  # a change comes with a new image rather than on the night after it
    least_effect: float = 0.006  # smaller ones are not worth work

    # A new slow mode of single boots
    slow_least: float = 0.03
    slow_spreads: float = 4.0  # a boot is slow if it is over the median by this many s (see `outlier`) and slow_least
    slow_rate: float = 0.02  # share of slow boots before any are counted
    slow_worth: float = 25.0  # boots
    slow_known: float = 130.0  # boots after which the share of slow ones is known well enough to judge
    slow_new_least: float = 0.12  # a new mode is at least so frequent,
    slow_new_times: float = 4.0  # and so many times as frequent as before
    slow_most: float = 3.5  # of evidence from one run: a single bad night is none
    slow_decides: float = 8.5
    slow_silent: float = -3.0  # evidence of an image's earlier runs against the mode: it did not come with the image

    # Drift: many small changes, of which none is called alone
    creep_block: int = 7  # runs whose mean level is compared; it is reported at most once in so many
    creep_blocks: int = 52  # looks back a year
    creep_gap: int = 6  # blocks between the compared ones: what came within fewer is a step, or an odd week
    creep_least: float = 0.03  # boards age and seasons pass by 2 % a year
    creep_noise: float = 12.0  # times the median difference of neighbouring blocks
    creep_month: int = 4  # blocks over which a history's own wander is measured,
    creep_wander: float = 2.5  # deviations of a random walk of that size
    creep_more: float = 0.006  # growth since the last report that is reported again
    creep_step: float = 0.02  # a reported step below this counts as one of the small ones
    creep_silent: float = 0.014  # the same for a step without a new image: a drift looks like one of 1 % at times
    creep_untold: float = 0.015  # least part of the change that was not reported as steps
    creep_near: float = 0.003  # a block within this of the old level has not moved yet


CONSTANTS: Final = Constants()
