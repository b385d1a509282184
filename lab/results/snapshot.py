"""Read-only snapshots of a store that other programs write.

A snapshot shows the store at one instant. Taking one creates, migrates and locks nothing. Methods that take ids of
runs read them in parts, so that a long history needs little memory.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from attrs import define, field, frozen
from sqlalchemy import ColumnElement, Engine, Executable, Text, case, cast, func, select
from sqlalchemy.orm import Session

from lab.errors import LabTransientError
from lab.metrics import Measurement, Metric
from lab.metrics.limits import Limit, limits_of
from lab.results import database, schema, sums
from lab.results import rows as results_rows
from lab.results.columns import DamagedValueError
from lab.results.database import MISREAD, damage_error, guard, guard_contents
from lab.results.location import Location, locate
from lab.results.models import FAILED, AttemptRow, DefinitionRow, MeasurementRow, ReviewRow, RunRow
from lab.results.records import LIMITS, OK, RunHead
from lab.results.sums import Average, SummarisedNumber

LOCK_TIMEOUT_S: Final = 2.0
CHUNK: Final = 500  # ids in one query; databases bound the number of parameters
_RUNS_WITH_SAMPLES: Final = 5  # runs whose samples are read in one query
_RUNS_WITH_SUMS: Final = 50  # runs whose stored sums are read in one query
_DETAILS: Final = select(AttemptRow.run_id, AttemptRow.details)
Params = Mapping[str, str]
_Read = TypeVar("_Read")


HEADS: Final = results_rows.select_fields(RunRow, RunHead)


@frozen
class AttemptCount:
    """How many attempts of a run have the same parameters and outcome.

    Attributes:
        fault: party at fault; None: they are good.
    """

    run_id: int
    params: Params
    outcome: str
    fault: str | None
    count: int


@frozen
class AttemptOutcome:
    """An attempt without its samples.

    Attributes:
        fault: party at fault; None: it is good.
        message: message of a failure; empty: it is good.
    """

    run_id: int
    params: Params
    cycle: int
    outcome: str
    fault: str | None
    message: str


@frozen
class Readings:
    """All values of one number of a run, in `unit`."""

    run_id: int
    metric: str
    unit: str
    params: Params
    values: Sequence[float]


@define
class StoreSnapshot:
    """The store at one instant."""

    _session: Session
    _location: Location
    _heads: list[RunHead] | None = field(default=None, init=False)
    _decisions: dict[int, str] | None = field(default=None, init=False)
    _labels: list[str] | None = field(default=None, init=False)
    _metrics: dict[tuple[str, int], Metric] | None = field(default=None, init=False)
    _last: tuple[tuple[int, ...], Mapping[int, Mapping[str, Any]]] = field(default=((), {}), init=False)

    def now(self) -> dt.datetime:
        """Return the time by the clock that all users of this database share (`lab.results.database.now`)."""
        return database.now(self._session)

    def heads(self) -> list[RunHead]:
        """Return all runs, the oldest first; they are read once."""
        if self._heads is None:
            self._heads = self.heads_of()
        return self._heads

    def heads_of(self, *where: ColumnElement[bool]) -> list[RunHead]:
        """Return the runs that meet these conditions, the oldest first."""
        return [RunHead(*row) for row in self.rows(HEADS.where(*where).order_by(RunRow.id))]

    def heads_with(self, run_ids: Sequence[int]) -> list[RunHead]:
        """Return the runs with these ids, as far as they exist."""
        return [head for ids in _chunks(run_ids) for head in self.heads_of(RunRow.id.in_(ids))]

    def params(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Params]]:
        """Yield each run's id with a medium and init that it was measured with, as parameters."""
        for run_id, variants in self._part(run_ids, sums.VARIANTS):
            for params in variants:
                yield run_id, params

    def measurements(self, run_ids: Sequence[int]) -> Iterator[tuple[int, list[Measurement]]]:
        """Yield each run's id with its measurements, which have their samples by cycle."""
        definitions = self._definitions()
        rows = select(MeasurementRow.run_id, MeasurementRow.id, MeasurementRow.metric, MeasurementRow.version)
        for ids in _chunks(run_ids, _RUNS_WITH_SAMPLES):
            readings = results_rows.READINGS.where(AttemptRow.run_id.in_(ids)).order_by(AttemptRow.cycle)
            samples = results_rows.by_measurement(self.rows(readings))
            by_run: dict[int, list[Measurement]] = {run_id: [] for run_id in ids}
            query = rows.add_columns(MeasurementRow.params).where(MeasurementRow.run_id.in_(ids))
            for run_id, measurement_id, metric, version, params in self.rows(query.order_by(MeasurementRow.id)):
                own_samples = tuple(samples.get(measurement_id, ()))
                by_run[run_id].append(Measurement(definitions[metric, version], params, own_samples))
            yield from by_run.items()

    def summaries(self, run_ids: Sequence[int]) -> Iterator[tuple[int, list[SummarisedNumber]]]:
        """Yield each run's id with its numbers, which have statistics in place of samples."""
        definitions = self._definitions()
        for ids in _chunks(run_ids, _RUNS_WITH_SUMS):
            stored = self._sums_of(ids)
            numbers = sums.summaries(self.rows, list(stored), definitions) if stored else {}
            rest = (
                (run_id, [SummarisedNumber.of(m.metric, m.params, m.samples) for m in measured])
                for run_id, measured in self.measurements([run_id for run_id in ids if run_id not in stored])
            )
            for run_id in ids:
                yield (run_id, numbers.get(run_id, [])) if run_id in stored else next(rest)

    def averages(self, run_ids: Sequence[int], *where: ColumnElement[bool]) -> Iterator[Average]:
        """Yield the averages of these runs' numbers, from the sums that a run's end stored or else by the database.

        Args:
            where: further conditions on the measurements.
        """
        definitions = self._definitions()
        for ids in _chunks(run_ids):
            yield from sums.averages(self.rows, ids, definitions, *where)

    def decisions(self) -> dict[int, str]:
        """Return the last decision on each reviewed run, "accepted" or "rejected"; they are read once."""
        if self._decisions is None:
            reviews = select(ReviewRow.run_id, ReviewRow.decision).order_by(ReviewRow.id)
            self._decisions = {row[0]: row[1] for row in self.rows(reviews)}
        return self._decisions

    def decisions_on(self, run_ids: Sequence[int]) -> dict[int, str]:
        """Return the last decision on each of these runs that was reviewed."""
        decisions: dict[int, str] = {}
        for ids in _chunks(run_ids):
            reviews = select(ReviewRow.run_id, ReviewRow.decision).where(ReviewRow.run_id.in_(ids))
            decisions |= {row[0]: row[1] for row in self.rows(reviews.order_by(ReviewRow.id))}
        return decisions

    def labels(self) -> list[str]:
        """Return the releases of all runs; they are read once."""
        if self._labels is None:
            names = results_rows.distinct_values(RunRow.release)
            self._labels = [row[0] for row in self.rows(select(names.c.value).where(names.c.value.is_not(None)))]
        return self._labels

    def provenances(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield each run's id with its provenance."""
        for ids in _chunks(run_ids):
            for row in self.rows(select(RunRow.id, RunRow.provenance).where(RunRow.id.in_(ids))):
                yield row[0], row[1]

    def details(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield for each good attempt its run's id with its details, in recorded order."""
        for ids in _chunks(run_ids):
            good = _DETAILS.where(AttemptRow.run_id.in_(ids), AttemptRow.outcome == OK)
            for row in self.rows(good.order_by(AttemptRow.id)):
                yield row[0], row[1]

    def last_details(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield each run's id with the details of its last good attempt."""
        for ids in _chunks(run_ids):
            lasts = select(func.max(AttemptRow.id)).where(AttemptRow.run_id.in_(ids), AttemptRow.outcome == OK)
            for row in self.rows(_DETAILS.where(AttemptRow.id.in_(lasts.group_by(AttemptRow.run_id)))):
                yield row[0], row[1]

    def limits(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Sequence[Limit]]]]:
        """Yield each run's id with the limits of its metrics when each was measured last.

        Runs without limits are left out.
        """
        with_limits = cast(AttemptRow.details, Text).like(f'%"{LIMITS}"%')
        for ids in _chunks(run_ids):
            good = _DETAILS.where(AttemptRow.run_id.in_(ids), with_limits, AttemptRow.outcome == OK)
            by_run: dict[int, dict[str, Sequence[Limit]]] = {}
            for run_id, details in self.rows(good.order_by(AttemptRow.id)):
                for metric in (documents := details.get(LIMITS, {})):
                    by_run.setdefault(run_id, {})[metric] = limits_of(documents, metric)
            yield from by_run.items()

    def _definitions(self) -> dict[tuple[str, int], Metric]:
        """Return the metrics by name and version; they are read once."""
        if self._metrics is None:
            rows = (row[0] for row in self.rows(select(DefinitionRow)))
            self._metrics = {(row.metric, row.version): results_rows.metric(row) for row in rows}
        return self._metrics

    def tallies(self, run_ids: Sequence[int]) -> Iterator[AttemptCount]:
        """Yield how many attempts of each run had each outcome, by their parameters."""
        for run_id, counts in self._part(run_ids, sums.ATTEMPTS):
            for count in counts:
                yield AttemptCount(run_id, *count)

    def runs_with_failures(self, since: dt.datetime) -> set[int]:
        """Return the ids of runs with an attempt that has failed since then."""
        query = select(AttemptRow.run_id).where(FAILED, AttemptRow.started_at >= since)
        return {row[0] for row in self.rows(query)}

    def tries(self, run_ids: Sequence[int]) -> Iterator[AttemptOutcome]:
        """Yield the attempts of these runs without their samples, those of one run in recorded order."""
        message = case((AttemptRow.outcome != OK, AttemptRow.message), else_="")
        columns = (
            AttemptRow.run_id,
            AttemptRow.params,
            AttemptRow.cycle,
            AttemptRow.outcome,
            AttemptRow.fault,
            message,
        )
        for ids in _chunks(run_ids):
            for row in self.rows(select(*columns).where(AttemptRow.run_id.in_(ids)).order_by(AttemptRow.id)):
                if None in (row[1], row[2], row[5]):
                    lost = DamagedValueError("a row of attempts has no params, cycle or message")
                    raise damage_error(lost, self._location)
                yield AttemptOutcome(*row)

    def moments(self, run_ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield each run's id with the number of its moments."""
        yield from self._part(run_ids, sums.MOMENTS)

    def readings(self, run_ids: Sequence[int]) -> Iterator[Readings]:
        """Yield all values of the metrics `lab.results.sums.TIMED`, one number at a time."""
        for run_id, numbers in self._part(run_ids, sums.READINGS):
            for number in numbers:
                yield Readings(run_id, *number)

    def _part(self, run_ids: Sequence[int], name: str) -> Iterator[tuple[int, Any]]:
        """Yield each run's id with one part of its sums."""
        for ids in _chunks(run_ids):
            yield from sums.part(self.rows, self._sums_of(ids), ids, name).items()

    def _sums_of(self, ids: tuple[int, ...]) -> Mapping[int, Mapping[str, Any]]:
        """Return the sums of those runs that have some; the last answer is kept for the next call."""
        if self._last[0] != ids:
            self._last = ids, sums.read_sums(self.rows, ids)
        return self._last[1]

    def plans(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield each run's id with its plan, which another program may have written."""
        for ids in _chunks(run_ids):
            for row in self.rows(select(RunRow.id, RunRow.plan).where(RunRow.id.in_(ids))):
                yield row.id, row.plan

    def metrics(self, run_ids: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Yield each run's id with each metric that was measured in it."""
        for ids in _chunks(run_ids):
            query = select(MeasurementRow.run_id, MeasurementRow.metric).where(MeasurementRow.run_id.in_(ids))
            for row in self.rows(query.distinct()):
                yield row.run_id, row.metric

    def read(self, work: Callable[[Session], _Read]) -> _Read:
        """Return the result of `work`, which reads in this snapshot's session.

        Raises:
            LabStableError: the store is damaged.
        """
        try:
            return work(self._session)
        except MISREAD as error:
            raise damage_error(error, self._location) from error

    def rows(self, query: Executable) -> Sequence[Any]:
        """Return the rows of a query.

        Raises:
            BoardlabError: they cannot be read.
        """
        try:
            return self._session.execute(query).all()
        except MISREAD as error:
            raise damage_error(error, self._location) from error


@define
class SnapshotReader:
    """Takes snapshots of a store that may not exist yet; `watch` makes one."""

    location: Location
    _engine: Engine = field(repr=False)  # it shows the URL
    _revision: str = field(factory=lambda: schema.NEWEST)

    @contextmanager
    def snapshot(self) -> Iterator[StoreSnapshot]:
        """Open a snapshot; all that is read from it is of one instant.

        Raises:
            BoardlabError: the database is missing, locked or of another schema, or its server does not answer.
        """
        path = self.location.path
        if path is not None and not path.is_file():
            raise LabTransientError(
                f"there are no results in {path}: the file does not exist (now); measure something, mount the disk, or "
                "name another file with --db",
                failure="results",
            )
        with guard(self.location), Session(self._engine) as session:
            schema.require(session.connection(), self._revision, self.location)
            with guard_contents(self.location):
                yield StoreSnapshot(session, self.location)


def watch(url: str | None = None, *, timeout_s: float = LOCK_TIMEOUT_S) -> SnapshotReader:
    """Return a reader of the results at a URL.

    Args:
        url: a path or URL; None: $LAB_DB, else the user's results.
        timeout_s: how long to wait for a lock of SQLite, or for an answer of PostgreSQL.

    Raises:
        ConfigurationError: it is not a URL or path of a database that boardlab can use.
    """
    location = locate(url)
    return SnapshotReader(location, database.watching(location, timeout_s))


def _chunks(ids: Sequence[int], size: int = CHUNK) -> Iterator[tuple[int, ...]]:
    """Split ids into parts of at most `size`."""
    rest = iter(ids)
    while chunk := tuple(itertools.islice(rest, size)):
        yield chunk
