"""A run as lines of plain text, for `lab results show` and for the end of a pytest session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from lab.metrics import Measurement, Metric, summarise
from lab.results.figures import average_cell, duration, fixed, label, number, readable
from lab.results.overview import Failure, Overview, Stage, attempts_of, overview, tried
from lab.results.store import Store
from lab.shown import table

_INDENT = "  "


def summary_lines(store: Store, run_id: int) -> list[str]:
    """The run's numbers in the guide's form, its stages and its failed attempts.

    Raises:
        ConfigurationError: no such run.
    """
    return numbers_and_failures(overview(store, run_id))


def numbers_and_failures(run: Overview) -> list[str]:
    """The numbers, the stages and the failed attempts of a run."""
    sections = [
        *(_numbers(run, metric, group) for metric, group in run.numbers.items()),
        _stages(run.stages),
        _failures(run),
    ]
    return [line for lines in sections for line in lines]


def head_lines(run: Overview) -> list[str]:
    """What was measured, when, and how it ended."""
    r = run.run
    took = f", {duration((r.finished_at - r.started_at).total_seconds())}" if r.finished_at else ""
    lines = [
        f"run {r.id}: {r.kind}, {r.board_type} {r.board!r}, release {r.release}, {r.status}",
        f"{_INDENT}begun {r.started_at:%Y-%m-%d %H:%M:%S} UTC{took}",
    ]
    if run.virtual:
        lines.append(f"{_INDENT}a virtual board: its numbers are never compared with a real one's")
    return lines


def _numbers(run: Overview, metric: Metric, group: Sequence[Measurement]) -> list[str]:
    rows = []
    metric, summaries = readable(metric, [summarise(m.samples) for m in group])
    for m, s in zip(group, summaries, strict=True):
        values = [number(value, s.uncertainty, metric) for value in (s.uncertainty, s.median, s.p95, s.std)]
        cells = [label(m.params), average_cell(s, metric), f"{s.n}/{tried(attempts_of(run.attempts, m))}", *values]
        rows.append([*cells, ", ".join(sorted(m.flags))])
    header = ["", f"avg (min, max) [{metric.unit}]", "n", "±", "median", "p95", "std", "flags"]
    return [metric.name, *_indented(table(header, rows, "<<>>>>><"))]


def _stages(stages: dict[str, list[Stage]]) -> list[str]:
    if not stages:
        return []
    lengths = {medium: {stage.name: stage.summary for stage in found} for medium, found in stages.items()}
    names = list(dict.fromkeys(name for found in lengths.values() for name in found))
    rows = [[n, *(fixed(found[n].mean, 3) if n in found else "-" for found in lengths.values())] for n in names]
    return ["stages, mean [s]", *_indented(table(["", *lengths], rows, "<" + ">" * len(lengths)))]


def _failures(run: Overview) -> list[str]:
    if not run.failures:
        return [f"failed attempts: none of {len(run.attempts)}"]
    rows = [_failure(failure) for failure in run.failures]
    title = f"failed attempts: {len(run.failed)} of {len(run.attempts)}"
    return [title, *_indented(table(["class", "fault of", "", "n", "where"], rows, "<<<><"))]


def _failure(failure: Failure) -> list[str]:
    where = "; ".join(
        f"{name} cycle {', '.join(str(a.cycle) for a in attempts)}"
        for name, attempts in groupby(failure.attempts, lambda a: label(a.params))
    )
    kind = "transient" if failure.transient else "stable"
    return [failure.outcome, f"the {failure.fault}", kind, str(len(failure.attempts)), where]


def _indented(lines: Iterable[str]) -> list[str]:
    return [_INDENT + line for line in lines]
