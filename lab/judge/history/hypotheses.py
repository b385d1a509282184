"""Rival hypotheses to "nothing changed": start, end and winner."""

from __future__ import annotations

import numpy as np

from lab.judge.history.kalman import LEVEL, LL, NULL, RIVALS, Bank
from lab.judge.history.model import Bools, Constants, Floats, Index, Ints

NOTHING, NEW_IMAGE, SILENT, SWAP = 0, 1, 2, 3


class Rivals:
    """Groups of slots of the bank, one slot per size of change.

    Attributes:
        kind: NOTHING, NEW_IMAGE, SILENT or SWAP (another known change); (series, groups). born: index of the run that it began with.
        nights: its age. level, variance: of "nothing changed" at its start.
    """

    def __init__(self, series: int, known: Constants) -> None:
        self._known = known
        self._sizes = len(known.rival_sizes)
        self._log_shares = np.log(known.rival_shares)
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
            full = silent.sum(axis=1) >= self._known.silent_rivals
            oldest = np.where(silent, self.born[rows], np.iinfo(np.int64).max).argmin(axis=1) if silent.size else full
            self.drop(rows[full], oldest[full], bank)
        if not self.kind.shape[1] or (self.kind[rows] != NOTHING).all(axis=1).any():
            self._widen(bank)
        free = (self.kind[rows] == NOTHING).argmax(axis=1)
        self.kind[rows, free], self.born[rows, free], self.nights[rows, free] = kind, born, 0
        self.level[rows, free], self.variance[rows, free] = bank.mean[LEVEL, rows, NULL], bank.cov[LL, rows, NULL]
        for number, size in enumerate(self._known.rival_sizes):
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
        known = self._known
        if not self.kind.shape[1]:
            return np.zeros(len(self.kind), dtype=bool)
        ratio = self.ratios(bank)
        first, silent = self.nights <= 1, self.kind == SILENT
        need = np.where(first, known.ask_again if again else known.ask, later[:, None])
        need = np.where(silent | (self.kind == SWAP), known.ask_silent, need)  # a swap that moves nothing costs none
        won = ~first & (ratio > np.where(silent, known.silent, known.later_night))
        best = self._best(ratio)
        asks: Bools = ((ratio > need).sum(axis=1) > 0) & ~won[np.arange(len(ratio)), best]
        return asks

    def winner(self, bank: Bank, confirmed: Bools, can_rerun: Bools) -> tuple[Ints, Bools, Floats]:
        """(group, it has won, the highest log ratio) of the best rival.

        Args:
            confirmed: all reruns of the night were used. can_rerun: reruns exist.
        """
        known = self._known
        if not self.kind.shape[1]:
            self._widen(bank)
        ratio = self.ratios(bank)
        silent = self.kind == SILENT
        best = self._best(ratio)
        rows = np.arange(len(ratio))
        first = self.nights[rows, best] <= 1
        later = np.where(can_rerun, known.later_night, known.later_without_reruns)
        need = np.where(first, np.where(confirmed, known.first_night, known.without_reruns), later)
        need = np.where(silent[rows, best], np.maximum(need, known.silent), need)
        return best, ratio[rows, best] > need, ratio.max(axis=1)

    def _best(self, ratio: Floats) -> Ints:
        """The likeliest rival of each series, at odds against silent ones."""
        best: Ints = (ratio - np.where(self.kind == SILENT, self._known.silent_odds, 0.0)).argmax(axis=1)
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
        over = (self.nights >= self._known.rival_life) | (self.ratios(bank) < self._known.rival_end)
        rows, groups = np.nonzero(over & (self.kind != NOTHING))
        self.drop(rows, groups, bank)
