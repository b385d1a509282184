"""Kalman filters of all hypotheses of all series at once.

State of one filter: (level, image, night). The level drifts; the image's own offset is drawn anew with each image; the night
is AR(1). A run's centre is their sum and noise. A run may be ordinary, in the series' second mode, odd, or grossly odd; the
update is the mixture's, collapsed to its mean and covariance.
"""

from __future__ import annotations

import numpy as np
from attrs import define, fields, frozen

from lab.judge.history.model import Bools, Constants, Floats, Index

LEVEL, IMAGE, NIGHT = range(3)
LL, LI, LN, II, IN, NN = range(6)
_LEAST = 1e-18  # variance: an empty slot has none, and neither has the run of a board whose boots are all alike
NULL, BEFORE, RIVALS = 0, 1, 2  # slots: nothing changed; nothing changed at the last swap either; the rivals' first


@define(eq=False)
class Learned:
    """The learned parameters of each series, shape (series,).

    Attributes:
        night: standard deviation of the nights, and its correlation from one to the next.
        odd: share of odd runs. mode: offset of the second mode, mode_rate: its share. image: deviation from image to image.
    """

    night: Floats
    correlation: Floats
    odd: Floats
    mode: Floats
    mode_rate: Floats
    image: Floats

    def take(self, rows: Index) -> Learned:
        """Copy some series."""
        return Learned(*(getattr(self, each.name)[rows] for each in fields(Learned)))

    def put(self, rows: Index, other: Learned) -> None:
        for each in fields(Learned):
            getattr(self, each.name)[rows] = getattr(other, each.name)


@frozen(eq=False)
class _Kind:
    """A kind of run: its weighted likelihood, error, and variance."""

    weight: Floats
    error: Floats
    variance: Floats


def _kinds(error: Floats, variance: Floats, learned: Learned, known: Constants) -> tuple[_Kind, ...]:
    """An ordinary run, a second-mode, an odd and a grossly odd one.

    Args:
        error: of a run from its expectation; shape (series,) or (series, slots). variance: of the error, the same shape.
    """
    odd, mode, offset = (
        each.reshape(-1, *[1] * (error.ndim - 1)) for each in (learned.odd, learned.mode_rate, learned.mode)
    )
    gross = known.odd_gross * odd
    kinds = (
        (1 - odd - mode, error, variance),
        (mode, error - offset, variance),
        (odd - gross, error, variance + known.odd_size**2),
        (gross, error, variance + known.odd_gross_size**2),
    )
    return tuple(
        _Kind(share * np.exp(-0.5 * away**2 / wide) / np.sqrt(wide), away, wide) for share, away, wide in kinds
    )


@define(eq=False)
class Bank:
    """Filters: means (3, series, slots), covariances (6, …), log likelihoods."""

    mean: Floats
    cov: Floats
    log: Floats

    @classmethod
    def empty(cls, series: int, slots: int) -> Bank:
        return cls(np.zeros((3, series, slots)), np.zeros((6, series, slots)), np.full((series, slots), -np.inf))

    def take(self, rows: Index) -> Bank:
        """Copy some series."""
        return Bank(self.mean[:, rows], self.cov[:, rows], self.log[rows])

    def put(self, rows: Index, other: Bank) -> None:
        self.mean[:, rows], self.cov[:, rows], self.log[rows] = other.mean, other.cov, other.log

    def copy_slot(self, rows: Index, source: Index, target: Index) -> None:
        self.mean[:, rows, target] = self.mean[:, rows, source]
        self.cov[:, rows, target] = self.cov[:, rows, source]
        self.log[rows, target] = self.log[rows, source]

    def widen(self, by: int) -> None:
        """Give every series more slots."""
        more = Bank.empty(self.log.shape[0], by)
        self.mean = np.concatenate([self.mean, more.mean], axis=2)
        self.cov = np.concatenate([self.cov, more.cov], axis=2)
        self.log = np.concatenate([self.log, more.log], axis=1)

    def next_night(self, learned: Learned, drift: float, new_image: Bools) -> None:
        """The next night of all series; `new_image` of those that have one."""
        phi = learned.correlation[:, None]
        mean, cov = self.mean, self.cov
        mean[NIGHT] *= phi
        cov[LN] *= phi
        cov[IN] *= phi
        cov[NN] *= phi**2
        cov[NN] += ((1 - learned.correlation**2) * learned.night**2)[:, None]
        cov[LL] += drift**2
        mean[IMAGE, new_image] = 0
        for entry in (LI, IN):
            cov[entry, new_image] = 0
        cov[II, new_image] = (learned.image**2)[new_image, None]

    def expected(self, slot: int) -> tuple[Floats, Floats]:
        """(mean, variance without noise) of the next centre by a slot.

        Shape (series,).
        """
        cov = self.cov[:, :, slot]
        return self.mean[:, :, slot].sum(axis=0), cov[LL] + cov[II] + cov[NN] + 2 * (cov[LI] + cov[LN] + cov[IN])

    def ordinary(self, centre: Floats, noise: Floats, learned: Learned, known: Constants) -> tuple[Floats, Floats]:
        """(probability of an ordinary run, centre without mode offset), by NULL."""
        expected, variance = self.expected(NULL)
        total = variance + noise
        kinds = _kinds(centre - expected, total, learned, known)
        plain, mode, odd, gross = (kind.weight for kind in kinds)
        both = plain + mode + np.finfo(float).tiny
        return both / (both + odd + gross), centre - learned.mode * mode / both

    def update(
        self, centre: Floats, noise: Floats, learned: Learned, known: Constants, share: float = 1.0, own: float = 0.0
    ) -> None:
        """Update with one run's centre of each series, of variance `noise`.

        `share`: of the night in it; `own`: share of the nights' variance that is its own.
        """
        mean, cov = self.mean, self.cov
        gain_level = cov[LL] + cov[LI] + share * cov[LN]
        gain_image = cov[LI] + cov[II] + share * cov[IN]
        gain_night = cov[LN] + cov[IN] + share * cov[NN]
        total = gain_level + gain_image + share * gain_night
        total += (noise + own * learned.night**2)[:, None]
        np.maximum(total, _LEAST, out=total)
        error = centre[:, None] - mean[LEVEL] - mean[IMAGE] - share * mean[NIGHT]
        kinds = _kinds(error, total, learned, known)
        likelihood = sum((kind.weight for kind in kinds), np.full_like(total, np.finfo(float).tiny))
        self.log += np.log(likelihood)
        pull, certain, left = np.zeros_like(total), np.zeros_like(total), np.ones_like(total)
        for kind in kinds:
            chance = left if kind is kinds[-1] else kind.weight / likelihood  # where nothing is likely, the widest is
            left = left - chance
            pulls = kind.error / kind.variance
            pull += chance * pulls
            certain += chance * (1 / kind.variance - pulls**2)
        certain += pull**2
        gains = (gain_level, gain_image, gain_night)
        for entry, gain in enumerate(gains):
            mean[entry] += gain * pull
        scaled = [gain * certain for gain in gains]
        cov[LL] -= gain_level * scaled[LEVEL]
        cov[LI] -= gain_level * scaled[IMAGE]
        cov[LN] -= gain_level * scaled[NIGHT]
        cov[II] -= gain_image * scaled[IMAGE]
        cov[IN] -= gain_image * scaled[NIGHT]
        cov[NN] -= gain_night * scaled[NIGHT]
