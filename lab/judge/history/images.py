"""How far the numbers move from image to image without anybody's doing."""

from __future__ import annotations

import numpy as np
from attrs import define

from lab.judge.history.bank import LEVEL, LL, NULL, Bank, Learned
from lab.judge.history.centre import Bools, Floats, Ints
from lab.judge.history.constants import Constants


@define(eq=False, init=False)
class Images:
    """The current image of each series, and what those before it said; all of the shape (series,).

    Attributes:
        level, variance: expected when the image came. total, count, noise: of its runs: sum, number, sum of their variances.
        squares, images: of all images: sum of squared moves beyond what chance explains, and how many they are worth.
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
        """This image teaches nothing: a change was found in it."""
        self.count[rows] = 0.0
        self.variance[rows] = np.inf

    def end(self, new: Bools, bank: Bank, learned: Learned, known: Constants) -> None:
        """An image of these series is over: learn from its mean, and note where the next one begins."""
        rows = np.flatnonzero(new)
        if not len(rows):
            return
        full = rows[(self.count[rows] > 0.5) & np.isfinite(self.variance[rows]) & (self.variance[rows] > 0)]
        count, phi = self.count[full], learned.correlation[full]
        night = learned.night[full] ** 2 * np.minimum((1 + phi) / (1 - phi) / count, 1.0)
        expected = self.variance[full] + night + self.noise[full] / count**2
        most = 9 * (expected + np.maximum(learned.image[full], 0.003) ** 2)
        moved = np.minimum((self.total[full] / count - self.level[full]) ** 2, most)
        weight = (known.image_scale**2 / (known.image_scale**2 + expected)) ** 2
        self.squares[full] += weight * (moved - expected)
        self.images[full] += weight
        prior = known.image**2
        variance = (prior * known.image_worth + self.squares[full]) / (known.image_worth + self.images[full])
        learned.image[full] = np.sqrt(np.maximum(variance, (known.image / 2) ** 2))
        self.level[rows] = bank.mean[LEVEL, rows, NULL]
        self.variance[rows] = bank.cov[LL, rows, NULL] + 1e-12
        self.total[rows] = self.count[rows] = self.noise[rows] = 0.0
