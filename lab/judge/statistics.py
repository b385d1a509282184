"""Monthly statistics of verdicts, and of those rejected by people."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from lab.judge.records import UNSURE, StoredVerdict


@define
class Month:
    """The verdicts on the runs of a month.

    Attributes:
        month: as in 2026-11 (UTC).
        runs: that were judged. reruns: runs that were used to confirm, counted once a night.
        rejected: regressions, improvements and changes of the environment on runs that a person rejected. accepted: the same.
    """

    month: str
    runs: int = 0
    numbers: int = 0
    regressions: int = 0
    improvements: int = 0
    environment: int = 0
    unsure: int = 0
    reruns: int = 0
    rejected: int = 0
    accepted: int = 0


def by_month(verdicts: Sequence[StoredVerdict]) -> list[Month]:
    """The months with verdicts, the oldest first."""
    months: dict[str, Month] = {}
    most: dict[int, int] = {}
    for verdict in sorted(verdicts, key=lambda each: (each.run.started_at, each.run.id)):
        key = f"{verdict.run.started_at:%Y-%m}"
        month = months.setdefault(key, Month(key))
        before = most.get(verdict.run.id)
        month.runs += before is None
        month.reruns += max(0, verdict.reruns - (before or 0))
        most[verdict.run.id] = max(verdict.reruns, before or 0)
        month.numbers += 1
        month.regressions += verdict.outcome == "regression"
        month.improvements += verdict.outcome == "improvement"
        month.environment += verdict.outcome == "environment"
        month.unsure += verdict.outcome == UNSURE
        if verdict.review is not None and verdict.direction:
            month.rejected += verdict.review.decision == "rejected"
            month.accepted += verdict.review.decision == "accepted"
    return list(months.values())
