"""Standing failures of boards, by cause, with the run that began them."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from attrs import define, evolve, field, frozen
from sqlalchemy import select

from lab.results.models import FAILED, AttemptRow, JobRow, RunRow
from lab.results.records import APART, OK, RunHead
from lab.results.snapshot import AttemptOutcome, StoreSnapshot

LOOK_BACK: Final = dt.timedelta(days=8)  # a weekly run's failure lasts until the next one
MOST_RUNS: Final = 30  # of a board and kind that are looked at
GOOD_RUNS: Final = 3  # without a failure that came at times, until it counts as over
_NAMES: Final = ("medium", "mode", "section")  # the attempts' parameter that names an item of a run's plan
_OF_LINE: Final = frozenset({"kernel_panic", "kernel_oops"})  # classes whose line tells one cause from another
_QUOTED: Final = re.compile(r"printed (?P<quote>['\"])(?P<text>.*?)(?<!\\)(?P=quote)")
_STAMP: Final = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[CT]\d+\])? *")  # of printk
_VARYING: Final = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+", re.IGNORECASE)


@frozen
class FailureCause:
    """A failure class; for a kernel's death also its normalised line.

    The line has no numbers, which differ from boot to boot.
    """

    outcome: str
    line: str = ""


@frozen
class StandingFailure:
    """A standing failure cause of a board.

    Attributes:
        line: the console's last line for this cause; empty: the class has no line.
        message: of the newest such attempt.
        fault: party at fault.
        items: failing media, modes or sections.
        every: no other items were tried.
        dead: all attempts at these items failed.
        failed: attempts that failed for this cause, of `attempts` at these items since the run `since`.
        since: the first run of it without a gap.
        last: the newest.
        params: of its newest failed attempt.
    """

    board: str
    board_type: str
    release: str
    cause: FailureCause
    line: str
    message: str
    fault: str
    items: tuple[str, ...]
    every: bool
    dead: bool
    failed: int
    attempts: int
    since: RunHead
    last: RunHead
    params: Mapping[str, str]


@frozen
class ExplainedItem:
    """An item whose missing samples are explained by failed attempts."""

    board: str
    kind: str
    item: str


@frozen
class _RunAttempts:
    """The attempts of a run.

    Attributes:
        attempts, good: by item.
        failed: by item and cause.
        newest: of a cause.
        lost: items without samples because attempts failed.
    """

    head: RunHead
    attempts: Counter[str]
    good: Counter[str]
    failed: Mapping[FailureCause, Counter[str]]
    newest: Mapping[FailureCause, AttemptOutcome]
    lost: frozenset[str]

    @property
    def dead(self) -> frozenset[str]:
        """The items of which no attempt was good."""
        return frozenset(item for item in self.attempts if not self.good[item])


@define
class FailureReader:
    """Reads boards' standing failures; an ended run only once.

    A resumed run is read again.
    """

    _known: dict[RunHead, _RunAttempts] = field(factory=dict, init=False)

    def read(self, snapshot: StoreSnapshot, now: dt.datetime) -> tuple[list[StandingFailure], list[ExplainedItem]]:
        """Return the standing causes, and the items they explain, by board.

        A cause of all attempts ends with a run that ends otherwise; an occasional cause ends after GOOD_RUNS without
        it.

        Raises:
            BoardlabError: the store cannot be read.
        """
        since = now - LOOK_BACK
        failed = snapshot.runs_with_failures(since)
        if not failed:
            return [], []
        unended = select(JobRow.id).where(JobRow.state.in_(("queued", "running")))
        active = {row.id for row in snapshot.rows(unended)}
        by_kind: dict[tuple[str, str, str], list[RunHead]] = {}
        ids = select(AttemptRow.run_id).where(FAILED, AttemptRow.started_at >= since)
        boards = select(RunRow.board).where(RunRow.id.in_(ids))
        for head in reversed(snapshot.heads_of(RunRow.board.in_(boards), RunRow.started_at >= since)):
            runs = by_kind.setdefault((head.board, head.board_type, head.kind), [])
            begun = head.status == "running" and (head.job_id is None or head.job_id in active)
            if head.started_at >= since and head.kind not in APART and not begun and len(runs) < MOST_RUNS:
                runs.append(head)
        failing_runs = [runs for runs in by_kind.values() if any(head.id in failed for head in runs)]
        failing_runs = [[head for head in runs if head.release == runs[0].release] for runs in failing_runs]
        heads = [head for runs in failing_runs for head in runs]
        unread = {head.id: head for head in heads if head not in self._known}
        tries: dict[int, list[AttemptOutcome]] = {run_id: [] for run_id in unread}
        for attempt in snapshot.tries(list(unread)):
            tries[attempt.run_id].append(attempt)
        self._known = {head: self._known[head] for head in heads if head in self._known}
        self._known |= {head: _count_attempts(head, tries[head.id]) for head in unread.values()}
        failing: list[StandingFailure] = []
        explained: list[ExplainedItem] = []
        for runs in failing_runs:
            tried = [self._known[head] for head in runs]
            failing += _failing(tried)
            first = tried[0]
            explained += [ExplainedItem(first.head.board, first.head.kind, item) for item in sorted(first.lost)]
        return _merge(failing), explained


def line_of(message: str) -> str:
    """Console line quoted by a failure's message, without printk's stamp; or ""."""
    quoted = _QUOTED.search(message)
    return _STAMP.sub("", quoted["text"]) if quoted else ""


def _count_attempts(head: RunHead, tries: Iterable[AttemptOutcome]) -> _RunAttempts:
    attempts, good, newest = Counter[str](), Counter[str](), dict[FailureCause, AttemptOutcome]()
    failed: dict[FailureCause, Counter[str]] = {}
    last: dict[str, AttemptOutcome] = {}
    cycles: dict[tuple[str, tuple[tuple[str, str], ...], int], bool] = {}
    for attempt in tries:
        item = next((attempt.params[name] for name in _NAMES if name in attempt.params), "")
        last[item] = attempt
        attempts[item] += 1
        key = (item, tuple(sorted(attempt.params.items())), attempt.cycle)
        cycles[key] = cycles.get(key, False) or attempt.outcome == OK
        if attempt.outcome == OK:
            good[item] += 1
        else:
            line = line_of(attempt.message) if attempt.outcome in _OF_LINE else ""
            cause = FailureCause(attempt.outcome, _VARYING.sub("N", line))
            failed.setdefault(cause, Counter())[item] += 1
            newest[cause] = attempt
    lost = {item for item, attempt in last.items() if attempt.outcome != OK}
    if head.status in {"completed", "failed"}:  # else it may lack what it had no time for
        lost |= {item for (item, _, _), is_good in cycles.items() if not is_good}
    return _RunAttempts(head, attempts, good, failed, newest, frozenset(lost))


def _failing(runs: Sequence[_RunAttempts]) -> list[StandingFailure]:
    """Causes of a board and kind, from one release's runs, newest first."""
    failings = []
    dead = runs[0].dead
    if dead:
        counts = Counter[FailureCause]()  # of what the newest run died of, the cause that all runs have most
        for run in _streak(runs, lambda run: bool(run.dead & dead), 1):
            counts.update({cause: sum(items[item] for item in dead) for cause, items in run.failed.items()})
        now = [cause for cause, items in runs[0].failed.items() if any(items[item] for item in dead)]
        cause = max(now, key=lambda cause: counts[cause])
        failings.append(_make_failure(cause, _streak(runs, partial(_fails, cause), 1), dead, dead=True))
    causes = {failing.cause for failing in failings}
    for run in runs[:GOOD_RUNS]:
        for cause, items in run.failed.items():
            if cause not in causes and any(items[item] and item not in run.dead for item in items):
                causes.add(cause)
                streak = _streak(runs, partial(_fails, cause), GOOD_RUNS)
                hit = frozenset(item for run in streak for item in run.failed.get(cause, ()))
                failings.append(_make_failure(cause, streak, hit, dead=False))
    return failings


def _fails(cause: FailureCause, run: _RunAttempts) -> bool:
    return cause in run.failed


def _streak(runs: Sequence[_RunAttempts], has_it: Callable[[_RunAttempts], bool], gap: int) -> Sequence[_RunAttempts]:
    """Newest runs back to the first hit, with misses below `gap`."""
    first = missed = 0
    for number, run in enumerate(runs):
        missed = 0 if has_it(run) else missed + 1
        if missed >= gap:
            break
        first = first if missed else number
    return runs[: first + 1]


def _make_failure(
    cause: FailureCause, streak: Sequence[_RunAttempts], items: frozenset[str], *, dead: bool
) -> StandingFailure:
    last = next(run for run in streak if cause in run.failed)
    newest, head = last.newest[cause], last.head
    failed = sum(run.failed[cause][item] for run in streak if cause in run.failed for item in items)
    attempts = sum(run.attempts[item] for run in streak for item in items)
    return StandingFailure(
        board=head.board,
        board_type=head.board_type,
        release=head.release,
        cause=cause,
        line=line_of(newest.message),
        message=newest.message,
        fault=newest.fault or "",
        items=tuple(sorted(items)),
        every=items >= last.attempts.keys(),
        dead=dead,
        failed=failed,
        attempts=attempts,
        since=streak[-1].head,
        last=head,
        params=newest.params,
    )


def _merge(failings: Iterable[StandingFailure]) -> list[StandingFailure]:
    """Merge the causes per board, release and cause over all kinds."""
    merged: dict[tuple[object, ...], StandingFailure] = {}
    for failing in failings:
        key = (failing.board, failing.board_type, failing.release, failing.cause)
        other = merged.get(key)
        merged[key] = failing if other is None else _both(other, failing)
    return [merged[key] for key in sorted(merged, key=repr)]


def _both(one: StandingFailure, other: StandingFailure) -> StandingFailure:
    first, second = sorted((one, other), key=lambda failing: (not failing.dead, -failing.last.id))
    if first.dead != second.dead:
        return first
    return evolve(
        first,
        items=tuple(sorted({*first.items, *second.items})),
        every=first.every and second.every,
        failed=first.failed + second.failed,
        attempts=first.attempts + second.attempts,
        since=min(first.since, second.since, key=lambda head: head.id),
    )
