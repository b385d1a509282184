"""This process's jobs of a store, and boards that it holds."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from lab.benchmarks.cycles import AWAY_S
from lab.errors import BoardlabError
from lab.farm import reference_board
from lab.health import QuarantineRule
from lab.host import process
from lab.jobs import listing
from lab.jobs.queue import PERSONS, Holder, JobQueue, wait_on
from lab.jobs.records import BY_LAB_RUN, Job, JobState, Order
from lab.places.job_place import person_at_place
from lab.places.place import PLACE_BUSY
from lab.results import open_store
from lab.results.store import Store

QUEUE_POLL_S: Final = 2.0


class BusyBoardError(Exception):
    """Another job or a reservation has the board; the message names it."""


def queue(
    store: Store,
    program: str = BY_LAB_RUN,
    *,
    person: str | None = None,
    ignores: bool = False,
    priority: int = PERSONS,
    rule: QuarantineRule | None = None,
    request: str = "",
) -> JobQueue:
    """Jobs of a store, requested by this process.

    Args:
        program: of lab.jobs.records. person: their owner; None: the user of this process.
        ignores: a board that this person has reserved is taken. priority: of lab.jobs.queue.
        rule: when a board is kept out; None: as this host's farm.yaml has it. request: of a queue, that the jobs belong to.
    """
    return JobQueue(
        store,
        process.identity(),
        process.has_died,
        person=process.person() if person is None else person,
        program=program,
        ignores=ignores,
        priority=priority,
        rule=reference_board.rule() if rule is None else rule,
        request=request,
    )


def opened(
    url: str | None, wait_s: float, say: Callable[[str], None], pause: Callable[[float], None] = time.sleep
) -> Store:
    """Open the results and migrate an older schema; `say` reports it.

    A transient failure, such as a restarted server, is retried for `wait_s`, and no longer than AWAY_S. Once they are open,
    each call waits as long for them.

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
        pause(QUEUE_POLL_S)


@contextmanager
def held(queue: JobQueue, order: Order, wait_s: float, say: Callable[[str], None]) -> Iterator[Job]:
    """Hold the board for the block.

    SIGTERM, which cancels a job, ends the block as Ctrl-C does: recorded, board off.

    Raises:
        BusyBoardError: it is another's, or a person has its place, also after `wait_s`; or its place is taken since, as
            `lab.farm.labgrid_place.acquired` says in the body.
        KeyboardInterrupt: also where somebody cancelled the job while it waited, which was said.
    """
    with _ended_by_signals():
        job = queue.enqueue(order)
        try:
            taken = _started(queue, job, wait_s, say)
        except BaseException:
            queue.store.hurry()
            queue.finish(job.id, "interrupted")
            if by := queue.job(job.id).cancelled_by:
                say(f"job {job.called} was cancelled by {by}")
            raise
        if taken is None:
            why = _obstacle(queue, job)
            queue.finish(job.id, "refused")
            raise BusyBoardError(f"{why}. Wait for it with --wait SECONDS")
        with _living(queue, job, say):
            yield taken


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
        raise BusyBoardError(f"{error}. Wait for it with --wait SECONDS") from error
    except KeyboardInterrupt:
        state = "interrupted"
        queue.store.hurry()
        if holder.lost:
            say(f"ended early: {holder.lost}")
        raise
    finally:
        holder.finish(state)


def _started(queue: JobQueue, job: Job, wait_s: float, say: Callable[[str], None]) -> Job | None:
    """Start the job; None: its board or its place is still taken.

    A person with the place at labgrid-client may need the board there.

    Raises:
        KeyboardInterrupt: somebody cancelled it.
    """
    deadline, reported, previous = queue.monotonic_s + wait_s, "", ""
    while True:
        keeps = person_at_place(queue, job)
        if keeps or previous:
            wait_on(queue, job.id, keeps)  # the place's holder gets the board before us
        previous = keeps
        taken = None if keeps else queue.start(job.id)
        if taken is None and queue.job(job.id).cancelled_by:
            raise KeyboardInterrupt
        late = queue.monotonic_s >= deadline and (keeps or not queue.watches(job.id))
        if taken is not None or late:
            return taken
        if (why := keeps or listing.obstacle(queue, job.board)) != reported:
            say(f"job {job.called} waits: {why}")
            reported = why
        queue.pause(QUEUE_POLL_S)


def _obstacle(queue: JobQueue, job: Job) -> str:
    return person_at_place(queue, job) or listing.obstacle(queue, job.board)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM into KeyboardInterrupt, and ignore further ones."""

    def end(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    with process.handling({signal.SIGTERM: end}):
        yield
