"""Histories of a made-up board farm and their truth, for judge.py.

What the farm is like is written in docs/judge-method.md. All is drawn from the seed; deviations are relative.
"""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from attrs import frozen

from lab.judge.history import HistoryRun, Series

NIGHTS: Final = 365
RERUNS: Final = 3
QUIET_BEFORE, QUIET_AFTER = 60, 30  # nights without a change at both ends
RUN_OF_REAL_IMAGE: Final = 7  # nights; what changed between the real runs was other people's work
Floats = npt.NDArray[np.float64]


@frozen(kw_only=True)
class Farm:
    """How noisy it is.

    Attributes:
        boots: samples of a run. jitter: of one boot. slow: share of boots that take 5 to 30 % longer.
        night: of a run as a whole, AR(1) of that correlation; half of its variance is all boards'.
        drift: at most so much in a year; half of it is all boards'.
        mode: a second mode's offset, in mode_runs of the runs of mode_series of the series.
        unit: bound of a board's own offset; of a card's, half of it. swaps: probability of one swap of each in a year.
        layout: from image to image without anybody's doing.
    """

    boots: int = 20
    jitter: float = 0.006
    slow: float = 0.02
    night: float = 0.002
    correlation: float = 0.5
    drift: float = 0.01
    mode: float = 0.015
    mode_runs: float = 0.1
    mode_series: float = 0.4
    unit: float = 0.01
    swaps: float = 0.6
    layout: float = 0.0


@frozen
class Change:
    """What happens to a series: `kind` is none, step (with an image), silent (within one) or mode (of a fifth of the boots)."""

    kind: str
    size: float = 0.0


@frozen
class Truth:
    """A series' change: the run that it begins with; None where there is none."""

    change: Change
    begins: int | None


def made(farm: Farm, change: Change, count: int, seed: int) -> list[tuple[Series, Truth]]:
    """Series with their truth; the same ones for the same arguments."""
    key = [seed, *change.kind.encode(), round(abs(change.size) * 1e6), int(change.size < 0), farm.boots]
    return [
        _one(farm, change, f"{change.kind}-{number}", np.random.default_rng([*key, number])) for number in range(count)
    ]


def _one(farm: Farm, change: Change, name: str, rng: np.random.Generator) -> tuple[Series, Truth]:
    nights = np.arange(NIGHTS)
    images = np.cumsum(np.isin(nights, np.cumsum(rng.integers(6, 9, NIGHTS))))
    begins = _begin(change, images, rng)
    changed = nights >= (NIGHTS if begins is None else begins)
    level = rng.normal(0, 1, NIGHTS)[images] * farm.layout
    if change.kind in {"step", "silent"}:
        level = level + math.log1p(change.size) * changed
    board, card = (nights >= _swap(farm, rng) for _ in range(2))
    level = level + farm.unit * (
        rng.uniform(-1, 1, 2)[board.astype(int)] + 0.5 * rng.uniform(-1, 1, 2)[card.astype(int)]
    )
    level = level + (_drift(farm, rng) + _drift(farm, rng)) / 2  # all boards', and its own
    common, own = (_correlated(farm, rng) * math.sqrt(0.5) for _ in range(2))
    attempts = np.empty((NIGHTS, 1 + RERUNS))
    attempts[:, 0] = own
    attempts[:, 1:] = 0.7 * own[:, None] + math.sqrt(1 - 0.7**2) * farm.night * rng.normal(0, 1, (NIGHTS, RERUNS))
    attempts += (level + common)[:, None]
    if rng.random() < farm.mode_series:
        attempts += farm.mode * (rng.random(attempts.shape) < farm.mode_runs)
    boots = attempts[:, :, None] + rng.normal(0, farm.jitter, (*attempts.shape, farm.boots))
    boots += np.where(rng.random(boots.shape) < farm.slow, np.log1p(rng.uniform(0.05, 0.3, boots.shape)), 0.0)
    if change.kind == "mode":
        boots += math.log1p(change.size) * (rng.random(boots.shape) < 0.2) * changed[:, None, None]
    readings = np.rint(10 ** rng.uniform(5.5, 7.5) * np.exp(boots))  # microseconds
    runs = tuple(
        HistoryRun(
            readings[night, 0],
            {"image": f"image {images[night]}", "board": f"board {board[night]:d}", "card": f"card {card[night]:d}"},
            tuple(readings[night, 1:]),
        )
        for night in range(NIGHTS)
    )
    return Series(name, runs), Truth(change, begins)


def _begin(change: Change, images: npt.NDArray[np.int64], rng: np.random.Generator) -> int | None:
    if change.kind == "none":
        return None
    first = np.diff(images, prepend=images[0]) > 0
    nights = np.flatnonzero(~first if change.kind == "silent" else first)
    return int(rng.choice(nights[(nights >= QUIET_BEFORE) & (nights < NIGHTS - QUIET_AFTER)]))


def _swap(farm: Farm, rng: np.random.Generator) -> int:
    return int(rng.integers(1, NIGHTS)) if rng.random() < farm.swaps else NIGHTS


def _drift(farm: Farm, rng: np.random.Generator) -> Floats:
    """A line, the seasons, or a slow wander."""
    year = np.arange(NIGHTS) / NIGHTS
    walk = np.cumsum(rng.normal(0, 1, NIGHTS))
    forms = (year, np.sin(2 * np.pi * (year + rng.random())), walk / np.abs(walk).max())
    drift: Floats = farm.drift * rng.uniform(-1, 1) * forms[rng.integers(3)]
    return drift


def _correlated(farm: Farm, rng: np.random.Generator) -> Floats:
    shocks = rng.normal(0, farm.night, NIGHTS)
    for night in range(1, NIGHTS):
        shocks[night] = farm.correlation * shocks[night - 1] + math.sqrt(1 - farm.correlation**2) * shocks[night]
    return shocks


def real(path: Path, size: float, seed: int) -> list[tuple[Series, Truth]]:
    """Measured histories (JSON lines, .gz) with an image a week, and a step of that size put in with one of them."""
    pairs = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            record = json.loads(line)
            rng = np.random.default_rng([seed, number, round(size * 1e6)])
            nights, week = len(record["runs"]), RUN_OF_REAL_IMAGE
            shift = int(rng.integers(week))
            begins = week * int(rng.integers(5, max(6, (nights - 20) // week))) + week - shift if size else None
            runs = tuple(
                HistoryRun(
                    np.array(run["samples"], dtype=float) * (1 + size * (begins is not None and night >= begins)),
                    {"image": f"image {(night + shift) // week}"},
                )
                for night, run in enumerate(record["runs"])
            )
            pairs.append((Series(record["series"], runs), Truth(Change("step" if size else "none", size), begins)))
    return pairs
