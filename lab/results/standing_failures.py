"""Standing failures, i.e. failures that boards have now, by cause and with the run that began them."""

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
MOST_RUNS: Final = 30  # latest runs of a board and kind that are read
GOOD_RUNS: Final = 3  # an occasional failure is over after so many runs without it
_NAMES: Final = ("medium", "mode", "section")  # parameters of attempts that name an item of a run's plan
_CLASSES_WITH_LINE: Final = frozenset({"kernel_panic", "kernel_oops"})  # classes whose causes differ by their line
_QUOTED: Final = re.compile(r"printed (?P<quote>['\"])(?P<text>.*?)(?<!\\)(?P=quote)")
_STAMP: Final = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[CT]\d+\])? *")  # time that the kernel prints
_VARYING: Final = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+", re.IGNORECASE)


@frozen
class FailureCause:
    """A failure class; for a kernel's panic or oops also its line.

    Attributes:
        line: the line without its numbers, which differ from boot to boot; empty: the class has no line.
    """

    outcome: str
    line: str = ""


@frozen
class StandingFailure:
    """A cause by which a board fails now.

    Attributes:
        line: the console's line of the newest such attempt; empty: the class has no line.
        message: message of that attempt.
        fault: party at fault.
        items: media, modes or sections that fail.
        every: True if no other items were tried.
        dead: True if all attempts at these items fail.
        failed: number of attempts that failed by this cause since the run `since`.
        attempts: number of all attempts at these items since then.
        since: first run of the failure without a gap.
        last: newest run of it.
        params: parameters of the newest failed attempt.
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
    """An item of a board's runs that lacks samples because its attempts failed."""

    board: str
    kind: str
    item: str


@frozen
class _RunAttempts:
    """The attempts of a run, counted.

    Attributes:
        attempts: item -> number of attempts.
        good: item -> number of good attempts.
        failed: cause -> item -> number of attempts that failed by it.
        newest: cause -> newest attempt that failed by it.
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
        """The items without a good attempt."""
        return frozenset(item for item in self.attempts if not self.good[item])


@define
class FailureReader:
    """Reads the standing failures of boards; an ended run is read once, and again only if it is resumed."""

    _cache: dict[RunHead, _RunAttempts] = field(factory=dict, init=False)

    def read(self, snapshot: StoreSnapshot, now: dt.datetime) -> tuple[list[StandingFailure], list[ExplainedItem]]:
        """Return the standing failures, and the items whose missing samples they explain, by board.

        A failure of all attempts is over with the first run that has a good attempt or fails by another cause. An
        occasional failure is over after `GOOD_RUNS` runs without it.

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
        unread = {head.id: head for head in heads if head not in self._cache}
        tries: dict[int, list[AttemptOutcome]] = {run_id: [] for run_id in unread}
        for attempt in snapshot.tries(list(unread)):
            tries[attempt.run_id].append(attempt)
        self._cache = {head: self._cache[head] for head in heads if head in self._cache}
        self._cache |= {head: _count_attempts(head, tries[head.id]) for head in unread.values()}
        failing: list[StandingFailure] = []
        explained: list[ExplainedItem] = []
        for runs in failing_runs:
            counted = [self._cache[head] for head in runs]
            failing += _standing_failures(counted)
            newest = counted[0]
            explained += [ExplainedItem(newest.head.board, newest.head.kind, item) for item in sorted(newest.lost)]
        return _merge(failing), explained


def line_of(message: str) -> str:
    """Return the console's line that a failure's message quotes, without the kernel's time; empty: it quotes none."""
    quoted = _QUOTED.search(message)
    return _STAMP.sub("", quoted["text"]) if quoted else ""


def _count_attempts(head: RunHead, tries: Iterable[AttemptOutcome]) -> _RunAttempts:
    """Count the attempts of a run, in their recorded order."""
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
            line = line_of(attempt.message) if attempt.outcome in _CLASSES_WITH_LINE else ""
            cause = FailureCause(attempt.outcome, _VARYING.sub("N", line))
            failed.setdefault(cause, Counter())[item] += 1
            newest[cause] = attempt
    lost = {item for item, attempt in last.items() if attempt.outcome != OK}
    if head.status in {"completed", "failed"}:  # an interrupted run may lack cycles that it had no time for
        lost |= {item for (item, _, _), is_good in cycles.items() if not is_good}
    return _RunAttempts(head, attempts, good, failed, newest, frozenset(lost))


def _standing_failures(runs: Sequence[_RunAttempts]) -> list[StandingFailure]:
    """Return the standing failures of one board and kind.

    Args:
        runs: the runs with one release, the newest first.
    """
    failures = []
    dead = runs[0].dead
    if dead:
        # Of the causes in the newest run the one counts that is most frequent over all runs of the streak.
        counts = Counter[FailureCause]()
        for run in _streak(runs, lambda run: bool(run.dead & dead), 1):
            counts.update({cause: sum(items[item] for item in dead) for cause, items in run.failed.items()})
        newest_causes = [cause for cause, items in runs[0].failed.items() if any(items[item] for item in dead)]
        cause = max(newest_causes, key=lambda cause: counts[cause])
        failures.append(_make_failure(cause, _streak(runs, partial(_fails, cause), 1), dead, dead=True))
    causes = {failure.cause for failure in failures}
    for run in runs[:GOOD_RUNS]:
        for cause, items in run.failed.items():
            if cause not in causes and any(items[item] and item not in run.dead for item in items):
                causes.add(cause)
                streak = _streak(runs, partial(_fails, cause), GOOD_RUNS)
                failed_items = frozenset(item for run in streak for item in run.failed.get(cause, ()))
                failures.append(_make_failure(cause, streak, failed_items, dead=False))
    return failures


def _fails(cause: FailureCause, run: _RunAttempts) -> bool:
    """Return True if an attempt of the run failed by this cause."""
    return cause in run.failed


def _streak(
    runs: Sequence[_RunAttempts], has_failure: Callable[[_RunAttempts], bool], gap: int
) -> Sequence[_RunAttempts]:
    """Return the newest runs, back to the first one with the failure before a gap.

    Args:
        runs: the newest first.
        gap: so many runs in a row without the failure end the streak.
    """
    oldest = misses = 0
    for index, run in enumerate(runs):
        misses = 0 if has_failure(run) else misses + 1
        if misses >= gap:
            break
        oldest = oldest if misses else index
    return runs[: oldest + 1]


def _make_failure(
    cause: FailureCause, streak: Sequence[_RunAttempts], items: frozenset[str], *, dead: bool
) -> StandingFailure:
    """Return the standing failure of a cause.

    Args:
        streak: its runs, the newest first.
        items: items that fail by it.
        dead: True if all attempts at these items fail.
    """
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


def _merge(failures: Iterable[StandingFailure]) -> list[StandingFailure]:
    """Merge the failures of one board, release and cause in runs of several kinds."""
    merged: dict[tuple[object, ...], StandingFailure] = {}
    for failure in failures:
        key = (failure.board, failure.board_type, failure.release, failure.cause)
        other = merged.get(key)
        merged[key] = failure if other is None else _merge_two(other, failure)
    return [merged[key] for key in sorted(merged, key=repr)]


def _merge_two(failure: StandingFailure, other: StandingFailure) -> StandingFailure:
    """Merge two failures; one of all attempts replaces an occasional one, and the newer one gives the message."""
    first, second = sorted((failure, other), key=lambda failure: (not failure.dead, -failure.last.id))
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
