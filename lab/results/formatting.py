"""A run as plain text, for `lab results show` and pytest."""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Final

from attrs import asdict, evolve, frozen

from lab.errors import ConfigurationError
from lab.metrics import Flag, Measurement, Metric, Moment, Summary, summarise
from lab.metrics.limits import LimitCheck, LimitOutcome, check, limits_of
from lab.metrics.rates import RATES, FailureRate
from lab.results.artifacts import ArtifactStore
from lab.results.listing import Overview, Stage, attempts_of, overview, sample_count
from lab.results.records import ATTACHED, CONSOLE_LOG, LIMITS, MEASURED, OK, TEST, Attempt, Run
from lab.results.store import Store
from lab.terminal import bad, doubtful, plain, plain_bytes, table

_INDENT = 2


def summary_lines(store: Store, run_id: int) -> list[str]:
    """Format the run's numbers, stages and failed attempts.

    Raises:
        ConfigurationError: no such run.
    """
    return numbers_and_failures(overview(store, run_id))


def numbers_and_failures(run: Overview) -> list[str]:
    """The numbers, the stages and the failed attempts of a run."""
    sections = [
        *(_numbers(run, metric, group) for metric, group in run.numbers.items()),
        _stages(run.stages),
        _rates(run),
        _limits(run),
        _failures(run),
    ]
    return [line for lines in sections for line in lines]


def head_lines(run: Overview) -> list[str]:
    """Format the run's head: subject, time and status."""
    r = run.run
    took = f", {duration((r.finished_at - r.started_at).total_seconds())}" if r.finished_at else ""
    lines = [
        f"run {r.id}: {r.kind}, {r.board_type} {r.board!r}, release {r.release}, " + status(r),
        f"  begun {r.started_at:%Y-%m-%d %H:%M:%S} UTC{took}",
    ]
    if run.virtual:
        lines.append("  a virtual board: its numbers are never compared with a real one's")
    if run.shortage and r.finished_at:
        lines.append(bad(f"  not complete: {run.shortage}"))
    return lines + [f"  {name}: {text}" for name, text in run.software.items()]


def status(run: Run) -> str:
    """Format the run's status; highlight bad ones."""
    return _status(run.status)


def end(run: Run) -> str:
    """Format the status of a run that does not go on; highlight bad ones."""
    return _status(run.end)


def _status(word: str) -> str:
    return {"failed": bad, "interrupted": doubtful, "killed": doubtful}.get(word, str)(word)


def _numbers(run: Overview, metric: Metric, group: Sequence[Measurement]) -> list[str]:
    rows, tests = [], dict[str, None]()
    metric, summaries = readable(metric, [summarise(m.samples) for m in group])
    for m, s in zip(group, summaries, strict=True):
        values = [number(value, s.uncertainty, metric) for value in (s.uncertainty, s.median, s.p95, s.std)]
        attempts = attempts_of(run.attempts, m)
        tests.update((attempt.params[TEST], None) for attempt in attempts if TEST in attempt.params)
        cells = [label(m.params), average_cell(s, metric), sample_count(m, attempts), *values]
        flags = ", ".join(sorted(m.flags))
        rows.append([*cells, flags if m.flags <= {Flag.SIMULATED} else doubtful(flags)])
    header = ["", f"avg (min, max) [{metric.unit}]", "n", "±", "median", "p95", "std", "flags"]
    title = metric.name + (plain(f", from {', '.join(tests)}") if tests else "")
    return [title, *table(header, rows, "<<>>>>><", indent=_INDENT)]


def _stages(stages: dict[str, list[Stage]]) -> list[str]:
    if not stages:
        return []
    lengths = {
        medium: {stage.name: stage.summary for stage in medium_stages} for medium, medium_stages in stages.items()
    }
    names = list(dict.fromkeys(name for by_stage in lengths.values() for name in by_stage))
    rows = [
        [n, *(format_fixed(by_stage[n].mean, 3) if n in by_stage else "-" for by_stage in lengths.values())]
        for n in names
    ]
    return ["stages, mean [s]", *table(["", *lengths], rows, "<" + ">" * len(lengths), indent=_INDENT)]


def limit_checks(run: Overview) -> list[tuple[Measurement, LimitCheck]]:
    """The limits of a run's numbers, as they were when each was measured last."""
    checks = []
    for measurement in run.measurements:
        details = (attempt.details for attempt in reversed(attempts_of(run.attempts, measurement)))
        limits = next(
            (own for document in details if (own := limits_of(document.get(LIMITS, {}), measurement.metric.name))), []
        )
        checks += [(measurement, limit_check) for limit_check in check(limits, measurement.samples)]
    return checks


def _rates(run: Overview) -> list[str]:
    """How often the board failed, where it did."""
    lines = [f"  {label(dict(key))} {rate.text()}" for key, rate in run.failure_rates.items() if rate.failed]
    return [RATES[run.run.kind].name, *lines] if lines else []


def _limits(run: Overview) -> list[str]:
    """The limits and what became of them, the worst marked."""
    marks = {LimitOutcome.FAIL: bad, LimitOutcome.MARGINAL: doubtful}
    lines = [
        marks.get(limit_check.outcome, str)(
            limit_check.sentence(m.metric, f"  {m.metric.name} {label(m.params)}".rstrip())
        )
        for m, limit_check in limit_checks(run)
    ]
    return ["limits", *lines] if lines else []


def _failures(run: Overview) -> list[str]:
    if not run.failures:
        return [f"failed attempts: none of {len(run.attempts)}"]
    rows = []
    for failure in run.failures:
        where = "; ".join(
            f"{name} cycle {', '.join(str(a.cycle) for a in attempts)}"
            for name, attempts in groupby(failure.attempts, lambda a: label(a.params))
        )
        kind = "transient" if failure.transient else "stable"
        rows.append([bad(failure.outcome), f"the {failure.fault}", kind, str(len(failure.attempts)), where])
    title = bad(f"failed attempts: {len(run.failed)} of {len(run.attempts)}")
    return [title, *table(["class", "fault of", "", "n", "where"], rows, "<<<><", indent=_INDENT)]


FORMAT: Final = "boardlab-results"
VERSION: Final = 1
_COLUMNS: Final = ("run", "kind", "board_type", "board", "release", "status", "run_started_at")
_SAMPLE: Final = ("metric", "definition_version", "unit", "better", "resolution", "definition")
_READING: Final = ("cycle", "attempt", "attempt_started_at", "value", "uncertainty", "flags", "virtual")
_EVIDENCE: Final = ("log_sha256", "log_start", "log_end")


def run_document(run: Run) -> dict[str, Any]:
    """A run without its attempts."""
    document = asdict(run, value_serializer=_plain)
    return document | {key: document.pop(key) for key in ("started_at", "finished_at", "job_id")}  # behind the plan


def list_document(run: Run, outcomes: Mapping[str, int], measurements: Sequence[Measurement]) -> dict[str, Any]:
    """A run for `lab results list`: good attempts and first averages.

    Args:
        outcomes: number of attempts by outcome.
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
        "measurements": [
            {
                "metric": asdict(m.metric),
                "params": dict(m.params),
                "summary": asdict(summarise(m.samples)),
                "flags": sorted(m.flags),
                "samples": [asdict(sample, value_serializer=_plain) for sample in m.samples],
            }
            for m in run.measurements
        ],
        "failure_rates": [rate_document(run.run.kind, dict(key), rate) for key, rate in run.failure_rates.items()],
        "attempts": [
            asdict(attempt, filter=lambda attribute, _: attribute.name != "declared", value_serializer=_plain)
            for attempt in run.attempts
        ],
    }


def export_document(runs: Sequence[Overview]) -> dict[str, Any]:
    """The document of `lab results export --json`."""
    return {"format": FORMAT, "version": VERSION, "runs": [full_document(run) for run in runs]}


def export_csv(runs: Sequence[Overview]) -> str:
    """One line per sample, with a column `params.NAME` per parameter.

    Failed attempts have no samples, so no lines.
    """
    names = sorted({name for run in runs for m in run.measurements for name in m.params})
    columns = [*_COLUMNS, *_SAMPLE, *(f"params.{name}" for name in names), *_READING, *_EVIDENCE]
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for run in runs:
        r = run.run
        metrics = {m.metric.name: m.metric for m in run.measurements}
        for attempt in run.attempts:
            log = attempt.artifact(CONSOLE_LOG)
            for s in attempt.samples:
                its_run = (r.id, r.kind, r.board_type, r.board, r.release, r.status, r.started_at.isoformat())
                metric = metrics[s.metric]
                of_metric = (
                    metric.name,
                    metric.version,
                    metric.unit,
                    metric.better,
                    metric.resolution,
                    metric.definition,
                )
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
                writer.writerow(
                    {
                        **dict(zip(_COLUMNS, its_run, strict=True)),
                        **dict(zip(_SAMPLE, of_metric, strict=True)),
                        **{f"params.{name}": text for name, text in s.params.items()},
                        **dict(zip(_READING, reading, strict=True)),
                        **dict(zip(_EVIDENCE, evidence, strict=True)),
                    }
                )
    return file.getvalue()


def rate_document(kind: str, params: Mapping[str, str], rate: FailureRate) -> dict[str, Any]:
    """A failure rate for JSON, in percent."""
    low, high = rate.interval_percent
    return {
        "metric": RATES[kind].name,
        "params": dict(sorted(params.items())),
        "failed": rate.failed,
        "tried": rate.tried,
        "value": rate.percent,
        "low": low,
        "high": high,
    }


def _plain(_instance: object, _attribute: object, value: object) -> object:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, frozenset):
        return sorted(value)
    return dict(value) if isinstance(value, Mapping) else value


_TAIL_BYTES: Final = 4096  # of the log of an attempt without numbers


def evidence_lines(
    run: Overview, artifacts: ArtifactStore, *, cycle: int | None, medium: str | None, metric: str | None
) -> list[str]:
    """Format every attempt of a cycle; None: the first cycle.

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
    chosen_cycle = min(a.cycle for a in attempts) if cycle is None else cycle
    chosen = [a for a in attempts if a.cycle == chosen_cycle]
    if not chosen:
        first, last = min(a.cycle for a in attempts), max(a.cycle for a in attempts)
        raise ConfigurationError(f"run {run_id} has no cycle {chosen_cycle}; it has cycles {first} to {last}")
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
    text_lines = [f"{head}, {attempt.started_at:%Y-%m-%d %H:%M:%S} UTC"]
    if attempt.ok:
        text_lines += table(["  number", "", "value", "from"], numbers, "<<><")
    else:
        text_lines.append(f"  the {attempt.fault}'s fault: {plain(attempt.message)}")
    for measured in attempt.details.get(MEASURED, ()):
        value = " ".join(plain(f"{measured.get(key, '')}") for key in ("metric", "value", "unit")).strip()
        text_lines.append(f"  measured, and not counted: {value}")
    for file in attempt.artifacts:
        if file.kind.startswith(ATTACHED):
            text_lines.append(f"  file {plain(file.kind.removeprefix(ATTACHED))}: {artifacts.where(file.sha256)}")
    ref = attempt.artifact(CONSOLE_LOG)
    if ref is None:
        return [*text_lines, "  no console log was kept", ""]
    data = console_log(artifacts, attempt)
    start, end = window(attempt, metric) or (max(0, len(data) - _TAIL_BYTES), len(data))
    text_lines.append(f"  console log {artifacts.where(ref.sha256)}, {len(data)} bytes")
    zero_ns = attempt.moments[0].t_ns if attempt.moments else 0
    return [*text_lines, *(_line(line, zero_ns) for line in lines(data, start, end, attempt.moments)), ""]


def _line(line: LogLine, zero_ns: int) -> str:
    notes = "".join(
        f"  <- {m.name} at {(m.t_ns - zero_ns) / 1e9:.4f} s ± {m.uncertainty_ns / 1e6:.2f} ms" for m in line.moments
    )
    return f"{line.start:8} | {line.text}{notes}"


_MOST_DECIMALS: Final = 9
_MOST_AVERAGES: Final = 4  # in a line of the list; a run of sections has hundreds
_THOUSANDTHS: Final = {"J": "mJ", "W": "mW"}


def average_cell(summary: Summary, metric: Metric) -> str:
    """A table's cell: `16.245 (min 15.960, max 16.416)`, or one number.

    It has as many decimals as the ± allows.
    """
    mean, low, high = (
        number(value, summary.uncertainty, metric) for value in (summary.mean, summary.min, summary.max)
    )
    return f"{mean} (min {low}, max {high})" if summary.n > 1 else mean


def readable(metric: Metric, summaries: Sequence[Summary]) -> tuple[Metric, list[Summary]]:
    """The numbers in mJ below 1 J, in mW below 1 W."""
    small = _THOUSANDTHS.get(metric.unit)
    if small is None or max((max(abs(s.mean), abs(s.max)) for s in summaries), default=1.0) >= 1.0:
        return metric, list(summaries)
    in_small = [
        Summary(s.n, *(1e3 * v for v in (s.mean, s.median, s.min, s.max, s.p95, s.std, s.uncertainty)))
        for s in summaries
    ]
    return evolve(metric, unit=small, resolution=1e3 * metric.resolution), in_small


def decimals(uncertainty: float, resolution: float = 0.0) -> int:
    """Decimals for a value with this ±.

    Two digits of the ±, and none finer than the method's resolution.
    """
    finest = _places(resolution, 1) if resolution > 0 else _MOST_DECIMALS
    if uncertainty <= 0:
        return finest
    if not float(format_fixed(uncertainty, finest)):  # half a step of 1 is not ± 0
        return _places(uncertainty, 1)
    return min(finest, _places(uncertainty, 2))


def number(value: float, uncertainty: float, metric: Metric) -> str:
    """A value without its unit, with the decimals its uncertainty allows."""
    return format_fixed(value, decimals(uncertainty, metric.resolution))


def format_fixed(value: float, places: int) -> str:
    """A value with fixed decimals; zero has no sign."""
    return f"{value:z.{places}f}"


def with_uncertainty(value: float, uncertainty: float, metric: Metric) -> str:
    """`3.214 ± 0.012 s`."""
    return f"{number(value, uncertainty, metric)} ± {number(uncertainty, uncertainty, metric)} {metric.unit}"


def label(params: Mapping[str, str]) -> str:
    """Parameters in short: `sd`, or `medium=sd, stage=Kernel` for several."""
    if len(params) == 1:
        return next(iter(params.values()))
    return ", ".join(f"{key}={value}" for key, value in sorted(params.items()))


def anchor(params: Mapping[str, str]) -> str:
    """The id of these parameters' list of cycles in a run's report."""
    return "cycles-" + re.sub(r"[^a-z0-9]+", "-", label(params).lower())


def duration(seconds: float) -> str:
    """`42 s`, `5 min 12 s` or `3 h 07 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def headline(own: Sequence[Measurement]) -> str:
    """One metric's averages in a line: `boot.time [s] sd 5.829, emmc 5.9`."""
    if not own:
        return "-"
    metric = own[0].metric
    fitting, summaries = readable(metric, [summarise(m.samples) for m in own])
    averages = [
        f"{label(m.params)} {number(s.mean, s.uncertainty, fitting)}".strip()
        for m, s in zip(own[:_MOST_AVERAGES], summaries, strict=False)
    ]
    more = f" and {len(own) - len(averages)} more" if len(own) > len(averages) else ""
    return f"{metric.name} [{fitting.unit}] {', '.join(averages)}{more}"


def _places(value: float, digits: int) -> int:
    """Decimals that show `digits` significant digits of a positive value."""
    return min(_MOST_DECIMALS, max(0, digits - 1 - math.floor(math.log10(value) + 1e-9)))


@frozen
class LogLine:
    """One line of a console log.

    Attributes:
        start: of its first byte in the log.
        text: without its end; control characters are escaped (`^[`, `\\x9b`, `\\u202e`).
        moments: those whose marker ends in this line.
    """

    start: int
    text: str
    moments: tuple[Moment, ...]


def console_log(artifacts: ArtifactStore, attempt: Attempt) -> bytes:
    """An attempt's console log.

    Raises:
        ConfigurationError: the attempt has none.
        LabStableError: it is missing or damaged.
    """
    ref = attempt.artifact(CONSOLE_LOG)
    if ref is None:
        raise ConfigurationError(
            f"attempt {attempt.number} of cycle {attempt.cycle} in run {attempt.run_id} has no console log: "
            "it failed before the console was open, or its recording was not kept"
        )
    return artifacts.read(ref.sha256)


def window(attempt: Attempt, metric: str | None = None) -> tuple[int, int] | None:
    """Bytes of the log behind an attempt's numbers; None: none given.

    With `metric`: behind that metric's numbers.
    """
    samples = [s for s in attempt.samples if metric in {None, s.metric}]
    starts = [s.log_start for s in samples if s.log_start is not None]
    ends = [s.log_end for s in samples if s.log_end is not None]
    return (min(starts), max(ends)) if starts and ends else None


def lines(data: bytes, start: int, end: int, moments: Sequence[Moment] = ()) -> list[LogLine]:
    """The whole lines that the bytes start..end touch."""
    start = data.rfind(b"\n", 0, max(0, start)) + 1
    log_lines = []
    while start < min(end, len(data)):
        newline = data.find(b"\n", start)
        after = len(data) if newline < 0 else newline + 1
        here = tuple(m for m in moments if start < m.position <= after)
        log_lines.append(LogLine(start, plain_bytes(data[start:after].rstrip(b"\r\n")), here))
        start = after
    return log_lines
