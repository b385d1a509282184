"""How a board's attempts ended, over all of its runs: each class of the catalogue is there, at 0, before it first happens.

`increase()` of a counter that appears at 1 is 0: without the zeros nobody would be told of the first failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from attrs import define, field, frozen

from exporters.labels import clean
from lab.results.failures import CATALOGUE, OTHER
from lab.results.records import OK
from lab.results.snapshot import RunHead, StoreSnapshot


@frozen
class Board:
    """Whose attempts are counted together."""

    board: str
    board_type: str

    @classmethod
    def of(cls, head: RunHead) -> Board:
        """The board of a run."""
        return cls(clean(head.board), clean(head.board_type))


Counts = dict[Board, Counter[str]]  # by outcome


@define
class OutcomeReader:
    """Counts attempts by board and outcome; those of a completed run, which never changes, only once.

    No release and no medium are told apart, and no release is left out: a counter that loses one would fall, and Prometheus
    takes that for a restart and all that is left for new.
    """

    _settled: Counts = field(factory=dict, init=False)
    _runs: set[int] = field(factory=set, init=False)  # that are in _settled
    _shown: Counts = field(factory=dict, init=False)

    def read(self, snapshot: StoreSnapshot, heads: Collection[RunHead], completed: str) -> Counts:
        """The counts of these boards' runs; none ever falls.

        Args:
            heads: all runs of the boards. completed: the status of a run that never changes any more.
        """
        there = {head.id for head in heads}
        if not self._runs <= there:
            self._runs, self._settled = set(), {}  # runs were deleted, or boards are left out
        fresh = [head for head in heads if head.status == completed and head.id not in self._runs]
        settled = _count(snapshot, fresh)
        unsettled = _count(snapshot, [head for head in heads if head.status != completed])
        _add(self._settled, settled)
        self._runs |= {head.id for head in fresh}
        now: Counts = {Board.of(head): Counter() for head in heads}
        for counts in (self._settled, unsettled):
            _add(now, counts)
        self._shown = {board: counts | self._shown.get(board, Counter()) for board, counts in now.items()}
        return self._shown


def rows(counts: Counts) -> Iterator[tuple[Board, str, int]]:
    """Board, outcome and count: every outcome that there can be, of every board."""
    for board, found in counts.items():
        for outcome in (OK, *sorted(CATALOGUE)):
            yield board, outcome, found[outcome]


def _count(snapshot: StoreSnapshot, heads: Collection[RunHead]) -> Counts:
    runs = {head.id: Board.of(head) for head in heads}
    found: Counts = {}
    for tally in snapshot.tallies(list(runs)):
        outcome = tally.outcome if tally.outcome in CATALOGUE or tally.outcome == OK else OTHER
        found.setdefault(runs[tally.run_id], Counter())[outcome] += tally.count
    return found


def _add(counts: Counts, more: Counts) -> None:
    for board, found in more.items():
        counts.setdefault(board, Counter()).update(found)
