"""The judge's walk over the runs of all series in step.

It knows nothing later than the current run.
"""

from __future__ import annotations

import numpy as np
from attrs import define, frozen

from lab.judge.history.kalman import (
    BEFORE,
    II,
    IMAGE,
    LEVEL,
    LI,
    LL,
    NEW_IMAGE,
    NN,
    NULL,
    RIVALS,
    SILENT,
    SWAP,
    Bank,
    Rivals,
    SeriesParameters,
)
from lab.judge.history.model import Bools, Constants, Floats, Index, Ints, Spread, inliers, spread
from lab.judge.history.table import Night

_SURE = 1.96  # 95 % of a normal distribution lie within so many deviations


@frozen(eq=False)
class StepResult:
    """The results of one run of each series, shape (series,).

    Attributes:
        level: 1: the number rose; -1: it fell; 0: neither.
        environment: another cause than an image moved it.
        swapped: a known one, such as another board.
        mode: the rise or fall is a new mode of single boots.
        crept: it is a sum of small steps.
        unsure: a rerun would help, and none was left.
        young: without a history yet.
        reruns: number of used ones.
        since: index of the change's first run.
        effect, error: of the logarithm; the error is half the 95 % interval.
    """

    level: Ints
    environment: Bools
    swapped: Bools
    mode: Bools
    crept: Bools
    unsure: Bools
    young: Bools
    reruns: Ints
    since: Ints
    effect: Floats
    error: Floats

    def speaks(self) -> Bools:
        """True where a run has a result beyond "unchanged", (series,)."""
        some: Bools = (self.level != 0) | self.young | self.unsure | (self.reruns > 0)
        return some


class Walk:
    """Judges series run by run.

    Args:
        series: their number.
    """

    def __init__(self, series: int, constants: Constants) -> None:
        self._constants = constants
        self._series = series
        self._t = -1
        self._bank = Bank.empty(series, RIVALS)
        self._rivals = Rivals(series, constants)
        self._learned = prior(series, constants)
        self._slow = SlowMode(series, constants)
        self._creep = Creep(series, constants)
        self._images = Images(series)
        self._runs = np.zeros(series, dtype=np.int64)  # usable ones
        self._scale = np.zeros(series)  # of one sample
        self._scales = np.zeros(series, dtype=np.int64)  # runs that it is of
        self._step = np.full(series, np.inf)  # smallest distance of two samples: a clock's or display's resolution
        self._residuals = np.full((series, constants.learn_runs), np.nan)
        self._variances = np.ones((series, constants.learn_runs))
        self._first = np.full((series, constants.first_runs), np.nan)
        self._trend = np.zeros(series)  # of the level, a night
        self._swapped = np.full(series, -1)  # run of the last known change that may still show

    def step(self, night: Night) -> StepResult:
        """Judge the next run of every series."""
        constants = self._constants
        self._t += 1
        samples = spread(night.logs)
        has = samples.count > 0
        self._take_scale(samples)
        y, noise = self._centre(samples)
        ready = self._runs >= constants.first_runs
        self._predict(night, ready)
        here = ready & has
        self._residual(y, noise, here)
        predicted, variance = self._bank.predict(NULL)
        far = np.abs(y - predicted) > constants.silent_surprise * np.sqrt(variance + noise)
        explained = night.new_image | (night.swap > 0)
        self._rivals.spawn(np.flatnonzero(here & far & ~explained), SILENT, self._t, self._bank)
        self._update(np.flatnonzero(here), y, noise)
        self._rivals.night(here)
        later = np.where(noise > self._learned.night**2, constants.ask_later_noisy, constants.ask_later)
        used = self._confirm(night, here, later)
        result = self._decide(night, here, used, ~ready, later)
        self._slow_modes(samples, night, here, result)
        self._creeping(y, night, here, result)
        self._begin(y, noise, has & ~ready)
        self._runs += has
        every = constants.learn_every_at_first if self._t < constants.learn_at_first else constants.learn_every
        if self._t % every == 0 and self._t >= constants.first_runs:
            filled = min(self._t + 1, constants.learn_runs)
            learn(self._residuals[:, :filled], self._variances[:, :filled], self._learned, constants)
        return result

    def _take_scale(self, samples: Spread) -> None:
        constants = self._constants
        usable = np.isfinite(samples.deviation)
        self._scales += usable
        _, number, variance = inliers(samples, self._scale, constants.outlier)
        memory = np.minimum(constants.spread_memory, (number - 1) / constants.spread_boots)
        weight = np.where(usable, np.maximum(memory, 1 / np.maximum(self._scales, 1)), 0.0)
        variance = np.minimum(variance, (constants.spread_most * self._scale) ** 2)
        young = self._scale + weight * (np.nan_to_num(samples.deviation) - self._scale)
        old = np.sqrt(self._scale**2 + weight * (variance - self._scale**2))
        self._scale = np.where(self._scales <= constants.first_runs, young, old)
        gaps = np.diff(samples.ordered, axis=1)
        if gaps.shape[1]:
            self._step = np.fmin(self._step, np.where(gaps > 1e-12, gaps, np.inf).min(axis=1))

    def _sigma(self) -> Floats:
        """Standard deviation of a sample, at least the rounding error's."""
        resolution = np.where(np.isfinite(self._step), self._step, 0.0)
        sigma: Floats = np.maximum(self._scale, np.minimum(resolution, 0.05) / np.sqrt(12))
        return sigma

    def _centre(self, samples: Spread, rows: Index = slice(None)) -> tuple[Floats, Floats]:
        """(centre, its variance) of a run of these series."""
        sigma = self._sigma()[rows]
        mean, number, _ = inliers(samples, sigma, self._constants.outlier)
        return np.where(number > 0, mean, np.nan), sigma**2 / np.maximum(number, 1)

    def _predict(self, night: Night, ready: Bools) -> None:
        """Predict a night: drift, known changes, a rival for a new image."""
        constants, bank = self._constants, self._bank
        new_image = night.new_image & ready
        self._images.end(new_image, bank, self._learned, constants)
        bank.next_night(self._learned, constants.drift, new_image)
        bank.mean[LEVEL] += self._trend[:, None]
        self._rivals.level += self._trend[:, None]
        swapped = np.flatnonzero((night.swap > 0) & ready)
        if len(swapped):
            bank.copy_slot(swapped, NULL, BEFORE)
            self._swapped[swapped] = self._t
            self._images.restart(swapped)
            others = np.arange(bank.log.shape[1]) != BEFORE
            bank.cov[LL] += night.swap[:, None] * (others & np.isin(np.arange(self._series), swapped)[:, None])
        self._rivals.spawn(np.flatnonzero(new_image), NEW_IMAGE, self._t, bank)
        self._rivals.spawn(swapped[~new_image[swapped]], SWAP, self._t, bank)  # by more than a swap usually brings

    def _residual(self, y: Floats, noise: Floats, here: Bools) -> None:
        """Store a run's residual of the nights."""
        constants, bank = self._constants, self._bank
        column = self._t % constants.learn_runs
        level = bank.mean[LEVEL, :, NULL] + bank.mean[IMAGE, :, NULL]
        variance = noise + bank.cov[LL, :, NULL] + bank.cov[II, :, NULL] + 2 * bank.cov[LI, :, NULL]
        self._residuals[:, column] = np.where(here, y - level, np.nan)
        self._variances[:, column] = variance
        weight, moved = bank.ordinary(y, noise, self._learned, constants)
        self._images.add(moved, noise, np.where(here, weight, 0.0))
        expected, uncertain = bank.predict(NULL)
        most = constants.trend_most * np.sqrt(uncertain + noise)
        nights = self._learned.night**2
        worth = (nights / (nights + noise)) ** 2  # of few boots it would be noise
        behind = np.where(here, worth * weight * np.clip(moved - expected, -most, most), 0.0)
        self._trend = constants.trend_memory * self._trend + constants.trend_gain * behind

    def _update(self, rows: Ints, y: Floats, noise: Floats, share: float = 1.0, own: float = 0.0) -> None:
        """Update the filters of some series with a centre."""
        if not len(rows):
            return
        everything = len(rows) == self._series
        bank = self._bank if everything else self._bank.take(rows)
        learned = self._learned if everything else self._learned.take(rows)
        bank.update(y[rows], noise[rows], learned, self._constants, share, own)
        if not everything:
            self._bank.put(rows, bank)

    def _confirm(self, night: Night, here: Bools, later: Floats) -> Ints:
        """Use reruns for likely rivals; number of used ones, (series,)."""
        constants = self._constants
        used = np.zeros(self._series, dtype=np.int64)
        for number in range(min(constants.most_reruns, night.reruns.shape[1])):
            rows = np.flatnonzero(
                here & (night.rerun_count > number) & self._rivals.asks(self._bank, later, again=number > 0)
            )
            if not len(rows):
                break
            samples = spread(night.reruns[rows, number])
            y, noise = self._centre(samples, rows)
            usable = samples.count > 0
            used[rows] += 1
            full_y, full_noise = np.zeros(self._series), np.ones(self._series)
            full_y[rows], full_noise[rows] = y, noise
            self._update(rows[usable], full_y, full_noise, constants.rerun_shared, constants.rerun_own)
        return used

    def _decide(self, night: Night, here: Bools, used: Ints, young: Bools, later: Floats) -> StepResult:
        constants, bank, rivals, n = self._constants, self._bank, self._rivals, self._series
        group, sure, best = rivals.winner(bank, used >= constants.most_reruns, night.can_rerun)
        rows = np.arange(n)
        slot = rivals.slot(bank, rows, group)
        effect = bank.mean[LEVEL, rows, slot] - rivals.level[rows, group]
        error = _SURE * np.sqrt(bank.cov[LL, rows, slot] + rivals.variance[rows, group])
        called = here & sure & (np.abs(effect) >= constants.least_effect)
        kind = rivals.kind[rows, group]
        silent = called & ((kind == SWAP) | ((kind == SILENT) & night.image_known))
        since = rivals.born[rows, group].copy()
        hits = np.flatnonzero(called)
        bank.copy_slot(hits, slot[hits], NULL)
        rivals.clear(hits)
        self._swapped[hits] = -1
        for row in hits:  # the residuals from a change to its verdict are of the old level
            columns = np.arange(max(since[row], self._t - constants.learn_runs + 1), self._t + 1)
            self._residuals[row, columns % constants.learn_runs] = np.nan
        self._images.restart(hits)
        swap, swap_effect, swap_error = self._swaps(here & ~called)
        since = np.where(swap, self._swapped, since)
        self._swapped[swap] = -1
        bank.log -= np.where(np.isfinite(bank.log[:, NULL]), bank.log[:, NULL], 0.0)[:, None]
        rivals.prune(bank)
        unsure = here & ~called & ~swap & (best > later) & night.can_rerun
        unsure &= (used >= night.rerun_count) & (used < constants.most_reruns)
        return StepResult(
            level=np.where(called, np.sign(effect), np.where(swap, np.sign(swap_effect), 0)).astype(np.int64),
            environment=silent | swap,
            swapped=(called & (kind == SWAP)) | swap,
            mode=np.zeros(n, dtype=bool),
            crept=np.zeros(n, dtype=bool),
            unsure=unsure,
            young=young,
            reruns=used,
            since=since,
            effect=np.where(swap, swap_effect, effect),
            error=np.where(swap, swap_error, error),
        )

    def _swaps(self, here: Bools) -> tuple[Bools, Floats, Floats]:
        """Known changes that moved the level: (moved, effect, half its interval)."""
        constants, bank = self._constants, self._bank
        waiting = self._swapped >= 0
        ratio = np.where(waiting, bank.log[:, NULL] - np.where(waiting, bank.log[:, BEFORE], 0.0), 0.0)
        effect = bank.mean[LEVEL, :, NULL] - bank.mean[LEVEL, :, BEFORE]
        error = _SURE * np.sqrt(bank.cov[LL, :, NULL] + bank.cov[LL, :, BEFORE])
        moved = here & waiting & (ratio > constants.later_night) & (np.abs(effect) >= constants.least_effect)
        over = waiting & ~moved & ((self._t - self._swapped >= constants.rival_life) | (ratio < constants.rival_end))
        self._swapped[over] = -1
        return moved, effect, error

    def _slow_modes(self, samples: Spread, night: Night, here: Bools, result: StepResult) -> None:
        """Report new modes of single boots where nothing else changed."""
        side, since, size, silent = self._slow.take(samples, self._sigma(), here, night.new_image, self._t)
        rows = np.flatnonzero((side != 0) & (result.level == 0))
        result.environment[rows] = (silent & night.image_known)[rows]
        result.level[rows], result.since[rows], result.effect[rows] = side[rows], since[rows], size[rows]
        result.error[rows], result.mode[rows], result.unsure[rows] = np.nan, True, False

    def _creeping(self, y: Floats, night: Night, here: Bools, result: StepResult) -> None:
        """Report a sum of small changes where nothing else was called."""
        creep = self._creep
        creep.take(y, here, night.new_image, self._t)
        creep.step(result, self._t)
        rows, since, effect, error = creep.grown(result.level == 0, self._t)
        result.level[rows], result.since[rows] = np.sign(effect).astype(np.int64), since
        result.effect[rows], result.error[rows] = effect, error
        result.crept[rows], result.unsure[rows] = True, False
        result.environment[rows] = night.image_known[rows] & (creep.imaged[rows] <= since)

    def _begin(self, y: Floats, noise: Floats, rows: Bools) -> None:
        """Store the first runs; the last of them starts the filters."""
        constants, bank = self._constants, self._bank
        index = np.flatnonzero(rows)
        self._first[index, self._runs[index]] = y[index]
        started = index[self._runs[index] == constants.first_runs - 1]
        if not len(started):
            return
        first = self._first[started]
        level = np.median(first, axis=1)
        columns = np.arange(constants.first_runs)
        self._residuals[started[:, None], columns] = first - level[:, None]
        self._variances[started[:, None], columns] = noise[started, None]
        learned = self._learned.take(started)
        learn(self._residuals[started], self._variances[started], learned, constants)
        self._learned.put(started, learned)
        variance = learned.night**2 + noise[started]
        bank.mean[:, started] = 0
        bank.cov[:, started] = 0
        bank.log[started] = -np.inf
        bank.mean[LEVEL, started, NULL] = level
        bank.cov[LL, started, NULL] = 0.4 * variance  # of a median of eight that hang together
        bank.cov[II, started, NULL] = learned.image**2
        bank.cov[NN, started, NULL] = learned.night**2
        bank.log[started, NULL] = 0


_ROUNDS = 3  # of expectation and maximisation; begun from robust figures, more change nothing


def prior(series: int, constants: Constants) -> SeriesParameters:
    """The priors of a series without a history."""

    def all_of(value: float) -> Floats:
        return np.full(series, value)

    return SeriesParameters(
        all_of(constants.night),
        all_of(constants.night_correlation),
        all_of(constants.odd),
        all_of(0.0),
        all_of(0.0),
        all_of(constants.image),
    )


def learn(residuals: Floats, variances: Floats, learned: SeriesParameters, constants: Constants) -> None:
    """Learn the nights, odd runs and the second mode.

    Args:
        residuals: a run's centre less the expected level; (series, runs), NaN: unusable.
        variances: of a residual, without the night's own.
    """
    usable = np.isfinite(residuals)
    count = usable.sum(axis=1)
    away = np.where(usable, residuals, 0.0)
    noise = np.where(usable, variances, 1.0)
    night2 = _night_at_first(residuals, variances, count, constants)
    mode, rate = _mode_at_first(away, np.sqrt(night2[:, None] + noise), usable, count, constants)
    odd = learned.odd
    loud = np.maximum(night2, constants.night**2)[:, None]
    worth = (loud / (loud + noise)) ** 2  # what a noisy run says of its night
    for _ in range(_ROUNDS):
        total = night2[:, None] + noise
        wide = total + constants.odd_size**2
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
        rate = np.minimum((hits + 0.5) / (count + 10.0), constants.mode_most) * (rate > 0)
        odd = (constants.odd * constants.odd_worth + is_odd.sum(axis=1)) / (constants.odd_worth + count)
        excess = is_plain * (away**2 - noise) + is_mode * ((away - mode[:, None]) ** 2 - noise)
        weight = constants.night_worth + (worth * (is_plain + is_mode)).sum(axis=1)
        night2 = (constants.night**2 * constants.night_worth + (worth * excess).sum(axis=1)) / weight
        night2 = np.maximum(night2, constants.least_night**2)
    has_mode = hits >= constants.mode_least_hits - 0.5
    learned.mode, learned.mode_rate = np.where(has_mode, mode, 0.0), np.where(has_mode, rate, 0.0)
    learned.odd, learned.night = odd, np.sqrt(night2)
    residue = np.where(usable, is_plain * away + is_mode * (away - mode[:, None]), 0.0)
    together = (worth[:, 1:] * residue[:, 1:] * residue[:, :-1]).sum(axis=1)
    pairs = (worth[:, 1:] * (usable[:, 1:] & usable[:, :-1])).sum(axis=1)
    correlation = (constants.night_correlation * constants.night_correlation_worth + together / night2) / (
        constants.night_correlation_worth + pairs
    )
    learned.correlation = np.clip(correlation, 0.0, 0.9)


def _night_at_first(residuals: Floats, variances: Floats, count: Floats, constants: Constants) -> Floats:
    """Robust variance of the nights, by the median of absolute residuals."""
    some = np.maximum(count, 1)
    absolute = np.sort(np.abs(residuals), axis=1)
    median = np.take_along_axis(absolute, ((some - 1) // 2)[:, None], axis=1)[:, 0]
    noise = np.where(np.isfinite(residuals), variances, 0.0).sum(axis=1) / some
    own = np.where(count > 0, (1.4826 * median) ** 2 - noise, 0.0)
    shrunk = (constants.night**2 * constants.night_worth + np.nan_to_num(own) * count) / (
        constants.night_worth + count
    )
    return np.maximum(shrunk, constants.least_night**2)


def _mode_at_first(
    away: Floats, deviation: Floats, usable: Bools, count: Floats, constants: Constants
) -> tuple[Floats, Floats]:
    """(offset, share) of one side's cluster of residuals; 0: too few."""
    best, share = np.zeros(len(count)), np.zeros(len(count))
    most = np.zeros(len(count))
    for sign in (1.0, -1.0):
        beyond = usable & (sign * away > 2.7 * deviation)
        some = beyond.sum(axis=1)
        candidates = np.sort(np.where(beyond, away, np.inf), axis=1)
        middle = np.take_along_axis(candidates, (np.maximum(some - 1, 0) // 2)[:, None], axis=1)[:, 0]
        middle = np.where(some > 0, middle, 0.0)
        near = (beyond & (np.abs(away - middle[:, None]) < 2.0 * deviation)).sum(axis=1)
        taken = (near >= constants.mode_least_hits) & (near > most)
        best, most = np.where(taken, middle, best), np.where(taken, near, most)
        share = np.where(taken, near / np.maximum(count, 1), share)
    return best, np.minimum(share, constants.mode_most)


@define(eq=False, init=False)
class Images:
    """Each series' current image and statistics of earlier ones, (series,).

    Attributes:
        level, variance: expected when the image came.
        total, count, noise: of its runs: sum, number, sum of their variances.
        squares, images: of all images: sum of squared moves beyond chance, and their effective number.
    """

    level: Floats
    variance: Floats
    total: Floats
    count: Floats
    noise: Floats
    squares: Floats
    images: Floats

    def __init__(self, series: int) -> None:
        self.level, self.variance, self.total, self.squares = (np.zeros(series) for _ in range(4))
        self.count, self.noise, self.images = (np.zeros(series) for _ in range(3))

    def add(self, y: Floats, noise: Floats, weight: Floats) -> None:
        self.total += np.where(weight > 0, weight * y, 0.0)
        self.noise += weight * noise
        self.count += weight

    def restart(self, rows: Ints) -> None:
        """Discard the current image after a change was found in it."""
        self.count[rows] = 0.0
        self.variance[rows] = np.inf

    def end(self, new: Bools, bank: Bank, learned: SeriesParameters, constants: Constants) -> None:
        """End these series' image: learn from its mean, begin the next."""
        rows = np.flatnonzero(new)
        if not len(rows):
            return
        full = rows[(self.count[rows] > 0.5) & np.isfinite(self.variance[rows]) & (self.variance[rows] > 0)]
        count, phi = self.count[full], learned.correlation[full]
        night = learned.night[full] ** 2 * np.minimum((1 + phi) / (1 - phi) / count, 1.0)
        expected = self.variance[full] + night + self.noise[full] / count**2
        most = 9 * (expected + np.maximum(learned.image[full], 0.003) ** 2)
        moved = np.minimum((self.total[full] / count - self.level[full]) ** 2, most)
        weight = (constants.image_scale**2 / (constants.image_scale**2 + expected)) ** 2
        self.squares[full] += weight * (moved - expected)
        self.images[full] += weight
        prior = constants.image**2
        variance = (prior * constants.image_worth + self.squares[full]) / (constants.image_worth + self.images[full])
        learned.image[full] = np.sqrt(np.maximum(variance, (constants.image / 2) ** 2))
        self.level[rows] = bank.mean[LEVEL, rows, NULL]
        self.variance[rows] = bank.cov[LL, rows, NULL] + 1e-12
        self.total[rows] = self.count[rows] = self.noise[rows] = 0.0


class SlowMode:
    """CUSUM (Page, 1954) of boots beyond a bound on either side."""

    def __init__(self, series: int, constants: Constants) -> None:
        self._constants = constants
        shape = (2, series)  # above the centre, below it
        self._sum = np.zeros(shape)
        self._since = np.full(shape, -1)
        self._odd = np.full(shape, constants.slow_rate * constants.slow_worth)
        self._boots = np.full(shape, constants.slow_worth)
        self._image = np.zeros(shape)  # evidence of all runs of the image,
        self._before = np.zeros(shape)  # and of those before `_since`

    def take(
        self, samples: Spread, sigma: Floats, here: Bools, new_image: Bools, t: int
    ) -> tuple[Ints, Ints, Floats, Bools]:
        """Count one run of each series.

        Returns:
            (1 or -1 for a new mode above or below the centre, index of its first run, its distance, it began within an
            image's life); (series,).
        """
        constants = self._constants
        bound = np.maximum(constants.slow_least, constants.slow_spreads * sigma)[:, None]
        away = samples.ordered - samples.median[:, None]
        side, since, size = np.zeros(len(here), dtype=np.int64), np.full(len(here), -1), np.zeros(len(here))
        silent = np.zeros(len(here), dtype=bool)
        self._image[:, new_image] = 0.0
        for row, sign in enumerate((1, -1)):
            beyond = sign * away > bound
            odd = np.where(here, beyond.sum(axis=1), 0)
            count = np.where(here, samples.count, 0)
            old = self._odd[row] / self._boots[row]
            new = np.minimum(np.maximum(constants.slow_new_least, constants.slow_new_times * old), 0.9)
            old = np.minimum(old, new / 2)
            gain = odd * np.log(new / old) + (count - odd) * np.log((1 - new) / (1 - old))
            total = np.maximum(self._sum[row] + np.minimum(gain, constants.slow_most), 0.0)
            total = np.where(self._boots[row] - constants.slow_worth >= constants.slow_known, total, 0.0)
            begins = (total > 0) & (self._sum[row] <= 0)
            self._before[row] = np.where(
                new_image & ~begins, 0.0, np.where(begins, self._image[row], self._before[row])
            )
            self._image[row] += np.where(here, gain, 0.0)
            self._since[row] = np.where(total > 0, np.where(begins, t, self._since[row]), -1)
            decided = (total > constants.slow_decides) & (side == 0)
            silent |= decided & (self._before[row] < constants.slow_silent)
            where = np.where(beyond, away, 0.0).sum(axis=1) / np.maximum(beyond.sum(axis=1), 1)
            side, since, size = (
                np.where(decided, value, before)
                for value, before in ((sign, side), (self._since[row], since), (where, size))
            )
            self._sum[row] = np.where(decided, 0.0, total)
            self._odd[row] = np.where(decided, constants.slow_rate * constants.slow_worth, self._odd[row] + odd)
            self._boots[row] = np.where(decided, constants.slow_worth, self._boots[row] + count)
        return side, since, size, silent


class Creep:
    """The runs' centres of a year, for changes in small steps.

    Attributes:
        imaged: run of the last new image, (series,).
    """

    def __init__(self, series: int, constants: Constants) -> None:
        self._constants = constants
        shape = (series, constants.creep_block * constants.creep_blocks)
        self._centres = np.full(shape, np.nan)  # by run, without gross steps and swaps
        self._called = np.zeros(series)  # sum of all small steps that were called,
        self._sums = np.zeros(shape)  # and as it was in each run
        self._reported = np.full(series, np.nan)  # level of the last report
        self.imaged = np.zeros(series, dtype=np.int64)

    def take(self, y: Floats, here: Bools, new_image: Bools, t: int) -> None:
        """Store a run's centre."""
        self.imaged[new_image] = t
        column = t % self._centres.shape[1]
        self._centres[:, column] = np.where(here, y, np.nan)
        self._sums[:, column] = self._called

    def step(self, result: StepResult, t: int) -> None:
        """Take gross steps and swaps out of the centres before; add small steps to the called ones."""
        moved = (result.level != 0) & ~result.mode
        step = np.where(result.environment, self._constants.creep_silent, self._constants.creep_step)
        gross = moved & (result.swapped | (np.abs(result.effect) >= step))
        self._called[moved & ~gross] += result.effect[moved & ~gross]
        length = self._centres.shape[1]
        for row in np.flatnonzero(gross):
            before = np.arange(t + 1 - length, result.since[row]) % length
            self._centres[row, before] += result.effect[row]
            self._reported[row] += result.effect[row]

    def grown(self, free: Bools, t: int) -> tuple[Ints, Ints, Floats, Floats]:
        """Report series that crept further, at the end of a block.

        Args:
            free: series that may be reported.

        Returns:
            Their indices; of each the run since when, the change, and half its interval.
        """
        constants, length = self._constants, self._centres.shape[1]
        if (t + 1) % constants.creep_block or t + 1 < constants.creep_block * (constants.creep_gap + 2):
            nothing = np.zeros(0)
            return nothing.astype(np.int64), nothing.astype(np.int64), nothing, nothing
        order = np.arange(t + 1 - min(length, t + 1), t + 1)
        parts = np.sort(self._centres[:, order % length].reshape(len(free), -1, constants.creep_block), axis=2)
        count = np.isfinite(parts).sum(axis=2)
        middles = np.take_along_axis(parts, (np.maximum(count - 1, 0) // 2)[:, :, None], axis=2)[:, :, 0]
        blocks = np.where(count > constants.creep_block // 2, middles, np.nan)
        steps = np.diff(blocks, axis=1)
        typical = np.maximum(np.isfinite(steps).sum(axis=1) - 1, 0)[:, None] // 2
        trend = np.take_along_axis(np.sort(steps, axis=1), typical, axis=1)  # a drift's own steps are no noise
        noise = np.take_along_axis(np.sort(np.abs(steps - trend), axis=1), typical, axis=1)[:, 0]
        low = np.fmin(blocks[:, -1], blocks[:, -2])  # one odd block is no drift
        high = np.fmax(blocks[:, -1], blocks[:, -2])
        before = blocks[:, : -constants.creep_gap]
        usable = free & np.isfinite(blocks[:, -1]) & np.isfinite(before).any(axis=1)
        before = np.where(np.isfinite(before), before, blocks[:, -1:])
        up, down = low - before.min(axis=1), high - before.max(axis=1)
        effect = np.where(up >= -down, up, down)
        now = np.where(up >= -down, low, high)
        more = np.isnan(self._reported) | (np.sign(effect) * (now - self._reported) >= constants.creep_more)
        far = np.abs(effect) >= np.maximum(constants.creep_least, constants.creep_noise * noise)
        rows = np.flatnonzero(usable & more & far)
        behind = np.sign(effect[rows, None]) * (now[rows, None] - before[rows])
        old = behind >= np.abs(effect[rows, None]) - np.maximum(constants.creep_near, noise[rows, None])
        last = before.shape[1] - 1 - old[:, ::-1].argmax(axis=1)
        since = order[0] + last * constants.creep_block + constants.creep_block // 2
        effect = blocks[rows, -1] - before[rows, last]
        untold = effect - (self._called[rows] - self._sums[rows, since % length])
        enough = np.sign(effect) * untold >= constants.creep_untold
        months = (t + 1 - since) / (constants.creep_month * constants.creep_block)
        walk = self._wander(blocks[rows], trend[rows]) * np.sqrt(months)
        enough &= np.abs(effect) >= constants.creep_wander * walk
        rows, since, effect = rows[enough], since[enough], effect[enough]
        self._reported[rows] = now[rows]
        return rows, since, effect, _SURE * np.sqrt(2) * np.maximum(noise[rows], constants.night)

    def _wander(self, blocks: Floats, trend: Floats) -> Floats:
        """The deviation of what some histories move in a month beyond their trend, (series,)."""
        month = self._constants.creep_month
        moves = np.sort(np.abs(blocks[:, month:] - blocks[:, :-month] - month * trend), axis=1)
        middle = np.maximum(np.isfinite(moves).sum(axis=1) - 1, 0)[:, None] // 2
        wander: Floats = 1.4826 * np.take_along_axis(moves, middle, axis=1)[:, 0]
        return wander
