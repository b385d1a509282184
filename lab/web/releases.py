"""The page of a release: its verdicts against another release, and its failed attempts.

`ReleaseJudge` judges the last run of each board and kind and caches each judgement together with its part of the page.
On a busy farm something changes every second while nearly all of a release stays as it was, so a judgement is made
again only when a run of its board and kind was completed or decided on. `ComparedRelease` sums the judgements up, and
`release_document`, `as_csv` and `markdown` write them for programs, spreadsheets and forges.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import itertools
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import define, evolve, field, frozen
from markupsafe import Markup

from lab.errors import ConfigurationError
from lab.farm.status import name_key
from lab.host.clock import utc_now
from lab.judge.baseline import COMPLETED, document, judge_run, missing_document, read_run_averages, release_before_run
from lab.judge.causes import differences
from lab.judge.labels import release_before, same_release
from lab.judge.records import UNSURE
from lab.judge.store import read_verdicts
from lab.judge.text import differing
from lab.report.names import Names
from lab.report.view import (
    NOT_MEASURED,
    UNCHANGED,
    UNCOMPARED,
    WORDS,
    ComparisonView,
    JudgedRow,
    comparison,
    last_of,
    line,
)
from lab.results.audit import cell
from lab.results.formatting import label
from lab.results.records import RunHead
from lab.results.series import (
    AttemptCounts,
    BoardSeries,
    PlaceState,
    attempts,
    last_completed,
    last_runs,
    states,
    usable_releases,
)
from lab.results.snapshot import StoreSnapshot
from lab.results.store import Store
from lab.terminal import MOST_BYTES, cut, environment

NO_RELEASE_BEFORE: Final = "its board was measured with no release before"
_ENDS: Final = {"running": "goes on, or was killed", "interrupted": "was interrupted", "failed": "failed"}
CACHE_BYTES: Final = 48 << 20  # about; the limit of all cached judgements
# A judgement that was used this recently is never dropped: a page that loses its first run while its last one is
# judged would never be complete.
IN_USE_S: Final = 60.0
# A judgement's memory is estimated as _LEAST_BYTES plus _PAGE_BYTES for each byte of its part of the page. Measured:
# 7 to 10 KiB where no number moved, 156 KiB for one with 39 KiB of page.
_LEAST_BYTES: Final = 6 << 10
_PAGE_BYTES: Final = 4
_LATELY: Final = dt.timedelta(days=7)  # an older request for a repeated run may be about other software


@frozen
class ReleaseRun:
    """The judgement of one board and kind: that of its last completed run.

    Attributes:
        counts: verdict -> how many numbers have it, e.g. "worse" -> 2; empty: no number was judged.
        bad: a number needs a person's decision.
        shown: the HTML of this run on the page.
        document: as `lab.judge.baseline.document`, with the numbers that changed and those that were not measured.
        problem: why the run has no verdict; empty: it has one.
        rows: the numbers that changed, as rows of the page.
        missing: the titles of the numbers that were not measured.
        is_gone: only the other release has a run of this board and kind, and `head` is that run.
        differs: if numbers moved, the differences between this run and the last one that it was compared with:
            cause -> (before, now).
        tried: the attempts of all runs of this release with this board and kind, good and failed.
    """

    head: RunHead
    counts: Mapping[str, int]
    bad: bool
    shown: Markup
    document: Mapping[str, Any]
    problem: str = ""
    rows: tuple[JudgedRow, ...] = ()
    missing: tuple[str, ...] = ()
    is_gone: bool = False
    differs: Mapping[str, tuple[str, str]] = field(factory=dict)
    tried: AttemptCounts = field(factory=AttemptCounts)

    @property
    def is_over(self) -> bool:
        """True if the release has a completed run of this board and kind."""
        return self.head.status == COMPLETED and not self.is_gone

    @property
    def needs_a_person(self) -> bool:
        """True for a bad or missing number, or an undecided failed attempt."""
        return self.bad or self.tried.undecided > 0 or NOT_MEASURED in self.counts or not self.is_over

    @property
    def group(self) -> str:
        """The line that the page shows for all boards with the same outcome, e.g. `unchanged`.

        Empty if the run has numbers to show of its own.
        """
        if self.rows or self.missing or self.bad or not set(self.counts) <= {UNCHANGED, UNCOMPARED}:
            return ""
        if not self.is_over:
            return "not measured with it" if self.is_gone else f"without a completed run: {_ENDS[self.head.status]}"
        return f"{self.problem or UNCHANGED}{', with failed attempts' if self.tried.by_fault else ''}"

    @property
    def weight(self) -> int:
        """The sort key on a page, from the order of `WORDS`: worse numbers come first."""
        words = [*self.counts, *([] if self.is_over else [NOT_MEASURED])]
        return min((WORDS.index(word) for word in words if word in WORDS), default=len(WORDS))


@frozen
class WantedComparison:
    """A run that a release's page has to show a judgement of.

    Attributes:
        against: the release to compare with; None: the one before.
        state: the state of the board and kind. A stored judgement is valid while this is the same.
        not_in: the release of the page, if the board and kind has no run with it; None: `head` is a run of it.
        tried: the attempts of all runs of this release with this board and kind.
    """

    head: RunHead
    against: str | None
    state: PlaceState | None
    not_in: str | None = None
    tried: AttemptCounts = field(factory=AttemptCounts, eq=False)

    @property
    def key(self) -> Hashable:
        """The key of the stored judgement."""
        return self.head.id, self.against, self.not_in

    @property
    def fingerprint(self) -> Hashable:
        """All that the shown judgement depends on; equal values give an equal part of the page."""
        return self.key, self.head.status, self.state, self.tried.line, self.tried.undecided, self.tried.runs


# Renders one run for the page, from: its head; the verdict; why there is none; the other release; the titles of the
# numbers that were not measured.
Show: TypeAlias = Callable[[RunHead, ComparisonView | None, str, str | None, Sequence[str]], Markup]


@define
class _Stored:
    """A stored judgement, valid while its board and kind has this state."""

    state: PlaceState | None
    run: ReleaseRun
    bytes: int  # an estimate of its memory
    used_s: float  # its last use, by the clock of the `ReleaseJudge`


@define
class ReleaseJudge:
    """Judges the runs of releases, and caches the judgements up to `CACHE_BYTES`.

    It may be used by several threads.

    Attributes:
        show: renders one run for the page.
        now_s: a monotonic clock, in seconds.
    """

    _show: Show
    _now_s: Callable[[], float] = time.monotonic
    _stored: OrderedDict[Hashable, _Stored] = field(factory=OrderedDict, init=False)
    _bytes: int = field(default=0, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def find_comparisons(
        self, snapshot: StoreSnapshot, release: str, against: str | None, names: Sequence[str]
    ) -> list[WantedComparison]:
        """List the runs of a release's page, one for each board and kind, sorted by `order`.

        Each is the last completed run of its board and kind, or the last one if none is completed. Boards and kinds
        that only the other release was measured with are included (`not_in`).

        Args:
            against: the other release; None: the one before, for each board and kind. For those without this release
                it is the one before in the whole lab.
            names: the names of all releases in the store.

        Raises:
            ConfigurationError: no run of that release.
        """
        labels = _labels(release, names)
        heads = {
            BoardSeries.of(head): head for head in (*last_runs(snapshot, labels), *last_completed(snapshot, labels))
        }
        if not heads:
            releases = ", ".join(names) or "none"
            raise ConfigurationError(f"no run of release {release!r}; there are: {releases}")
        now, tried = states(snapshot), attempts(snapshot, labels)
        other = against or release_before(
            [*usable_releases(snapshot, labels), release, *usable_releases(snapshot)], release
        )
        others = last_completed(snapshot, _labels(other, names)) if other else []
        comparisons = [
            *(
                WantedComparison(head, against, now.get(at), tried=tried.get(at, AttemptCounts()))
                for at, head in heads.items()
            ),
            *(
                WantedComparison(head, against, now.get(BoardSeries.of(head)), not_in=release)
                for head in others
                if BoardSeries.of(head) not in heads
            ),
        ]
        return sorted(comparisons, key=lambda comparison: order(comparison.head))

    def find_stored(self, page_run: WantedComparison) -> ReleaseRun | None:
        """Return the judgement of a run if that takes no judging; None: call `judge`.

        A run that is not completed has nothing to be judged.
        """
        if page_run.head.status != COMPLETED:
            head = page_run.head
            problem = (
                f"release {head.release} has no completed {head.kind} run of this board; run {head.id} "
                f"{_ENDS[head.status]}"
            )
            shown = self._show(head, None, problem, None, ())
            return ReleaseRun(head, {}, False, shown, _nothing(head, page_run.against), problem, tried=page_run.tried)
        with self._lock:
            stored = self._stored.get(page_run.key)
            if stored is None or stored.state != page_run.state:
                return None
            stored.used_s = self._now_s()
            self._stored.move_to_end(page_run.key)
            return evolve(stored.run, tried=page_run.tried)

    def judge(self, snapshot: StoreSnapshot, page_run: WantedComparison) -> ReleaseRun:
        """Return the judgement of a run, from the cache if it is still valid."""
        stored = self.find_stored(page_run)
        if stored is not None:
            return stored
        judgement = (
            self._judge_run(snapshot, page_run.head, page_run.against)
            if page_run.not_in is None
            else self._judge_gone(snapshot, page_run.head, page_run.against, page_run.not_in)
        )
        self.keep(page_run, judgement)
        return evolve(judgement, tried=page_run.tried)

    def keep(self, page_run: WantedComparison, judgement: ReleaseRun) -> None:
        """Store a judgement.

        Judgements that were not used lately are dropped while all together exceed `CACHE_BYTES`.
        """
        with self._lock:
            now_s = self._now_s()
            if (old := self._stored.pop(page_run.key, None)) is not None:
                self._bytes -= old.bytes
            new = _Stored(page_run.state, judgement, _LEAST_BYTES + _PAGE_BYTES * len(judgement.shown), now_s)
            self._stored[page_run.key] = new
            self._bytes += new.bytes
            while self._bytes > CACHE_BYTES and next(iter(self._stored.values())).used_s < now_s - IN_USE_S:
                self._bytes -= self._stored.popitem(last=False)[1].bytes

    def _judge_run(self, snapshot: StoreSnapshot, head: RunHead, against: str | None) -> ReleaseRun:
        against = against or release_before_run(snapshot, head)
        if against is None:
            problem = f"{NO_RELEASE_BEFORE} {head.release}"
            count = len(read_run_averages(snapshot, head.id))
            shown = self._show(head, None, problem, None, ())
            return ReleaseRun(head, {UNCOMPARED: count} if count else {}, False, shown, _nothing(head, None), problem)
        try:
            judged = judge_run(snapshot, head.id, against)
        except ConfigurationError as error:  # this board was never measured with `against`
            count = len(read_run_averages(snapshot, head.id))
            shown = self._show(head, None, str(error), None, ())
            counts = {UNCOMPARED: count} if count else {}
            return ReleaseRun(head, counts, False, shown, _nothing(head, against), str(error))
        verdict = comparison(judged, Names(head))
        shown = self._show(head, verdict, "", against, verdict.missing)
        numbers = document(judged, (), verdict.reported)
        last = last_of(judged) if verdict.reported else None
        differs = {} if last is None else differences(snapshot, head.id, last)
        return ReleaseRun(
            head,
            verdict.counts,
            verdict.state == "bad",
            shown,
            numbers,
            rows=verdict.rows,
            missing=verdict.missing,
            differs=differs,
        )

    def _judge_gone(self, snapshot: StoreSnapshot, head: RunHead, against: str | None, release: str) -> ReleaseRun:
        """Judge a board and kind that was not measured with `release`: all its numbers are missing.

        Args:
            head: its last run with the other release.
            against: the other release; None: that of `head`.
        """
        had = read_run_averages(snapshot, head.id)
        problem = f"release {release} has no completed {head.kind} run of this board"
        titles = tuple(Names(head).number(average.metric, average.params) for average in had)
        numbers = {
            **_nothing(head, against or head.release),
            "not_measured": [missing_document(average) for average in had],
        }
        shown = self._show(head, None, problem, None, titles)
        counts = {NOT_MEASURED: len(had)} if had else {}
        return ReleaseRun(head, counts, False, shown, numbers, problem, missing=titles, is_gone=True)


def _labels(release: str, names: Sequence[str]) -> list[str]:
    """Return the names under which the store has a release."""
    return [name for name in names if same_release(name, release)]


def order(head: RunHead) -> tuple[object, ...]:
    """Return the sort key of a run: board type, board, kind; `board10` comes after `board9`."""
    return name_key(head.board_type), name_key(head.board), head.kind


def _nothing(head: RunHead, against: str | None) -> dict[str, Any]:
    """Return the document of a run without a judged number."""
    name = f"release {against}" if against else ""
    return {"run": head.id, "against": name, "notes": [], "numbers": [], "not_measured": []}


def asking(store: Store) -> frozenset[int]:
    """Return the ids of recent runs that the judge wants repeated."""
    verdicts = read_verdicts(store, outcomes=[UNSURE], since=utc_now() - _LATELY)
    return frozenset(verdict.run.id for verdict in verdicts if verdict.open)


def count_verdicts(runs: Iterable[ReleaseRun]) -> Counter[str]:
    """Count the numbers of these runs by verdict."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(run.counts)
    return counts


def sum_attempts(judged_runs: Iterable[ReleaseRun]) -> AttemptCounts:
    """Add up the attempts of these runs."""
    every = [run.tried for run in judged_runs]
    failed = Counter[tuple[str, str]]()
    for counts in every:
        failed.update(
            {(fault, outcome): n for fault, classes in counts.by_fault.items() for outcome, n in classes.items()}
        )
    good, undecided = sum(counts.good for counts in every), sum(counts.undecided for counts in every)
    return AttemptCounts.of(good, failed, undecided, (run for counts in every for run in counts.runs))


# How many changed numbers and how many missing numbers a forge comment lists: the first pair that fits its limit.
_SIZES: Final = ((100, 40), (30, 10), (10, 0), (0, 0))
_MOVED: Final = ("worse", "better")
_BOARDS: Final = 8  # boards that are named for a cause or a failure class
_BASES: Final = 4  # other releases that are named
_TITLES: Final = 3  # numbers that are named for each of these boards
_MOST_TEXT: Final = 400  # characters of a cause or a failure class in a comment
_MOST_NAME: Final = 120  # characters of a name or a table cell in a comment
_NUMBER: Final = ("metric", "version", "params", "unit", "was", "was_uncertainty", "value", "uncertainty", "n")
_COLUMNS: Final = (
    *("board_type", "board", "kind", "run", "release", "against"),
    *(*_NUMBER, "effect", "low", "high", "verdict", "reason"),
)


@frozen
class ReleaseFailure:
    """The failed attempts of one failure class in a release.

    Attributes:
        fault: whose fault it is, e.g. "board" or "lab".
        outcome: the failure class, e.g. "kernel_panic".
        attempts: how many attempts failed so.
        runs: the boards and kinds with such an attempt, in the order of the page.
    """

    fault: str
    outcome: str
    attempts: int
    runs: Sequence[ReleaseRun]

    @property
    def line(self) -> str:
        """How often and on how many boards, e.g. `105 attempts on 35 boards, by the lab's fault`."""
        boards = len({run.head.board for run in self.runs})
        counts = f"{self.attempts} attempt{'s' * (self.attempts > 1)} on {boards} board{'s' * (boards > 1)}"
        return f"{counts}, by the {self.fault}'s fault"


@frozen
class ReleaseCause:
    """A possible cause of moved numbers, with the runs that it was found in.

    Attributes:
        differs: the differences that all these runs have from their baselines: cause -> (before, now); empty: no
            difference was found.
        runs: the runs with exactly these differences.
    """

    differs: Mapping[str, tuple[str, str]]
    runs: Sequence[ReleaseRun]

    @property
    def counts(self) -> dict[str, int]:
        """How many numbers changed, by verdict."""
        every = count_verdicts(self.runs)
        return {word: every[word] for word in (*_MOVED, "not comparable") if every[word]}

    @property
    def text(self) -> str:
        """The differences as one line of text."""
        return differing(self.differs)

    @property
    def line(self) -> str:
        """The verdicts and the number of boards, e.g. `4 worse on 3 boards`."""
        boards = len({run.head.board for run in self.runs})
        return f"{line(self.counts)} on {boards} board{'s' * (boards > 1)}"

    @property
    def titles(self) -> list[str]:
        """The boards, each with a few numbers, bad ones first; e.g. `am62x-1: Boot time, SD +24 % and 5 more`."""
        titles = []
        for run in sorted(self.runs, key=lambda run: -run.counts.get("worse", 0))[:_BOARDS]:
            rows = sorted(run.rows, key=lambda row: not row.bad)
            shown = [f"{row.title} {row.change.partition(' (')[0] or row.verdict}" for row in rows[:_TITLES]]
            more = f" and {len(rows) - _TITLES} more" if len(rows) > _TITLES else ""
            titles.append(f"{run.head.board}: {', '.join(shown)}{more}")
        return [*titles, f"and {len(self.runs) - _BOARDS} more"] if len(self.runs) > _BOARDS else titles


@frozen
class ComparedRelease:
    """The judgements of a release compared with another one.

    Attributes:
        against: the other release; None: for each board the one before.
        runs: the judgements so far.
        left: how many runs are not judged yet.
    """

    against: str | None
    runs: Sequence[ReleaseRun]
    left: int = 0

    @property
    def line(self) -> str:
        """The verdict on the release as one line of text.

        For example `3 of 40 attempts failed (kernel_panic 3); 2 worse, 12 not measured, 96 unchanged`.
        """
        return _line(self.runs)

    @property
    def bad(self) -> bool:
        """True for a bad or missing number or an undecided failed attempt."""
        return any(run.needs_a_person for run in self.runs)

    @property
    def state(self) -> str:
        """The state, by which the page chooses a colour.

        `bad`: something needs a person. `good`: all numbers are unchanged and no attempt failed. `plain`: runs are
        not judged yet, or there was nothing to compare with. Empty: none of these.
        """
        words = set(count_verdicts(self.runs))
        if self.bad:
            return "bad"
        if self.left or words <= {UNCOMPARED}:
            return "plain"
        is_whole = all(run.is_over and run.counts and not run.tried.by_fault for run in self.runs)
        return "good" if words <= {UNCHANGED} and is_whole else ""

    @property
    def name(self) -> str:
        """The name of the other release; of several, the first with their numbers of boards."""
        if self.against:
            return f"release {self.against}"
        boards_of_base: dict[str, set[str]] = {}
        for run in self.runs:
            if run.document.get("against"):
                boards_of_base.setdefault(run.document["against"], set()).add(run.head.board)
        if self.left or not boards_of_base:
            return "the release before of each board"
        if len(boards_of_base) == 1:
            return next(iter(boards_of_base))
        by_boards = sorted(boards_of_base.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        named = [f"{name} ({len(boards)} board{'s' * (len(boards) > 1)})" for name, boards in by_boards[:_BASES]]
        more = f" and {len(boards_of_base) - _BASES} more" if len(boards_of_base) > _BASES else ""
        return f"the release before of each board: {', '.join(named)}{more}"

    @property
    def failures(self) -> list[ReleaseFailure]:
        """The failed attempts by fault and failure class, those of the board first."""
        total = sum_attempts(self.runs).by_fault
        return [
            ReleaseFailure(
                fault, outcome, count, [run for run in self.runs if outcome in run.tried.by_fault.get(fault, ())]
            )
            for fault, classes in total.items()
            for outcome, count in classes.items()
        ]

    @property
    def causes(self) -> list[ReleaseCause]:
        """The possible causes of moved numbers; that with most worse numbers comes first."""
        groups: dict[tuple[object, ...], list[ReleaseRun]] = {}
        for run in self.runs:
            if run.rows:
                groups.setdefault(tuple(sorted(run.differs.items())), []).append(run)
        causes = [ReleaseCause(runs[0].differs, runs) for runs in groups.values()]
        return sorted(causes, key=lambda cause: tuple(-cause.counts.get(word, 0) for word in _MOVED))

    @property
    def by_type(self) -> list[tuple[str, str]]:
        """The name and the verdict of each board type; empty if there is only one type."""
        types = dict.fromkeys(run.head.board_type for run in self.runs)
        if len(types) < 2:
            return []
        return [(name, _line([run for run in self.runs if run.head.board_type == name])) for name in types]


def _line(runs: Sequence[ReleaseRun]) -> str:
    """Describe the attempts and the verdicts of runs in one line."""
    unfinished = sum(not run.is_over for run in runs)
    parts = (
        sum_attempts(runs).line,
        f"{unfinished} without a completed run" * bool(unfinished),
        line(count_verdicts(runs)),
    )
    return "; ".join(filter(None, parts))


def _places(runs: Sequence[ReleaseRun]) -> str:
    """Name the first boards, each with its last run that had a failure, e.g. `am62x-1 (run 12)`."""
    named = [f"{run.head.board} (run {run.tried.runs[-1]})" for run in runs[:_BOARDS]]
    return ", ".join(named) + (f" and {len(runs) - _BOARDS} more" if len(runs) > _BOARDS else "")


def release_document(release: str, compared: Iterable[ComparedRelease]) -> dict[str, Any]:
    """Return the comparisons as a JSON document for programs; unchanged numbers are only counted."""
    return {
        "release": release,
        "comparisons": [
            {
                "against": compared_release.against,
                "verdict": compared_release.line,
                "counts": dict(count_verdicts(compared_release.runs)),
                "attempts": _attempts(compared_release.runs),
                "needs_a_person": compared_release.bad,
                "causes": [
                    {
                        "differs": {what: list(both) for what, both in cause.differs.items()},
                        "counts": cause.counts,
                        "runs": [run.head.id for run in cause.runs],
                    }
                    for cause in compared_release.causes
                ],
                "runs": [_run(run) for run in compared_release.runs],
            }
            for compared_release in compared
        ],
    }


def as_csv(compared: Iterable[ComparedRelease]) -> str:
    """Write the verdicts as CSV (RFC 4180).

    A record is a number that changed or was not measured, or the failed attempts of a board and kind.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, restval="", extrasaction="ignore")
    writer.writeheader()
    for compared_release in compared:
        for run in compared_release.runs:
            for row in _rows(run):
                writer.writerow({name: cell(value) for name, value in row.items()})
    return text.getvalue()


def markdown(release: str, compared: Sequence[ComparedRelease], address: str) -> str:
    """Write the verdicts as a comment for a forge, cut to the forge's size limit.

    Args:
        address: the address of the release's page, which the comment links to.
    """
    template = environment("lab.web", escapes=False).get_template("release.md.j2")
    for rows, missing in _SIZES:
        parts = [
            {
                "line": compared_release.line,
                "name": cut(compared_release.name, _MOST_NAME),
                "by_type": [(cut(name, _MOST_NAME), verdict) for name, verdict in compared_release.by_type[:rows]],
                "causes": [
                    [cut(text, _MOST_TEXT) for text in (cause.text, cause.line, "; ".join(cause.titles))]
                    for cause in compared_release.causes[: rows // 5]
                ],
                "failures": [
                    tuple(cut(text, _MOST_TEXT) for text in (failure.outcome, failure.line, _places(failure.runs)))
                    for failure in compared_release.failures[: rows // 2]
                ],
                "more_failures": max(0, len(compared_release.failures) - rows // 2),
                "more_causes": max(0, len(compared_release.causes) - rows // 5),
                "rows": list(itertools.islice(_table_cells(compared_release), rows)),
                "more": max(0, sum(len(run.rows) for run in compared_release.runs) - rows),
                "missing": list(itertools.islice(_missing_cells(compared_release), missing)),
                "more_missing": max(
                    0, sum(len(run.missing) if run.is_over else 1 for run in compared_release.runs) - missing
                ),
            }
            for compared_release in compared
        ]
        text = template.render(release=cut(release, _MOST_NAME), parts=parts, address=address)
        if len(text.encode()) <= MOST_BYTES:
            break
    return text


def _run(run: ReleaseRun) -> dict[str, Any]:
    head = run.head
    return {
        **run.document,
        "board_type": head.board_type,
        "board": head.board,
        "kind": head.kind,
        "release": head.release,
        "counts": dict(run.counts),
        "problem": run.problem,
        "status": NOT_MEASURED if run.is_gone else head.status,
        "attempts": _attempts([run]),
    }


def _attempts(runs: Sequence[ReleaseRun]) -> dict[str, Any]:
    every = sum_attempts(runs)
    return {"good": every.good, "failed": dict(every.failed), "runs": list(every.runs)}


def _rows(run: ReleaseRun) -> Iterator[dict[str, Any]]:
    head = run.head
    place = {"board_type": head.board_type, "board": head.board, "kind": head.kind, "release": head.release}
    place["against"] = run.document["against"]
    if run.tried.failed:
        yield {**place, "run": run.tried.runs[-1], "verdict": "failed attempts", "reason": run.tried.line}
    for number in run.document["numbers"]:
        yield {**place, "run": head.id, **number, "params": label(number["params"])}
    for number in run.document["not_measured"]:
        yield {**place, **number, "params": label(number["params"]), "verdict": NOT_MEASURED}
    if not run.is_over and not run.document["not_measured"]:
        yield {**place, "run": head.id, "verdict": NOT_MEASURED, "reason": run.problem}


def _table_cells(compared: ComparedRelease) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a comment's table of changed numbers; those that need a person come first."""
    every = [(row, run.head) for run in compared.runs for row in run.rows]
    for row, head in sorted(every, key=lambda pair: not pair[0].bad):
        cells = (row.title, head.board, row.before, row.now, row.change, row.verdict, f"run {head.id}: {row.reason}")
        yield tuple(cut(text, _MOST_NAME) for text in cells)


def _missing_cells(compared: ComparedRelease) -> Iterator[tuple[str, str]]:
    """Yield each missing number with its board; for a board without a completed run, why there is none."""
    for run in sorted(compared.runs, key=lambda run: run.is_over):
        titles = run.missing if run.is_over else (run.problem,)
        yield from ((cut(run.head.board, _MOST_NAME), cut(title, _MOST_NAME)) for title in titles)
