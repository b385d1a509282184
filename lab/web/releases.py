"""A release: what its runs say against another release, or against the one before, and which of its attempts failed.

What the judge says of a run is made once, as the page shows it, and again when a run of its board and kind was completed or decided
on: on a busy farm something changes each second, and nearly all of a release stays as it was.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from attrs import define, evolve, field, frozen
from markupsafe import Markup

from lab.errors import ConfigurationError
from lab.host.clock import utc_now
from lab.judge.baseline import COMPLETED, judge_run, judged_averages, release_before_run
from lab.judge.builds import differences
from lab.judge.document import document, missing_document
from lab.judge.labels import same_release
from lab.judge.records import UNSURE
from lab.judge.store import read_verdicts
from lab.report.against import NOT_MEASURED, UNCOMPARED, Comparison, JudgedRow, comparison, last_of
from lab.report.names import Names
from lab.results.series import Attempts, Place, PlaceState, attempts, last_completed, last_runs, states
from lab.results.snapshot import RunHead, StoreSnapshot
from lab.results.store import Store

NO_RELEASE_BEFORE: Final = "its board was measured with no release before"
_ENDS: Final = {"running": "goes on, or was killed", "interrupted": "was interrupted", "failed": "failed"}
KEPT_BYTES: Final = 48 << 20  # of comparisons of runs, about
IN_USE_S: Final = 60.0  # what a page asked for so lately stays, whatever it takes: a page that lost its first run would never be whole
_LEAST_BYTES: Final = 6 << 10  # of one (measured: 7 to 10 KiB where nothing moved, 156 KiB with 39 KiB of page)
_PAGE_BYTES: Final = 4  # for each byte of its part of the page
_LATELY: Final = dt.timedelta(days=7)  # a confirmation that is asked for is of the same software


@frozen
class ReleaseRun:
    """The last completed run of one kind on one board.

    Attributes:
        counts: how many of its numbers are what, e.g. "worse"; empty: the judge has nothing to compare them with.
        bad: one of them needs a person. shown: its part of the page.
        said: `lab.judge.document` with the numbers that are not as they were, and those that are not there any more.
        problem: why nothing is said of it; empty where something is. rows: the numbers that are not as they were, as the page has them.
        tried: the attempts of all runs of the page's release on its board, good and failed.
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
    tried: Attempts = field(factory=Attempts)

    @property
    def is_over(self) -> bool:
        """Whether a run was completed: its numbers are those of the release."""
        return self.head.status == COMPLETED

    @property
    def needs_a_person(self) -> bool:
        """Whether a number does, or a failure that nobody has decided on."""
        return self.bad or self.tried.undecided > 0 or self.head.status == "failed"


@frozen
class Wanted:
    """A run of which a page wants to know what the judge says.

    Attributes:
        state: of its board and kind; what was said of it holds as long as this does.
        not_in: the release of the page, which this board and kind was not measured with; None: it is the run's own.
        tried: the attempts of all its runs with the release.
    """

    head: RunHead
    against: str | None
    state: PlaceState | None
    not_in: str | None = None
    tried: Attempts = field(factory=Attempts, eq=False)

    @property
    def key(self) -> Hashable:
        """By which what is said of it is kept."""
        return self.head.id, self.against, self.not_in


class Show(Protocol):
    """Makes a run's part of the page."""

    def __call__(
        self, head: RunHead, said: Comparison | None, problem: str, against: str | None, missing: Sequence[str]
    ) -> Markup:
        """`problem`: why nothing is said of it. `missing`: titles of what was not measured."""


@define
class _Kept:
    """What is kept of a run. used_s: when it was asked for last."""

    state: PlaceState | None
    run: ReleaseRun
    bytes: int
    used_s: float


@define
class ReleaseJudge:
    """What the judge says of releases, kept as long as it holds and there is room. now_s: a clock that only goes forward."""

    _show: Show
    _now_s: Callable[[], float] = time.monotonic
    _kept: OrderedDict[Hashable, _Kept] = field(factory=OrderedDict, init=False)
    _bytes: int = field(default=0, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def wanted(self, snapshot: StoreSnapshot, release: str, against: str | None, names: Sequence[str]) -> list[Wanted]:
        """The last completed run of each board and kind, else its last run, and those that only the other release has.

        Args:
            against: a release; None: the one before, of each board and kind. names: of all releases that were measured.

        Raises:
            ConfigurationError: no run of that release.
        """
        labels = _labels(release, names)
        heads = {Place.of(head): head for head in (*last_runs(snapshot, labels), *last_completed(snapshot, labels))}
        if not heads:
            known = ", ".join(names) or "none"
            raise ConfigurationError(f"no run of release {release!r}; there are: {known}")
        now, tried = states(snapshot), attempts(snapshot, labels)
        others = last_completed(snapshot, _labels(against, names)) if against else []
        found = [
            *(Wanted(head, against, now.get(at), tried=tried.get(at, Attempts())) for at, head in heads.items()),
            *(
                Wanted(head, against, now.get(Place.of(head)), not_in=release)
                for head in others
                if Place.of(head) not in heads
            ),
        ]
        return sorted(found, key=lambda each: order(each.head))

    def kept(self, wanted: Wanted) -> ReleaseRun | None:
        """What the judge said; None where it has to be asked."""
        if wanted.head.status != COMPLETED:
            return self._unjudged(wanted)
        with self._lock:
            kept = self._kept.get(wanted.key)
            if kept is None or kept.state != wanted.state:
                return None
            kept.used_s = self._now_s()
            self._kept.move_to_end(wanted.key)
            return evolve(kept.run, tried=wanted.tried)

    def judged(self, snapshot: StoreSnapshot, wanted: Wanted) -> ReleaseRun:
        """What the judge says of a run."""
        kept = self.kept(wanted)
        if kept is not None:
            return kept
        made = (
            self._made(snapshot, wanted.head, wanted.against)
            if wanted.not_in is None
            else self._gone(snapshot, wanted.head, wanted.against, wanted.not_in)
        )
        self._keep(wanted, made)
        return evolve(made, tried=wanted.tried)

    def _keep(self, wanted: Wanted, made: ReleaseRun) -> None:
        with self._lock:
            now_s = self._now_s()
            if (old := self._kept.pop(wanted.key, None)) is not None:
                self._bytes -= old.bytes
            new = _Kept(wanted.state, made, _LEAST_BYTES + _PAGE_BYTES * len(made.shown), now_s)
            self._kept[wanted.key] = new
            self._bytes += new.bytes
            while self._bytes > KEPT_BYTES and next(iter(self._kept.values())).used_s < now_s - IN_USE_S:
                self._bytes -= self._kept.popitem(last=False)[1].bytes

    def _made(self, snapshot: StoreSnapshot, head: RunHead, against: str | None) -> ReleaseRun:
        against = against or release_before_run(snapshot, head)
        if against is None:
            problem = f"{NO_RELEASE_BEFORE} {head.release}"
            count = len(judged_averages(snapshot, head.id))
            shown = self._show(head, None, problem, None, ())
            return ReleaseRun(head, {UNCOMPARED: count} if count else {}, False, shown, _nothing(head, None), problem)
        try:
            judged = judge_run(snapshot, head.id, against)
        except ConfigurationError as error:  # this board never had that release
            shown = self._show(head, None, str(error), None, ())
            return ReleaseRun(head, {}, False, shown, _nothing(head, against), str(error))
        said = comparison(judged, Names(head))
        shown = self._show(head, said, "", against, said.missing)
        told = document(judged, (), said.told)
        last = last_of(judged) if said.told else None
        differs = {} if last is None else differences(snapshot, head.id, last)
        return ReleaseRun(
            head, said.counts, said.state == "bad", shown, told, rows=said.rows, missing=said.missing, differs=differs
        )

    def _unjudged(self, wanted: Wanted) -> ReleaseRun:
        """A board and kind without a completed run of the release; the head is that of its last run."""
        head = wanted.head
        problem = f"release {head.release} has no completed {head.kind} run of this board; run {head.id} {_ENDS[head.status]}"
        shown = self._show(head, None, problem, None, ())
        return ReleaseRun(head, {}, False, shown, _nothing(head, wanted.against), problem, tried=wanted.tried)

    def _gone(self, snapshot: StoreSnapshot, head: RunHead, against: str | None, release: str) -> ReleaseRun:
        """A run of the other release whose board and kind has none of this one."""
        had = judged_averages(snapshot, head.id)
        problem = f"release {release} has no completed {head.kind} run of this board"
        titles = tuple(Names(head).number(each.metric, each.params) for each in had)
        said = {**_nothing(head, against), "not_measured": [missing_document(each) for each in had]}
        shown = self._show(head, None, problem, None, titles)
        counts = {NOT_MEASURED: len(had)} if had else {}
        return ReleaseRun(head, counts, False, shown, said, problem, missing=titles)


def _labels(release: str, names: Sequence[str]) -> list[str]:
    """How a release is called in the store."""
    return [name for name in names if same_release(name, release)]


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


def tried(found: Iterable[ReleaseRun]) -> Attempts:
    """The attempts of all of these."""
    every = [run.tried for run in found]
    failed = Counter[str]()
    for each in every:
        failed.update(each.failed)
    good, undecided = sum(each.good for each in every), sum(each.undecided for each in every)
    runs = sorted({run for each in every for run in each.runs})
    return Attempts(good, dict(failed.most_common()), undecided, tuple(runs))
