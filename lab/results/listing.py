"""Many runs as list rows, read in four queries."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from attrs import define, field, frozen
from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased, joinedload

from lab.errors import ConfigurationError
from lab.metrics import Flag, Measurement, Metric, SampleRecord, Summary, summarise
from lab.metrics.catalogue import BOOT_STAGE, STATES
from lab.metrics.rates import RATES, FailureRate
from lab.results import rows as results_rows
from lab.results.completeness import RunCompleteness
from lab.results.models import FAILED, AttemptRow, MeasurementRow, RunRow, SampleRow
from lab.results.records import KILLED, OK, Attempt, Run
from lab.results.revision import GOES_ON, RunsRevision, runs_revision
from lab.results.store import Store

_RUNNING: Final = "running"
_RUNS_ASKED: Final = 100  # a page is made of it
_ANY: Final = "*"  # of a name that is asked for
_UNIT_S: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


ORDERS: Final[Mapping[str, InstrumentedAttribute[str]]] = {
    "what": RunRow.kind,
    "board": RunRow.board,
    "type": RunRow.board_type,
    "release": RunRow.release,
    "status": RunRow.status,
}


@frozen
class RunFilter:
    """A filter of runs; an empty field matches all.

    Attributes:
        boards, types, releases: names; a `*` in one stands for any characters.
        statuses: as of `Run`.
        killed: runs in the status "running" that count as `KILLED`, see `lab.jobs.listing`.
        since: begun then or later.
        before: the last run of the page before, in the order of `sort`.
        sort: of ORDERS, `-` before it for the reverse; runs that are equal, and all without it, are newest first.
    """

    boards: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    since: dt.datetime | None = None
    before: int | None = None
    killed: frozenset[int] = frozenset()
    sort: str = ""

    def conditions(self) -> list[ColumnElement[bool]]:
        """The filter as SQL conditions on runs."""
        named = ((RunRow.board, self.boards), (RunRow.board_type, self.types), (RunRow.release, self.releases))
        conditions = [or_(*(_matches(column, name) for name in names)) for column, names in named if names]
        if self.statuses:
            stored = and_(RunRow.status.in_(self.statuses), RunRow.id.not_in(self.killed))
            conditions.append(or_(stored, RunRow.id.in_(self.killed)) if KILLED in self.statuses else stored)
        if self.since is not None:
            conditions.append(RunRow.started_at >= self.since)
        if self.before is not None:
            conditions.append(self._after(self.before))
        return conditions

    def order(self) -> list[ColumnElement[Any]]:
        """The order as SQL."""
        newest = RunRow.id.desc()
        if not self.sort:
            return [newest]
        column = ORDERS[self.sort.removeprefix("-")]
        return [column.desc() if self.sort.startswith("-") else column.asc(), newest]

    def _after(self, last: int) -> ColumnElement[bool]:
        if not self.sort:
            return RunRow.id < last
        column, other = ORDERS[self.sort.removeprefix("-")], aliased(RunRow)
        value = select(getattr(other, column.key)).where(other.id == last).scalar_subquery()
        return or_(
            column < value if self.sort.startswith("-") else column > value, and_(column == value, RunRow.id < last)
        )


@frozen
class ListedRun:
    """A run as a list row.

    Attributes:
        outcomes: number of attempts by outcome.
        averaged: the numbers of its first metric.
    """

    run: Run
    outcomes: dict[str, int]
    averaged: list[Measurement]

    @property
    def good(self) -> int:
        """Number of good attempts."""
        return self.outcomes.get(OK, 0)

    @property
    def tried(self) -> int:
        """Number of attempts."""
        return sum(self.outcomes.values())

    @property
    def failed(self) -> int:
        """Number of failed attempts."""
        return self.tried - self.good


def list_runs(store: Store, run_filter: RunFilter = RunFilter(), limit: int | None = None) -> list[ListedRun]:
    """Return the matching runs, newest first, at most `limit`."""

    def read(session: Session) -> list[ListedRun]:
        query = select(RunRow).where(*run_filter.conditions()).order_by(*run_filter.order()).limit(limit)
        return _describe(session, [results_rows.run(row) for row in session.scalars(query)])

    return store.read(read)


def latest(store: Store, *, running: bool, known: Mapping[int, ListedRun] = {}) -> list[ListedRun]:
    """Each board's last running or ended run, by board.

    Args:
        known: earlier results; an unchanged ended run is not read again.
    """
    board = results_rows.distinct_values(RunRow.board)
    last_ended = select(RunRow.id).where(RunRow.board == board.c.value, RunRow.status != _RUNNING)
    last_ended = last_ended.order_by(RunRow.id.desc()).limit(1).correlate(board)
    last_running = select(func.max(RunRow.id)).where(GOES_ON).group_by(RunRow.board)

    def read(session: Session) -> list[ListedRun]:
        ids = last_running if running else select(last_ended.scalar_subquery()).select_from(board)
        query = select(RunRow).where(RunRow.id.in_(ids)).order_by(RunRow.board)
        runs = [results_rows.run(row) for row in session.scalars(query)]
        same = {run.id: known[run.id] for run in runs if not running and run.id in known and known[run.id].run == run}
        new = {
            listed_run.run.id: listed_run
            for listed_run in _describe(session, [run for run in runs if run.id not in same])
        }
        return [same[run.id] if run.id in same else new[run.id] for run in runs]

    return store.read(read)


@define
class LatestEnded:
    """Each board's last ended run, cached for frequent polls.

    It is read again only when a run began or ended.
    """

    _revision: RunsRevision | None = field(default=None, init=False)
    _runs: list[ListedRun] = field(factory=list, init=False)

    def of(self, store: Store) -> list[ListedRun]:
        """In the order of the boards' names."""
        now = runs_revision(store)
        if now != self._revision:
            self._runs = latest(
                store, running=False, known={listed_run.run.id: listed_run for listed_run in self._runs}
            )
            self._revision = now
        return self._runs


def failures(store: Store, since: dt.datetime) -> dict[tuple[str, str], int]:
    """Count failed attempts since then, by board and class.

    A board's latest class is its first.
    """
    query = (
        select(RunRow.board, AttemptRow.outcome, func.count())
        .join(AttemptRow, AttemptRow.run_id == RunRow.id)
        .where(AttemptRow.started_at >= since, FAILED)
        .group_by(RunRow.board, AttemptRow.outcome)
        .order_by(RunRow.board, func.max(AttemptRow.id).desc())
    )
    return store.read(lambda session: {(board, outcome): count for board, outcome, count in session.execute(query)})


@frozen
class FailedAttempt:
    """The outcome of a failed attempt, by whose fault, and its message."""

    outcome: str
    fault: str
    message: str


def last_failures(store: Store, run_ids: Collection[int]) -> dict[int, FailedAttempt]:
    """The last failed attempt of each of these runs, by run."""
    last = select(func.max(AttemptRow.id)).where(AttemptRow.run_id.in_(run_ids), AttemptRow.outcome != OK)
    columns = (AttemptRow.run_id, AttemptRow.outcome, AttemptRow.fault, AttemptRow.message)

    def read(session: Session) -> dict[int, FailedAttempt]:
        rows = session.execute(select(*columns).where(AttemptRow.id.in_(last.group_by(AttemptRow.run_id))))
        return {run: FailedAttempt(outcome, fault or "", message or "") for run, outcome, fault, message in rows}

    return store.read(read)


def still_assumed(store: Store, board_type: str, assumed: Sequence[str]) -> list[str]:
    """Assumed values of a board type that no real board has confirmed.

    The last `_RUNS_ASKED` runs are asked.

    A boot confirms its medium, the moments and the prompts; a suspend whose mode was verified confirms the mode, but
    its rails and its jumper only with power of rails: nothing else shows them.
    """
    runs = select(RunRow.id).where(RunRow.board_type == board_type).order_by(RunRow.id.desc()).limit(_RUNS_ASKED)
    query = (
        select(RunRow.kind, AttemptRow.params, SampleRow.flags, MeasurementRow.metric)
        .join(AttemptRow, AttemptRow.run_id == RunRow.id)
        .join(SampleRow, SampleRow.attempt_id == AttemptRow.id)
        .join(SampleRow.measurement)
        .where(RunRow.id.in_(runs.scalar_subquery()), AttemptRow.outcome == OK)
        .distinct()
    )
    confirmed: set[str] = set()
    for kind, params, flags, metric in store.rows(query):
        if Flag.SIMULATED in flags:
            continue
        if kind == "boot" and Flag.MEDIUM_UNVERIFIED not in flags:
            confirmed |= {f"media.{params.get('medium', '')}", "moments", "prompts"}
        if kind == "low_power" and Flag.MODE_UNVERIFIED not in flags:
            mode = f"low_power.modes.{params.get('mode', '')}"
            shown = metric.endswith((".power_rail", ".rail_voltage"))
            confirmed |= {
                place
                for place in assumed
                if place.startswith(f"{mode}.") and (shown or not place.endswith((".rails_on", ".jumper")))
            }
    return [place for place in assumed if not any(f"{place}.".startswith(f"{sure}.") for sure in confirmed)]


def column_values(store: Store, column: str) -> list[str]:
    """The values that runs have: of `board`, `board_type`, `release` or `kind`."""
    if column == "board_type":
        boards = results_rows.distinct_values(RunRow.board)
        first = select(func.min(RunRow.board_type)).where(RunRow.board == boards.c.value).scalar_subquery()
        types = select(boards.c.value.label("board"), first.label("value")).where(boards.c.value.is_not(None))
        values = types.cte(recursive=True)
        more = (RunRow.board == values.c.board, RunRow.board_type > values.c.value)
        following = select(func.min(RunRow.board_type)).where(*more).scalar_subquery()
        values = values.union_all(select(values.c.board, following).where(values.c.value.is_not(None)))
    else:
        values = results_rows.distinct_values(getattr(RunRow, column))
    query = select(values.c.value).where(values.c.value.is_not(None)).distinct()
    return store.read(lambda session: sorted(session.scalars(query)))


def instant(text: str, now: dt.datetime) -> dt.datetime:
    """Parse a past instant: a day, a time (UTC), or an age.

    `2026-11-20`, `2026-11-20T14:00`, or `90m`, `12h`, `7d`, `2w` before now.

    Raises:
        ConfigurationError: the text is no instant.
    """
    ago = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    try:
        if ago is not None:
            return now - dt.timedelta(seconds=int(ago[1]) * _UNIT_S[ago[2]])
        instant = dt.datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{text!r} is no instant: give a day (2026-11-20), a day and a time "
            "(2026-11-20T14:00), or how long ago (12h, 7d)"
        ) from error
    return instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant


def _matches(column: InstrumentedAttribute[str], name: str) -> ColumnElement[bool]:
    if _ANY not in name:
        return column == name
    escaped = re.sub(r"([\\%_])", r"\\\1", name)
    return column.like(escaped.replace(_ANY, "%"), escape="\\")


def _describe(session: Session, runs: Sequence[Run]) -> list[ListedRun]:
    ids = [run.id for run in runs]
    outcomes: dict[int, dict[str, int]] = {}
    counted = select(AttemptRow.run_id, AttemptRow.outcome, func.count()).where(AttemptRow.run_id.in_(ids))
    for run_id, outcome, count in session.execute(counted.group_by(AttemptRow.run_id, AttemptRow.outcome)):
        outcomes.setdefault(run_id, {})[outcome] = count
    averaged = _first_numbers(session, ids)
    return [ListedRun(run, outcomes.get(run.id, {}), averaged.get(run.id, [])) for run in runs]


def _first_numbers(session: Session, run_ids: Collection[int]) -> dict[int, list[Measurement]]:
    """The numbers of each run's first metric, without boot stages."""
    of_runs = and_(MeasurementRow.run_id.in_(run_ids), MeasurementRow.metric != BOOT_STAGE.name)
    first_ids = select(func.min(MeasurementRow.id)).where(of_runs).group_by(MeasurementRow.run_id)
    first = aliased(MeasurementRow)  # by its unique index its run's others are found
    same = and_(*(getattr(first, name) == getattr(MeasurementRow, name) for name in ("run_id", "metric", "version")))
    rows = select(MeasurementRow).join(first, same).where(first.id.in_(first_ids))
    measurement_rows = list(
        session.scalars(rows.options(joinedload(MeasurementRow.definition)).order_by(MeasurementRow.id))
    )
    ids = select(MeasurementRow.id).join(first, same).where(first.id.in_(first_ids))
    readings = results_rows.READINGS.where(SampleRow.measurement_id.in_(ids))
    samples = results_rows.by_measurement(session.execute(readings.order_by(AttemptRow.cycle, SampleRow.id)))
    by_run: dict[int, list[Measurement]] = {}
    for row in map(results_rows.whole, measurement_rows):
        number = Measurement(results_rows.metric(row.definition), row.params, tuple(samples.get(row.id, [])))
        by_run.setdefault(row.run_id, []).append(number)
    return by_run


STAGE = "stage"  # the parameter that tells the samples of boot.stage apart


@frozen
class Failure:
    """All failed attempts of one class.

    Attributes:
        outcome: the class.
        fault: party at fault.
        attempts: at least one, in the order they were recorded.
    """

    outcome: str
    fault: str
    transient: bool
    attempts: tuple[Attempt, ...]


@frozen
class Stage:
    """One stage of one series of boots.

    Attributes:
        start_s: mean of its start, from the first stage's start.
        summary: of its length in seconds.
    """

    name: str
    start_s: float
    summary: Summary


@define(slots=False)
class Overview:
    """A run with everything that was recorded in it."""

    run: Run
    attempts: list[Attempt]
    measurements: list[Measurement]

    @cached_property
    def numbers(self) -> dict[Metric, list[Measurement]]:
        """The run's numbers by metric, without the stages."""
        by_metric: dict[Metric, list[Measurement]] = {}
        for measurement in self.measurements:
            if measurement.metric.name != BOOT_STAGE.name:
                by_metric.setdefault(measurement.metric, []).append(measurement)
        return by_metric

    @property
    def virtual(self) -> bool:
        """True for a virtual board's run."""
        return self.run.provenance.get("virtual") is True or any(Flag.SIMULATED in m.flags for m in self.measurements)

    @property
    def software(self) -> dict[str, str]:
        """Versions that the board named; with the medium where they differ."""
        versions: dict[str, dict[str, str]] = {}
        for attempt in self.attempts:
            software = attempt.details.get("software")
            if attempt.ok and isinstance(software, Mapping):
                for name, text in software.items():
                    versions.setdefault(str(name), {}).setdefault(attempt.params.get("medium", ""), str(text))
        return {
            name: texts.popitem()[1]
            if len(set(texts.values())) == 1
            else "; ".join(f"{medium} {text}".strip() for medium, text in texts.items())
            for name, texts in versions.items()
        }

    @property
    def shortage(self) -> str:
        """The gaps of the run, as of `RunCompleteness`; empty: there are none."""
        outcomes = ((attempt.params, attempt.outcome, 1) for attempt in self.attempts)
        return RunCompleteness.of(self.run.kind, self.run.status, self.run.plan, outcomes).shortage

    @property
    def failed(self) -> list[Attempt]:
        """The attempts that gave no samples."""
        return [attempt for attempt in self.attempts if not attempt.ok]

    @property
    def failures(self) -> list[Failure]:
        """The failed attempts by class, the most frequent first."""
        groups: dict[tuple[str, str, bool], list[Attempt]] = {}
        for a in self.failed:
            groups.setdefault((a.outcome, a.fault or "", bool(a.transient)), []).append(a)
        failures = [Failure(*key, tuple(attempts)) for key, attempts in groups.items()]
        return sorted(failures, key=lambda failure: -len(failure.attempts))

    @property
    def failure_rates(self) -> dict[frozenset[tuple[str, str]], FailureRate]:
        """How often the board failed, by the attempts' parameters; empty: no rate is defined for this kind of run."""
        if self.run.kind not in RATES:
            return {}
        outcomes_by_params: dict[frozenset[tuple[str, str]], list[tuple[str, str | None, int]]] = {}
        for attempt in (attempt for attempt in self.attempts if attempt.params.get("mode") not in STATES):
            key = frozenset(attempt.params.items())
            outcomes_by_params.setdefault(key, []).append((attempt.outcome, attempt.fault, 1))
        rates = {key: FailureRate.of(outcomes) for key, outcomes in outcomes_by_params.items()}
        return {key: rate for key, rate in rates.items() if rate is not None}

    @cached_property
    def stages(self) -> dict[str, list[Stage]]:
        """The stages by medium, in the first good attempt's order.

        A stage's start is the mean over the attempts that have it of the lengths before it in the same attempt.
        """
        starts: dict[str, dict[str, list[float]]] = {}
        for attempt in self.attempts:
            at_s = 0.0
            for sample in attempt.samples:
                if sample.metric == BOOT_STAGE.name:
                    medium = starts.setdefault(sample.params.get("medium", ""), {})
                    medium.setdefault(sample.params[STAGE], []).append(at_s)
                    at_s += sample.value
        lengths = {
            (m.params.get("medium", ""), m.params[STAGE]): summarise(m.samples)
            for m in self.measurements
            if m.metric.name == BOOT_STAGE.name
        }
        return {
            medium: [Stage(name, sum(at) / len(at), lengths[medium, name]) for name, at in starts_of.items()]
            for medium, starts_of in starts.items()
        }


def overview(store: Store, run_id: int) -> Overview:
    """Everything of a run.

    Raises:
        ConfigurationError: no such run.
    """
    contents = store.contents(run_id)
    return Overview(contents.run, contents.attempts, contents.measurements)


def attempts_of(attempts: list[Attempt], measurement: Measurement) -> list[Attempt]:
    """The attempts, good and failed, at a measurement.

    An attempt at a section, or at a row of one, has other parameters than its numbers; it belongs to the numbers of the
    same section or row in any attempt.
    """
    metric, params = measurement.metric.name, measurement.params
    same: list[Mapping[str, str]] = []  # one or two
    for attempt in attempts:
        if attempt.params not in same and any(s.metric == metric and s.params == params for s in attempt.samples):
            same.append(attempt.params)
    return [a for a in attempts if a.params in same or params.items() >= a.params.items()]


def name_of(sample: SampleRecord) -> str:
    """A sample's name within its attempt: its stage, or metric and rail."""
    if STAGE in sample.params:
        return sample.params[STAGE]
    return f"{sample.metric} {sample.params.get('rail', '')}".strip()


def count_tried(attempts: list[Attempt]) -> int:
    """Number of tried cycles."""
    return len({attempt.cycle for attempt in attempts})


def sample_count(measurement: Measurement, attempts: list[Attempt]) -> str:
    """Samples of the tried cycles, e.g. "19/20"; "40 in 19/20" where a cycle has several."""
    samples, cycles = len(measurement.samples), len({sample.cycle for sample in measurement.samples})
    several = "" if samples == cycles else f"{samples} in "
    return f"{several}{cycles}/{count_tried(attempts)}"
