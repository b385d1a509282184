"""The evidence of one cycle as text: its numbers with their bytes, and the console log with its moments."""

from __future__ import annotations

from itertools import chain
from typing import Final

from lab.errors import ConfigurationError
from lab.results.artifacts import ArtifactStore
from lab.results.figures import label, with_uncertainty
from lab.results.logs import LogLine, console_log, lines, window
from lab.results.overview import Overview
from lab.results.records import CONSOLE_LOG, Attempt, MomentRecord
from lab.shown import plain, table

_TAIL_BYTES: Final = 4096  # of the log of an attempt without numbers


def evidence_lines(
    run: Overview, artifacts: ArtifactStore, *, cycle: int | None, medium: str | None, metric: str | None
) -> list[str]:
    """Lines for a terminal about every attempt of a cycle; the first cycle where `cycle` is None.

    Raises:
        ConfigurationError: no such cycle, medium or metric in this run.
        LabError: a log is missing or damaged.
    """
    chosen = _chosen(run, cycle, medium, metric)
    return list(chain.from_iterable(_attempt(a, run, artifacts, metric) for a in chosen))


def _chosen(run: Overview, cycle: int | None, medium: str | None, metric: str | None) -> list[Attempt]:
    attempts, run_id = run.attempts, run.run.id
    if not attempts:
        raise ConfigurationError(f"run {run_id} has no attempts yet, so there is no log")
    metrics = list(dict.fromkeys(m.metric.name for m in run.measurements))
    if metric is not None and metric not in metrics:
        raise ConfigurationError(f"run {run_id} has no {metric!r}; it has: {', '.join(metrics) or 'no numbers'}")
    if medium is not None:
        media = sorted({a.params["medium"] for a in attempts if "medium" in a.params})
        attempts = [a for a in attempts if a.params.get("medium") == medium]
        if not attempts:
            raise ConfigurationError(f"run {run_id} has no medium {medium!r}; it has: {', '.join(media) or 'none'}")
    wanted = min(a.cycle for a in attempts) if cycle is None else cycle
    chosen = [a for a in attempts if a.cycle == wanted]
    if not chosen:
        first, last = min(a.cycle for a in attempts), max(a.cycle for a in attempts)
        raise ConfigurationError(f"run {run_id} has no cycle {wanted}; it has cycles {first} to {last}")
    return chosen


def _attempt(attempt: Attempt, run: Overview, artifacts: ArtifactStore, metric: str | None) -> list[str]:
    units = {m.metric.name: m.metric for m in run.measurements}
    head = f"{label(attempt.params)} cycle {attempt.cycle}, attempt {attempt.number}: {attempt.outcome}"
    numbers = [
        [
            f"  {s.metric}",
            s.params.get("stage") or s.params.get("rail", ""),
            with_uncertainty(s.value, s.uncertainty, units[s.metric]),
            "-" if s.log_start is None else f"bytes {s.log_start}..{s.log_end}",
        ]
        for s in attempt.samples
        if metric in {None, s.metric}
    ]
    found = [f"{head}, {attempt.started_at:%Y-%m-%d %H:%M:%S} UTC"]
    if attempt.ok:
        found += table(["  number", "", "value", "from"], numbers, "<<><")
    else:
        found.append(f"  the {attempt.fault}'s fault: {plain(attempt.message)}")
    ref = attempt.artifact(CONSOLE_LOG)
    if ref is None:
        return [*found, "  no console log was kept", ""]
    data = console_log(artifacts, attempt)
    start, end = window(attempt, metric) or (max(0, len(data) - _TAIL_BYTES), len(data))
    found.append(f"  console log {artifacts.path(ref.sha256)}, {len(data)} bytes")
    zero_ns = attempt.moments[0].t_ns if attempt.moments else 0
    return [*found, *(_line(line, zero_ns) for line in lines(data, start, end, attempt.moments)), ""]


def _line(line: LogLine, zero_ns: int) -> str:
    notes = "".join(f"  <- {_note(moment, zero_ns)}" for moment in line.moments)
    return f"{line.start:8} | {line.text}{notes}"


def _note(moment: MomentRecord, zero_ns: int) -> str:
    """When a moment came, since the first one."""
    return f"{moment.name} at {(moment.t_ns - zero_ns) / 1e9:.4f} s ± {moment.uncertainty_ns / 1e6:.2f} ms"
