"""What the page's template is given: a run's records, arranged and written out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Final

from attrs import frozen

from lab.errors import BoardlabError
from lab.metrics import Flag, Measurement, Metric, summarise
from lab.metrics.drift import drift
from lab.report.excerpt import LogGap, excerpt
from lab.report.names import Names, title_of
from lab.results.artifacts import ArtifactStore
from lab.results.formatting import LogLine, anchor, average_cell, console_log, lines, number, window, with_uncertainty
from lab.results.listing import Overview, attempts_of, name_of, tried
from lab.results.records import CONSOLE_LOG, HOST_BUSY, Attempt, Run
from lab.shown import plain

_MOST_TILES: Final = 8
_TAIL_BYTES: Final = 8192  # of the log of an attempt without numbers


@frozen
class SummaryRow:
    """A number in a table; `group` is the anchor of its cycles, or of its log where it has only one (`single`)."""

    title: str
    group: str
    average: str
    cell: str
    n: str
    uncertainty: str
    median: str
    p95: str
    std: str
    flags: tuple[str, ...]
    single: bool


@frozen
class MetricTable:
    """The numbers of one metric."""

    metric: Metric
    rows: tuple[SummaryRow, ...]

    @property
    def title(self) -> str:
        """The metric's name for a reader."""
        return title_of(self.metric)

    @property
    def single(self) -> bool:
        """Whether none of them has a spread."""
        return all(row.single for row in self.rows)

    @property
    def unit(self) -> str:
        """The unit in a word."""
        return {"s": "seconds", "ms": "milliseconds", "mW": "milliwatts"}.get(self.metric.unit, self.metric.unit)


@frozen
class AttemptEntry:
    """One attempt with its evidence.

    Attributes:
        value: the run's first number of this attempt; empty where it failed.
        message: what failed.
        numbers: name, value and bytes of the log of each of its numbers.
        log: the excerpt of its console log; empty where `problem` says why.
    """

    attempt: Attempt
    medium: str
    value: str
    message: str
    flags: tuple[str, ...]
    numbers: tuple[tuple[str, str, str], ...]
    log: list[LogLine | LogGap]
    problem: str

    @property
    def ok(self) -> bool:
        """Whether it gave its samples."""
        return self.attempt.ok

    @property
    def link(self) -> str:
        """The id of what is inside its fold."""
        return link(self.attempt)

    @property
    def busy(self) -> str:
        """How busy the host was, in per cent; empty where nobody looked."""
        busy = host_busy(self.attempt)
        return "" if busy is None else f"{100 * busy:.0f}"

    def since_first_s(self, t_ns: int) -> float:
        """Seconds from the attempt's first moment."""
        return (t_ns - self.attempt.moments[0].t_ns) / 1e9


@frozen
class AttemptGroup:
    """The attempts of one medium."""

    anchor: str
    title: str
    entries: tuple[AttemptEntry, ...]


def tables(run: Overview, names: Names) -> list[MetricTable]:
    """The run's numbers, one table a metric."""
    return [MetricTable(metric, tuple(_row(run, m, names) for m in group)) for metric, group in run.numbers.items()]


def tiles(run: Overview, names: Names) -> list[SummaryRow]:
    """The numbers that a reader wants first; none where there are too many for that."""
    found = first_numbers(run)
    return [_row(run, m, names) for m in found] if len(found) <= _MOST_TILES else []


def first_numbers(run: Overview) -> list[Measurement]:
    """The run's first metric; where it has a mode in its name, those of the other modes beside it."""
    kind = next(iter(run.numbers)).name.rpartition(".")[2] if run.numbers else ""
    return [m for metric, group in run.numbers.items() if metric.name.rpartition(".")[2] == kind for m in group]


def drifts(run: Overview, names: Names) -> list[str]:
    """A sentence for each of `first_numbers` that moved within the run, with how busy the host was."""
    found = []
    for m in first_numbers(run):
        moved = drift(m.samples)
        if moved is None:
            continue
        about = summarise(m.samples).uncertainty
        before, after = number(moved.before, about, m.metric), number(moved.after, about, m.metric)
        text = (
            f"{names.of(m.params)}: from cycle {moved.cycle} on the median is {after} {m.metric.unit}, before it was {before} "
            f"({100 * moved.ratio:+.1f} %). The average above mixes both."
        )
        loads = _loads(attempts_of(run.attempts, m), moved.cycle)
        if loads is not None:
            text += f" The host was {100 * loads[0]:.0f} % busy before, and {100 * loads[1]:.0f} % after."
        found.append(text)
    return found


def link(attempt: Attempt) -> str:
    """The id of what the page has of an attempt, inside its fold: a browser opens the fold on the way there."""
    return f"log-{attempt.id}"


def host_busy(attempt: Attempt) -> float | None:
    """The share of the host's processors' time that was used during an attempt, 0 to 1; None where nobody looked."""
    busy = attempt.details.get(HOST_BUSY)
    return float(busy) if isinstance(busy, (int, float)) else None


def _loads(attempts: Iterable[Attempt], cycle: int) -> tuple[float, float] | None:
    sides: tuple[list[float], list[float]] = ([], [])
    for attempt in attempts:
        busy = host_busy(attempt)
        if attempt.ok and busy is not None:
            sides[attempt.cycle >= cycle].append(busy)
    return (statistics.median(sides[0]), statistics.median(sides[1])) if all(sides) else None


def groups(run: Overview, artifacts: ArtifactStore, names: Names) -> list[AttemptGroup]:
    """Every attempt with its evidence, by medium, in the order of cycles."""
    found: dict[str, list[Attempt]] = {}
    for attempt in run.attempts:
        found.setdefault(anchor(attempt.params), []).append(attempt)
    return [
        AttemptGroup(
            name,
            names.of(attempts[0].params),
            tuple(_entry(run, a, artifacts, names) for a in sorted(attempts, key=lambda a: (a.cycle, a.number))),
        )
        for name, attempts in found.items()
    ]


def facts(run: Overview) -> list[tuple[str, str]]:
    """Plan and provenance, a nested key as `outer.inner`."""
    return [*_flat("plan", run.run.plan), *provenance(run.run)]


def provenance(run: Run) -> list[tuple[str, str]]:
    """What a run was measured with, a nested key as `outer.inner`."""
    return [fact for name, value in run.provenance.items() for fact in _flat(name, value)]


def _row(run: Overview, m: Measurement, names: Names) -> SummaryRow:
    s = summarise(m.samples)
    attempts = attempts_of(run.attempts, m)
    good = [a for a in attempts if a.ok]
    values = (number(value, s.uncertainty, m.metric) for value in (s.uncertainty, s.median, s.p95, s.std))
    uncertainty, median, p95, std = values
    return SummaryRow(
        title=names.of(m.params),
        group=link(good[0]) if s.n == 1 and len(good) == 1 else anchor(attempts[0].params),
        average=with_uncertainty(s.mean, s.uncertainty, m.metric),
        cell=average_cell(s, m.metric) if s.n > 1 else number(s.mean, s.uncertainty, m.metric),
        n=f"{s.n}/{tried(attempts)}",
        uncertainty=uncertainty,
        median=median,
        p95=p95,
        std=std,
        flags=_flags(m.flags),
        single=s.n == 1,
    )


def _entry(run: Overview, attempt: Attempt, artifacts: ArtifactStore, names: Names) -> AttemptEntry:
    metrics = {m.metric.name: m.metric for m in run.measurements}
    numbers = tuple(
        (
            name_of(s),
            with_uncertainty(s.value, s.uncertainty, metrics[s.metric]),
            "" if s.log_start is None else f"{s.log_start}–{s.log_end}",
        )
        for s in attempt.samples
    )
    log, problem = _log(attempt, artifacts)
    return AttemptEntry(
        attempt=attempt,
        medium=names.of(attempt.params),
        value=numbers[0][1] if numbers else "",
        message=plain(attempt.message),
        flags=_flags(frozenset().union(*(s.flags for s in attempt.samples)) - {Flag.SIMULATED}),
        numbers=numbers,
        log=log,
        problem=problem,
    )


def _log(attempt: Attempt, artifacts: ArtifactStore) -> tuple[list[LogLine | LogGap], str]:
    if attempt.artifact(CONSOLE_LOG) is None:
        return [], "No console log was kept."
    try:
        data = console_log(artifacts, attempt)
    except BoardlabError as error:
        return [], str(error)
    start, end = window(attempt) or (max(0, len(data) - _TAIL_BYTES), len(data))
    return excerpt(lines(data, start, end, attempt.moments)), ""


def _flags(flags: Iterable[str]) -> tuple[str, ...]:
    """Flags for a reader."""
    return tuple(sorted(flag.replace("_", " ") for flag in flags))


def _flat(key: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [fact for inner, item in value.items() for fact in _flat(f"{key}.{inner}", item)]
    if isinstance(value, (list, tuple)):
        return [(key, ", ".join(str(item) for item in value))]
    return [(key, str(value))]
