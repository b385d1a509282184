"""Runs as JSON documents and as one flat table, for other programs."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import asdict

from lab.metrics import Measurement, summarise
from lab.results.overview import Overview
from lab.results.records import CONSOLE_LOG, OK, Run

FORMAT: Final = "boardlab-results"
VERSION: Final = 1
_COLUMNS: Final = ("run", "kind", "board_type", "board", "release", "status", "run_started_at")
_SAMPLE: Final = ("metric", "definition_version", "unit")
_READING: Final = ("cycle", "attempt", "attempt_started_at", "value", "uncertainty", "flags", "virtual")
_EVIDENCE: Final = ("log_sha256", "log_start", "log_end")


def run_document(run: Run) -> dict[str, Any]:
    """A run without its attempts."""
    return asdict(run, value_serializer=_plain)


def listed_document(run: Run, outcomes: Mapping[str, int], measurements: Sequence[Measurement]) -> dict[str, Any]:
    """A run with what `lab results list` says of it: how many attempts were good, and the averages of its first metric.

    Args:
        outcomes: how many attempts ended in each.
    """
    averages = [{"params": dict(m.params), "mean": summarise(m.samples).mean} for m in measurements]
    metric = measurements[0].metric if measurements else None
    return {
        **run_document(run),
        "good": outcomes.get(OK, 0),
        "tried": sum(outcomes.values()),
        "averages": None if metric is None else {"metric": metric.name, "unit": metric.unit, "values": averages},
    }


def full_document(run: Overview) -> dict[str, Any]:
    """A run with its numbers and every attempt, good and failed."""
    return {
        **run_document(run.run),
        "virtual": run.virtual,
        "measurements": [_measurement(m) for m in run.measurements],
        "attempts": [asdict(attempt, value_serializer=_plain) for attempt in run.attempts],
    }


def export_document(runs: Sequence[Overview]) -> dict[str, Any]:
    """What `lab results export --json` writes."""
    return {"format": FORMAT, "version": VERSION, "runs": [full_document(run) for run in runs]}


def export_csv(runs: Sequence[Overview]) -> str:
    """One line a sample; each parameter has a column `params.NAME`. Failed attempts have no samples, so no lines."""
    names = sorted({name for run in runs for m in run.measurements for name in m.params})
    columns = [*_COLUMNS, *_SAMPLE, *(f"params.{name}" for name in names), *_READING, *_EVIDENCE]
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for run in runs:
        writer.writerows(_csv_rows(run))
    return file.getvalue()


def _csv_rows(run: Overview) -> list[dict[str, object]]:
    r = run.run
    metrics = {m.metric.name: m.metric for m in run.measurements}
    rows = []
    for attempt in run.attempts:
        log = attempt.artifact(CONSOLE_LOG)
        for s in attempt.samples:
            its_run = (r.id, r.kind, r.board_type, r.board, r.release, r.status, r.started_at.isoformat())
            metric = metrics[s.metric]
            reading = (
                attempt.cycle,
                attempt.number,
                attempt.started_at.isoformat(),
                s.value,
                s.uncertainty,
                " ".join(sorted(s.flags)),
                run.virtual,
            )
            evidence = (log.sha256 if log else "", s.log_start, s.log_end)
            rows.append(
                dict(zip(_COLUMNS, its_run, strict=True))
                | dict(zip(_SAMPLE, (metric.name, metric.version, metric.unit), strict=True))
                | {f"params.{name}": text for name, text in s.params.items()}
                | dict(zip(_READING, reading, strict=True))
                | dict(zip(_EVIDENCE, evidence, strict=True))
            )
    return rows


def _measurement(m: Measurement) -> dict[str, Any]:
    return {
        "metric": asdict(m.metric),
        "params": dict(m.params),
        "summary": asdict(summarise(m.samples)),
        "flags": sorted(m.flags),
        "samples": [asdict(sample, value_serializer=_plain) for sample in m.samples],
    }


def _plain(_instance: object, _attribute: object, value: object) -> object:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, frozenset):
        return sorted(value)
    return dict(value) if isinstance(value, Mapping) else value
