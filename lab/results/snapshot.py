"""Read-only snapshots of a store that others write.

Each is of one instant, and creates, migrates and locks nothing.
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
_RUNS: Final = 5  # whose samples are in memory at once
_RUNS_OF_SUMS: Final = 50
_DETAILS: Final = select(AttemptRow.run_id, AttemptRow.details)
Params = Mapping[str, str]
_Read = TypeVar("_Read")


HEADS: Final = results_rows.select_fields(RunRow, RunHead)


@frozen
class AttemptCount:
    """Number of a run's attempts with these parameters and this outcome."""

    run_id: int
    params: Params
    outcome: str
    fault: str | None
    count: int


@frozen
class AttemptOutcome:
    """An attempt without its samples; of a good one without its message."""

    run_id: int
    params: Params
    cycle: int
    outcome: str
    fault: str | None
    message: str


@frozen
class Readings:
    """All values of a number, in its metric's unit."""

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
        """The shared clock's time; see `lab.results.database.now`."""
        return database.now(self._session)

    def heads(self) -> list[RunHead]:
        """All runs, the oldest first; read once."""
        if self._heads is None:
            self._heads = self.heads_of()
        return self._heads

    def heads_of(self, *where: ColumnElement[bool]) -> list[RunHead]:
        """The runs with these conditions, the oldest first."""
        return [RunHead(*row) for row in self.rows(HEADS.where(*where).order_by(RunRow.id))]

    def heads_with(self, run_ids: Sequence[int]) -> list[RunHead]:
        """The runs with these ids, those that exist."""
        return [head for ids in _chunks(run_ids) for head in self.heads_of(RunRow.id.in_(ids))]

    def params(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Params]]:
        """Run, and medium and init of everything that was measured in it, as far as it has them."""
        for run_id, variants in self._part(run_ids, sums.VARIANTS):
            for params in variants:
                yield run_id, params

    def measurements(self, run_ids: Sequence[int]) -> Iterator[tuple[int, list[Measurement]]]:
        """Numbers of these runs with samples by cycle, read in parts."""
        definitions = self._definitions()
        rows = select(MeasurementRow.run_id, MeasurementRow.id, MeasurementRow.metric, MeasurementRow.version)
        for ids in _chunks(run_ids, _RUNS):
            samples = results_rows.READINGS.where(AttemptRow.run_id.in_(ids)).order_by(AttemptRow.cycle)
            taken = results_rows.by_measurement(self.rows(samples))
            numbers: dict[int, list[Measurement]] = {run_id: [] for run_id in ids}
            query = rows.add_columns(MeasurementRow.params).where(MeasurementRow.run_id.in_(ids))
            for run_id, number, metric, version, params in self.rows(query.order_by(MeasurementRow.id)):
                numbers[run_id].append(Measurement(definitions[metric, version], params, tuple(taken.get(number, ()))))
            yield from numbers.items()

    def summaries(self, run_ids: Sequence[int]) -> Iterator[tuple[int, list[SummarisedNumber]]]:
        """Numbers of these runs without their samples, read in parts."""
        definitions = self._definitions()
        for ids in _chunks(run_ids, _RUNS_OF_SUMS):
            stored = self._sums_of(ids)
            numbers = sums.summaries(self.rows, list(stored), definitions) if stored else {}
            rest = (
                (run_id, [SummarisedNumber.of(m.metric, m.params, m.samples) for m in measured])
                for run_id, measured in self.measurements([run_id for run_id in ids if run_id not in stored])
            )
            for run_id in ids:
                yield (run_id, numbers.get(run_id, [])) if run_id in stored else next(rest)

    def averages(self, run_ids: Sequence[int], *where: ColumnElement[bool]) -> Iterator[Average]:
        """Averages of these runs; the database makes them, or made them at a run's end.

        Args:
            where: further conditions on the measurements.
        """
        definitions = self._definitions()
        for ids in _chunks(run_ids):
            yield from sums.averages(self.rows, ids, definitions, *where)

    def decisions(self) -> dict[int, str]:
        """Each run's last decision: accepted or rejected."""
        if self._decisions is None:
            reviews = select(ReviewRow.run_id, ReviewRow.decision).order_by(ReviewRow.id)
            self._decisions = {row[0]: row[1] for row in self.rows(reviews)}
        return self._decisions

    def decisions_on(self, run_ids: Sequence[int]) -> dict[int, str]:
        """The last decision on each of these runs, if there is one."""
        decisions: dict[int, str] = {}
        for ids in _chunks(run_ids):
            reviews = select(ReviewRow.run_id, ReviewRow.decision).where(ReviewRow.run_id.in_(ids))
            decisions |= {row[0]: row[1] for row in self.rows(reviews.order_by(ReviewRow.id))}
        return decisions

    def labels(self) -> list[str]:
        """The releases of all runs; read once."""
        if self._labels is None:
            names = results_rows.distinct_values(RunRow.release)
            self._labels = [row[0] for row in self.rows(select(names.c.value).where(names.c.value.is_not(None)))]
        return self._labels

    def provenances(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Run and provenance."""
        for ids in _chunks(run_ids):
            for row in self.rows(select(RunRow.id, RunRow.provenance).where(RunRow.id.in_(ids))):
                yield row[0], row[1]

    def details(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Run, and the details of each of its good attempts."""
        for ids in _chunks(run_ids):
            good = _DETAILS.where(AttemptRow.run_id.in_(ids), AttemptRow.outcome == OK)
            for row in self.rows(good.order_by(AttemptRow.id)):
                yield row[0], row[1]

    def last_details(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Run, and the details of its last good attempt."""
        for ids in _chunks(run_ids):
            lasts = select(func.max(AttemptRow.id)).where(AttemptRow.run_id.in_(ids), AttemptRow.outcome == OK)
            for row in self.rows(_DETAILS.where(AttemptRow.id.in_(lasts.group_by(AttemptRow.run_id)))):
                yield row[0], row[1]

    def limits(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Sequence[Limit]]]]:
        """Run, and its metrics' limits as they were in the last attempt with each; only runs that have some."""
        with_limits = cast(AttemptRow.details, Text).like(f'%"{LIMITS}"%')
        for ids in _chunks(run_ids):
            good = _DETAILS.where(AttemptRow.run_id.in_(ids), with_limits, AttemptRow.outcome == OK)
            by_run: dict[int, dict[str, Sequence[Limit]]] = {}
            for run_id, details in self.rows(good.order_by(AttemptRow.id)):
                for metric in (documents := details.get(LIMITS, {})):
                    by_run.setdefault(run_id, {})[metric] = limits_of(documents, metric)
            yield from by_run.items()

    def _definitions(self) -> dict[tuple[str, int], Metric]:
        if self._metrics is None:
            rows = (row[0] for row in self.rows(select(DefinitionRow)))
            self._metrics = {(row.metric, row.version): results_rows.metric(row) for row in rows}
        return self._metrics

    def tallies(self, run_ids: Sequence[int]) -> Iterator[AttemptCount]:
        """The outcomes of these runs' attempts."""
        for run_id, counts in self._part(run_ids, sums.ATTEMPTS):
            for count in counts:
                yield AttemptCount(run_id, *count)

    def runs_with_failures(self, since: dt.datetime) -> set[int]:
        """The runs with an attempt that failed since then."""
        query = select(AttemptRow.run_id).where(FAILED, AttemptRow.started_at >= since)
        return {row[0] for row in self.rows(query)}

    def tries(self, run_ids: Sequence[int]) -> Iterator[AttemptOutcome]:
        """Attempts of these runs, of each run in recorded order."""
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
        """Each run's number of moments."""
        yield from self._part(run_ids, sums.MOMENTS)

    def readings(self, run_ids: Sequence[int]) -> Iterator[Readings]:
        """All values of the metrics of `lab.results.sums.TIMED`, a number at a time."""
        for run_id, numbers in self._part(run_ids, sums.READINGS):
            for number in numbers:
                yield Readings(run_id, *number)

    def _part(self, run_ids: Sequence[int], name: str) -> Iterator[tuple[int, Any]]:
        for ids in _chunks(run_ids):
            yield from sums.part(self.rows, self._sums_of(ids), ids, name).items()

    def _sums_of(self, ids: tuple[int, ...]) -> Mapping[int, Mapping[str, Any]]:
        """The sums of runs that have some; the last answer stays."""
        if self._last[0] != ids:
            self._last = ids, sums.read_sums(self.rows, ids)
        return self._last[1]

    def plans(self, run_ids: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Run and plan, which another program may have written."""
        for ids in _chunks(run_ids):
            for row in self.rows(select(RunRow.id, RunRow.plan).where(RunRow.id.in_(ids))):
                yield row.id, row.plan

    def metrics(self, run_ids: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Run, and each metric that it has."""
        for ids in _chunks(run_ids):
            query = select(MeasurementRow.run_id, MeasurementRow.metric).where(MeasurementRow.run_id.in_(ids))
            for row in self.rows(query.distinct()):
                yield row.run_id, row.metric

    def read(self, work: Callable[[Session], _Read]) -> _Read:
        """The result of reading in this snapshot's session.

        Raises:
            LabStableError: the store is damaged.
        """
        try:
            return work(self._session)
        except MISREAD as error:
            raise damage_error(error, self._location) from error

    def rows(self, query: Executable) -> Sequence[Any]:
        """The rows of a query.

        Raises:
            BoardlabError: they cannot be read.
        """
        try:
            return self._session.execute(query).all()
        except MISREAD as error:
            raise damage_error(error, self._location) from error


@define
class SnapshotReader:
    """Takes snapshots of a store that may not exist yet; see `watch`."""

    location: Location
    _engine: Engine = field(repr=False)  # it shows the URL
    _revision: str = field(factory=lambda: schema.NEWEST)

    @contextmanager
    def snapshot(self) -> Iterator[StoreSnapshot]:
        """One snapshot; everything read from it is of the same instant.

        Raises:
            BoardlabError: the database is missing, locked, of another schema, or its server does not answer.
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
    """A reader of `url`, else $LAB_DB, else the user's results.

    Args:
        timeout_s: limit for a lock of SQLite, or for an answer of PostgreSQL.

    Raises:
        ConfigurationError: not a URL or path of a database that boardlab can use.
    """
    location = locate(url)
    return SnapshotReader(location, database.watching(location, timeout_s))


def _chunks(ids: Sequence[int], size: int = CHUNK) -> Iterator[tuple[int, ...]]:
    rest = iter(ids)
    while chunk := tuple(itertools.islice(rest, size)):
        yield chunk
