"""Holding a board by a job of this process, for as long as a block runs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field

from lab.benchmarks.cycles import AWAY_S
from lab.errors import BoardlabError
from lab.host import process
from lab.jobs.queue import JobQueue
from lab.jobs.records import HEARTBEAT_S, Job, JobState, Order
from lab.jobs.waiting import PLACE_BUSY, POLL_S, BusyBoardError, JobWaiter, PlaceGate
from lab.results import open_store
from lab.results.store import Store


def open_results(
    url: str | None, wait_s: float, say: Callable[[str], None], pause: Callable[[float], None] = time.sleep
) -> Store:
    """Open the results store, and migrate an older schema.

    A transient failure, e.g. of a server that restarts, is retried for `wait_s`, but no longer than AWAY_S. The open
    store then waits up to AWAY_S for a database that is away.

    Args:
        say: takes a line for a person.
        pause: waits that many seconds between two tries.

    Raises:
        BoardlabError: as `lab.results.open_store`.
    """
    deadline, reported = time.monotonic() + min(wait_s, AWAY_S), False
    while True:
        try:
            return open_store(url, migrate=say, patience_s=AWAY_S)
        except BoardlabError as error:
            if not error.transient or time.monotonic() >= deadline:
                raise
            if not reported:
                say(f"waits: {error}")
                reported = True
        pause(POLL_S)


@contextmanager
def hold_board(
    queue: JobQueue, order: Order, wait_s: float, say: Callable[[str], None], other_user: PlaceGate
) -> Iterator[Job]:
    """Wait for a board, and hold it for the block by a job.

    SIGTERM, which cancels a job, ends the block as Ctrl-C does, so that its end is recorded and the board is switched
    off.

    Args:
        order: what the job does; it names the board.
        wait_s: how long to wait for the board.
        say: takes a line for a person.
        other_user: returns the user of the job's labgrid place who keeps it from the board.

    Raises:
        BusyBoardError: after `wait_s` another job or a reservation has the board, or a person its place; or the block
            has found the place taken (`lab.places.job_place.hold_place`).
        KeyboardInterrupt: Ctrl-C, SIGTERM, or somebody cancelled the job while it waited.
    """
    with _end_by_signals():
        job = queue.enqueue(order)
        try:
            started = JobWaiter(queue, say, other_user).wait(job, wait_s)
        except BusyBoardError:
            queue.finish(job.id, "refused")
            raise
        except BaseException:
            _interrupt(queue, job, say)
            raise
        if started is None:
            _interrupt(queue, job, say)
            raise KeyboardInterrupt
        with _living(queue, job, say):
            yield started


def _interrupt(queue: JobQueue, job: Job, say: Callable[[str], None]) -> None:
    """Record the end of a job that waited, and name the person who cancelled it, if anybody did."""
    queue.store.hurry()
    queue.finish(job.id, "interrupted")
    if by := queue.job(job.id).cancelled_by:
        say(f"job {job.called} was cancelled by {by}")


@contextmanager
def _living(queue: JobQueue, job: Job, say: Callable[[str], None]) -> Iterator[None]:
    """Send heartbeats of a running job during the block, and record its end."""
    holder = Holder(queue, job.id)
    holder.start()
    state: JobState = "failed"
    try:
        yield
        state = "completed"
    except BoardlabError as error:
        if error.failure != PLACE_BUSY:
            raise
        state = "refused"
        raise BusyBoardError(str(error)) from error
    except KeyboardInterrupt:
        state = "interrupted"
        queue.store.hurry()
        if holder.lost:
            say(f"ended early: {holder.lost}")
        raise
    finally:
        holder.finish(state)


@contextmanager
def _end_by_signals() -> Iterator[None]:
    """Turn SIGTERM into KeyboardInterrupt, and ignore further ones."""

    def end(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    with process.handling({signal.SIGTERM: end}):
        yield


@define(eq=False)
class Holder:
    """Sends the heartbeats of a job of this process, by a thread.

    If the job loses its board or is cancelled, the thread ends this process with SIGTERM.

    Attributes:
        heartbeat_s: time between two heartbeats.
        lost: the reason why the process was ended; empty: it was not.
    """

    queue: JobQueue
    job_id: int
    heartbeat_s: float = HEARTBEAT_S
    lost: str = field(default="", init=False)
    _done: threading.Event = field(init=False)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Start to send heartbeats."""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="boardlab job", daemon=True)
        self._thread.start()

    def finish(self, state: JobState) -> None:
        """Stop the heartbeats, and release the board; the job ends in this state."""
        self._done.set()
        self._thread.join()
        self.queue.finish(self.job_id, state)

    def _beat(self) -> None:
        """Send heartbeats until `finish` is called or the job has lost its board."""
        while not self._done.wait(self.heartbeat_s):
            try:
                if not self.queue.try_beat(self.job_id):
                    continue
                self.lost = "the job was cancelled"
            except BoardlabError as error:
                self.lost = str(error)
            # Ends the session as Ctrl-C does: the board is switched off, and the run can be resumed.
            os.kill(os.getpid(), signal.SIGTERM)
            return
