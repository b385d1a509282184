"""Kalman filters of all hypotheses of all series at once.

State of one filter: (level, image, night). The level drifts; the image's own offset is drawn anew with each image; the
night is AR(1). A run's centre is their sum and noise. A run may be ordinary, in the series' second mode, odd, or
grossly odd; the update is the mixture's, collapsed to its mean and covariance.
"""

from __future__ import annotations

import numpy as np
from attrs import define, fields, frozen

from lab.judge.history.model import Bools, Constants, Floats, Index, Ints

LEVEL, IMAGE, NIGHT = range(3)
LL, LI, LN, II, IN, NN = range(6)
_LEAST = 1e-18  # variance: an empty slot has none, and neither has the run of a board whose boots are all alike
NULL, BEFORE, RIVALS = 0, 1, 2  # slots: nothing changed; nothing changed at the last swap either; the rivals' first
NOTHING, NEW_IMAGE, SILENT, SWAP = 0, 1, 2, 3  # kinds of rivals; SWAP: another known change


@define(eq=False)
class SeriesParameters:
    """The learned parameters of each series, shape (series,).

    Attributes:
        night: standard deviation of the nights, and its correlation from one to the next.
        odd: share of odd runs.
        mode: offset of the second mode, mode_rate: its share.
        image: deviation from image to image.
    """

    night: Floats
    correlation: Floats
    odd: Floats
    mode: Floats
    mode_rate: Floats
    image: Floats

    def take(self, rows: Index) -> SeriesParameters:
        """Copy some series."""
        return SeriesParameters(*(getattr(self, parameter.name)[rows] for parameter in fields(SeriesParameters)))

    def put(self, rows: Index, other: SeriesParameters) -> None:
        for parameter in fields(SeriesParameters):
            getattr(self, parameter.name)[rows] = getattr(other, parameter.name)


@frozen(eq=False)
class _Kind:
    """A kind of run: its weighted likelihood, error, and variance."""

    weight: Floats
    error: Floats
    variance: Floats


def _kinds(error: Floats, variance: Floats, learned: SeriesParameters, constants: Constants) -> tuple[_Kind, ...]:
    """An ordinary run, a second-mode, an odd and a grossly odd one.

    Args:
        error: of a run from its expectation; shape (series,) or (series, slots).
        variance: of the error, the same shape.
    """
    odd, mode, offset = (
        column.reshape(-1, *[1] * (error.ndim - 1)) for column in (learned.odd, learned.mode_rate, learned.mode)
    )
    gross = constants.odd_gross * odd
    kinds = (
        (1 - odd - mode, error, variance),
        (mode, error - offset, variance),
        (odd - gross, error, variance + constants.odd_size**2),
        (gross, error, variance + constants.odd_gross_size**2),
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

    def next_night(self, learned: SeriesParameters, drift: float, new_image: Bools) -> None:
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

    def predict(self, slot: int) -> tuple[Floats, Floats]:
        """(mean, variance without noise) of the next centre by a slot.

        Shape (series,).
        """
        cov = self.cov[:, :, slot]
        return self.mean[:, :, slot].sum(axis=0), cov[LL] + cov[II] + cov[NN] + 2 * (cov[LI] + cov[LN] + cov[IN])

    def ordinary(
        self, centre: Floats, noise: Floats, learned: SeriesParameters, constants: Constants
    ) -> tuple[Floats, Floats]:
        """(probability of an ordinary run, centre without mode offset), by NULL."""
        predicted, variance = self.predict(NULL)
        total = variance + noise
        kinds = _kinds(centre - predicted, total, learned, constants)
        plain, mode, odd, gross = (kind.weight for kind in kinds)
        both = plain + mode + np.finfo(float).tiny
        return both / (both + odd + gross), centre - learned.mode * mode / both

    def update(
        self,
        centre: Floats,
        noise: Floats,
        learned: SeriesParameters,
        constants: Constants,
        share: float = 1.0,
        own: float = 0.0,
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
        kinds = _kinds(error, total, learned, constants)
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


class Rivals:
    """Rival hypotheses: groups of slots of the bank, one slot per size of change.

    Attributes:
        kind: NOTHING, NEW_IMAGE, SILENT or SWAP; (series, groups).
        born: index of the run that it began with.
        nights: its age.
        level, variance: of "nothing changed" at its start.
    """

    def __init__(self, series: int, constants: Constants) -> None:
        self._constants = constants
        self._sizes = len(constants.rival_sizes)
        self._log_shares = np.log(constants.rival_shares)
        self.kind = np.zeros((series, 0), dtype=np.int64)
        self.born = np.zeros((series, 0), dtype=np.int64)
        self.nights = np.zeros((series, 0), dtype=np.int64)
        self.level = np.zeros((series, 0))
        self.variance = np.zeros((series, 0))

    def spawn(self, rows: Ints, kind: int, born: int, bank: Bank) -> None:
        """Start a rival in each of these series."""
        if not len(rows):
            return
        if kind == SILENT:
            silent = self.kind[rows] == SILENT
            full = silent.sum(axis=1) >= self._constants.silent_rivals
            oldest = np.where(silent, self.born[rows], np.iinfo(np.int64).max).argmin(axis=1) if silent.size else full
            self.drop(rows[full], oldest[full], bank)
        if not self.kind.shape[1] or (self.kind[rows] != NOTHING).all(axis=1).any():
            self._widen(bank)
        free = (self.kind[rows] == NOTHING).argmax(axis=1)
        self.kind[rows, free], self.born[rows, free], self.nights[rows, free] = kind, born, 0
        self.level[rows, free], self.variance[rows, free] = bank.mean[LEVEL, rows, NULL], bank.cov[LL, rows, NULL]
        for number, size in enumerate(self._constants.rival_sizes):
            slot = RIVALS + self._sizes * free + number
            bank.copy_slot(rows, NULL, slot)
            bank.cov[LL, rows, slot] += size**2

    def _widen(self, bank: Bank) -> None:
        bank.widen(self._sizes)
        more = np.zeros((len(self.kind), 1), dtype=np.int64)
        self.kind = np.concatenate([self.kind, more], axis=1)
        self.born = np.concatenate([self.born, more], axis=1)
        self.nights = np.concatenate([self.nights, more], axis=1)
        self.level = np.concatenate([self.level, more], axis=1)
        self.variance = np.concatenate([self.variance, more], axis=1)

    def night(self, here: Bools) -> None:
        """Add a night to the rivals of these series."""
        self.nights += here[:, None] & (self.kind != NOTHING)

    def drop(self, rows: Index, groups: Index, bank: Bank) -> None:
        self.kind[rows, groups] = NOTHING
        for number in range(self._sizes):
            bank.log[rows, RIVALS + self._sizes * np.asarray(groups) + number] = -np.inf

    def clear(self, rows: Ints) -> None:
        self.kind[rows] = NOTHING

    def ratios(self, bank: Bank) -> Floats:
        """Log mean likelihood ratio against "nothing changed".

        Shape (series, groups); -inf: no rival.
        """
        if not self.kind.shape[1]:
            return np.full((len(self.kind), 1), -np.inf)
        with np.errstate(invalid="ignore"):
            likely = np.logaddexp.reduce(self._slots(bank) + self._log_shares, axis=2) - bank.log[:, NULL, None]
        return np.where(self.kind != NOTHING, likely, -np.inf)

    def asks(self, bank: Bank, later: Floats, *, again: bool) -> Bools:
        """True where a rerun would tell; `again`: one was used.

        A rival is likely, and none has won as a later one.

        Args:
            later: log ratio that asks after the first night, (series,).
        """
        constants = self._constants
        if not self.kind.shape[1]:
            return np.zeros(len(self.kind), dtype=bool)
        ratio = self.ratios(bank)
        first, silent = self.nights <= 1, self.kind == SILENT
        need = np.where(first, constants.ask_again if again else constants.ask, later[:, None])
        # A swap that moves nothing costs none
        need = np.where(silent | (self.kind == SWAP), constants.ask_silent, need)
        won = ~first & (ratio > np.where(silent, constants.silent, constants.later_night))
        best = self._best(ratio)
        asks: Bools = ((ratio > need).sum(axis=1) > 0) & ~won[np.arange(len(ratio)), best]
        return asks

    def winner(self, bank: Bank, confirmed: Bools, can_rerun: Bools) -> tuple[Ints, Bools, Floats]:
        """(group, it has won, the highest log ratio) of the best rival.

        Args:
            confirmed: all reruns of the night were used.
            can_rerun: reruns exist.
        """
        constants = self._constants
        if not self.kind.shape[1]:
            self._widen(bank)
        ratio = self.ratios(bank)
        silent = self.kind == SILENT
        best = self._best(ratio)
        rows = np.arange(len(ratio))
        first = self.nights[rows, best] <= 1
        later = np.where(can_rerun, constants.later_night, constants.later_without_reruns)
        need = np.where(first, np.where(confirmed, constants.first_night, constants.without_reruns), later)
        need = np.where(silent[rows, best], np.maximum(need, constants.silent), need)
        return best, ratio[rows, best] > need, ratio.max(axis=1)

    def _best(self, ratio: Floats) -> Ints:
        """The likeliest rival of each series, at odds against silent ones."""
        best: Ints = (ratio - np.where(self.kind == SILENT, self._constants.silent_odds, 0.0)).argmax(axis=1)
        return best

    def slot(self, bank: Bank, rows: Ints, groups: Ints) -> Ints:
        """The likeliest of a group's slots."""
        likeliest = (self._slots(bank)[rows, groups] + self._log_shares).argmax(axis=1)
        slot: Ints = RIVALS + self._sizes * groups + likeliest
        return slot

    def _slots(self, bank: Bank) -> Floats:
        """The log likelihoods of the rivals' slots, shape (series, groups, sizes)."""
        return bank.log[:, RIVALS:].reshape(*self.kind.shape, self._sizes)

    def prune(self, bank: Bank) -> None:
        """End rivals that are too old or too unlikely."""
        over = (self.nights >= self._constants.rival_life) | (self.ratios(bank) < self._constants.rival_end)
        rows, groups = np.nonzero(over & (self.kind != NOTHING))
        self.drop(rows, groups, bank)
