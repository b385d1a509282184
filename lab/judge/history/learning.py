"""What a series' own past says of its nights, shrunk to the priors: little is known of a short history."""

from __future__ import annotations

import numpy as np

from lab.judge.history.bank import Learned
from lab.judge.history.centre import Bools, Floats
from lab.judge.history.constants import Constants

_ROUNDS = 3  # of expectation and maximisation; begun from robust figures, more change nothing


def prior(series: int, known: Constants) -> Learned:
    """What is believed of a series without a history."""

    def all_of(value: float) -> Floats:
        return np.full(series, value)

    return Learned(
        all_of(known.night),
        all_of(known.night_correlation),
        all_of(known.odd),
        all_of(0.0),
        all_of(0.0),
        all_of(known.image),
    )


def learn(residuals: Floats, variances: Floats, learned: Learned, known: Constants) -> None:
    """Learn the nights, odd runs and the second mode.

    Args:
        residuals: a run's centre less the level expected; (series, runs), NaN where a run teaches nothing.
        variances: of a residual, without the night's own.
    """
    usable = np.isfinite(residuals)
    count = usable.sum(axis=1)
    away = np.where(usable, residuals, 0.0)
    noise = np.where(usable, variances, 1.0)
    night2 = _night_at_first(residuals, variances, count, known)
    mode, rate = _mode_at_first(away, np.sqrt(night2[:, None] + noise), usable, count, known)
    odd = learned.odd
    loud = np.maximum(night2, known.night**2)[:, None]
    worth = (loud / (loud + noise)) ** 2  # what a noisy run says of its night
    for _ in range(_ROUNDS):
        total = night2[:, None] + noise
        wide = total + known.odd_size**2
        root = 1 / np.sqrt(total)
        is_plain = (1 - odd - rate)[:, None] * np.exp(-0.5 * away**2 / total) * root
        is_mode = rate[:, None] * np.exp(-0.5 * (away - mode[:, None]) ** 2 / total) * root
        is_odd = odd[:, None] * np.exp(-0.5 * away**2 / wide) / np.sqrt(wide)
        both = (is_plain + is_mode + is_odd) / np.where(usable, 1.0, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            is_plain, is_mode = (np.where(usable, part / both, 0.0) for part in (is_plain, is_mode))
        is_plain, is_mode = np.nan_to_num(is_plain), np.nan_to_num(is_mode)
        is_odd = usable - is_plain - is_mode
        hits = is_mode.sum(axis=1)
        mode = np.where(hits > 0, (is_mode * away).sum(axis=1) / np.maximum(hits, 1e-9), 0.0)
        rate = np.minimum((hits + 0.5) / (count + 10.0), known.mode_most) * (rate > 0)
        odd = (known.odd * known.odd_worth + is_odd.sum(axis=1)) / (known.odd_worth + count)
        excess = is_plain * (away**2 - noise) + is_mode * ((away - mode[:, None]) ** 2 - noise)
        weight = known.night_worth + (worth * (is_plain + is_mode)).sum(axis=1)
        night2 = (known.night**2 * known.night_worth + (worth * excess).sum(axis=1)) / weight
        night2 = np.maximum(night2, known.least_night**2)
    found = hits >= known.mode_least_hits - 0.5
    learned.mode, learned.mode_rate = np.where(found, mode, 0.0), np.where(found, rate, 0.0)
    learned.odd, learned.night = odd, np.sqrt(night2)
    kept = np.where(usable, is_plain * away + is_mode * (away - mode[:, None]), 0.0)
    together = (worth[:, 1:] * kept[:, 1:] * kept[:, :-1]).sum(axis=1)
    pairs = (worth[:, 1:] * (usable[:, 1:] & usable[:, :-1])).sum(axis=1)
    correlation = (known.night_correlation * known.night_correlation_worth + together / night2) / (
        known.night_correlation_worth + pairs
    )
    learned.correlation = np.clip(correlation, 0.0, 0.9)


def _night_at_first(residuals: Floats, variances: Floats, count: Floats, known: Constants) -> Floats:
    """Variance of the nights by the median of absolute residuals, which neither modes nor odd runs move much."""
    some = np.maximum(count, 1)
    absolute = np.sort(np.abs(residuals), axis=1)
    median = np.take_along_axis(absolute, ((some - 1) // 2)[:, None], axis=1)[:, 0]
    noise = np.where(np.isfinite(residuals), variances, 0.0).sum(axis=1) / some
    own = np.where(count > 0, (1.4826 * median) ** 2 - noise, 0.0)
    shrunk = (known.night**2 * known.night_worth + np.nan_to_num(own) * count) / (known.night_worth + count)
    return np.maximum(shrunk, known.least_night**2)


def _mode_at_first(
    away: Floats, deviation: Floats, usable: Bools, count: Floats, known: Constants
) -> tuple[Floats, Floats]:
    """(offset, share) of the residuals of one side that lie together beyond the ordinary; 0 where there are too few."""
    best, share = np.zeros(len(count)), np.zeros(len(count))
    most = np.zeros(len(count))
    for sign in (1.0, -1.0):
        beyond = usable & (sign * away > 2.7 * deviation)
        some = beyond.sum(axis=1)
        candidates = np.sort(np.where(beyond, away, np.inf), axis=1)
        middle = np.take_along_axis(candidates, (np.maximum(some - 1, 0) // 2)[:, None], axis=1)[:, 0]
        middle = np.where(some > 0, middle, 0.0)
        near = (beyond & (np.abs(away - middle[:, None]) < 2.0 * deviation)).sum(axis=1)
        taken = (near >= known.mode_least_hits) & (near > most)
        best, most = np.where(taken, middle, best), np.where(taken, near, most)
        share = np.where(taken, near / np.maximum(count, 1), share)
    return best, np.minimum(share, known.mode_most)
