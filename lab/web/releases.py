"""A release: what its runs say against another release, or against the runs before.

What the judge says of a run is made once, as the page shows it, and again when a run of its board and kind was completed or decided
on: on a busy farm something changes each second, and nearly all of a release stays as it was.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from attrs import define, field, frozen
from markupsafe import Markup

from lab.errors import ConfigurationError
from lab.host.clock import utc_now
from lab.judge.baseline import judge_run, judged_averages
from lab.judge.causes import differences
from lab.judge.document import document, missing_document
from lab.judge.labels import same_release
from lab.report.against import NOT_MEASURED, Comparison, JudgedRow, comparison, last_of
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
        said: `lab.judge.document` with the numbers that are not as they were, and those that are not there any more.
        problem: why nothing is said of it; empty where something is. rows: the numbers that are not as they were, as the page has them.
        missing: titles of those that were not measured. differs: where numbers moved, what is not as it was in the last run that they
            were compared with: cause -> (before, now).
    """

    head: RunHead
    counts: Mapping[str, int]
    bad: bool
    shown: Markup
    said: Mapping[str, Any]
    problem: str = ""
    rows: tuple[JudgedRow, ...] = ()
    missing: tuple[str, ...] = ()
    differs: Mapping[str, tuple[str, str]] = field(factory=dict)


class Show(Protocol):
    """Makes a run's part of the page."""

    def __call__(
        self, head: RunHead, said: Comparison | None, problem: str, against: str | None, missing: Sequence[str]
    ) -> Markup:
        """`problem`: why nothing is said of it. `missing`: titles of what was not measured."""


@define
class ReleaseJudge:
    """What the judge says of releases, kept as long as it holds."""

    _show: Show
    _kept: OrderedDict[Hashable, tuple[PlaceState | None, ReleaseRun]] = field(factory=OrderedDict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def judged(
        self, snapshot: StoreSnapshot, release: str, against: str | None, names: Sequence[str]
    ) -> list[ReleaseRun]:
        """What the judge says of the last completed run of each board and kind, and which ones only the other release has.

        Args:
            against: a release; None: the last runs that nobody rejected. names: of all releases that were measured.

        Raises:
            ConfigurationError: no completed run of that release.
        """
        heads = _last(snapshot, release, names)
        if not heads:
            known = ", ".join(names) or "none"
            raise ConfigurationError(f"no completed run of release {release!r}; there are: {known}")
        now = states(snapshot)
        there = {Place.of(head) for head in heads}
        others = _last(snapshot, against, names) if against else []
        found = [
            *(self._of(snapshot, head, against, now.get(Place.of(head))) for head in heads),
            *(
                self._of(snapshot, head, against, now.get(Place.of(head)), not_in=release)
                for head in others
                if Place.of(head) not in there
            ),
        ]
        return sorted(found, key=lambda run: order(run.head))

    def _of(
        self,
        snapshot: StoreSnapshot,
        head: RunHead,
        against: str | None,
        state: PlaceState | None,
        *,
        not_in: str | None = None,
    ) -> ReleaseRun:
        key = (head.id, against, not_in)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept[0] == state:
                self._kept.move_to_end(key)
                return kept[1]
        made = self._made(snapshot, head, against) if not_in is None else self._gone(snapshot, head, against, not_in)
        with self._lock:
            self._kept[key] = (state, made)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made

    def _made(self, snapshot: StoreSnapshot, head: RunHead, against: str | None) -> ReleaseRun:
        try:
            judged = judge_run(snapshot, head.id, against)
        except ConfigurationError as error:  # this board never had that release
            shown = self._show(head, None, str(error), against, ())
            return ReleaseRun(head, {}, False, shown, _nothing(head, against), str(error))
        said = comparison(judged, Names(head))
        shown = self._show(head, said, "", against, said.missing)
        told = document(judged, (), said.told)
        last = last_of(judged) if said.told else None
        differs = {} if last is None else differences(snapshot, head.id, last)
        return ReleaseRun(
            head, said.counts, said.state == "bad", shown, told, rows=said.rows, missing=said.missing, differs=differs
        )

    def _gone(self, snapshot: StoreSnapshot, head: RunHead, against: str | None, release: str) -> ReleaseRun:
        """A run of the other release whose board and kind has none of this one."""
        had = judged_averages(snapshot, head.id)
        problem = f"release {release} has no completed {head.kind} run of this board"
        titles = tuple(Names(head).number(each.metric, each.params) for each in had)
        said = {**_nothing(head, against), "not_measured": [missing_document(each) for each in had]}
        shown = self._show(head, None, problem, None, titles)
        counts = {NOT_MEASURED: len(had)} if had else {}
        return ReleaseRun(head, counts, False, shown, said, problem, missing=titles)


def _last(snapshot: StoreSnapshot, release: str, names: Sequence[str]) -> list[RunHead]:
    """The last completed run of each board and kind with a release, whatever its label looks like."""
    return sorted(last_completed(snapshot, [name for name in names if same_release(name, release)]), key=order)


def order(head: RunHead) -> tuple[str, str, str]:
    """By board type, board and kind."""
    return head.board_type, head.board, head.kind


def _nothing(head: RunHead, against: str | None) -> dict[str, Any]:
    said = f"release {against}" if against else ""
    return {"run": head.id, "against": said, "notes": [], "numbers": [], "not_measured": []}


def asking(store: Store) -> frozenset[int]:
    """The runs of late of which the judge wants another one."""
    verdicts = read_verdicts(store, outcomes=[UNSURE], since=utc_now() - _LATELY)
    return frozenset(verdict.run.id for verdict in verdicts if verdict.open)


def counted(found: Iterable[ReleaseRun]) -> Counter[str]:
    """How many numbers of these runs are what, by word."""
    counts: Counter[str] = Counter()
    for run in found:
        counts.update(run.counts)
    return counts
