"""Counters and histograms over all runs of the store, which never go back while this process lives."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Final

from attrs import define, field, frozen

from exporters.figures import INIT
from exporters.labels import clean
from exporters.naming import BASE_UNITS, Labels, quantity_of
from lab.results.failures import OTHER
from lab.results.snapshot import RunHead, StoreSnapshot

PATTERNS: Final = ("boot.time", "power.resume_latency", "lpm.%.resume\\_%")  # of SQL's LIKE: what has a histogram
# Upper bounds in seconds. Boots of the published guides take 2 to 30 s, resumes 0.05 to 2 s.
BUCKETS: Final = {
    "boot_duration": (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12.5, 15, 20, 25, 30, 45, 60, 120),
    "resume_latency": (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 5, 10),
}


@frozen
class AttemptKey:
    """What attempts are counted by."""

    board: str
    board_type: str
    release: str
    medium: str
    outcome: str
    fault: str


@frozen
class CycleKey:
    """What cycles are sorted into buckets by.

    Attributes:
        quantity: of BUCKETS. labels: medium, mode, definition, where there are.
    """

    quantity: str
    board: str
    board_type: str
    release: str
    labels: Labels


@define
class Histogram:
    """Counts per bucket of BUCKETS, the last for what is above all; and the sum, in seconds."""

    counts: list[int]
    total_s: float = 0.0

    def add(self, other: Histogram) -> None:
        """Count what the other has counted."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.total_s += other.total_s


@define
class Tallies:
    """Counts of some runs."""

    attempts: Counter[AttemptKey] = field(factory=Counter)
    moments: Counter[tuple[str, str, str]] = field(factory=Counter)  # by board, its type, release
    cycles: dict[CycleKey, Histogram] = field(factory=dict)

    def add(self, other: Tallies) -> None:
        """Count what the other has counted."""
        self.attempts.update(other.attempts)
        self.moments.update(other.moments)
        for key, histogram in other.cycles.items():
            self.cycles.setdefault(key, Histogram([0] * len(histogram.counts))).add(histogram)

    def of(self, kept: Container[tuple[str, str]]) -> Tallies:
        """Those of these (board, release)."""
        attempts = Counter({key: n for key, n in self.attempts.items() if (key.board, key.release) in kept})
        moments = Counter({key: n for key, n in self.moments.items() if (key[0], key[2]) in kept})
        return Tallies(
            attempts, moments, {key: h for key, h in self.cycles.items() if (key.board, key.release) in kept}
        )

    def rise_to(self, other: Tallies) -> None:
        """Take over what is higher in the other; a counter of Prometheus must not fall when runs are deleted."""
        for key, count in other.attempts.items():
            self.attempts[key] = max(self.attempts[key], count)
        for place, count in other.moments.items():
            self.moments[place] = max(self.moments[place], count)
        for cycle, histogram in other.cycles.items():
            mine = self.cycles.get(cycle)
            if mine is None or sum(histogram.counts) >= sum(mine.counts):
                self.cycles[cycle] = histogram


def count(
    snapshot: StoreSnapshot, heads: Iterable[RunHead], classes: dict[str, set[str]], max_classes: int
) -> Tallies:
    """The counts of these runs.

    Args:
        classes: board -> the failure classes that are kept apart; those that are new join them.
        max_classes: of a board; further ones are OTHER.
    """
    runs = {head.id: head for head in heads}
    found = Tallies()
    for tally in snapshot.tallies(list(runs)):
        head = runs[tally.run_id]
        known = classes.setdefault(head.board, set())
        outcome = clean(tally.outcome)
        if outcome in known or len(known) < max_classes:
            known.add(outcome)
        else:
            outcome = OTHER
        medium = clean(tally.params.get("medium", ""))
        found.attempts[AttemptKey(*_labels(head), medium, outcome, tally.fault or "")] += tally.count
    for run_id, moments in snapshot.moments(list(runs)):
        found.moments[_labels(runs[run_id])] += moments
    for reading in snapshot.readings(list(runs), PATTERNS):
        if INIT in reading.params:
            continue  # a histogram is of the board's own boots
        quantity, named = quantity_of(reading.metric)
        head, bounds = runs[reading.run_id], BUCKETS[quantity]
        params = {key: clean(reading.params[key]) for key in ("medium", "mode") if key in reading.params}
        key = CycleKey(quantity, *_labels(head), tuple(sorted({**params, **dict(named)}.items())))
        histogram = found.cycles.setdefault(key, Histogram([0] * (len(bounds) + 1)))
        seconds = reading.value * BASE_UNITS[reading.unit][1]
        histogram.counts[bucket(bounds, seconds)] += 1
        histogram.total_s += seconds
    return found


def bucket(bounds: Sequence[float], value: float) -> int:
    """Which bucket a value is counted in: the first whose upper bound it does not exceed."""
    return bisect.bisect_left(bounds, value)


def _labels(head: RunHead) -> tuple[str, str, str]:
    return clean(head.board), clean(head.board_type), clean(head.release)
