"""Lists of runs, and the overview of one run with its numbers, stages and failures."""

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
_RUNS_ASKED: Final = 100  # latest runs of a board type that are searched for confirmations
_ANY: Final = "*"  # in a filter's name: any characters
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
    """A filter of runs with an order; an empty field matches all runs.

    Attributes:
        boards, types, releases: names; a `*` in one stands for any characters.
        statuses: statuses of `lab.results.records.STATUSES`.
        since: only runs that began then or later.
        before: id of the last run of the previous page, in the order of `sort`; None: the first page.
        killed: ids of runs that are "running" in the store and count as `KILLED` (`lab.jobs.listing`).
        sort: a key of `ORDERS`, with `-` before it for the reverse order; empty: newest first, as are equal runs.
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
        """Return the filter as SQL conditions on runs."""
        columns = ((RunRow.board, self.boards), (RunRow.board_type, self.types), (RunRow.release, self.releases))
        conditions = [or_(*(_matches(column, name) for name in names)) for column, names in columns if names]
        if self.statuses:
            stored = and_(RunRow.status.in_(self.statuses), RunRow.id.not_in(self.killed))
            conditions.append(or_(stored, RunRow.id.in_(self.killed)) if KILLED in self.statuses else stored)
        if self.since is not None:
            conditions.append(RunRow.started_at >= self.since)
        if self.before is not None:
            conditions.append(self._after(self.before))
        return conditions

    def order(self) -> list[ColumnElement[Any]]:
        """Return the order as SQL."""
        newest = RunRow.id.desc()
        if not self.sort:
            return [newest]
        column = ORDERS[self.sort.removeprefix("-")]
        return [column.desc() if self.sort.startswith("-") else column.asc(), newest]

    def _after(self, last: int) -> ColumnElement[bool]:
        """Return the condition of the runs that come after one in the order of `sort`."""
        if not self.sort:
            return RunRow.id < last
        column, other = ORDERS[self.sort.removeprefix("-")], aliased(RunRow)
        value = select(getattr(other, column.key)).where(other.id == last).scalar_subquery()
        return or_(
            column < value if self.sort.startswith("-") else column > value, and_(column == value, RunRow.id < last)
        )


@frozen
class ListedRun:
    """A run as one row of a list.

    Attributes:
        outcomes: outcome -> number of attempts.
        averaged: measurements of the run's first metric.
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
    """Return the matching runs in the filter's order.

    Args:
        limit: number of runs at most; None: all.
    """

    def read(session: Session) -> list[ListedRun]:
        query = select(RunRow).where(*run_filter.conditions()).order_by(*run_filter.order()).limit(limit)
        return _describe(session, [results_rows.run(row) for row in session.scalars(query)])

    return store.read(read)


def latest(store: Store, *, running: bool, earlier: Mapping[int, ListedRun] = {}) -> list[ListedRun]:
    """Return each board's last run, in the order of the boards' names.

    Args:
        running: True: the last run in progress; False: the last one that has ended.
        earlier: id -> row of an earlier answer; an ended run that has not changed since is not read again.
    """
    board = results_rows.distinct_values(RunRow.board)
    last_ended = select(RunRow.id).where(RunRow.board == board.c.value, RunRow.status != _RUNNING)
    last_ended = last_ended.order_by(RunRow.id.desc()).limit(1).correlate(board)
    last_running = select(func.max(RunRow.id)).where(GOES_ON).group_by(RunRow.board)

    def read(session: Session) -> list[ListedRun]:
        ids = last_running if running else select(last_ended.scalar_subquery()).select_from(board)
        query = select(RunRow).where(RunRow.id.in_(ids)).order_by(RunRow.board)
        runs = [results_rows.run(row) for row in session.scalars(query)]
        unchanged = {
            run.id: earlier[run.id] for run in runs if not running and run.id in earlier and earlier[run.id].run == run
        }
        changed = {
            listed_run.run.id: listed_run
            for listed_run in _describe(session, [run for run in runs if run.id not in unchanged])
        }
        return [unchanged[run.id] if run.id in unchanged else changed[run.id] for run in runs]

    return store.read(read)


@define
class LatestEnded:
    """A cache of each board's last ended run, for frequent polls.

    The runs are read again only if a run has begun or ended since.
    """

    _revision: RunsRevision | None = field(default=None, init=False)
    _runs: list[ListedRun] = field(factory=list, init=False)

    def of(self, store: Store) -> list[ListedRun]:
        """Return the runs in the order of the boards' names."""
        now = runs_revision(store)
        if now != self._revision:
            earlier = {listed_run.run.id: listed_run for listed_run in self._runs}
            self._runs = latest(store, running=False, earlier=earlier)
            self._revision = now
        return self._runs


def failures(store: Store, since: dt.datetime) -> dict[tuple[str, str], int]:
    """Count the attempts that have failed since then.

    Returns:
        Board and failure class -> number, sorted by board; of a board the class that came last is first.
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
    """A failed attempt in short: its failure class, the party at fault, and its message."""

    outcome: str
    fault: str
    message: str


def last_failures(store: Store, run_ids: Collection[int]) -> dict[int, FailedAttempt]:
    """Return the last failed attempt of each of these runs that has one."""
    last = select(func.max(AttemptRow.id)).where(AttemptRow.run_id.in_(run_ids), AttemptRow.outcome != OK)
    columns = (AttemptRow.run_id, AttemptRow.outcome, AttemptRow.fault, AttemptRow.message)

    def read(session: Session) -> dict[int, FailedAttempt]:
        rows = session.execute(select(*columns).where(AttemptRow.id.in_(last.group_by(AttemptRow.run_id))))
        return {run: FailedAttempt(outcome, fault or "", message or "") for run, outcome, fault, message in rows}

    return store.read(read)


def still_assumed(store: Store, board_type: str, assumed: Sequence[str]) -> list[str]:
    """Return the assumed values of a board type that no run of a real board has confirmed.

    A boot confirms its medium, the moments and the prompts. A suspend with a verified mode confirms the mode; its rails
    and its jumper are confirmed only if the power of rails was measured, since nothing else shows them.

    Args:
        assumed: paths of the values in the type, e.g. "media.sd".
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
            has_rails = metric.endswith((".power_rail", ".rail_voltage"))
            confirmed |= {
                path
                for path in assumed
                if path.startswith(f"{mode}.") and (has_rails or not path.endswith((".rails_on", ".jumper")))
            }
    return [path for path in assumed if not any(f"{path}.".startswith(f"{prefix}.") for prefix in confirmed)]


def column_values(store: Store, column: str) -> list[str]:
    """Return the sorted values that runs have in the column `board`, `board_type`, `release` or `kind`."""
    if column == "board_type":
        # No index begins with the type; that of boards and types gives the types board by board.
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
    """Parse a past instant.

    It is a day (`2026-11-20`), a day and a time (`2026-11-20T14:00`, UTC unless it has a zone), or an age before `now`
    (`90m`, `12h`, `7d`, `2w`).

    Raises:
        ConfigurationError: the text is none of these.
    """
    ago = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    try:
        if ago is not None:
            return now - dt.timedelta(seconds=int(ago[1]) * _UNIT_S[ago[2]])
        instant = dt.datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{text!r} is no point in time: give a day (2026-11-20), a day and a time "
            "(2026-11-20T14:00), or how long ago (12h, 7d)"
        ) from error
    return instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant


def _matches(column: InstrumentedAttribute[str], name: str) -> ColumnElement[bool]:
    """Return the condition that a column has a name, in which `*` stands for any characters."""
    if _ANY not in name:
        return column == name
    escaped = re.sub(r"([\\%_])", r"\\\1", name)
    return column.like(escaped.replace(_ANY, "%"), escape="\\")


def _describe(session: Session, runs: Sequence[Run]) -> list[ListedRun]:
    """Read the outcomes and the first numbers of runs, in a few queries for all of them."""
    ids = [run.id for run in runs]
    outcomes: dict[int, dict[str, int]] = {}
    counted = select(AttemptRow.run_id, AttemptRow.outcome, func.count()).where(AttemptRow.run_id.in_(ids))
    for run_id, outcome, count in session.execute(counted.group_by(AttemptRow.run_id, AttemptRow.outcome)):
        outcomes.setdefault(run_id, {})[outcome] = count
    averaged = _first_numbers(session, ids)
    return [ListedRun(run, outcomes.get(run.id, {}), averaged.get(run.id, [])) for run in runs]


def _first_numbers(session: Session, run_ids: Collection[int]) -> dict[int, list[Measurement]]:
    """Return the measurements of each run's first metric; stages of the boot do not count."""
    of_runs = and_(MeasurementRow.run_id.in_(run_ids), MeasurementRow.metric != BOOT_STAGE.name)
    first_ids = select(func.min(MeasurementRow.id)).where(of_runs).group_by(MeasurementRow.run_id)
    first = aliased(MeasurementRow)  # its other measurements are found by the unique index
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


STAGE = "stage"  # parameter that distinguishes the samples of boot.stage


@frozen
class Failure:
    """All failed attempts of a run with one failure class.

    Attributes:
        outcome: the failure class.
        fault: party at fault.
        transient: True if a retry may help.
        attempts: at least one, in recorded order.
    """

    outcome: str
    fault: str
    transient: bool
    attempts: tuple[Attempt, ...]


@frozen
class Stage:
    """One stage of a run's boots from one medium.

    Attributes:
        start_s: mean time from the start of the first stage to its own, in s.
        summary: statistics of its length, in s.
    """

    name: str
    start_s: float
    summary: Summary


@define(slots=False)
class Overview:
    """A run with its attempts and measurements, and what follows from them."""

    run: Run
    attempts: list[Attempt]
    measurements: list[Measurement]

    @cached_property
    def numbers(self) -> dict[Metric, list[Measurement]]:
        """The run's measurements by metric, without the stages of the boot."""
        by_metric: dict[Metric, list[Measurement]] = {}
        for measurement in self.measurements:
            if measurement.metric.name != BOOT_STAGE.name:
                by_metric.setdefault(measurement.metric, []).append(measurement)
        return by_metric

    @property
    def virtual(self) -> bool:
        """True if the board is virtual."""
        return self.run.provenance.get("virtual") is True or any(Flag.SIMULATED in m.flags for m in self.measurements)

    @property
    def software(self) -> dict[str, str]:
        """Name -> version that the board printed; with the media if these differ, as "sd 2025.01; emmc 2024.04"."""
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
        """The run's gaps, as `RunCompleteness.shortage`; empty: none."""
        outcomes = ((attempt.params, attempt.outcome, 1) for attempt in self.attempts)
        return RunCompleteness.of(self.run.kind, self.run.status, self.run.plan, outcomes).shortage

    @property
    def failed(self) -> list[Attempt]:
        """The failed attempts, in recorded order."""
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
        """The share of attempts that the board failed, by their parameters; empty: this kind of run has no rate."""
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
        """The stages by medium, in the order of the first good attempt.

        A stage starts in an attempt when the stages before it have ended. Its start is the mean over the attempts that
        have it.
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
    """Read a run with its attempts and measurements.

    Raises:
        ConfigurationError: there is no such run.
    """
    contents = store.contents(run_id)
    return Overview(contents.run, contents.attempts, contents.measurements)


def attempts_of(attempts: list[Attempt], measurement: Measurement) -> list[Attempt]:
    """Return the attempts, good and failed, that tried to measure a number.

    The parameters of an attempt at a section, or at a row of one, differ from those of its numbers. So it counts if it
    has the parameters of an attempt that has measured the number.
    """
    metric, params = measurement.metric.name, measurement.params
    attempt_params: list[Mapping[str, str]] = []  # one or two
    for attempt in attempts:
        if attempt.params in attempt_params:
            continue
        if any(sample.metric == metric and sample.params == params for sample in attempt.samples):
            attempt_params.append(attempt.params)
    return [
        attempt for attempt in attempts if attempt.params in attempt_params or params.items() >= attempt.params.items()
    ]


def name_of(sample: SampleRecord) -> str:
    """Return a sample's name within its attempt: its stage, or its metric and rail."""
    if STAGE in sample.params:
        return sample.params[STAGE]
    return f"{sample.metric} {sample.params.get('rail', '')}".strip()


def count_tried(attempts: list[Attempt]) -> int:
    """Return how many cycles these attempts have tried."""
    return len({attempt.cycle for attempt in attempts})


def sample_count(measurement: Measurement, attempts: list[Attempt]) -> str:
    """Return how many of the tried cycles have samples, e.g. "19/20".

    If a cycle has several samples their number comes first, e.g. "40 in 19/20".
    """
    samples, cycles = len(measurement.samples), len({sample.cycle for sample in measurement.samples})
    several = "" if samples == cycles else f"{samples} in "
    return f"{several}{cycles}/{count_tried(attempts)}"
