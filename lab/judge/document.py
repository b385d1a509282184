"""The judge's verdicts on a run as JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.judge.baseline import JudgedNumber, JudgedRun
from lab.results.averages import Average


def document(judged: JudgedRun, notes: Sequence[str], numbers: Sequence[JudgedNumber]) -> dict[str, Any]:
    """A run's numbers with their judgements.

    Args:
        notes: on its label. numbers: the numbers to include.
    """
    return {
        "run": judged.head.id,
        "against": judged.against,
        "notes": list(notes),
        "numbers": [
            {
                "metric": each.average.metric.name,
                "version": each.average.metric.version,
                "params": dict(each.average.params),
                "unit": each.average.metric.unit,
                "value": each.average.value,
                "uncertainty": each.average.uncertainty,
                "n": each.average.n,
                "was": each.baseline.value if each.baseline else None,
                "was_uncertainty": each.baseline.uncertainty if each.baseline else None,
                "runs": list(each.baseline.runs) if each.baseline else [],
                "verdict": str(each.judgement.verdict),
                "effect": each.judgement.effect,
                "low": each.judgement.low,
                "high": each.judgement.high,
                "reason": each.judgement.reason,
            }
            for each in numbers
        ],
        "not_measured": [missing_document(each) for each in judged.missing],
    }


def missing_document(average: Average) -> dict[str, Any]:
    """A missing number with its last average."""
    return {
        "metric": average.metric.name,
        "version": average.metric.version,
        "params": dict(average.params),
        "unit": average.metric.unit,
        "was": average.value,
        "was_uncertainty": average.uncertainty,
        "run": average.run_id,
    }
