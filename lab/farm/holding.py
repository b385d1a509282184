"""A board that a command holds as a job which others see and can cancel, and gives back however it ends."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from lab.results import joblist
from lab.results.jobholder import Holder
from lab.results.jobrecords import Job, JobState, Order
from lab.results.jobs import JobQueue

QUEUE_POLL_S: Final = 2.0


class BusyBoardError(Exception):
    """Another job or a reservation has the board; the message says which, and until about when."""


@contextmanager
def held(queue: JobQueue, order: Order, wait_s: float, say: Callable[[str], None]) -> Iterator[Job]:
    """The board is ours.

    Raises:
        BusyBoardError: it is another's, also after `wait_s`.
    """
    job = queue.enqueue(order)
    try:
        taken = _started(queue, job, wait_s, say)
    except BaseException:
        queue.finish(job.id, "interrupted")
        raise
    if taken is None:
        why = joblist.obstacle(queue, job.board)
        queue.finish(job.id, "refused")
        raise BusyBoardError(f"{why}. Wait for it with --wait SECONDS")
    holder = Holder(queue, job.id)
    holder.start()
    state: JobState = "failed"
    try:
        yield taken
        state = "completed"
    except KeyboardInterrupt:
        state = "interrupted"
        if holder.lost:
            say(f"ended early: {holder.lost}")
        raise
    finally:
        holder.finish(state)


def _started(queue: JobQueue, job: Job, wait_s: float, say: Callable[[str], None]) -> Job | None:
    """The job with its board; None: another has it still."""
    deadline, told = time.monotonic() + wait_s, False
    while (taken := queue.start(job.id)) is None and time.monotonic() < deadline:
        if queue.job(job.id).cancelled_by:
            return None
        if not told:
            say(f"job {job.called} waits: {joblist.obstacle(queue, job.board)}")
            told = True
        time.sleep(QUEUE_POLL_S)
    return taken


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does: recorded, board off. Another one does not cut that short."""

    def end(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
