"""Invariants of jobs, boards and samples, checked after each step of a schedule."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from attrs import define, field

from lab.farm.rerun import MOST_RERUNS
from lab.farm.runner import BROKEN, BUSY, INTERRUPTED, UNCONFIRMED, USAGE, WORSE
from lab.jobs.records import BY_HEALTH, BY_PROVISION, BY_WEB, HEARTBEAT_S, LEASE_S
from lab.jobs.waiting import BEHIND_HEARTBEAT_S
from lab.judge.records import UNSURE
from lab.provision.errors import ReleaseMismatchError
from support.simulation.database import Results
from support.simulation.farm import CI, CYCLES, PEOPLE, RETRIES, Farm
from support.simulation.media import EMMC, FACTORY, kernel_of
from support.simulation.nights import METRIC
from support.simulation.system import POLL_S
from support.simulation.world import Process, ViolationError, World

ONE_USER: Final = "a board has one user"
KEEPS: Final = "a living job keeps its board"
FREE: Final = "a dead job's board is free within its bound"
ONCE: Final = "a sample is stored once"
COUNTS: Final = "a run's counts are exact"
PLACE: Final = "a job has the place of its board"
LEFT: Final = "a place that no job uses is free within its bound"
TOLD: Final = "a verdict is told once"
ENDS: Final = "everything ends"
QUARANTINE: Final = "a board in quarantine is not measured"
TURNS: Final = "the queue starves nobody"
LABEL: Final = "a label is of what was proved"
CANCEL: Final = "a cancel is heeded within its bound"
RESERVED: Final = "a reservation is its person's"
CODE: Final = "an exit code says how its job ended"
FAILED: Final = "a job fails by its board or its lab"
BOOTS: Final = "a board still boots"
REFUSED: Final = "a release that was refused labels nothing of its try"
BOUND_S: Final = LEASE_S + 6 * POLL_S
BEHIND_BOUND_S: Final = LEASE_S + BEHIND_HEARTBEAT_S + 6 * POLL_S  # one behind others looks more rarely
HEEDED_S: Final = HEARTBEAT_S + 5.0  # a heartbeat, and the way of its signal
LATE_S: Final = 2 * HEARTBEAT_S + POLL_S  # in which a process that was disturbed notices that its board is another's
LEFT_S: Final = 900.0  # a host may be off for 300 s, and the janitor's host stand still behind that
_MISMATCH: Final = f"[{ReleaseMismatchError.failure}]"
_POINT_S: Final = 1_440.0  # a point of priority, in seconds of waiting
_ACTIVE: Final = ("queued", "running")
_CODES: Final[Mapping[int, frozenset[str]]] = {  # of `lab run`: the states of its job
    **dict.fromkeys((0, WORSE, UNCONFIRMED), frozenset({"completed"})),
    1: frozenset({"failed"}),
    USAGE: frozenset({"failed", "cancelled"}),
    BUSY: frozenset({"interrupted", "refused"}),
    BROKEN: frozenset({"failed"}),
    INTERRUPTED: frozenset({"interrupted", "cancelled"}),
}


class JobSeen(NamedTuple):
    """The columns of a job that are watched."""

    id: int
    board: str
    state: str
    holder: str
    queued_at: str
    heartbeat_at: str
    priority: int
    cancelled_by: str
    yields_to: str
    program: str
    label: str
    person: str


class ReservationSeen(NamedTuple):
    """The columns of a reservation that are watched."""

    id: int
    board: str
    person: str
    at: str
    until: str
    ended_at: str | None
    ended_by: str | None


@define(eq=False)
class Watch:
    """The invariants of a farm.

    Attributes:
        jobs: as they were committed last. beats: job -> when its holder gave its last sign of life, in true time.
        cancelled: job -> when its cancel was committed. broken: labels of orders that the lab has stopped, e.g. by a full disk. confirming: programs, and the runs whose numbers they measured again. reserved: the reservations that were seen, by number.
        left: place -> since when no job with a board has it. lost, queued, died: job -> when another process ended it, when it waited first, when its holder's death was seen. stored: boot times whose storing was confirmed.
        over: sites whose switch of a board's power is over.
        locked_until_s: a process that stands still holds the database's lock.
    """

    world: World
    results: Results
    farm: Farm
    jobs: dict[int, JobSeen] = field(factory=dict)
    beats: dict[int, float] = field(factory=dict)
    lost: dict[int, float] = field(factory=dict)
    queued: dict[int, float] = field(factory=dict)
    died: dict[int, float] = field(factory=dict)
    stored: list[float] = field(factory=list)
    locked_until_s: float = 0.0
    left: dict[str, float] = field(factory=dict)
    cancelled: dict[int, float] = field(factory=dict)
    reserved: dict[int, ReservationSeen] = field(factory=dict)
    broken: set[str] = field(factory=set)
    over: set[str] = field(factory=set)
    confirming: set[tuple[str, int]] = field(factory=set)
    _seen: int = 0

    def look(self) -> None:
        """After a step."""
        if self.results.writer is not None:  # it may stand still within its transaction
            owner = self.results.writer.owner
            self.locked_until_s = max(self.locked_until_s, owner.frozen_until_s, owner.host.frozen_until_s)
        if self.results.commits != self._seen:
            self._seen = self.results.commits
            self._look_at_jobs()
            self._look_at_reservations()
            self._look_at_samples()
            self._look_at_provisions()
        self._look_at_the_dead()
        self._look_at_places()
        for board in self.farm.boards.values():
            emmc = board.media[EMMC]
            if emmc.is_torn and emmc.boots not in emmc.doubtful:
                raise ViolationError(BOOTS, f"{board.board} was switched to what nobody read back")
            if emmc.is_lost:
                raise ViolationError(BOOTS, f"{board.board} has nothing any more that boots")

    def look_anew(self) -> None:
        """The last commits were lost."""
        self.jobs = self._read_jobs()
        self.reserved = self._read_reservations()
        found = {row[0] for row in self.results.look("SELECT value FROM samples")}
        self.stored = [value for value in self.stored if value in found]
        (last,) = self.results.look("SELECT coalesce(max(id), 0) FROM runs")[0]
        for label, runs in self.farm.runs.items():
            self.farm.runs[label] = [run for run in runs if run <= last]

    def owner(self, job: JobSeen) -> Process | None:
        """The process that holds a job."""
        return next((each for each in reversed(self.world.processes) if each.identity == job.holder), None)

    def _read_jobs(self) -> dict[int, JobSeen]:
        columns = "id, board, state, holder, queued_at, heartbeat_at, priority, cancelled_by, yields_to, program"
        rows = self.results.look(f'SELECT {columns}, "release", person FROM jobs')  # noqa: S608
        return {row[0]: JobSeen(*row) for row in rows}

    def _look_at_jobs(self) -> None:
        now = self._read_jobs()
        before, self.jobs = self.jobs, now
        running = Counter(job.board for job in now.values() if job.state == "running")
        if running and max(running.values()) > 1:
            raise ViolationError(ONE_USER, f"{running.most_common(1)[0][0]} has two running jobs")
        for job in now.values():
            old = before.get(job.id)
            if old == job:
                continue
            self._tell(old, job)
            self._look_at_a_cancel(old, job)
            by = self.results.committed_by
            if old is not None and old.state in _ACTIVE and (job.state, job.holder) != (old.state, old.holder):
                self._look_at_an_end(old, job, by)
            if job.state == "running" and (old is None or old.state != "running"):
                self.lost.pop(job.id, None)
                self._look_at_a_start(job)
            if old is None or old.heartbeat_at != job.heartbeat_at or old.holder != job.holder:
                self.beats[job.id] = self.world.now_s

    def _tell(self, old: JobSeen | None, job: JobSeen) -> None:
        if old is None or (old.state, old.holder, old.cancelled_by) != (job.state, job.holder, job.cancelled_by):
            owner = self.owner(job)
            by = f", cancelled by {job.cancelled_by}" * bool(job.cancelled_by)
            self.world.say(f"job j{job.id} on {job.board} is {job.state}, held by {owner and owner.name}{by}")

    def _look_at_a_cancel(self, old: JobSeen | None, job: JobSeen) -> None:
        """A cancelled job ends as cancelled, or as what it had already become."""
        if not job.cancelled_by:
            self.cancelled.pop(job.id, None)
            return
        since_s = self.cancelled.setdefault(job.id, self.world.now_s)
        if job.cancelled_by == CI != job.person:
            raise ViolationError(CANCEL, f"j{job.id} of {job.person} is cancelled by a token of {CI}")
        if job.state in {"interrupted", "refused"} and (old is None or old.state in _ACTIVE):
            raise ViolationError(
                CANCEL, f"j{job.id} was cancelled {self.world.now_s - since_s:.0f} s ago, and is {job.state}"
            )

    def _look_at_reservations(self) -> None:
        """Nobody's reservation is ended or doubled by another person's."""
        now = self._read_reservations()
        before, self.reserved = self.reserved, now
        for one in now.values():
            old = before.get(one.id)
            if old is not None and (old.person, old.at, old.until) != (one.person, one.at, one.until):
                raise ViolationError(RESERVED, f"{one} was {old}")
            by = self.results.committed_by
            ended_early = one.ended_at is not None and one.ended_at < one.until and one != old
            if ended_early and not self._may_end(by, one.person):
                raise ViolationError(RESERVED, f"{by and by.name} ended {one}")
            if old is not None:
                continue
            for other in now.values():
                is_token = one.person == other.person == CI and other is not one
                if is_token and other.ended_at is None and other.until > one.at:
                    raise ViolationError(RESERVED, f"{one}, though a token has one: {other}")
                overlap = other.board == one.board and other.at < one.until and one.at < other.until
                if overlap and other.person != one.person and other.ended_at is None:
                    raise ViolationError(RESERVED, f"{one}, though {other}")

    def _read_reservations(self) -> dict[int, ReservationSeen]:
        columns = "id, board, person, at, until, ended_at, ended_by"
        query = f"SELECT {columns} FROM reservations WHERE kind = 'reserved'"  # noqa: S608
        return {row[0]: ReservationSeen(*row) for row in self.results.look(query)}

    @staticmethod
    def _may_end(by: Process | None, person: str) -> bool:
        """True of a program that may end a person's reservation: a token's ends its own alone."""
        ender = by.name.removeprefix("lab reserve --end of ") if by is not None else ""
        is_own = by is not None and by.name in {f"lab reserve of {person}", f"lab reserve --end of {person}"}
        return is_own or ender in set(PEOPLE) - {CI}

    def _look_at_an_end(self, old: JobSeen, job: JobSeen, by: Process | None) -> None:
        """A job that another process ended or took had a dead holder, or one that was silent for a lease."""
        owner = self.owner(old)
        if owner is None or owner is by:
            return
        self.lost[job.id] = self.world.now_s
        silent_s = self.world.now_s - self.beats.get(job.id, 0.0)
        is_here = by is not None and by.host is owner.host and job.program != BY_WEB
        if owner.alive and (silent_s <= LEASE_S or is_here):
            taker = by.name if by is not None else "somebody"
            raise ViolationError(
                KEEPS, f"{taker} took j{job.id} from {owner.name}, which lives and was silent for {silent_s:.0f} s"
            )

    def _look_at_a_start(self, job: JobSeen) -> None:
        """No living job that waits longer is overtaken, unless it must not have the board."""
        if job.program not in {BY_HEALTH, BY_PROVISION, BY_WEB} and self.quarantined(job.board):
            raise ViolationError(QUARANTINE, f"j{job.id} has {job.board}")
        if self.results.look("SELECT 1 FROM reservations WHERE ended_at IS NULL LIMIT 1"):
            return
        mine = self._rank(job)
        for other in self.jobs.values():
            owner = self.owner(other)
            waits = other.state == "queued" and other.board == job.board and owner is not None and owner.alive
            if waits and self._rank(other) < mine and not other.yields_to:
                raise ViolationError(TURNS, f"j{job.id} started before j{other.id}, which waits longer")

    def quarantined(self, board: str) -> bool:
        """True if a board is in quarantine."""
        its = "SELECT 1 FROM reservations WHERE ended_at IS NULL AND kind = 'quarantine' AND board = ?"
        return bool(self.results.look(its, board))

    @staticmethod
    def _rank(job: JobSeen) -> tuple[float, int]:
        return dt.datetime.fromisoformat(job.queued_at).timestamp() - job.priority * _POINT_S, job.id

    def _look_at_the_dead(self) -> None:
        for job in self.jobs.values():
            owner = self.owner(job) if job.state in _ACTIVE else None
            is_over = job.holder in self.over
            is_waiting = job.state == "queued" and (not is_over or self.quarantined(job.board))  # of no harm to others
            if owner is None or (owner.alive and not is_over) or is_waiting:
                self.died.pop(job.id, None)
                continue
            since_s = self.died.setdefault(job.id, self.world.now_s)
            for other in self.jobs.values():
                waiter = self.owner(other) if other.state == "queued" and other.board == job.board else None
                if waiter is None or not waiter.alive or other.holder in self.over:
                    continue
                waits_s = self.world.now_s - max(since_s, self._calm_since_s(waiter), self._queued_s(other))
                if waits_s > (BOUND_S if job.state == "running" else BEHIND_BOUND_S):
                    raise ViolationError(
                        FREE, f"j{job.id} is {job.state}, its holder died {waits_s:.0f} s ago, and j{other.id} waits"
                    )

    def _look_at_places(self) -> None:
        places = self.farm.places
        for place, holder in places.holders.items() if places is not None else ():
            job = self.jobs.get(places.job(place) or 0) if holder and places is not None else None
            if job is None or job.state == "running":
                self.left.pop(place, None)
            elif self.world.now_s - self.left.setdefault(place, self.world.now_s) > LEFT_S:
                raise ViolationError(LEFT, f"{place} is held by {holder}, and j{job.id} is {job.state}")

    def _queued_s(self, job: JobSeen) -> float:
        return self.queued.setdefault(job.id, self.world.now_s)

    def _calm_since_s(self, process: Process) -> float:
        return max(process.calm_since_s, self.results.away_until_s, self.results.full_until_s, self.locked_until_s)

    def _look_at_provisions(self) -> None:
        """A try whose release was refused on one medium holds it on none."""
        latest = self.results.look(
            'SELECT board, medium, "release", job_id, state, message FROM provisions '
            "WHERE id IN (SELECT max(id) FROM provisions GROUP BY board, medium)"
        )
        refused = {(board, label, job) for board, _, label, job, _, message in latest if _MISMATCH in message}
        for board, medium, label, job, state, _ in latest:
            if (board, label, job) in refused and state in {"written", "booted"}:
                raise ViolationError(
                    REFUSED, f"{medium} of {board} is {state} with {label}, which another one refused"
                )

    # --- Programs ---

    def program_ends(self, wish: Any, code: int) -> int:
        """A program of a wish is about to end with this exit code."""
        holder = self.world.process.identity
        states = [job.state for job in self._read_jobs().values() if job.holder == holder]
        if wish.way == "lab run" and code == UNCONFIRMED and states and not self._is_measured_enough(wish):
            for (run,) in self._read_unsure(wish):
                if (holder, run) not in self.confirming:
                    raise ViolationError(
                        TOLD, f"{wish.label} ends with {code}, and nothing was measured for run {run}"
                    )
        if wish.way == "lab run" and states and states[-1] not in _CODES[code]:
            raise ViolationError(CODE, f"{wish.label} ends with {code}, and its job is {states[-1]}")
        if wish.way != "lab run" and states and code == 0 and states[-1] in {"failed", "refused"}:
            raise ViolationError(CODE, f"{wish.way} {wish.label} ends with 0, and its job is {states[-1]}")
        if wish.way == "lab provision" and code == 0 and states[-1] in _ACTIVE:
            raise ViolationError(CODE, f"{wish.way} {wish.label} ends with 0, and its job is {states[-1]}")
        if wish.way != "lab run" and states and code and states[-1] == "completed":
            raise ViolationError(CODE, f"{wish.way} {wish.label} ends with {code}, and its job is completed")
        return code

    def session_ends(self, label: str, code: int) -> int:
        """A session of a `lab run` is about to end with this exit code."""
        self.broken.update([label] * (code == BROKEN))
        return code

    def program_has_ended(self, wish: Any, code: int | None) -> None:
        """A program that nothing disturbed has done its order, or it was refused."""
        refused = {4} if wish.way == "pytest" and wish.labelled else set(range(256)) if wish.way == "pytest" else set()
        if code is not None and code >= 0 and code not in {0, WORSE, UNCONFIRMED} | refused:
            raise ViolationError(FAILED, f"{wish.way} {wish.label} ended with {code}, and nothing had failed")

    def cancel_is_refused(self, job_id: int) -> None:
        """A cancel of another person's living job was refused."""
        job = self._read_jobs().get(job_id)
        if job is not None and job.state in _ACTIVE:
            raise ViolationError(CANCEL, f"j{job_id} is {job.state}, and could not be cancelled")

    def confirmation_begins(self, run: int) -> None:
        """A session of a `lab run` begins to confirm a run's number."""
        self.confirming.add((self._top().identity, run))

    # --- Boards ---

    def boot_begins(self, board: str) -> None:
        """A process begins a boot: not for a job that somebody has cancelled a while ago."""
        top = self._top()
        calm_s = max(self._calm_since_s(top), self._calm_since_s(self.world.process))
        for job in self.jobs.values():
            if job.board == board and job.holder == top.identity and job.cancelled_by and job.state == "running":
                late_s = self.world.now_s - max(calm_s, self.cancelled[job.id])
                if late_s > HEEDED_S:
                    raise ViolationError(CANCEL, f"{board} is booted for j{job.id}, cancelled {late_s:.0f} s ago")

    def _top(self) -> Process:
        """The program that the running process belongs to."""
        top = self.world.process
        while top.parent is not None:
            top = top.parent
        return top

    def board_is_used(self, board: str) -> None:
        """A process does something to a board: it holds it, or it has just lost it and could not know that yet."""
        top = self._top()
        its = [job for job in self.jobs.values() if job.board == board and job.holder == top.identity]
        if any(job.state == "running" for job in its):
            self._look_at_the_place(board, [job.id for job in its], top)
            return
        lost_s = max((self.lost.get(job.id, 0.0) for job in its), default=0.0)
        since_s = max(lost_s, self._calm_since_s(top), self._calm_since_s(self.world.process))
        if not its or self.world.now_s - since_s > LATE_S:
            raise ViolationError(
                ONE_USER,
                f"{self.world.process.name} uses {board} without a lease for {self.world.now_s - since_s:.0f} s",
            )

    def _look_at_the_place(self, board: str, its: Sequence[int], top: Process) -> None:
        """The place is the job's own.

        That of a process that stood still may have been released by the janitor a moment ago.
        """
        places = self.farm.places
        if places is not None and places.job(board) not in its:
            holder = places.holders[board] or "nobody"
            calm_s = max(self._calm_since_s(top), self._calm_since_s(self.world.process))
            if holder == "nobody" and self.world.now_s - calm_s <= LATE_S:
                return
            raise ViolationError(PLACE, f"{self.world.process.name} uses {board}, and its place is held by {holder}")

    # --- Samples ---

    def sample_is_stored(self, value: float) -> None:
        """A session was told that its sample is stored."""
        self.stored.append(value)

    def label_is_true(self, run: Any, line: str) -> None:
        """A sample was stored; `line` is the version line of what booted."""
        if all(wish.labelled for wish in self.farm.wishes):
            return
        if run.release == "unreleased" and self.world.felt["commits lost"]:
            return  # what was written there may be forgotten; such a run claims nothing
        label = FACTORY if run.release == "unreleased" else run.release
        if line != kernel_of(label):
            raise ViolationError(LABEL, f"run {run.id} is called {run.release}, and the board booted {line!r}")

    def _look_at_samples(self) -> None:
        twice = self.results.look("SELECT value FROM samples GROUP BY value HAVING count(*) > 1")
        if twice:
            raise ViolationError(ONCE, f"{twice[0][0]} s is stored twice")
        many = self.results.look(
            "SELECT run_id, cycle FROM attempts WHERE outcome = 'ok' GROUP BY run_id, params, cycle HAVING count(*) > 1"
        )
        if many:
            raise ViolationError(COUNTS, f"cycle {many[0][1]} of run {many[0][0]} has two samples")

    # --- At the end ---

    def finish(self) -> None:
        """When all wishes are fulfilled."""
        self._look_at_samples()
        owners = {job.id: self.owner(job) for job in self.jobs.values() if job.state in _ACTIVE}
        left = [self.jobs[number] for number, owner in owners.items() if owner is not None and owner.alive]
        if left:
            raise ViolationError(ENDS, f"j{left[0].id} is {left[0].state} for ever")
        values = Counter(row[0] for row in self.results.look("SELECT value FROM samples"))
        for value in self.stored:
            if values[value] != 1:
                raise ViolationError(ONCE, f"{value} s was confirmed and is stored {values[value]} times")
        wrong = self.results.look(
            "SELECT run_id, cycle, min(number), max(number), count(*) FROM attempts GROUP BY run_id, params, cycle "
            "HAVING min(number) != 1 OR max(number) != count(*)"
        )
        if wrong:
            raise ViolationError(
                COUNTS, f"attempts of cycle {wrong[0][1]} of run {wrong[0][0]} are not counted from 1"
            )
        for wish in self.farm.wishes:
            self._look_at_a_wish(wish)
        self._look_at_measurements()

    def _look_at_measurements(self) -> None:
        """The last runs' numbers are read as they were stored."""
        store = self.results.store()
        for (run,) in self.results.look("SELECT id FROM runs ORDER BY id DESC LIMIT 3"):
            rows = self.results.look(
                "SELECT value FROM samples JOIN attempts ON attempts.id = attempt_id WHERE run_id = ?", run
            )
            values = sorted(sample.value for measurement in store.measurements(run) for sample in measurement.samples)
            if values != sorted(value for (value,) in rows):
                raise ViolationError(ONCE, f"run {run} is read with {values}, and has {rows}")

    def _look_at_a_wish(self, wish: Any) -> None:
        if wish.way == "lab provision":
            return
        if not wish.labelled:
            self._look_at_runs_of(wish)
            return
        states = [row[0] for row in self.results.look('SELECT state FROM jobs WHERE "release" = ?', wish.label)]
        if wish.judged and "cancelled" not in states:  # what is ordered anew behind that has no news
            self._look_at_verdicts(wish)
        if "failed" in states and "cancelled" not in states:
            self._look_at_a_failure(wish)
        if not {"cancelled", "failed"}.isdisjoint(states):
            return
        found = self.results.look(
            """SELECT kind, id FROM runs WHERE "release" = ? AND status = ?
            AND json_extract(provenance, '$.confirms') IS NULL ORDER BY id""",
            wish.label,
            "completed",
        )
        kinds = [kind for kind, _ in found]
        if wish.way == "pytest":  # it has no request's name: a person whose host died with the answer orders again
            kinds = sorted(set(kinds))
        if sorted(kinds) != sorted(wish.suites):
            raise ViolationError(COUNTS, f"{wish.label} wants {wish.suites}, and has the completed runs {found}")
        for _, run in found:
            (count,) = self.results.look("SELECT count(*) FROM attempts WHERE outcome = 'ok' AND run_id = ?", run)[0]
            if count != CYCLES:
                raise ViolationError(COUNTS, f"run {run} is completed with {count} of {CYCLES} samples")

    def _look_at_a_failure(self, wish: Any) -> None:
        """A `lab run` that failed had a boot that failed as often as is tried."""
        bad = self.results.look(
            "SELECT count(*) AS times FROM attempts JOIN runs ON runs.id = attempts.run_id "
            "WHERE \"release\" = ? AND outcome != 'ok' GROUP BY run_id, cycle ORDER BY times DESC LIMIT 1",
            wish.label,
        )
        is_bad = bool(bad) and bad[0][0] > RETRIES
        if wish.way == "lab run" and not is_bad and wish.label not in self.broken:
            raise ViolationError(
                FAILED, f"{wish.label} failed, and its worst boot failed {bad[0][0] if bad else 0} times"
            )

    def _look_at_runs_of(self, wish: Any) -> None:
        """A session that ended well has completed a run."""
        its = [
            self.results.look("SELECT status FROM runs WHERE id = ?", run)
            for run in self.farm.runs.get(wish.label, ())
        ]
        if self.farm.codes.get(wish.label) == 0 and [("completed",)] not in its:
            raise ViolationError(COUNTS, f"{wish.label} ended with 0, and has no completed run")

    def _look_at_verdicts(self, wish: Any) -> None:
        """An order that is done said that its numbers are worse, if they are, and they have one verdict."""
        found = self.results.look(
            "SELECT metric FROM verdicts JOIN runs ON runs.id = verdicts.run_id "
            'WHERE outcome = ? AND runs.board = ? AND runs."release" = ?',
            "regression",
            wish.board,
            wish.label,
        )
        worse = [metric for (metric,) in found if metric == METRIC]  # a board that failed may have another one
        if len(worse) > wish.slower:
            raise ViolationError(TOLD, f"{wish.label} has {len(worse)} verdicts")
        code = self.farm.codes.get(wish.label)
        if code == UNCONFIRMED and (found or not self._is_unconfirmed(wish)):
            raise ViolationError(TOLD, f"{wish.label} ended with {code}, and its question is answered")
        dated = self.results.look(  # a later run's verdict may say that the change began with this order's
            'SELECT 1 FROM verdicts JOIN runs ON runs.id = since_run WHERE outcome = ? AND runs."release" = ?',
            "regression",
            wish.label,
        )
        says_why = bool(found or dated) if code == WORSE else not found
        if code in {0, WORSE} and (bool(worse) != wish.slower or not says_why):
            raise ViolationError(TOLD, f"{wish.label} ended with {code}, and has {len(worse)} verdicts")

    def _is_unconfirmed(self, wish: Any) -> bool:
        """A number may have moved, and its confirming run failed, or as many as the judge asks for left it open."""
        failed = self.results.look(
            """SELECT 1 FROM runs JOIN attempts ON attempts.run_id = runs.id WHERE "release" = ? AND status != ?
            AND outcome != ? AND json_extract(provenance, '$.confirms')""",
            wish.label,
            "completed",
            "ok",
        )
        return bool(self._read_unsure(wish) and (failed or self._is_measured_enough(wish)))

    def _read_unsure(self, wish: Any) -> list[Any]:
        """The runs of an order with a number that may have moved."""
        return self.results.look(
            """SELECT DISTINCT runs.id FROM verdicts JOIN runs ON runs.id = verdicts.run_id
            WHERE outcome = ? AND "release" = ? AND json_extract(provenance, '$.confirms') IS NULL""",
            UNSURE,
            wish.label,
        )

    def _is_measured_enough(self, wish: Any) -> bool:
        """As many runs as the judge asks for confirm a number of an order."""
        complete = self.results.look(
            """SELECT 1 FROM runs WHERE "release" = ? AND status = ? AND json_extract(provenance, '$.confirms')""",
            wish.label,
            "completed",
        )
        return len(complete) >= MOST_RERUNS
