"""A job that waits: for its board, and one that a timer began also for room on this host and for whoever wants its labgrid place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attrs import define, field

from lab.env import envfile
from lab.errors import BoardlabError, ConfigurationError
from lab.farm.placing import DEFAULT_COORDINATOR, RESERVATION, kept_from, place_of
from lab.farm.room import Room
from lab.host import locks
from lab.jobs.listing import obstacle
from lab.jobs.queue import PERSONS, JobQueue, wait_on
from lab.jobs.records import Job

POLL_S: Final = 2.0  # each time it says that it lives
LOOK_S: Final = 0.5  # whether the board is free: a look costs a thousandth of that


@define
class Queued:
    """Waits for jobs of a process.

    Attributes:
        say: tells a person a line. is_over: whether the process is to end.
        room: of this host; None: nobody bounds it.
    """

    book: JobQueue
    say: Callable[[str], None]
    is_over: Callable[[], bool]
    room: Room | None = None
    _lacks: str = field(default="", init=False)  # what keeps it waiting beside its board
    _unread: bool = field(default=False, init=False)  # that is its environment, which cannot be read at the moment

    def wait(self, job: Job, wait_s: float) -> Job | None:
        """The job when it has its board; None: it is over, or it took too long, which was said.

        A job in its way that seems dead is watched to the end, however short `wait_s` is.
        """
        deadline = time.monotonic() + wait_s
        announced = False
        while (started := self._started(job)) is None:
            if self.is_over() or self.book.job(job.id).cancelled_by:
                return None
            why = self._lacks or obstacle(self.book, job.board)
            if job.yields_to and not self._unread and (self._lacks or self.book.refusing(job.board)):
                deadline = time.monotonic() + wait_s  # whom it gave way to has the board for as long as they said
            if time.monotonic() >= deadline and (self._lacks or not self.book.watches(job.id)):
                self.say(f"{why}. Wait for it with --wait SECONDS")
                return None
            if not announced:
                self.say(f"job {job.called} waits: {why}")
                announced = True
            self._rest(job)
        return started

    def _rest(self, job: Job) -> None:
        """Until the next look is due, or who has the board gives it back."""
        due = time.monotonic() + POLL_S
        held = self.book.holder_of(job.board) is not None
        while time.monotonic() < due and not self.is_over():
            time.sleep(LOOK_S)
            if held and self.book.holder_of(job.board) is None:
                return

    def _started(self, job: Job) -> Job | None:
        """Take the board, unless a person has its labgrid place; scheduled jobs one at a time, and only where nothing else is in their way."""
        persons = job.priority >= PERSONS
        try:
            # Before the turn: a coordinator that is slow to answer keeps no other job waiting.
            found, self._unread = kept_from(self.book, job) if persons else wish(self.book, job), False
        except ConfigurationError as error:  # a file that is being saved is whole at a later look
            self._lacks, self._unread = str(error), True
            wait_on(self.book, job.id)
            return None
        had, self._lacks = self._lacks, found
        if persons:
            if self._lacks or had:
                wait_on(self.book, job.id, self._lacks)
            return None if self._lacks else self.book.start(job.id)
        if not self._lacks:
            with locks.turn("start", job.called, lambda _holder: None):
                self._lacks = self.room.lacks() if self.room is not None else ""
                if not self._lacks:
                    return self.book.start(job.id)
        wait_on(self.book, job.id)
        return None


def wish(book: JobQueue, job: Job) -> str:
    """Who wants the labgrid place of a job's environment; empty: nobody, it has none, or its coordinator does not answer."""
    path = Path(job.env)
    name = place_of(path) if path.is_file() else ""
    if not name or name == RESERVATION:
        return ""
    from lab.places.holding import job_user, stock_user, store_name, with_port  # noqa: PLC0415 - gRPC takes a while to import
    from lab.places.wishes import Wanted  # noqa: PLC0415

    address = envfile.coordinator_of(path) or os.environ.get("LG_COORDINATOR", DEFAULT_COORDINATOR)
    ours = {str(job_user(job.person, job.called, store_name(book.store))), str(stock_user(job.person))}
    try:
        return Wanted(name, with_port(address)).by(ours)
    except BoardlabError:
        return ""
