"""A release: what its runs say against another release, or against the runs before.

What the judge says of a run is made once, as the page shows it, and again when a run of its board and kind was completed or decided
on: on a busy farm something changes each second, and nearly all of a release stays as it was.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from attrs import define, field, frozen
from markupsafe import Markup

from lab.errors import ConfigurationError
from lab.host.clock import utc_now
from lab.judge.baseline import judge_run
from lab.judge.labels import same_release
from lab.report.against import Comparison, comparison
from lab.report.names import Names
from lab.results.places import Place, PlaceState, last_completed, states
from lab.results.store import Store
from lab.results.verdictrecords import UNSURE
from lab.results.verdicts import read_verdicts
from lab.results.watch import RunHead, StoreSnapshot

KEPT: Final = 20_000  # runs whose comparison is kept
_LATELY: Final = dt.timedelta(days=7)  # a confirmation that is asked for is of the same software


@frozen
class ReleaseRun:
    """The last completed run of one kind on one board.

    Attributes:
        counts: how many of its numbers are what, e.g. "worse"; empty: the judge has nothing to compare them with.
        bad: one of them needs a person. shown: its part of the page.
    """

    head: RunHead
    counts: Mapping[str, int]
    bad: bool
    shown: Markup


class Show(Protocol):
    """Makes a run's part of the page."""

    def __call__(self, head: RunHead, said: Comparison | None, problem: str, against: str | None) -> Markup:
        """`problem`: why nothing is said of it."""


@define
class ReleaseJudge:
    """What the judge says of releases, kept as long as it holds."""

    _show: Show
    _kept: OrderedDict[Hashable, tuple[PlaceState | None, ReleaseRun]] = field(factory=OrderedDict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def judged(
        self, snapshot: StoreSnapshot, release: str, against: str | None, names: Sequence[str]
    ) -> list[ReleaseRun]:
        """What the judge says of the last completed run of each board and kind.

        Args:
            against: a release; None: the last runs that nobody rejected. names: of all releases that were measured.

        Raises:
            ConfigurationError: no completed run of that release.
        """
        labels = [name for name in names if same_release(name, release)]
        heads = sorted(last_completed(snapshot, labels), key=lambda head: (head.board_type, head.board, head.kind))
        if not heads:
            known = ", ".join(names) or "none"
            raise ConfigurationError(f"no completed run of release {release!r}; there are: {known}")
        now = states(snapshot)
        return [self._of(snapshot, head, against, now.get(Place.of(head))) for head in heads]

    def _of(self, snapshot: StoreSnapshot, head: RunHead, against: str | None, state: PlaceState | None) -> ReleaseRun:
        key = (head.id, against)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept[0] == state:
                self._kept.move_to_end(key)
                return kept[1]
        made = self._made(snapshot, head, against)
        with self._lock:
            self._kept[key] = (state, made)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made

    def _made(self, snapshot: StoreSnapshot, head: RunHead, against: str | None) -> ReleaseRun:
        try:
            said = comparison(judge_run(snapshot, head.id, against), Names(head))
        except ConfigurationError as error:  # this board never had that release
            return ReleaseRun(head, {}, bad=False, shown=self._show(head, None, str(error), against))
        return ReleaseRun(head, said.counts, bad=said.state == "bad", shown=self._show(head, said, "", against))


def asking(store: Store) -> frozenset[int]:
    """The runs of late of which the judge wants another one."""
    verdicts = read_verdicts(store, outcomes=[UNSURE], since=utc_now() - _LATELY)
    return frozenset(verdict.run.id for verdict in verdicts if verdict.open)


def line(found: Iterable[ReleaseRun]) -> str:
    """The verdict on a release, e.g. `2 worse, 96 unchanged`."""
    counts: Counter[str] = Counter()
    for run in found:
        counts.update(run.counts)
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no numbers"
