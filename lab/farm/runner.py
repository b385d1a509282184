"""Runs a job: waits for its board, measures its suites, releases it.

pytest measures, each time with a run of its own in the store. While it does so, the runner sends signs of life, so
that other hosts see that the board is in use. It resumes a run that was interrupted, has the judge look at each suite
if the job asks for it, and measures again what the judge could not decide.
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

# The exit codes of `lab run`.
WORSE: Final = 3  # everything was measured, and the judge says that a number is worse for sure
UNCONFIRMED: Final = 4  # a run ended well, but its numbers are not known to be good
BUSY: Final = 75  # EX_TEMPFAIL of sysexits.h: try again later
BROKEN: Final = 69  # EX_UNAVAILABLE of sysexits.h: the lab needs repair first; not everything was measured
INTERRUPTED: Final = 130
USAGE: Final = 2
_ENDS: Final = frozenset({INTERRUPTED, GAVE_WAY, BUSY, BROKEN})  # these end a job, even if suites are left
CONFIRM_PAUSES_S: Final = (5.0, 20.0)  # before a confirming run is tried again; shorter than a lease
STOP_S: Final = 120.0  # the time that pytest has to end, in which it switches the board off
_OK, _FAILED, _USAGE, _NO_TESTS = 0, 1, 4, 5  # exit codes of pytest
_STATES: Final[dict[int, JobState]] = {_OK: "completed", INTERRUPTED: "interrupted", BUSY: "interrupted"}
_log = logging.getLogger(__name__)


@frozen
class RunnerPaths:
    """The paths that pytest is started with.

    Attributes:
        folder: the working folder.
        tests: the folder with the suites.
        database: the value of `--db`; None: it was not given.
    """

    folder: Path
    tests: Path
    database: str | None


@define
class Runner:
    """Runs one job.

    Attributes:
        queue: the queue that the job is in.
        place: the paths that pytest is started with.
        say: prints a line for a person.
        heartbeat_s: the interval between signs of life.
        capacity: how many jobs this host can run, for scheduled jobs; None: any number.
        power_on_gap_s: the least time between two power-ons at the same switch, unless an environment variable sets it.
        choice: for a job that takes any of several boards: board -> its environment file.
        output: the file that pytest writes to; None: standard output.
    """

    queue: JobQueue
    place: RunnerPaths
    say: Callable[[str], None]
    heartbeat_s: float = HEARTBEAT_S
    capacity: HostCapacity | None = None
    power_on_gap_s: float = 0.0
    choice: Mapping[str, Path] = field(factory=dict)
    output: TextIO | None = None
    _deadline: float = field(default=0.0, init=False)  # the end of the wait for the board, by queue.monotonic_s
    _stopping: bool = field(default=False, init=False)  # the job must end: a signal, a cancellation, or a lost board
    _asked: bool = field(default=False, init=False)  # pytest was asked to end
    _worse: bool = field(default=False, init=False)  # the judge says that a number is worse for sure
    _unconfirmed: tuple[int, ...] = field(default=(), init=False)  # runs with numbers that may have moved
    _unknowns: tuple[str, ...] = field(default=(), init=False)  # why runs are not known to be good
    _reported: bool = field(default=False, init=False)  # the verdicts of an earlier process were printed
    _claimant: str = field(default="", init=False)  # the other user of the labgrid place, as the queue has it
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)  # pytest, while it runs
    _as_user: dict[str, str] = field(factory=dict, init=False)  # variables with the holder of the labgrid place

    def run(self, job: Job, wait_s: float) -> int:
        """Measure with the board; return the exit code of `lab run`.

        If the job gives way to a person, it waits again and goes on afterwards.

        Args:
            job: the job, as it is in the queue.
            wait_s: how long to wait for a board and its labgrid place, in seconds.

        Raises:
            BoardlabError: the lab failed, e.g. the place or the store cannot be reached.
        """
        # A signal must not end this process before pytest has switched the board off.
        with handling(dict.fromkeys(ENDING, lambda _number, _frame: self._stop())):
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
            # The state is read back, since another host may have ended the job, e.g. while this one stood still.
            state = self.queue.job(job.id).state
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
        """Measure the suites that are left; return the worst exit code."""
        worst = _FAILED if has_failed(self.queue.store, job.id) else _OK  # in an earlier process
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
            # A suite that is not complete stays the current one, so that a resumed job goes on with it.
            if code != _OK and (run := self._run_to_resume(job)) is not None:
                if has_lost_place(self.queue.store, run):
                    return BUSY
                if CONFIRMS in job.options or not confirms(self.queue.store, run):
                    return max(worst, code)
                code = _OK  # only a confirming run is incomplete, and the judge asks for it again
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

        Runs that it left unconfirmed are judged again, with reruns.
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
        """Judge a run of the suite; measure again what the judge asks for.

        If the boot time is worse for sure, further boots show which part of the boot it is.

        Args:
            run_id: the run; None: the last one of the suite.

        Returns:
            The exit code of the last measurement.
        """
        from lab.farm import rerun  # noqa: PLC0415 - it imports numpy, which a job that is not judged does not need

        suite, store, code = job.suites[job.done], self.queue.store, _OK
        run_id = self._latest(job) if run_id is None else run_id
        if why := job_queue.why_not_judged(store, job_queue.health_config()):
            self.say(why)
            return _OK
        if run_id is None:
            return code

        def measure_again(judged_run: int) -> int | None:
            nonlocal code
            code, confirming_run = self._confirm(job, suite, judged_run)
            return confirming_run

        worse = not rerun.judge_with_reruns(store, run_id, measure_again, self.say)
        self._worse |= worse
        confirms_another = CONFIRMS in job.options  # then the verdict is about the other run
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
        """Measure again the numbers of a run that the judge asked for.

        After a transient fault it is tried again, with pauses of CONFIRM_PAUSES_S.

        Returns:
            The exit code, and the run that confirms `run_id`; None: there is no complete one.
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
        """Return the id of the current suite's last run; None: none."""
        return latest_run(self.queue.store, job, job_request.kind(job.suites[job.done]))

    def _pytest(self, job: Job, suite: str, resumed: int | None, more: Sequence[str] = ()) -> int:
        """Run pytest for a suite; return an exit code.

        Args:
            resumed: the run to go on with; None: a new run.
            more: further arguments of pytest.

        Raises:
            BoardlabError: the board was taken over by another job.
        """
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
        if self._stopping and not self._asked:  # a signal came before `_child` was set, so pytest was not told
            self._stop()
        try:
            code = self._wait(process, job)
        except BaseException:  # e.g. the board was taken over by another job
            # Without signs of life the board counts as free, so pytest must not go on measuring.
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
            # This raises if the board was taken over while this host stood still: the failure is not the board's then.
            self._beat(job)
        return code if code in {_OK, _USAGE, *_ENDS} else _USAGE if code == _NO_TESTS else _FAILED

    def _wait(self, process: subprocess.Popen[bytes], job: Job) -> int:
        """Send signs of life until pytest ends; return its exit code.

        If the job must end and pytest does not end within STOP_S, it is killed.
        """
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
        """Store a scheduled job's claimant, and record the host's capacity."""
        if job.priority >= PERSONS:
            return
        try:
            if self.capacity is not None:
                self.capacity.record()
            who = other_user(self.queue, job)
            if who != self._claimant:
                ask(self.queue, job.id, who)
                self._claimant = who
        except BoardlabError as error:  # e.g. the environment file is just being saved: the next call may succeed
            _log.warning("job %s: the claimant of its board is unknown: %s", job.called, error)

    def _beat(self, job: Job) -> bool:
        """Send a sign of life; return whether the job must end."""
        return self.queue.try_beat(job.id) or self._stopping

    def _run_to_resume(self, job: Job) -> int | None:
        return self.queue.unfinished_run(job, job_request.kind(job.suites[job.done]))

    def _stop(self) -> None:
        """Ask pytest to end, but only once: a second signal would interrupt its clean-up."""
        self._stopping = True
        self.queue.store.hurry()
        if self._child is not None and not self._asked:
            self._asked = True
            self._child.send_signal(signal.SIGINT)


def command(job: Job, tests: Path, suite: str, unfinished: int | None) -> list[str]:
    """Return the command line of pytest for a suite.

    Args:
        tests: the folder with the suites.
        unfinished: the run to go on with; None: pytest begins a new run.

    Raises:
        ConfigurationError: the folder has no such suite.
    """
    # setpriv: if `lab run` is killed, the kernel ends pytest as Ctrl-C would: it switches the board off, and its run
    # can be resumed.
    # -P: do not import modules from the working folder; the program `pytest` does not do so either.
    arguments = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider"]
    # One argument with `=`: pytest would take a path of its own for a folder of tests when it looks for its settings.
    arguments += [f"--lg-env={job.env}", *map(str, job_request.files(tests, suite))]
    arguments += [f"--lab-confirms={job.options[CONFIRMS]}"] if CONFIRMS in job.options else []
    # JUDGE is no option of pytest: the runner itself has the runs judged.
    chosen_options = {name: value for name, value in job.options.items() if name != JUDGE}
    arguments += pytest_arguments(chosen_options, job_request.kind(suite), resumed=unfinished is not None)
    if unfinished is not None:
        return [*arguments, "--lab-resume", str(unfinished)]
    if job.release:
        arguments += ["--lab-release", job.release]
    if job.cycles is not None:
        arguments += ["--lab-cycles", str(job.cycles)]
    return arguments


def environment(
    job: Job, database: str | None, power_on_gap_s: float, as_user: Mapping[str, str], away_s: float = 0.0
) -> dict[str, str]:
    """Return the environment variables of pytest.

    The database is passed here and not on the command line, since its URL may contain a password and every user of
    the host can read command lines.

    Args:
        database: the value of `--db`; None: it was not given.
        power_on_gap_s: the least time between two power-ons at a switch; a variable of this process has precedence.
            0: none.
        as_user: variables with the holder of the labgrid place.
        away_s: how long pytest waits for an exporter's host that is away before it measures.
    """
    database_variable = {} if database is None else {DATABASE_VARIABLE: database}
    gap = {locks.GAP_VARIABLE: f"{power_on_gap_s:g}"} if power_on_gap_s else {}
    job_variables = {JOB_VARIABLE: job.called, AWAY_VARIABLE: f"{away_s:g}"}
    return {**gap, **os.environ, **job_variables, **database_variable, **as_user}


_REPEATED_CODES: Final = {"completed": 0, "cancelled": INTERRUPTED}


def report_again(store: Store, job: Job, say: Callable[[str], None]) -> int:
    """Print the verdicts of an ended job again; return its exit code.

    Raises:
        BoardlabError: the store cannot be read.
    """
    from lab.farm import rerun  # noqa: PLC0415 - it imports numpy, which few jobs need

    code = _REPEATED_CODES.get(job.state, 1)
    if job.state == "failed":
        print_lab_faults(store, job, say)
    if not job.options.get(JUDGE):
        return code
    worse = not rerun.report_again(store, job, say)
    unconfirmed, unknowns = rerun.find_unconfirmed_runs(store, job), rerun.find_unknowns(store, job)
    return _with_verdict(code, unconfirmed, unknowns, say, worse=worse)


NOT_CONFIRMED = "not confirmed: "  # farm/buildbot/boardlab.py looks for lines that begin so


def _with_verdict(
    code: int, unconfirmed: Sequence[int], unknowns: Sequence[str], say: Callable[[str], None], *, worse: bool
) -> int:
    """Return a job's exit code with the verdict; print open questions.

    The verdict counts only if everything was measured (`code` is 0).
    """
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


BY_THE_LAB = "failed by the lab: "  # farm/buildbot/boardlab.py looks for lines that begin so


def print_lab_faults(store: Store, job: Job, say: Callable[[str], None]) -> None:
    """Print the faults of the lab if a job failed by these alone.

    Faults in which the release may have a part (RELEASES) are not printed.

    Raises:
        BoardlabError: the store cannot be read.
    """
    faults = lab_faults(store, job.id)
    if faults and RELEASES.isdisjoint(faults):
        say(f"{BY_THE_LAB}{', '.join(faults)} (lab jobs show {job.called})")


LOG: Final = "upload.log"  # the output of the last upload, in the folder of marks
_UPLOAD: Final = ("-P", "-c", "import sys; from lab.cli import main; sys.exit(main())", "results", "upload")


def start_upload(store: Store) -> subprocess.Popen[bytes] | None:
    """Start to upload the marked artifacts, at low priority; return the process.

    It never fails: an artifact that is not uploaded stays marked for the next job or for `lab results upload`.

    Returns:
        The process; None: there is nothing to upload, or it cannot be started.
    """
    artifacts = store.artifacts
    if not artifacts.shared or not artifacts.list_marked():
        return None
    database = store.location.url.render_as_string(hide_password=False)
    variables = {DATABASE_VARIABLE: database, ARTIFACTS_VARIABLE: str(artifacts.root)}
    try:
        with (artifacts.marks / LOG).open("wb") as log:
            return subprocess.Popen(
                ["nice", "-n", "19", sys.executable, *_UPLOAD],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        _log.warning("artifacts are not brought to %s now: %s; later: lab results upload", artifacts.shared, error)
        return None
