"""A run as lines of plain text, for `lab results show` and for the end of a pytest session."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from lab.metrics import Flag, Measurement, Metric, summarise
from lab.results.figures import average_cell, duration, fixed, label, number, readable
from lab.results.overview import Failure, Overview, Stage, attempts_of, overview, tried
from lab.results.records import Run
from lab.results.store import Store
from lab.shown import bad, doubtful, table

_INDENT = 2


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
        f"run {r.id}: {r.kind}, {r.board_type} {r.board!r}, release {r.release}, " + status(r),
        f"  begun {r.started_at:%Y-%m-%d %H:%M:%S} UTC{took}",
    ]
    if run.virtual:
        lines.append("  a virtual board: its numbers are never compared with a real one's")
    return lines


def status(run: Run) -> str:
    """How a run ended; bad news are marked."""
    return {"failed": bad, "interrupted": doubtful}.get(run.status, str)(run.status)


def _numbers(run: Overview, metric: Metric, group: Sequence[Measurement]) -> list[str]:
    rows = []
    metric, summaries = readable(metric, [summarise(m.samples) for m in group])
    for m, s in zip(group, summaries, strict=True):
        values = [number(value, s.uncertainty, metric) for value in (s.uncertainty, s.median, s.p95, s.std)]
        cells = [label(m.params), average_cell(s, metric), f"{s.n}/{tried(attempts_of(run.attempts, m))}", *values]
        rows.append([*cells, _flags(m)])
    header = ["", f"avg (min, max) [{metric.unit}]", "n", "±", "median", "p95", "std", "flags"]
    return [metric.name, *table(header, rows, "<<>>>>><", indent=_INDENT)]


def _flags(measurement: Measurement) -> str:
    """A virtual board's numbers all say so; other flags are something to look at."""
    said = ", ".join(sorted(measurement.flags))
    return said if measurement.flags <= {Flag.SIMULATED} else doubtful(said)


def _stages(stages: dict[str, list[Stage]]) -> list[str]:
    if not stages:
        return []
    lengths = {medium: {stage.name: stage.summary for stage in found} for medium, found in stages.items()}
    names = list(dict.fromkeys(name for found in lengths.values() for name in found))
    rows = [[n, *(fixed(found[n].mean, 3) if n in found else "-" for found in lengths.values())] for n in names]
    return ["stages, mean [s]", *table(["", *lengths], rows, "<" + ">" * len(lengths), indent=_INDENT)]


def _failures(run: Overview) -> list[str]:
    if not run.failures:
        return [f"failed attempts: none of {len(run.attempts)}"]
    rows = [_failure(failure) for failure in run.failures]
    title = bad(f"failed attempts: {len(run.failed)} of {len(run.attempts)}")
    return [title, *table(["class", "fault of", "", "n", "where"], rows, "<<<><", indent=_INDENT)]


def _failure(failure: Failure) -> list[str]:
    where = "; ".join(
        f"{name} cycle {', '.join(str(a.cycle) for a in attempts)}"
        for name, attempts in groupby(failure.attempts, lambda a: label(a.params))
    )
    kind = "transient" if failure.transient else "stable"
    return [bad(failure.outcome), f"the {failure.fault}", kind, str(len(failure.attempts)), where]
