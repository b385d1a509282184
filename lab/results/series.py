"""Series of runs, i.e. runs of one kind on one board: their latest runs, attempts and releases."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen
from sqlalchemy import case, func, select

from lab.results.models import AttemptRow, ReviewRow, RunRow
from lab.results.records import APART, FAULTS, OK, RunHead
from lab.results.snapshot import CHUNK, HEADS, StoreSnapshot

_COMPLETED = "completed"


@frozen
class BoardSeries:
    """The identity of a series: a board, its type, and a kind of run."""

    board: str
    board_type: str
    kind: str

    @classmethod
    def of(cls, head: RunHead) -> BoardSeries:
        """Return the series that a run belongs to."""
        return cls(head.board, head.board_type, head.kind)


@frozen
class PlaceState:
    """A value that changes whenever a run of a series is completed, accepted or rejected.

    Attributes:
        completed: number of completed runs.
        finished_at: end of the last one.
        review: id of the last decision on one of its runs; 0: there is none.
    """

    completed: int
    finished_at: dt.datetime | None
    review: int


def run_head(snapshot: StoreSnapshot, run_id: int) -> RunHead | None:
    """Return a run without its plan; None: there is no such run."""
    return next(iter(snapshot.heads_of(RunRow.id == run_id)), None)


def newest_of_kind(snapshot: StoreSnapshot, kind: str) -> RunHead | None:
    """Return the newest run of a kind; None: there is none."""
    query = HEADS.where(RunRow.kind == kind).order_by(RunRow.id.desc()).limit(1)
    return next((RunHead(*row) for row in snapshot.rows(query)), None)


def runs_at(snapshot: StoreSnapshot, series: BoardSeries) -> list[RunHead]:
    """Return all runs of a series, the oldest first."""
    conditions = (RunRow.board == series.board, RunRow.board_type == series.board_type, RunRow.kind == series.kind)
    return snapshot.heads_of(*conditions)


def decisions_at(snapshot: StoreSnapshot, series: BoardSeries) -> dict[int, str]:
    """Return the last decision on each run of a series that was reviewed."""
    conditions = (RunRow.board == series.board, RunRow.board_type == series.board_type, RunRow.kind == series.kind)
    query = select(ReviewRow.run_id, ReviewRow.decision).join(RunRow, RunRow.id == ReviewRow.run_id).where(*conditions)
    return {row[0]: row[1] for row in snapshot.rows(query.order_by(ReviewRow.id))}


def latest_completed(snapshot: StoreSnapshot, series: BoardSeries, most: int) -> list[RunHead]:
    """Return the last completed runs of a series, at most `most`, the oldest first."""
    conditions = (RunRow.board == series.board, RunRow.board_type == series.board_type, RunRow.kind == series.kind)
    query = HEADS.where(*conditions, RunRow.status == _COMPLETED).order_by(RunRow.finished_at.desc(), RunRow.id.desc())
    return sorted((RunHead(*row) for row in snapshot.rows(query.limit(most))), key=lambda head: head.id)


def latest_with(snapshot: StoreSnapshot, series: BoardSeries, labels: Sequence[str], most: int) -> list[RunHead]:
    """Return the last completed runs of a series with one of these releases, at most `most`, the newest first."""
    with_label = select(RunRow.id).where(RunRow.release.in_(labels), RunRow.status == _COMPLETED)
    of_board = (RunRow.board == series.board, RunRow.board_type == series.board_type)
    query = HEADS.where(RunRow.id.in_(with_label.where(RunRow.kind == series.kind)), *of_board)
    return [RunHead(*row) for row in snapshot.rows(query.order_by(RunRow.id.desc()).limit(most))]


def runs_before(snapshot: StoreSnapshot, head: RunHead, most: int) -> list[RunHead]:
    """Return runs of the same board type before one, at most `most`, the newest first.

    Runs of the kinds `APART` are left out.
    """
    conditions = (RunRow.board_type == head.board_type, RunRow.kind.not_in(APART), RunRow.id < head.id)
    return [RunHead(*row) for row in snapshot.rows(HEADS.where(*conditions).order_by(RunRow.id.desc()).limit(most))]


def release_names(snapshot: StoreSnapshot) -> list[str]:
    """Return the releases that were measured here, the one measured last first."""
    last = func.max(RunRow.id)
    query = select(RunRow.release).where(RunRow.kind.not_in(APART)).group_by(RunRow.release).order_by(last.desc())
    return [row[0] for row in snapshot.rows(query)]


def usable_releases(snapshot: StoreSnapshot, before: Sequence[str] = ()) -> list[str]:
    """Return the releases with completed runs that were not rejected, the one measured last at the end.

    Args:
        before: releases; only runs before the first run with one of them count. Empty: all runs count.
    """
    last_reviews = select(func.max(ReviewRow.id)).group_by(ReviewRow.run_id)
    rejected = select(ReviewRow.run_id).where(ReviewRow.id.in_(last_reviews), ReviewRow.decision == "rejected")
    these = (RunRow.status == _COMPLETED, RunRow.kind.not_in(APART), RunRow.id.not_in(rejected))
    query = select(RunRow.release).where(*these)
    if before:
        first = select(func.min(RunRow.id)).where(RunRow.release.in_(before)).scalar_subquery()
        query = query.where(RunRow.id < first)
    return [row[0] for row in snapshot.rows(query.group_by(RunRow.release).order_by(func.max(RunRow.id)))]


@frozen
class ReleaseSummary:
    """How much was measured with a release.

    Attributes:
        boards: number of boards.
        runs: number of runs.
        unfinished: number of runs that are not completed.
        last: start of the last run.
    """

    release: str
    boards: int
    runs: int
    unfinished: int
    last: dt.datetime


def release_summaries(snapshot: StoreSnapshot) -> list[ReleaseSummary]:
    """Return a summary of each release that was measured here, the one measured last first."""
    last = func.max(RunRow.id)
    unfinished = func.sum(case((RunRow.status == _COMPLETED, 0), else_=1))
    counts = (func.count(RunRow.board.distinct()), func.count(), unfinished, func.max(RunRow.started_at))
    query = select(RunRow.release, *counts).where(RunRow.kind.not_in(APART)).group_by(RunRow.release)
    return [ReleaseSummary(*row) for row in snapshot.rows(query.order_by(last.desc()))]


def last_completed(snapshot: StoreSnapshot, labels: Sequence[str]) -> list[RunHead]:
    """Return the last completed run of each series with one of these releases."""
    these = (RunRow.release.in_(labels), RunRow.status == _COMPLETED, RunRow.kind.not_in(APART))
    last = select(func.max(RunRow.id)).where(*these).group_by(RunRow.board, RunRow.board_type, RunRow.kind)
    return snapshot.heads_of(RunRow.id.in_(last))


def last_runs(snapshot: StoreSnapshot, labels: Sequence[str]) -> list[RunHead]:
    """Return the last run of each series with one of these releases, whatever its status."""
    these = (RunRow.release.in_(labels), RunRow.kind.not_in(APART))
    last = select(func.max(RunRow.id)).where(*these).group_by(RunRow.board, RunRow.board_type, RunRow.kind)
    return snapshot.heads_of(RunRow.id.in_(last))


@frozen
class AttemptCounts:
    """How many attempts of some runs were good, and how many failed and why.

    Attributes:
        good: number of good attempts.
        by_fault: party at fault -> failure class -> number of attempts; the board comes first, and of each party the
            most frequent class.
        undecided: number of attempts that the board failed in runs after the last accepted one.
        runs: ids of the runs with failed attempts.
    """

    good: int = 0
    by_fault: Mapping[str, Mapping[str, int]] = field(factory=dict)
    undecided: int = 0
    runs: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, good: int, failed: Mapping[tuple[str, str], int], undecided: int, runs: Iterable[int]
    ) -> AttemptCounts:
        """Return the counts, in their order.

        Args:
            failed: party at fault and failure class -> number of attempts.
        """
        by_fault: dict[str, dict[str, int]] = {}
        for (fault, outcome), count in sorted(failed.items(), key=lambda pair: (FAULTS.index(pair[0][0]), -pair[1])):
            by_fault.setdefault(fault, {})[outcome] = count
        return cls(good, by_fault, undecided, tuple(sorted(set(runs))))

    @property
    def failed(self) -> dict[str, int]:
        """Failure class -> number of attempts, whoever is at fault, the most frequent first."""
        counts = Counter[str]()
        for classes in self.by_fault.values():
            counts.update(classes)
        return dict(counts.most_common())

    @property
    def line(self) -> str:
        """The failed attempts as text, by party at fault; empty: none failed.

        E.g. `3 of 40 attempts failed (kernel_panic 3), 8 more by the lab's fault (pdu_timeout 8)`.
        """
        if not self.by_fault:
            return ""
        tried = self.good + sum(self.failed.values())
        parts: list[str] = []
        for fault, classes in self.by_fault.items():
            classes_text = ", ".join(f"{outcome} {number}" for outcome, number in classes.items())
            fault_text = "" if fault == "board" else f" by the {fault}'s fault"
            attempts_text = "more" if parts else f"of {tried} attempts failed"
            parts.append(f"{sum(classes.values())} {attempts_text}{fault_text} ({classes_text})")
        return ", ".join(parts)


def attempts(snapshot: StoreSnapshot, labels: Sequence[str]) -> dict[BoardSeries, AttemptCounts]:
    """Count the attempts of each series with these releases; rejected runs are left out."""
    decisions = snapshot.decisions()
    columns = (RunRow.board, RunRow.board_type, RunRow.kind, RunRow.id, AttemptRow.outcome, AttemptRow.fault)
    query = select(*columns, func.count()).join(AttemptRow, AttemptRow.run_id == RunRow.id)
    query = query.where(RunRow.release.in_(labels), RunRow.kind.not_in(APART)).group_by(*columns)
    by_series: dict[BoardSeries, list[tuple[int, str, str | None, int]]] = {}
    for board, board_type, kind, run, outcome, fault, count in snapshot.rows(query):
        if decisions.get(run) != "rejected":
            by_series.setdefault(BoardSeries(board, board_type, kind), []).append((run, outcome, fault, count))
    return {series: _count_attempts(rows, decisions) for series, rows in by_series.items()}


def runs_with_failures(snapshot: StoreSnapshot, run_ids: Sequence[int]) -> set[int]:
    """Return the ids of those runs that have failed attempts."""
    runs: set[int] = set()
    for ids in (run_ids[start : start + CHUNK] for start in range(0, len(run_ids), CHUNK)):
        query = select(AttemptRow.run_id).where(AttemptRow.run_id.in_(ids), AttemptRow.outcome != OK).distinct()
        runs.update(row[0] for row in snapshot.rows(query))
    return runs


def _count_attempts(rows: Sequence[tuple[int, str, str | None, int]], decisions: Mapping[int, str]) -> AttemptCounts:
    """Count the attempts of one series.

    Args:
        rows: run, outcome, party at fault, and number of such attempts.
        decisions: run -> last decision on it.
    """
    accepted = max((run for run, *_ in rows if decisions.get(run) == "accepted"), default=0)
    failed_rows = [(run, outcome, fault, count) for run, outcome, fault, count in rows if fault is not None]
    failed = Counter[tuple[str, str]]()
    for _, outcome, fault, count in failed_rows:
        failed[fault, outcome] += count
    good = sum(count for _, outcome, _, count in rows if outcome == OK)
    undecided = sum(count for run, _, fault, count in failed_rows if fault == "board" and run > accepted)
    return AttemptCounts.of(good, failed, undecided, (run for run, *_ in failed_rows))


def states(snapshot: StoreSnapshot) -> dict[BoardSeries, PlaceState]:
    """Return the state of each series with completed runs."""
    columns = (RunRow.board, RunRow.board_type, RunRow.kind)
    reviewed = (
        select(*columns, func.max(ReviewRow.id)).join(ReviewRow, ReviewRow.run_id == RunRow.id).group_by(*columns)
    )
    reviews = {BoardSeries(*row[:3]): row[3] for row in snapshot.rows(reviewed)}
    query = select(*columns, func.count(), func.max(RunRow.finished_at)).where(RunRow.status == _COMPLETED)
    series_rows = ((BoardSeries(*row[:3]), row[3], row[4]) for row in snapshot.rows(query.group_by(*columns)))
    return {series: PlaceState(count, at, reviews.get(series, 0)) for series, count, at in series_rows}
