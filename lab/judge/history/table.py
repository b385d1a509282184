"""Many series as arrays, night by night."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from attrs import frozen

from lab.judge.causes import CAUSES
from lab.judge.history.model import Bools, Constants, Floats, HistoryRun, Ints, Series

_NAMES: Final = {name for name, cause in CAUSES.items() if cause.kind == "software"}
_NAMED: Final = {name for name, cause in CAUSES.items() if cause.outranks_digests}
_DIGESTS: Final = {name for name, cause in CAUSES.items() if cause.proves_same}
_SOFTWARE: Final = _NAMES | {name for name, cause in CAUSES.items() if cause.kind == "label"}


@frozen(eq=False)
class Night:
    """One run of each series.

    Attributes:
        logs: of the samples; shape (series, samples), NaN for none.
        reruns: of the reruns' samples; shape (series, reruns, samples).
        rerun_count: number of reruns; (series,).
        can_rerun: more are possible.
        new_image: the image differs from the one before, or may: another label without an equal hash.
        image_known: more than its label is known.
        swap: variance that other known changes add to the level; 0: none.
    """

    logs: Floats
    reruns: Floats
    rerun_count: Ints
    can_rerun: Bools
    new_image: Bools
    image_known: Bools
    swap: Floats


def logarithms(samples: Floats) -> Floats:
    """Natural logarithms; NaN if undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Floats = np.log(samples)
    return np.where(np.isfinite(logs), logs, np.nan)


def nights(series: Sequence[Series], constants: Constants) -> list[Night]:
    """All nights of all series; shorter series end with empty runs."""
    length = max((len(history.runs) for history in series), default=0)
    provenances = [Provenance(constants) for _ in series]
    return [
        night([history.runs[t] if t < len(history.runs) else None for history in series], provenances)
        for t in range(length)
    ]


class Provenance:
    """A series' known causes, and their latest changes."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._last: dict[str, str] = {}

    def take(self, run: HistoryRun) -> tuple[bool, bool, float]:
        """Take the next run: (new image, image known, variance of swaps)."""
        causes, before = run.provenance, self._last
        changed = {cause for cause, value in causes.items() if before.get(cause, value) != value}
        is_same = any(cause in causes and before.get(cause) == causes[cause] for cause in _DIGESTS)
        is_same &= changed.isdisjoint(_DIGESTS | _NAMED)
        new_image = not is_same and not changed.isdisjoint(_SOFTWARE)
        sizes = (
            self._constants.swap_board if cause == "board" else self._constants.swap_other
            for cause in changed - _SOFTWARE
        )
        before.update(causes)
        return new_image, not before.keys().isdisjoint(_NAMES), sum(size**2 for size in sizes)


def night(runs: Sequence[HistoryRun | None], provenances: Sequence[Provenance]) -> Night:
    """One run of each series; None: a series has none."""
    count = len(runs)
    logs = logarithms(_pad([run.samples if run else _NOTHING for run in runs]))
    reruns = [(run.reruns or ()) if run else () for run in runs]
    rerun_count = np.array([len(again) for again in reruns], dtype=np.int64)
    most = int(rerun_count.max(initial=0))
    blocks = [again[j] if j < len(again) else _NOTHING for again in reruns for j in range(most)]
    shaped = logarithms(_pad(blocks)).reshape(count, most, -1) if most else np.zeros((count, 0, 1))
    changes = [
        provenance.take(run) if run else (False, True, 0.0) for provenance, run in zip(provenances, runs, strict=True)
    ]
    return Night(
        logs,
        shaped,
        rerun_count,
        np.array([run is not None and run.reruns is not None for run in runs], dtype=bool),
        np.array([change[0] for change in changes], dtype=bool),
        np.array([change[1] for change in changes], dtype=bool),
        np.array([change[2] for change in changes], dtype=float),
    )


_NOTHING = np.zeros(0)


def _pad(rows: Sequence[Floats]) -> Floats:
    longest = max((len(row) for row in rows), default=0)
    if longest and all(len(row) == longest for row in rows):
        return np.array(rows)
    table = np.full((len(rows), max(longest, 1)), np.nan)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table
