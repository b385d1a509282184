"""Jobs of measuring sessions.

A session holds its board in the store as `lab run` does, so that a busy board is seen.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from lab.errors import BoardlabError, ConfigurationError
from lab.farm import job_queue, reservations, runner
from lab.health.reservations import LONGEST_REASON, ReservationBook
from lab.host import process
from lab.jobs import listing, queue
from lab.jobs.lease import Holder
from lab.jobs.queue import GAVE_WAY, claimant
from lab.jobs.records import BY_PYTEST, JOB_VARIABLE, JobState, Order, number
from lab.jobs.waiting import BusyBoardError, JobWaiter
from lab.pytest_plugin.runs import ITEMS_KEY, JOB_KEY, RUNS_KEY, STORE_KEY, STRATEGY_KEY
from lab.pytest_plugin.session_rules import measures, sayer
from lab.results.audit import Act, Audit
from lab.results.store import Store
from lab.run import options
from lab.terminal import plain_text

_log = logging.getLogger(__name__)


HOLDER_KEY = pytest.StashKey[Holder]()


def take_board(config: pytest.Config) -> None:
    """Hold the session's board, unless its `lab run` does.

    Raises:
        pytest.UsageError: another job has it; the message names it, its start and its expected end.
        BoardlabError: the store cannot be used.
    """
    store, strategy = config.stash[STORE_KEY], config.stash[STRATEGY_KEY]
    if (ours := _of_lab_run(config)) is not None:
        config.stash[JOB_KEY] = ours
        return
    board_queue = job_queue.open_queue(store, BY_PYTEST, ignores=config.option.lab_ignore_reservation)
    option_values = {
        option.name: getattr(config.option, option.dest) for option in options.TABLE if option.default is None
    }
    job = board_queue.enqueue(
        Order(
            strategy.type.name,
            strategy.board,
            tuple(dict.fromkeys(kind for item in config.stash[ITEMS_KEY] if (kind := measures(item)))),
            config.option.lg_env,
            config.option.lab_release or "",
            config.option.lab_cycles,
            options.read(option_values),
        )
    )
    try:
        started = JobWaiter(board_queue, sayer(config)).wait(job, 0.0)
    except BusyBoardError as error:
        holder = board_queue.holder_of(job.board)
        board_queue.finish(job.id, "refused")
        end = f"; `lab jobs cancel {holder.called}` ends it" if holder else ""
        text = f"{error.why}. Wait for it with `lab run --wait SECONDS`, or try again then{end}"
        raise pytest.UsageError(plain_text(text)) from error
    if started is None:
        board_queue.finish(job.id, "interrupted")
        raise pytest.UsageError(f"job {job.called} was cancelled")
    config.stash[JOB_KEY] = job.id
    config.stash[HOLDER_KEY] = Holder(board_queue, job.id)
    config.stash[HOLDER_KEY].start()


@pytest.hookimpl(trylast=True)  # when the fixtures have switched the board off
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Note whether a test failed, and give the board back."""
    runs = session.config.stash.get(RUNS_KEY, [])
    if runs and exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERNAL_ERROR}:
        try:
            queue.note_tests(session.config.stash[STORE_KEY], runs, failed=exitstatus != pytest.ExitCode.OK)
        except BoardlabError as error:
            _log.warning("the tests' outcome could not be recorded in the store: %s", error)
    holder = session.config.stash.get(HOLDER_KEY, None)
    if holder is None:
        return
    state: JobState = "failed"
    if exitstatus == pytest.ExitCode.OK:
        state = "completed"
    elif exitstatus == pytest.ExitCode.INTERRUPTED:
        state = "interrupted"
    try:
        holder.finish(state)
    except BoardlabError as error:
        _log.warning("the job could not be ended in the store: %s", error)
    runner.start_upload(session.config.stash[STORE_KEY])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    holder = config.stash.get(HOLDER_KEY, None)
    if holder is not None and holder.lost:
        terminalreporter.write_line(f"ended early: {holder.lost}")


def _of_lab_run(config: pytest.Config) -> int | None:
    """Job of the `lab run` that started this session, or None.

    A job of another board does not count.

    Raises:
        pytest.UsageError: the job has ended or was taken while this session began, so the suite is measured by another
            session.
    """
    name = os.environ.get(JOB_VARIABLE, "")
    if not name:
        return None
    try:
        job = listing.job(config.stash[STORE_KEY], number(name))
    except ConfigurationError:
        return None
    if job.board != config.stash[STRATEGY_KEY].board:
        return None
    if job.state != "running":
        raise pytest.UsageError(
            f"job {job.called}, which began this session, is {job.state}: nothing is measured for it. `lab jobs show "
            f"{job.called}` says why"
        )
    return job.id


def hold_failed(store: Store, run_id: int, board: str, error: BoardlabError) -> None:
    """Put a failed board in maintenance, and end the session.

    The board stays on or off; no job has it until a person ends the maintenance.

    Raises:
        pytest.exit.Exception: always, as a failed session.
    """
    person = process.person()
    reason = f"held as it failed in run {run_id}: {error.failure}: {error}"[:LONGEST_REASON]
    end = f"lab reserve {board} --maintenance --end"
    try:
        with Audit(store).acting(
            Act(about=f"run {run_id}: {error.failure}"),
            reservations.MAINTAIN,
            person=process.actor(),
            address=socket.gethostname(),
            board=board,
        ):
            ReservationBook(store).maintain(board, person, reason)
        outcome = f"{board} stays as it is, in maintenance for {person or 'nobody by name'}; when you are done: {end}"
    except BoardlabError as refused:
        outcome = f"{board} stays as it is; it could not be put in maintenance: {refused}"
    text = f"[{error.failure}, fault: {error.fault}] {error}. {outcome}"
    pytest.exit(plain_text(text), returncode=pytest.ExitCode.TESTS_FAILED)


def before_cycle(config: pytest.Config, run_id: int) -> Callable[[], None]:
    """Hook before each cycle: yield the board to a person.

    It ends the session; the run can be resumed.
    """
    store, job = config.stash[STORE_KEY], config.stash.get(JOB_KEY, None)

    def look() -> None:
        if job is None:
            return
        try:
            who = claimant(store, job)
            if who:
                listing.pause(store, run_id, f"gave way: {who}")
        except BoardlabError as error:
            _log.warning("claimants of the board cannot be looked up: %s", error)
            return
        if who:
            pytest.exit(plain_text(f"run {run_id} gives way: {who}; it goes on afterwards"), returncode=GAVE_WAY)

    return look
