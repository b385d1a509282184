"""The queue of jobs: they wait for boards, hold them, and take them over from dead jobs.

A job holds its board by its row in the store, which is a lease that it renews by heartbeats. A partial unique index of
the database ensures that at most one job of a board is running.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable, Collection, Sequence
from enum import Enum, auto
from typing import Any, Final

from attrs import Factory, field, frozen
from sqlalchemy import ColumnElement, Row, and_, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from lab.errors import BoardlabError, ConfigurationError, LabStableError
from lab.health import DEFAULT_RULE, QuarantineRule
from lab.health.reservations import OWN, Hold, standing
from lab.health.store import holds_of
from lab.jobs.records import (
    BOARDS,
    BY_HEALTH,
    BY_LAB_RUN,
    BY_PROVISION,
    BY_QUALIFY,
    BY_WEB,
    HEALTH,
    LEASE_S,
    HasDied,
    Job,
    JobState,
    Order,
    Silence,
    call,
    final_state,
    job_of,
)
from lab.results.models import AttemptRow, JobRow, RunRow
from lab.results.records import Run
from lab.results.rows import columns_of, json_of, run
from lab.results.store import Store

# Waiting jobs are in the order of their priority plus one point for each `POINT_S` that they have waited. All age
# alike, so the order of two waiting jobs never changes. It is the order of one instant for each job: the time at which
# it was queued, less the worth of its priority. Jobs with a later instant come later, so a job waits for a bounded
# number of others.


PERSONS: Final = 10  # priority of a job that a person waits for; as FORCED in farm/buildbot/master.cfg
TIMERS: Final = 0  # priority of a timer's job
POINT_S: Final = 1_440.0  # ten points are worth four hours, as long as a timer's job waits for its board


def turn(priority: int, queued_at: dt.datetime) -> dt.datetime:
    """Return the sort key of a waiting job; the earliest one is next."""
    return queued_at - dt.timedelta(seconds=priority * POINT_S)


def _rank(row: Job | JobRow | Row[Any]) -> tuple[dt.datetime, int]:
    """Return the unique sort key of a waiting job."""
    return turn(row.priority, row.queued_at), row.id


UNENDED: Final = ("queued", "running")  # states of jobs that have not ended
LOOK_S: Final = 2.0  # time between two looks at a job that seems dead
# The statements are built once: SQLAlchemy takes longer to build one than SQLite to execute it.
_OF_WAITING: Final = and_(
    JobRow.id == bindparam("job"),
    JobRow.holder == bindparam("by"),
    JobRow.state == "queued",
    JobRow.cancelled_by == "",
)
_RENEWED: Final = update(JobRow).where(_OF_WAITING).values(heartbeat_at=bindparam("at"))
_ON_BOARDS: Final = select(
    *(JobRow.id, JobRow.board, JobRow.state, JobRow.holder, JobRow.heartbeat_at, JobRow.program),
    *(JobRow.priority, JobRow.queued_at),
).where(JobRow.state.in_(UNENDED), JobRow.board.in_(bindparam("boards", expanding=True)))
_log = logging.getLogger(__name__)


class Prospect(Enum):
    """The prospect of a waiting job."""

    MAY_START = auto()  # a board may be free for it, or a job before it is dead: `start` decides
    NEXT = auto()  # it waits for a running job or a reservation, and no waiting job is before it
    BEHIND = auto()  # living jobs that wait, too, are before it


@frozen
class JobQueue:
    """The jobs of a store, for one process that waits and measures.

    Attributes:
        holder: this process, which may change only its own jobs.
        has_died: tells whether the process of another holder has ended.
        now: the store's clock, by which all hosts write their heartbeats.
        person, program: person and program that start its jobs.
        ignores: True: also take a board that this person has reserved.
        priority: priority of its jobs; below PERSONS they give way to reservations.
        rule: rule by which a board is put in quarantine.
        request: id of the request of another queue that its job belongs to; empty: none.
        silence: observed silence of other jobs.
        pause: waits that many seconds between two looks.
    """

    store: Store
    holder: str
    has_died: HasDied
    now: Callable[[], dt.datetime] = field(default=Factory(lambda self: self.store.now, takes_self=True))
    person: str = ""
    program: str = BY_LAB_RUN
    ignores: bool = False
    priority: int = PERSONS
    rule: QuarantineRule = DEFAULT_RULE
    request: str = ""
    silence: Silence = field(factory=Silence, eq=False)
    pause: Callable[[float], None] = field(default=time.sleep)

    @property
    def monotonic_s(self) -> float:
        """The time by the monotonic clock of its waits and of `silence`."""
        return self.silence.now_s()

    def enqueue(self, order: Order) -> Job:
        """Store a new job, which waits from now on."""

        def insert(session: Session) -> Job:
            now = self.now()
            row = JobRow(
                **columns_of(order, "suites", "options"),
                suites=",".join(order.suites),
                state="queued",
                holder=self.holder,
                after_run=last_run(session, order.board),
                queued_at=now,
                heartbeat_at=now,
                options=json_of("options", order.options),
                person=self.person,
                program=self.program,
                priority=self.priority,
                request=self.request,
            )
            session.add(row)
            session.flush()
            return job_of(row)

        return self.store.write(insert)

    def job(self, job_id: int) -> Job:
        """Return one job.

        Raises:
            ConfigurationError: there is no such job.
        """
        return self.store.read(lambda session: job_of(find(session, job_id)))

    def take_up(self, job_id: int) -> Job:
        """Let an interrupted, failed or dead job wait again, as a job of this process.

        A job that seems dead is watched first, see `settle`.

        Raises:
            ConfigurationError: there is no such job, it is completed, it waits or runs, or another program started it.
        """

        def requeue(session: Session) -> Job:
            row = find(session, job_id)
            if row.state in {"completed", "refused"}:
                raise ConfigurationError(
                    f"job {call(job_id)} is {row.state}, there is nothing to resume; start a new one"
                )
            if row.state in {"queued", "running"} and not self._dead(row):
                raise ConfigurationError(
                    f"job {call(job_id)} is {row.state}: {job_of(row).who}; let "
                    f"it end, or: lab jobs cancel {call(job_id)}"
                )
            if row.program != self.program:
                raise ConfigurationError(
                    f"job {call(job_id)} was a session of {row.program}, see: lab jobs show {call(job_id)}"
                )
            row.state, row.holder, row.finished_at, row.cancelled_by = "queued", self.holder, None, ""
            row.person, row.priority, row.yields_to = self.person or row.person, self.priority, ""
            row.queued_at = row.heartbeat_at = self.now()
            row.request = self.request or row.request
            return job_of(row)

        self.settle(JobRow.id == job_id)
        return self.store.write(requeue)

    def unfinished(self, order: Order) -> Job | None:
        """Return the latest interrupted or dead job with this order, to be resumed; None: there is none.

        Later jobs without measurements do not matter, e.g. one that a busy board has refused. If a later job has
        measured, nothing is resumed: its results are newer, and a person should look at its failure. Jobs that seem
        dead are watched first, see `settle`.
        """
        same = (JobRow.board == order.board, JobRow.suites == ",".join(order.suites), JobRow.env == order.env)
        like = (JobRow.release == order.release, JobRow.program == self.program, JobRow.state != "refused")
        query = select(JobRow).where(*same, *like)
        self.settle(*same, *like)

        def latest(session: Session) -> Job | None:
            without_runs: Job | None = None  # the latest resumable job that has measured nothing
            for row in session.scalars(query.order_by(JobRow.id.desc())):
                if (row.cycles, dict(row.options)) != (order.cycles, dict(order.options)):
                    continue
                died = row.state in {"queued", "running"} and not row.cancelled_by and self._dead(row)
                resumable = died or row.state == "interrupted"
                if has_measured(session, row, LEASE_S):
                    return job_of(row) if resumable else without_runs
                without_runs = without_runs or (job_of(row) if resumable else None)
            return without_runs

        return self.store.read(latest)

    def start(self, job_id: int) -> Job | None:
        """Start a waiting job, so that it holds its board.

        Returns:
            The job. None: another job has the board or is before it, the board is reserved, or the job was cancelled.

        Raises:
            LabStableError: another process has taken the job over (`lease_lost`).
        """

        def take(session: Session) -> Job | None:
            mine = self._own(session, job_id, "queued")
            if mine.cancelled_by:
                return None
            chooses = and_(JobRow.started_at.is_(None), JobRow.options[BOARDS].as_string().is_not(None))
            choosing = and_(JobRow.board_type == mine.board_type, JobRow.state == "queued", chooses)
            query = select(JobRow).where(JobRow.state.in_(UNENDED), or_(JobRow.board == mine.board, choosing))
            # By FOR UPDATE PostgreSQL lets one process start at a time, before anything is written here; SQLite does
            # so anyway. `id + 0` makes SQLite use the index of states, and not read all jobs in the order of their ids.
            query = query.order_by(JobRow.id + 0).with_for_update()
            rows = [
                row for row in session.scalars(query) if row.board == mine.board or mine.board in row.options[BOARDS]
            ]
            mine.heartbeat_at = now = self.now()
            holds = holds_of(session, mine.board, now, self.rule)
            living = []
            for row in filter(lambda row: row.id != job_id, rows):  # look at all: each look measures their silence
                if self._dead(row):
                    row.state, row.finished_at = final_state(row, "interrupted"), row.heartbeat_at
                else:
                    living.append(row)
            for row in living:
                # A job before this one delays it, unless it waits for another person's reservation or, by `wait_on`,
                # for something else than the board.
                if row.state == "running" or (
                    _rank(row) < _rank(mine)
                    and all(hold.person == row.person for hold in holds)
                    and not (row.yields_to and row.priority >= PERSONS)
                ):
                    return None
            if self._refusing_holds(holds, checks=may_have_quarantined(mine), qualifies=may_have_unqualified(mine)):
                return None
            session.flush()  # the unique index allows this job only after the dead holder's row has changed
            if mine.started_at is None:  # runs of other jobs while it waited do not belong to it
                mine.after_run = last_run(session, mine.board)
            mine.state, mine.yields_to = "running", ""
            mine.started_at = now
            return job_of(mine)

        return self.store.write(take)

    def prospect(self, job: Job, boards: Collection[str]) -> Prospect:
        """Send a heartbeat of a waiting job, and look at the jobs and reservations before it.

        It takes a fraction of the time of `start`, and is repeated in place of it.

        Args:
            boards: boards that the job may take.
        """

        def look(session: Session) -> Prospect:
            connection, now = session.connection(), self.now()
            renewed = connection.execute(_RENEWED, {"job": job.id, "by": self.holder, "at": now})
            if not renewed.rowcount:
                return Prospect.MAY_START  # it was cancelled, or another process has it: `start` finds that out
            rows: Sequence[Any] = connection.execute(_ON_BOARDS, {"boards": list(boards)}).all()
            before = [row for row in rows if row.id != job.id and (row.state == "running" or _rank(row) < _rank(job))]
            dead = [row for row in before if self._dead(row)]  # look at all: each look measures their silence
            not_running = set(boards) - {row.board for row in before if row.state == "running"}
            exceptions = {"checks": may_have_quarantined(job), "qualifies": may_have_unqualified(job)}
            holds = [hold for board in not_running for hold in standing(session, board, now)]
            if dead or not not_running <= {hold.board for hold in self._refusing_holds(holds, **exceptions)}:
                return Prospect.MAY_START
            is_behind = any(row.state == "queued" for row in before) and not any(map(self.silence.is_silent, before))
            return Prospect.BEHIND if is_behind else Prospect.NEXT

        return self.store.write(look)

    def free(self, boards: Collection[str]) -> list[str]:
        """Return those of the boards that this person's job could take now, the longest unused one first."""
        running = select(JobRow).where(JobRow.state == "running")

        def read(session: Session) -> list[str]:
            unavailable = {hold.board for hold in self._refusing_holds(standing(session, None, self.now()))}
            unavailable.update(
                row.board for row in session.scalars(running) if row.board in boards and not self._dead(row)
            )
            last_used = {board: last_start(session, board) for board in set(boards) - unavailable}
            return sorted(last_used, key=lambda board: (last_used[board] is not None, last_used[board], board))

        return self.store.read(read)

    def move(self, job_id: int, board: str, env: str) -> Job:
        """Let a waiting job wait for another board; its place in the order stays.

        Args:
            env: path of the other board's environment.

        Raises:
            LabStableError: another process has taken the job over (`lease_lost`).
        """

        def change(session: Session) -> Job:
            row = self._own(session, job_id, "queued")
            row.board, row.env, row.heartbeat_at = board, env, self.now()
            return job_of(row)

        return self.store.write(change)

    def beat(self, job_id: int) -> bool:
        """Send a heartbeat of a running job; return True if somebody has cancelled it.

        Raises:
            LabStableError: the lease had run out, and another process has taken the job or its board (`lease_lost`).
        """

        def renew(session: Session) -> bool:
            row = self._own(session, job_id, "running")
            row.heartbeat_at = self.now()
            return bool(row.cancelled_by)

        return self.store.write(renew)

    def try_beat(self, job_id: int) -> bool:
        """Send a heartbeat as `beat`; a store that cannot be written is only logged.

        Raises:
            LabStableError: as `beat`.
        """
        try:
            return self.beat(job_id)
        except BoardlabError as error:
            if error.failure == "lease_lost":
                raise
            _log.warning("the job's heartbeat could not be stored: %s", error)
            return False

    def cancel(self, job_id: int, by: str, *, own: bool = False) -> Job:
        """Cancel a job: a living one ends at the next look of its holder, a dead one at once.

        A job that seems dead is watched first, see `settle`.

        Args:
            by: the person who cancels it.
            own: True: refuse to cancel another person's job.

        Raises:
            ConfigurationError: there is no such job, it has ended, or it is another person's.
        """

        def mark(session: Session) -> Job:
            row = find(session, job_id)
            if row.state not in {"queued", "running"}:
                raise ConfigurationError(f"job {call(job_id)} is {row.state} already: there is nothing to cancel")
            if own and row.person != by:
                raise ConfigurationError(
                    f"job {call(job_id)} is of {job_of(row).who}: {by} cancels what it made, and no other job; "
                    f"{row.person or 'its user'} or an operator of the site can cancel this one, or an admin of the "
                    f"host: lab jobs cancel {call(job_id)}"
                )
            row.cancelled_by = by or "?"
            return job_of(row)

        def end(session: Session) -> Job:
            row = find(session, job_id)
            if row.state in {"queued", "running"} and self._dead(row):
                row.state, row.finished_at = "cancelled", self.now()
            return job_of(row)

        self.store.write(mark)
        self.settle(JobRow.id == job_id)
        return self.store.write(end)

    def next_suite(self, job_id: int) -> Job:
        """Note that a job has finished a suite; later runs belong to its next suite."""

        def note(session: Session) -> Job:
            row = self._own(session, job_id, "running")
            row.done += 1
            row.after_run, row.heartbeat_at = last_run(session, row.board), self.now()
            return job_of(row)

        return self.store.write(note)

    def finish(self, job_id: int, state: JobState) -> None:
        """End a job of this process, and release its board.

        A job that another process has taken over is left alone. A cancelled job ends as cancelled, and a refused one
        with measurements as interrupted, so that it can be resumed.
        """

        def end(session: Session) -> None:
            row = find(session, job_id)
            if row.holder == self.holder and row.state in {"queued", "running"}:
                has_runs = state == "refused" and has_measured(session, row, LEASE_S)
                row.state, row.finished_at = final_state(row, "interrupted" if has_runs else state), self.now()
                holds_of(session, row.board, self.now(), self.rule)

        self.store.write(end)

    def has_board(self, job_id: int) -> bool:
        """Return True if a job has its board and is not dead.

        Raises:
            ConfigurationError: there is no such job.
        """

        def read(session: Session) -> bool:
            row = find(session, job_id)
            is_dead = self._dead(row)  # also of a waiting job: its silence is measured from the first look on
            return row.state == "running" and not is_dead

        return self.store.read(read)

    def watches(self, job_id: int) -> bool:
        """Return True while another job on the board seems dead, so that `start` may soon take the board."""
        return bool(self._doubtful(JobRow.board == self.job(job_id).board, JobRow.id != job_id))

    def settle(self, *which: ColumnElement[bool]) -> None:
        """Wait until each of these jobs that seems dead has sent a heartbeat, or was silent for a lease.

        The store's clock may have jumped, and no board must be taken from a job that lives.

        Args:
            which: conditions on the jobs.
        """
        reported = False
        while doubtful := self._doubtful(*which):
            if not reported:
                jobs = ", ".join(f"job {job.called} of {job.who}" for job in doubtful)
                _log.warning("%s: no heartbeat; watched for %g s before it counts as dead", jobs, LEASE_S)
                reported = True
            self.pause(LOOK_S)

    def _doubtful(self, *which: ColumnElement[bool]) -> list[Job]:
        """Return those of these jobs that seem dead without proof."""
        query = select(JobRow).where(JobRow.state.in_(("queued", "running")), *which)

        def read(session: Session) -> list[Job]:
            now = self.now()
            return [job_of(row) for row in session.scalars(query) if self.silence.is_in_doubt(row, now, self.has_died)]

        return self.store.read(read)

    def holder_of(self, board: str) -> Job | None:
        """Return the running job of a board; None: there is none."""
        query = select(JobRow).where(JobRow.board == board, JobRow.state == "running")

        def read(session: Session) -> Job | None:
            row = session.scalars(query).one_or_none()
            return None if row is None else job_of(row)

        return self.store.read(read)

    def refusing(self, board: str) -> list[Hold]:
        """Return the reservations that keep this person's job from a board now."""
        return self.store.read(lambda session: self._refusing_holds(standing(session, board, self.now())))

    def unfinished_run(self, job: Job, kind: str) -> int | None:
        """Return the id of the unfinished run of a kind in the job's current suite; None: there is none.

        Other jobs may have had the board since then. Their runs are of another kind or release, or later.
        """
        of_job = or_(RunRow.job_id == job.id, RunRow.job_id.is_(None))  # older versions stored no job with a run
        query = select(RunRow.id).where(
            of_job,
            RunRow.board == job.board,
            RunRow.id > job.after_run,
            RunRow.status != "completed",
            RunRow.kind == kind,
        )
        if job.release:
            query = query.where(RunRow.release == job.release)
        return self.store.read(lambda session: session.scalars(query.order_by(RunRow.id).limit(1)).one_or_none())

    def _refusing_holds(self, holds: list[Hold], *, checks: bool = False, qualifies: bool = False) -> list[Hold]:
        """Return those holds of a board that keep this person's job from it.

        Args:
            checks: True: the job may have a board in quarantine.
            qualifies: True: the job may have a board that has not qualified.
        """
        exceptions = {"ignored": self.ignores, "checks": checks, "qualifies": qualifies}
        return [hold for hold in holds if hold.refuses(self.person, **exceptions)]

    def _dead(self, row: JobRow | Row[Any]) -> bool:
        """Look at a job; return True if it is dead."""
        return self.silence.is_dead(row, self.has_died)

    def _own(self, session: Session, job_id: int, state: JobState) -> JobRow:
        """Return the row of a job of this process in a state.

        Raises:
            LabStableError: another process has taken it over (`lease_lost`).
        """
        row = find(session, job_id)
        if row.holder != self.holder or row.state != state:
            raise LabStableError(
                f"job {call(job_id)} was taken over: it is {row.state} in {row.holder}. This process sent no heartbeat "
                f"for more than {LEASE_S:g} s; find out why, then: lab run --resume {call(job_id)}",
                failure="lease_lost",
            )
        return row


def may_have_quarantined(job: Job | JobRow) -> bool:
    """Return True if a job may have a board in quarantine.

    It checks the board first, writes a release to it, which may repair it, or switches its power for a person.
    """
    return job.program in {BY_HEALTH, BY_PROVISION, BY_WEB} or bool(job.options.get(HEALTH))


def may_have_unqualified(job: Job | JobRow) -> bool:
    """Return True if a job may have a board that has not qualified: it qualifies, checks or provisions it."""
    return job.program in {BY_QUALIFY, BY_HEALTH, BY_PROVISION, BY_WEB}


FAILED_TESTS: Final = "failed_tests"  # key of a run's provenance: True if a test of it failed


def has_measured(session: Session, row: JobRow, lease_s: float) -> bool:
    """Return True if a job has had a run.

    Args:
        lease_s: a job without an end is taken to have ended so long after its last heartbeat.
    """
    if row.started_at is None:
        return False
    ended_at = row.finished_at or row.heartbeat_at + dt.timedelta(seconds=lease_s)
    then = and_(RunRow.started_at >= row.started_at, RunRow.started_at <= ended_at)
    query = select(RunRow.id).where(
        RunRow.board == row.board,
        RunRow.id > row.after_run,
        or_(RunRow.job_id == row.id, then),  # a job that was resumed has its run from before
    )
    return row.done > 0 or session.scalars(query.limit(1)).one_or_none() is not None


def note_tests(store: Store, run_ids: Collection[int], *, failed: bool) -> None:
    """Store with runs whether a test of them failed, which a resumed job has to know.

    Raises:
        BoardlabError: the store cannot be written.
    """

    def write(session: Session) -> None:
        for row in session.scalars(select(RunRow).where(RunRow.id.in_(run_ids))):
            if bool(row.provenance.get(FAILED_TESTS)) != failed:
                row.provenance = {**row.provenance, FAILED_TESTS: failed}

    store.write(write)


def has_failed(store: Store, job_id: int) -> bool:
    """Return True if a test failed in a completed run of a job; runs that confirm others do not count.

    Raises:
        BoardlabError: the store cannot be read.
    """
    completed = select(RunRow.provenance).where(RunRow.job_id == job_id, RunRow.status == "completed")
    provenances = store.read(lambda session: session.scalars(completed).all())
    return any(provenance.get(FAILED_TESTS) and not provenance.get("confirms") for provenance in provenances)


def lab_faults(store: Store, job_id: int) -> tuple[str, ...]:
    """Return the failure classes of a job's last attempts, if the lab alone is at fault; else empty.

    Raises:
        BoardlabError: the store cannot be read.
    """

    def read(session: Session) -> dict[object, tuple[str, str | None]]:
        query = select(RunRow.id, RunRow.provenance).where(RunRow.job_id == job_id)
        runs = [run for run, provenance in session.execute(query) if "confirms" not in provenance]
        columns = (AttemptRow.run_id, AttemptRow.cycle, AttemptRow.params, AttemptRow.outcome, AttemptRow.fault)
        attempts = session.execute(select(*columns).where(AttemptRow.run_id.in_(runs)).order_by(AttemptRow.id))
        return {
            (run, cycle, tuple(sorted(params.items()))): (outcome, fault)
            for run, cycle, params, outcome, fault in attempts
        }

    last = store.read(read)
    failed = [attempt for attempt in last.values() if attempt[0] != "ok"]
    if any(fault != "lab" for _outcome, fault in failed):
        return ()
    return tuple(sorted({outcome for outcome, _fault in failed}))


def confirms(store: Store, run_id: int) -> bool:
    """Return True if a run confirms another run.

    Raises:
        BoardlabError: the store cannot be read.
    """
    return "confirms" in store.run(run_id).provenance


def confirmation(store: Store, job_id: int, run_id: int) -> Run | None:
    """Return the latest run of a job that confirms a run; None: there is none.

    Raises:
        BoardlabError: the store cannot be read.
    """
    query = select(RunRow).where(RunRow.job_id == job_id, RunRow.id > run_id).order_by(RunRow.id.desc())

    def read(session: Session) -> Run | None:
        rows = (row for row in session.scalars(query) if row.provenance.get("confirms") == run_id)
        return next(map(run, rows), None)

    return store.read(read)


def last_run(session: Session, board: str) -> int:
    """Return the id of the board's latest run; 0: there is none."""
    return session.scalar(select(func.max(RunRow.id)).where(RunRow.board == board)) or 0


def last_start(session: Session, board: str) -> dt.datetime | None:
    """Return when a job was last started on a board; None: never."""
    return session.scalar(select(func.max(JobRow.started_at)).where(JobRow.board == board))


def find(session: Session, job_id: int) -> JobRow:
    """Return the row of a job.

    Raises:
        ConfigurationError: there is no job of this number.
    """
    row = session.get(JobRow, job_id)
    if row is None:
        last = session.scalar(select(func.max(JobRow.id)))
        raise ConfigurationError(
            f"no job {call(job_id)}; " + (f"the latest is {call(last)}" if last else "there are none yet")
        )
    return row


# A timer's job gives way to people. The claim on its board is in the store: a reservation, or a note by the job's
# runner (`ask`). The measurement looks for it between two cycles (`claimant`) and ends, and the runner then lets the
# job wait again (`give_way`).


GAVE_WAY = 66  # exit code of a pytest that has ended because somebody claims its board


def claimant(store: Store, job_id: int, now: dt.datetime | None = None) -> str:
    """Return a sentence on who claims the board of a timer's job; empty: nobody.

    A person's job never gives way.

    Raises:
        BoardlabError: the store cannot be read.
    """
    return store.read(lambda session: _claimant(session, find(session, job_id), now or store.now()))


def ask(queue: JobQueue, job_id: int, who: str) -> None:
    """Note a claim on the board of a running timer's job of this process.

    Args:
        who: sentence on the claim, e.g. "lena reserved labgrid's place b1"; empty: the claim has ended.
    """

    def note(session: Session) -> None:
        row = find(session, job_id)
        if row.holder == queue.holder and row.state == "running" and row.priority < PERSONS:
            row.yields_to = who

    queue.store.write(note)


def wait_on(queue: JobQueue, job_id: int, who: str | None = None) -> None:
    """Send a heartbeat of a job that waits for something else than its board, e.g. its labgrid place.

    Args:
        who: user of what a person's job waits for, who may need the board meanwhile; empty: nobody any more; None:
            unchanged.

    Raises:
        LabStableError: another process has taken the job over (`lease_lost`).
    """

    def renew(session: Session) -> None:
        row = queue._own(session, job_id, "queued")
        row.heartbeat_at = queue.now()
        row.yields_to = row.yields_to if who is None else who

    queue.store.write(renew)


def give_way(queue: JobQueue, job_id: int) -> Job:
    """Release the board of a running job, and let the job wait again with its old place in the order.

    Raises:
        LabStableError: another process has taken the job over (`lease_lost`).
    """

    def requeue(session: Session) -> Job:
        row = queue._own(session, job_id, "running")
        row.yields_to = _claimant(session, row, queue.now()) or row.yields_to
        row.state, row.heartbeat_at = "queued", queue.now()
        return job_of(row)

    return queue.store.write(requeue)


def _claimant(session: Session, row: JobRow, now: dt.datetime) -> str:
    """Return a sentence on who claims a job's board; empty: nobody."""
    if row.priority >= PERSONS:
        return ""
    # Holds that boardlab itself has set, e.g. a quarantine, are not claims: nobody waits for the board.
    holds = [hold for hold in standing(session, row.board, now) if hold.kind not in OWN]
    return f"{row.board} is {', '.join(hold.described for hold in holds)}" if holds else row.yields_to
