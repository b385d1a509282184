"""The judge's walk over the runs, all series in step. It knows nothing later than the run it stands at."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from lab.judge.history import learning
from lab.judge.history.bank import BEFORE, II, IMAGE, LEVEL, LI, LL, NN, NULL, RIVALS, Bank
from lab.judge.history.centre import Bools, Floats, Index, Ints, Spread, centre, spread
from lab.judge.history.constants import Constants
from lab.judge.history.images import Images
from lab.judge.history.rivals import NEW_IMAGE, SILENT, Rivals
from lab.judge.history.slowmode import SlowMode
from lab.judge.history.table import Night

_SURE = 1.96  # 95 % of a normal distribution lie within so many deviations


@frozen(eq=False)
class Said:
    """What is said of one run of each series; all of the shape (series,).

    Attributes:
        level: 1 the number rose, -1 it fell, 0 neither. environment: it moved for another reason than an image.
        mode: the rise or fall is a new mode of single boots. unsure: a rerun would help and there was none left.
        young: there is no history yet. reruns: how many were used.
        since: index of the run that it began with. effect, error: of the logarithm; the error is half the 95 % interval.
    """

    level: Ints
    environment: Bools
    mode: Bools
    unsure: Bools
    young: Bools
    reruns: Ints
    since: Ints
    effect: Floats
    error: Floats

    def speaks(self) -> Bools:
        """Where there is more to say than "unchanged", (series,)."""
        some: Bools = (self.level != 0) | self.young | self.unsure | (self.reruns > 0)
        return some


class Walk:
    """Judges series run by run.

    Args:
        series: how many there are.
    """

    def __init__(self, series: int, known: Constants) -> None:
        self._known = known
        self._series = series
        self._t = -1
        self._bank = Bank.empty(series, RIVALS)
        self._rivals = Rivals(series, known)
        self._learned = learning.prior(series, known)
        self._slow = SlowMode(series, known)
        self._images = Images(series)
        self._runs = np.zeros(series, dtype=np.int64)  # usable ones
        self._scale = np.zeros(series)  # of one sample
        self._scales = np.zeros(series, dtype=np.int64)  # runs that it is of
        self._step = np.full(series, np.inf)  # smallest distance of two samples: a clock's or display's resolution
        self._residuals = np.full((series, known.learn_runs), np.nan)
        self._variances = np.ones((series, known.learn_runs))
        self._first = np.full((series, known.first_runs), np.nan)
        self._swapped = np.full(series, -1)  # run of the last known change that may still show

    def step(self, night: Night) -> Said:
        """Judge the next run of every series."""
        known = self._known
        self._t += 1
        samples = spread(night.logs)
        has = samples.count > 0
        self._take_scale(samples)
        y, noise = self._centre(samples)
        ready = self._runs >= known.first_runs
        self._predict(night, ready)
        here = ready & has
        self._residual(y, noise, here)
        self._surprise(y, noise, here, night)
        self._update(np.flatnonzero(here), y, noise)
        self._rivals.night(here)
        used = self._confirm(night, here)
        said = self._decide(night, here, used, ~ready)
        self._slow_modes(samples, here, said)
        self._begin(y, noise, has & ~ready)
        self._runs += has
        self._learn()
        return said

    def _take_scale(self, samples: Spread) -> None:
        usable = np.isfinite(samples.deviation)
        self._scales += usable
        weight = np.where(usable, np.maximum(self._known.spread_memory, 1 / np.maximum(self._scales, 1)), 0.0)
        self._scale += weight * (np.nan_to_num(samples.deviation) - self._scale)
        gaps = np.diff(samples.ordered, axis=1)
        if gaps.shape[1]:
            self._step = np.fmin(self._step, np.where(gaps > 1e-12, gaps, np.inf).min(axis=1))

    def _sigma(self) -> Floats:
        """Standard deviation of a sample, at least that of rounding to the resolution."""
        resolution = np.where(np.isfinite(self._step), self._step, 0.0)
        sigma: Floats = np.maximum(self._scale, np.minimum(resolution, 0.05) / np.sqrt(12))
        return sigma

    def _centre(self, samples: Spread, rows: Index = slice(None)) -> tuple[Floats, Floats]:
        """(centre, its variance) of a run of these series."""
        sigma = self._sigma()[rows]
        noise = self._known.efficiency * sigma**2 / np.maximum(samples.count, 1)
        return centre(samples, sigma, self._known.huber), noise

    def _predict(self, night: Night, ready: Bools) -> None:
        """The night before its run: drift, known changes, and a rival for a new image."""
        known, bank = self._known, self._bank
        new_image = night.new_image & ready
        self._images.end(new_image, bank, self._learned, known)
        bank.next_night(self._learned, known.drift, new_image)
        swapped = np.flatnonzero((night.swap > 0) & ready)
        if len(swapped):
            bank.copy_slot(swapped, NULL, BEFORE)
            self._swapped[swapped] = self._t
            self._images.restart(swapped)
            others = np.arange(bank.log.shape[1]) != BEFORE
            bank.cov[LL] += night.swap[:, None] * (others & np.isin(np.arange(self._series), swapped)[:, None])
        self._rivals.spawn(np.flatnonzero(new_image), NEW_IMAGE, self._t, bank)

    def _residual(self, y: Floats, noise: Floats, here: Bools) -> None:
        """Keep what this run says of the nights."""
        known, bank = self._known, self._bank
        column = self._t % known.learn_runs
        level = bank.mean[LEVEL, :, NULL] + bank.mean[IMAGE, :, NULL]
        variance = noise + bank.cov[LL, :, NULL] + bank.cov[II, :, NULL] + 2 * bank.cov[LI, :, NULL]
        self._residuals[:, column] = np.where(here, y - level, np.nan)
        self._variances[:, column] = variance
        weight, moved = bank.ordinary(y, noise, self._learned, known)
        self._images.add(moved, noise, np.where(here, weight, 0.0))

    def _surprise(self, y: Floats, noise: Floats, here: Bools, night: Night) -> None:
        """Start a rival where a run is far off without a cause, or farther than a known change explains."""
        expected, variance = self._bank.expected(NULL)
        far = np.abs(y - expected) > self._known.silent_surprise * np.sqrt(variance + noise)
        self._rivals.spawn(np.flatnonzero(here & far & ~night.new_image), SILENT, self._t, self._bank)

    def _update(self, rows: Ints, y: Floats, noise: Floats, share: float = 1.0, own: float = 0.0) -> None:
        """Show a centre to the filters of some series."""
        if not len(rows):
            return
        everything = len(rows) == self._series
        bank = self._bank if everything else self._bank.take(rows)
        learned = self._learned if everything else self._learned.take(rows)
        bank.update(y[rows], noise[rows], learned, self._known, share, own)
        if not everything:
            self._bank.put(rows, bank)

    def _confirm(self, night: Night, here: Bools) -> Ints:
        """Use reruns where a rival is likely and more would tell; how many were used, (series,)."""
        known = self._known
        used = np.zeros(self._series, dtype=np.int64)
        for number in range(min(known.most_reruns, night.reruns.shape[1])):
            rows = np.flatnonzero(
                here & (night.rerun_count > number) & self._rivals.asks(self._bank, again=number > 0)
            )
            if not len(rows):
                break
            samples = spread(night.reruns[rows, number])
            y, noise = self._centre(samples, rows)
            usable = samples.count > 0
            used[rows] += 1
            full_y, full_noise = np.zeros(self._series), np.ones(self._series)
            full_y[rows], full_noise[rows] = y, noise
            self._update(rows[usable], full_y, full_noise, known.rerun_shared, known.rerun_own)
        return used

    def _decide(self, night: Night, here: Bools, used: Ints, young: Bools) -> Said:
        known, bank, rivals, n = self._known, self._bank, self._rivals, self._series
        group, sure, best = rivals.winner(bank, used >= known.most_reruns, night.can_rerun)
        rows = np.arange(n)
        slot = rivals.slot(bank, rows, group)
        effect = bank.mean[LEVEL, rows, slot] - rivals.level[rows, group]
        error = _SURE * np.sqrt(bank.cov[LL, rows, slot] + rivals.variance[rows, group])
        called = here & sure & (np.abs(effect) >= known.least_effect)
        silent = called & (rivals.kind[rows, group] == SILENT) & night.image_known
        since = rivals.born[rows, group].copy()
        hits = np.flatnonzero(called)
        bank.copy_slot(hits, slot[hits], NULL)
        rivals.clear(hits)
        self._swapped[hits] = -1
        self._forget(hits, since)
        self._images.restart(hits)
        swap, swap_effect, swap_error = self._swaps(here & ~called)
        since = np.where(swap, self._swapped, since)
        self._swapped[swap] = -1
        bank.log -= np.where(np.isfinite(bank.log[:, NULL]), bank.log[:, NULL], 0.0)[:, None]
        rivals.prune(bank)
        unsure = here & ~called & ~swap & (best > known.ask_later) & night.can_rerun
        unsure &= (used >= night.rerun_count) & (used < known.most_reruns)
        return Said(
            level=np.where(called, np.sign(effect), np.where(swap, np.sign(swap_effect), 0)).astype(np.int64),
            environment=silent | swap,
            mode=np.zeros(n, dtype=bool),
            unsure=unsure,
            young=young,
            reruns=used,
            since=since,
            effect=np.where(swap, swap_effect, effect),
            error=np.where(swap, swap_error, error),
        )

    def _swaps(self, here: Bools) -> tuple[Bools, Floats, Floats]:
        """Where a known change moved the level: (it did, by how much, half its 95 % interval)."""
        known, bank = self._known, self._bank
        waiting = self._swapped >= 0
        ratio = np.where(waiting, bank.log[:, NULL] - np.where(waiting, bank.log[:, BEFORE], 0.0), 0.0)
        effect = bank.mean[LEVEL, :, NULL] - bank.mean[LEVEL, :, BEFORE]
        error = _SURE * np.sqrt(bank.cov[LL, :, NULL] + bank.cov[LL, :, BEFORE])
        moved = here & waiting & (ratio > known.later_night) & (np.abs(effect) >= known.least_effect)
        over = waiting & ~moved & ((self._t - self._swapped >= known.rival_life) | (ratio < known.rival_end))
        self._swapped[over] = -1
        return moved, effect, error

    def _forget(self, rows: Ints, since: Ints) -> None:
        """Residuals from a change to its verdict teach nothing: they were taken from the old level."""
        for row in rows:
            columns = np.arange(max(since[row], self._t - self._known.learn_runs + 1), self._t + 1)
            self._residuals[row, columns % self._known.learn_runs] = np.nan

    def _slow_modes(self, samples: Spread, here: Bools, said: Said) -> None:
        """A new mode of single boots is said where nothing else is."""
        side, since, size = self._slow.take(samples, self._sigma(), here, self._t)
        rows = np.flatnonzero((side != 0) & (said.level == 0))
        said.level[rows], said.since[rows], said.effect[rows] = side[rows], since[rows], size[rows]
        said.error[rows], said.mode[rows], said.unsure[rows] = np.nan, True, False

    def _begin(self, y: Floats, noise: Floats, rows: Bools) -> None:
        """The first runs: kept, and the last of them starts the filters."""
        known, bank = self._known, self._bank
        index = np.flatnonzero(rows)
        self._first[index, self._runs[index]] = y[index]
        started = index[self._runs[index] == known.first_runs - 1]
        if not len(started):
            return
        first = self._first[started]
        level = np.median(first, axis=1)
        columns = np.arange(known.first_runs)
        self._residuals[started[:, None], columns] = first - level[:, None]
        self._variances[started[:, None], columns] = noise[started, None]
        learned = self._learned.take(started)
        learning.learn(self._residuals[started], self._variances[started], learned, known)
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

    def _learn(self) -> None:
        known = self._known
        every = known.learn_every_at_first if self._t < known.learn_at_first else known.learn_every
        if self._t % every or self._t < known.first_runs:
            return
        filled = min(self._t + 1, known.learn_runs)
        learning.learn(self._residuals[:, :filled], self._variances[:, :filled], self._learned, known)
