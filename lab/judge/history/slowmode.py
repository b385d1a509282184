"""A new mode of single boots, e.g. one in ten that waits for a time-out: the centre hardly moves, the count of such boots does."""

from __future__ import annotations

import numpy as np

from lab.judge.history.centre import Bools, Floats, Ints, Spread
from lab.judge.history.constants import Constants


class SlowMode:
    """A CUSUM (Page, 1954) of the boots beyond a bound, on either side of the centre."""

    def __init__(self, series: int, known: Constants) -> None:
        self._known = known
        shape = (2, series)  # above the centre, below it
        self._sum = np.zeros(shape)
        self._since = np.full(shape, -1)
        self._odd = np.full(shape, known.slow_rate * known.slow_worth)
        self._boots = np.full(shape, known.slow_worth)

    def take(self, samples: Spread, sigma: Floats, here: Bools, t: int) -> tuple[Ints, Ints, Floats]:
        """Count one run of each series.

        Returns:
            (1 or -1 where a mode above or below the centre is new, index of the run that it began with, its distance); (series,).
        """
        known = self._known
        bound = np.maximum(known.slow_least, known.slow_spreads * sigma)[:, None]
        away = samples.ordered - samples.median[:, None]
        side, since, size = np.zeros(len(here), dtype=np.int64), np.full(len(here), -1), np.zeros(len(here))
        for row, sign in enumerate((1, -1)):
            beyond = sign * away > bound
            odd = np.where(here, beyond.sum(axis=1), 0)
            count = np.where(here, samples.count, 0)
            old = self._odd[row] / self._boots[row]
            new = np.minimum(np.maximum(known.slow_new_least, known.slow_new_times * old), 0.9)
            old = np.minimum(old, new / 2)
            gain = odd * np.log(new / old) + (count - odd) * np.log((1 - new) / (1 - old))
            total = np.maximum(self._sum[row] + np.minimum(gain, known.slow_most), 0.0)
            total = np.where(self._boots[row] - known.slow_worth >= known.slow_known, total, 0.0)
            self._since[row] = np.where(total > 0, np.where(self._sum[row] > 0, self._since[row], t), -1)
            found = (total > known.slow_decides) & (side == 0)
            where = np.where(beyond, away, 0.0).sum(axis=1) / np.maximum(beyond.sum(axis=1), 1)
            side, since, size = (
                np.where(found, value, before)
                for value, before in ((sign, side), (self._since[row], since), (where, size))
            )
            self._sum[row] = np.where(found, 0.0, total)
            self._odd[row] = np.where(found, known.slow_rate * known.slow_worth, self._odd[row] + odd)
            self._boots[row] = np.where(found, known.slow_worth, self._boots[row] + count)
        return side, since, size
