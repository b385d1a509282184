"""Boards that this process holds by its jobs, and the results that have them."""

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
    """Open the results and migrate an older schema; `say` reports it.

    A transient failure, such as a restarted server, is retried for `wait_s`, and no longer than AWAY_S. Once they are
    open, each call waits as long for them.

    Raises:
        BoardlabError: as of `lab.results.open_store`.
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
    """Hold the board for the block.

    SIGTERM, which cancels a job, ends the block as Ctrl-C does: recorded, board off.

    Raises:
        BusyBoardError: it is another's, or a person has its place, also after `wait_s`; or its place is taken since, as
            `lab.places.job_place.hold_place` says in the body.
        KeyboardInterrupt: also where somebody cancelled the job while it waited, which was said.
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
    """End a job that waited, and name the person who cancelled it."""
    queue.store.hurry()
    queue.finish(job.id, "interrupted")
    if by := queue.job(job.id).cancelled_by:
        say(f"job {job.called} was cancelled by {by}")


@contextmanager
def _living(queue: JobQueue, job: Job, say: Callable[[str], None]) -> Iterator[None]:
    """Send signs of life for a running job, and record its end."""
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
    """Sends heartbeats for this process's job.

    After a lost board it ends the process with SIGTERM; `lost` has the reason.
    """

    queue: JobQueue
    job_id: int
    heartbeat_s: float = HEARTBEAT_S
    lost: str = field(default="", init=False)
    _done: threading.Event = field(init=False)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Begin."""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="boardlab job", daemon=True)
        self._thread.start()

    def finish(self, state: JobState) -> None:
        """Release the board."""
        self._done.set()
        self._thread.join()
        self.queue.finish(self.job_id, state)

    def _beat(self) -> None:
        while not self._done.wait(self.heartbeat_s):
            try:
                if not self.queue.try_beat(self.job_id):
                    continue
                self.lost = "the job was cancelled"
            except BoardlabError as error:
                self.lost = str(error)
            os.kill(os.getpid(), signal.SIGTERM)  # ends the session as Ctrl-C does: board off, run resumable
            return
