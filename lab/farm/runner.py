"""A job: lease, pytest per suite, signs of life, release.

pytest measures, with its own run in the store. The runner starts it, once per suite, and resumes interrupted
runs.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from attrs import define, evolve, field, frozen

from lab.benchmarks.cycles import AWAY_S
from lab.errors import BoardlabError
from lab.farm import job_queue, job_request
from lab.farm.capacity import HostCapacity
from lab.health.state import RELEASES
from lab.host import locks
from lab.host.process import ENDING, go_on, handling
from lab.jobs import listing
from lab.jobs.listing import latest_run
from lab.jobs.queue import GAVE_WAY, PERSONS, JobQueue, ask, confirmation, confirms, give_way, has_failed, lab_faults
from lab.jobs.records import AWAY_VARIABLE, BY_QUALIFY, HEARTBEAT_S, JOB_VARIABLE, Job, JobState
from lab.jobs.waiting import PLACE_BUSY, BusyBoardError, JobWaiter
from lab.places.job_place import PlaceWait, has_lost_place, hold_place, other_user, person_at_place
from lab.results import Store
from lab.results.location import ARTIFACTS_VARIABLE, DATABASE_VARIABLE
from lab.run.options import CONFIRMS, DIAGNOSTIC_BOOTS, JUDGE, WHERE, pytest_arguments

WORSE: Final = 3  # all was measured, and the judge says that a number is worse for sure
UNCONFIRMED: Final = 4  # a run ended well, and its numbers are not known to be good
BUSY: Final = 75  # EX_TEMPFAIL of sysexits.h: try again later
BROKEN: Final = 69  # EX_UNAVAILABLE of sysexits.h: the lab needs repair first; nothing was measured, or not all
INTERRUPTED: Final = 130
_ENDS: Final = frozenset({INTERRUPTED, GAVE_WAY, BUSY, BROKEN})  # of a job, whatever is left of it
USAGE: Final = 2
CONFIRM_PAUSES_S: Final = (5.0, 20.0)  # before a confirming run is tried again; shorter than a lease
STOP_S: Final = 120.0  # pytest switches the board off at its end
_OK, _FAILED, _USAGE, _NO_TESTS = 0, 1, 4, 5  # pytest's exit codes
_STATES: Final[dict[int, JobState]] = {_OK: "completed", INTERRUPTED: "interrupted", BUSY: "interrupted"}
_log = logging.getLogger(__name__)


@frozen
class RunnerPaths:
    """Paths for starting pytest.

    Attributes:
        tests: the folder with the suites.
        database: as `--db`, or None.
    """

    folder: Path
    tests: Path
    database: str | None


@define
class Runner:
    """Runs one job.

    Attributes:
        say: tells a person a line.
        capacity: of this host, for scheduled jobs; None: unlimited.
        power_on_gap_s: between two power-ons at the same switch, unless the environment has it.
        choice: board -> environment, of a job that takes any of these boards.
        output: where pytest writes; None: this process's standard output.
    """

    queue: JobQueue
    place: RunnerPaths
    say: Callable[[str], None]
    heartbeat_s: float = HEARTBEAT_S
    capacity: HostCapacity | None = None
    power_on_gap_s: float = 0.0
    choice: Mapping[str, Path] = field(factory=dict)
    output: TextIO | None = None
    _deadline: float = field(default=0.0, init=False)  # of the wait, by queue.monotonic_s
    _stopping: bool = field(default=False, init=False)
    _asked: bool = field(default=False, init=False)
    _worse: bool = field(default=False, init=False)
    _unconfirmed: tuple[int, ...] = field(default=(), init=False)  # runs with numbers that may have moved
    _unknowns: tuple[str, ...] = field(default=(), init=False)  # why runs are not known to be good
    _reported: bool = field(default=False, init=False)
    _claimant: str = field(default="", init=False)  # stored claimant of the labgrid place
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _as_user: dict[str, str] = field(factory=dict, init=False)  # variables with the holder of the labgrid place

    def run(self, job: Job, wait_s: float) -> int:
        """Wait for the board, measure and release it; return the exit code.

        Args:
            wait_s: limit of the wait for a board or its labgrid place.
        """
        with handling(dict.fromkeys(ENDING, lambda _number, _frame: self._stop())):  # pytest switches the board off
            code = GAVE_WAY
            while code == GAVE_WAY:
                deadline = self._deadline = self.queue.monotonic_s + wait_s
                waiter = JobWaiter(
                    self.queue,
                    self.say,
                    other_user,
                    is_over=lambda: self._stopping,
                    why_full=self.capacity.why_wait if self.capacity is not None else lambda: "",
                    choice=self.choice,
                )
                try:
                    started = waiter.wait(job, wait_s)
                except BusyBoardError as error:
                    started = None
                    self.say(str(error))
                if started is None:
                    self.queue.finish(job.id, "interrupted" if self._stopping or job.yields_to else "refused")
                    return INTERRUPTED if self._stopping or self._is_cancelled(job) else BUSY
                try:
                    with ExitStack() as stack:
                        place_wait = PlaceWait(deadline, self.say, partial(self._beat, started))
                        self._as_user = stack.enter_context(hold_place(self.queue, started, place_wait))
                        code = self._measure(started)
                        if code == _FAILED:
                            print_lab_faults(self.queue.store, started, self.say)
                except BoardlabError as error:
                    busy = error.failure == PLACE_BUSY
                    if (
                        busy
                        and not self._stopping
                        and self.queue.monotonic_s < deadline
                        and person_at_place(self.queue, started)
                    ):
                        job = give_way(self.queue, job.id)
                        continue
                    refused = busy and not (self._stopping or job.yields_to)
                    self.queue.finish(job.id, "refused" if refused else "interrupted")
                    ended = self._stopping or self._is_cancelled(job)
                    if not (busy or ended):
                        raise
                    self.say(str(error) if wait_s or ended else f"{error}. Wait for it with --wait SECONDS")
                    return INTERRUPTED if ended else BUSY
                if code == GAVE_WAY:
                    job, self._claimant = give_way(self.queue, job.id), ""
                    self.say(f"job {job.called} gives way: {job.yields_to}")
            self.queue.finish(job.id, _STATES.get(code, "failed"))
            state = self.queue.job(job.id).state  # others end a job, too, e.g. while this host stood still
            if state == "cancelled" or (state == "interrupted" and code != BUSY):
                code = INTERRUPTED
        if code != _OK and not self._is_cancelled(job):
            again = f"lab farm qualify {job.board}" if job.program == BY_QUALIFY else f"lab run --resume {job.called}"
            self.say(f"go on with: {again}")
        return _with_verdict(code, self._unconfirmed, self._unknowns, self.say, worse=self._worse)

    def _is_cancelled(self, job: Job) -> bool:
        """Return whether somebody cancelled the job, and report it."""
        now = self.queue.job(job.id)
        if now.state == "cancelled":
            self.say(f"job {job.called} was cancelled by {now.cancelled_by}; what it measured is kept")
        return now.state == "cancelled"

    def _measure(self, job: Job) -> int:
        worst = _FAILED if has_failed(self.queue.store, job.id) else _OK  # before it was resumed
        self.say(f"job {job.called} has {job.board}: {', '.join(job.suites[job.done :])}")
        if (code := self._report_earlier(job)) in _ENDS:
            return code
        while job.done < len(job.suites):
            code = _OK if self._is_measured(job) else self._pytest(job, job.suites[job.done], self._run_to_resume(job))
            if code in {*_ENDS, _USAGE}:
                return USAGE if code == _USAGE else code
            if code == _OK and (run := self._run_to_resume(job)) is not None:
                self.say(f"run {run} measured not all that it was to measure: lab results show {run}")
                code = _FAILED
            # So that the job goes on with this suite
            if code != _OK and (run := self._run_to_resume(job)) is not None:
                if has_lost_place(self.queue.store, run):
                    return BUSY
                if CONFIRMS in job.options or not confirms(self.queue.store, run):
                    return max(worst, code)
                code = _OK  # the order is complete, and the judge has the run confirmed
            worst = max(worst, code)
            if job.options.get(JUDGE) and (judged := self._judge(job)) in _ENDS:
                return judged
            job = self.queue.next_suite(job.id)
        if job.options.get(JUDGE):
            from lab.farm import rerun  # noqa: PLC0415 - as in _judge

            self._worse = self._worse or rerun.alarms_again(self.queue.store, job, self.say)
            self._unconfirmed = rerun.find_unconfirmed_runs(self.queue.store, job)
            self._unknowns = rerun.find_unknowns(self.queue.store, job)
        return worst

    def _report_earlier(self, job: Job) -> int:
        """Report the verdicts of suites that an earlier process measured; return the exit code.

        What it left unconfirmed is measured again.
        """
        if self._reported or not (job.done and job.options.get(JUDGE)):
            return _OK
        from lab.farm import rerun  # noqa: PLC0415 - as in _judge

        store, numbers = self.queue.store, dict[str, list[int]]()
        for number, suite in enumerate(job.suites[: job.done]):
            numbers.setdefault(job_request.kind(suite), []).append(number)
        for run in listing.view(store, job, store.now()).runs:
            if run.id > job.after_run or confirms(store, run.id):
                continue
            positions = numbers.get(run.kind, [])  # each suite has one run of its kind, in this order
            number = positions.pop(0) if positions else job.done
            if number < job.done and rerun.count_unconfirmed(store, run.id):
                code = self._judge(evolve(job, done=number), run.id)
                if code in _ENDS:
                    return code
            else:
                self._worse |= not rerun.report(store, run.id, self.say)
        self._reported = True
        return _OK

    def _is_measured(self, job: Job) -> bool:
        """Return whether the current suite's run is complete."""
        run_id = None if self._run_to_resume(job) is not None else self._latest(job)
        return run_id is not None and self.queue.store.run(run_id).status == "completed"

    def _judge(self, job: Job, run_id: int | None = None) -> int:
        """Judge a suite's run and remeasure on request; return the exit code.

        Args:
            run_id: None: the suite's last.
        """
        from lab.farm import rerun  # noqa: PLC0415 - numpy, which a job that is not judged has no use for

        suite, store, code = job.suites[job.done], self.queue.store, _OK
        run_id = self._latest(job) if run_id is None else run_id
        if why := job_queue.why_not_judged(store, job_queue.health_config()):
            self.say(why)
            return _OK
        if run_id is None:
            return code

        def again(asked: int) -> int | None:
            nonlocal code
            code, confirming = self._confirm(job, suite, asked)
            return confirming

        worse = not rerun.judge_with_reruns(store, run_id, again, self.say)
        self._worse |= worse
        confirms_another = CONFIRMS in job.options  # the verdict is the other's
        ended = code in {*_ENDS, _USAGE}
        if worse and not (ended or confirms_another) and rerun.asks_diagnosis(store, run_id):
            self.say(
                f"run {run_id}: its boot time is worse for sure; {DIAGNOSTIC_BOOTS} further boots of each medium show "
                "where"
            )
            code = self._pytest(job, suite, run_id, (f"--lab-{WHERE}",))
            if code == _OK:
                rerun.report_parts(store, run_id, self.say)
        return code

    def _confirm(self, job: Job, suite: str, run_id: int) -> tuple[int, int | None]:
        """Measure again what the judge asked for of a run, also after transient faults.

        Returns:
            the exit code, and the run that confirms it; None: it is not complete.
        """
        store = self.queue.store
        for pause_s in (*CONFIRM_PAUSES_S, None):
            before = confirmation(store, job.id, run_id)
            resumed = before.id if before is not None and before.status != "completed" else None
            code = self._pytest(job, suite, resumed, ("--lab-confirms", str(run_id)))
            run = confirmation(store, job.id, run_id)
            attempts = store.attempts(run.id) if run is not None else []
            if code != _FAILED or pause_s is None or (attempts and not attempts[-1].transient):
                break
            self.queue.pause(pause_s)
        is_complete = run is not None and run.status == "completed" and run != before
        return code, run.id if run is not None and is_complete else None

    def _latest(self, job: Job) -> int | None:
        """Last run of the job's current suite."""
        return latest_run(self.queue.store, job, job_request.kind(job.suites[job.done]))

    def _pytest(self, job: Job, suite: str, resumed: int | None, more: Sequence[str] = ()) -> int:
        if self._stopping:
            return INTERRUPTED
        if resumed is not None:
            self.say(f"going on with run {resumed}")
        away_s = min(max(self._deadline - self.queue.monotonic_s, 0.0), AWAY_S)
        process = subprocess.Popen(
            [*command(job, self.place.tests, suite, resumed), *more],
            cwd=self.place.folder,
            env=environment(job, self.place.database, self.power_on_gap_s, self._as_user, away_s),
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            start_new_session=True,
        )
        self._child = process
        if self._stopping and not self._asked:  # it was asked to end just before there was a child to tell
            self._stop()
        try:
            code = self._wait(process, job)
        except BaseException:  # e.g. the board is another's now
            # pytest must not measure without signs of life
            self._stop()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
        finally:
            self._child = None
        if self._stopping:
            return INTERRUPTED
        if code < 0:
            self.say(f"pytest was killed by {signal.Signals(-code).name}: the kernel does so where memory is short")
            return BUSY
        if code == _FAILED:
            # Raises if the board was taken while this host stood still: then the failure is not the board's
            self._beat(job)
        return code if code in {_OK, _USAGE, *_ENDS} else _USAGE if code == _NO_TESTS else _FAILED

    def _wait(self, process: subprocess.Popen[bytes], job: Job) -> int:
        """Send signs of life until pytest ends, or kill it after STOP_S."""
        asked_at: float | None = None
        while True:
            try:
                return process.wait(self.heartbeat_s)
            except subprocess.TimeoutExpired:
                if self._beat(job):
                    self._stop()
                self._update_claimant(job)
                if go_on(process.pid):
                    self.say(f"pytest (process {process.pid}) was stopped by a signal, with the board; it goes on")
            if self._stopping:
                asked_at = self.queue.monotonic_s if asked_at is None else asked_at
                if self.queue.monotonic_s - asked_at > STOP_S:
                    process.kill()

    def _update_claimant(self, job: Job) -> None:
        """Update a scheduled job's claimant and the host's capacity."""
        if job.priority >= PERSONS:
            return
        try:
            if self.capacity is not None:
                self.capacity.record()
            who = other_user(self.queue, job)
            if who != self._claimant:
                ask(self.queue, job.id, who)
                self._claimant = who
        except BoardlabError as error:  # an env that is being saved, a store that is away: the next look may see more
            _log.warning("job %s: the claimant of its board is unknown: %s", job.called, error)

    def _beat(self, job: Job) -> bool:
        """Send a sign of life; return whether the job must end."""
        return self.queue.try_beat(job.id) or self._stopping

    def _run_to_resume(self, job: Job) -> int | None:
        return self.queue.unfinished_run(job, job_request.kind(job.suites[job.done]))

    def _stop(self) -> None:
        """Ask pytest to end, once; a second signal would interrupt its clean-up."""
        self._stopping = True
        self.queue.store.hurry()
        if self._child is not None and not self._asked:
            self._asked = True
            self._child.send_signal(signal.SIGINT)


def command(job: Job, tests: Path, suite: str, unfinished: int | None) -> list[str]:
    """Command line of pytest for a suite.

    Args:
        tests: the folder with the suites.
        unfinished: the run to go on with, if the job has one of this suite.
    """
    # When `lab run` is killed, the kernel ends pytest as Ctrl-C would: board off, run resumable.
    # -P: as the program `pytest`, which takes no module from the folder that it is started in.
    words = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider"]
    # With `=`: pytest takes a separate path for a folder of tests when it looks for its settings.
    words += [f"--lg-env={job.env}", *map(str, job_request.files(tests, suite))]
    words += [f"--lab-confirms={job.options[CONFIRMS]}"] if CONFIRMS in job.options else []
    # `lab run` judges, at the end
    chosen_options = {name: value for name, value in job.options.items() if name != JUDGE}
    words += pytest_arguments(chosen_options, job_request.kind(suite), resumed=unfinished is not None)
    if unfinished is not None:
        return [*words, "--lab-resume", str(unfinished)]
    if job.release:
        words += ["--lab-release", job.release]
    if job.cycles is not None:
        words += ["--lab-cycles", str(job.cycles)]
    return words


def environment(
    job: Job, database: str | None, power_on_gap_s: float, as_user: Mapping[str, str], away_s: float = 0.0
) -> dict[str, str]:
    """Environment of pytest, with the database.

    Its URL may hold a password: every user can read a command line, but not an environment.

    Args:
        database: as `--db`, or None.
        power_on_gap_s: unless the environment has it; 0: none.
        as_user: variables with the holder of the labgrid place.
        away_s: how long it waits for a host that is away, before it measures.
    """
    own = {} if database is None else {DATABASE_VARIABLE: database}
    gap = {locks.GAP_VARIABLE: f"{power_on_gap_s:g}"} if power_on_gap_s else {}
    return {**gap, **os.environ, JOB_VARIABLE: job.called, AWAY_VARIABLE: f"{away_s:g}", **own, **as_user}


_REPEATED_CODES: Final = {"completed": 0, "cancelled": INTERRUPTED}


def report_again(store: Store, job: Job, say: Callable[[str], None]) -> int:
    """Print the verdicts of an ended job; return its exit code.

    Raises:
        BoardlabError: the store cannot be used.
    """
    from lab.farm import rerun  # noqa: PLC0415 - numpy, which few jobs have a use for

    code = _REPEATED_CODES.get(job.state, 1)
    if job.state == "failed":
        print_lab_faults(store, job, say)
    if not job.options.get(JUDGE):
        return code
    worse = not rerun.report_again(store, job, say)
    unconfirmed, unknowns = rerun.find_unconfirmed_runs(store, job), rerun.find_unknowns(store, job)
    return _with_verdict(code, unconfirmed, unknowns, say, worse=worse)


NOT_CONFIRMED = "not confirmed: "  # as farm/buildbot/boardlab.py reads it


def _with_verdict(
    code: int, unconfirmed: Sequence[int], unknowns: Sequence[str], say: Callable[[str], None], *, worse: bool
) -> int:
    """Exit code of a job, with the verdict on what it measured whole; a question that is open is printed."""
    if code != _OK or worse:
        return WORSE if code == _OK else code
    for unknown in unknowns:
        say(f"{NOT_CONFIRMED}{unknown}")
    if not unconfirmed:
        return UNCONFIRMED if unknowns else _OK
    runs = ", ".join(map(str, unconfirmed))
    say(
        f"{NOT_CONFIRMED}numbers of run {runs} may have moved; lab run --confirms {unconfirmed[0]} --env ENV measures "
        "them"
    )
    return UNCONFIRMED


BY_THE_LAB = "failed by the lab: "  # as farm/buildbot/boardlab.py reads it


def print_lab_faults(store: Store, job: Job, say: Callable[[str], None]) -> None:
    """Print the lab's faults if a job failed by them alone.

    Raises:
        BoardlabError: the store cannot be read.
    """
    faults = lab_faults(store, job.id)
    if faults and RELEASES.isdisjoint(faults):
        say(f"{BY_THE_LAB}{', '.join(faults)} (lab jobs show {job.called})")


LOG: Final = "upload.log"  # output of the last upload, in the folder of marks
_UPLOAD: Final = ("-P", "-c", "import sys; from lab.cli import main; sys.exit(main())", "results", "upload")


def start_upload(store: Store) -> subprocess.Popen[bytes] | None:
    """Start the upload of marked artifacts at low priority; None: none.

    It never fails: what is not uploaded stays marked, for the next job or `lab results upload`.
    """
    artifacts = store.artifacts
    if not artifacts.shared or not artifacts.list_marked():
        return None
    database = store.location.url.render_as_string(hide_password=False)
    own = {DATABASE_VARIABLE: database, ARTIFACTS_VARIABLE: str(artifacts.root)}
    try:
        with (artifacts.marks / LOG).open("wb") as log:
            return subprocess.Popen(
                ["nice", "-n", "19", sys.executable, *_UPLOAD],
                env={**os.environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        _log.warning("artifacts are not brought to %s now: %s; later: lab results upload", artifacts.shared, error)
        return None
