"""Signs of life for a job, from a thread of its own, so that nobody else takes its board."""

from __future__ import annotations

import logging
import os
import signal
import threading

from attrs import define, field

from lab.errors import BoardlabError
from lab.results.jobrecords import HEARTBEAT_S, JobState
from lab.results.jobs import JobQueue

_log = logging.getLogger(__name__)


@define(eq=False)
class Holder:
    """Gives signs of life for the job of this process; ends the process with SIGTERM where it lost its board, and `lost` says why."""

    book: JobQueue
    job_id: int
    heartbeat_s: float = HEARTBEAT_S
    lost: str = field(default="", init=False)
    _done: threading.Event = field(factory=threading.Event, init=False)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._beat, name="boardlab job", daemon=True)
        self._thread.start()

    def finish(self, state: JobState) -> None:
        """Give the board back."""
        self._done.set()
        self._thread.join()
        self.book.finish(self.job_id, state)

    def _beat(self) -> None:
        while not self._done.wait(self.heartbeat_s):
            try:
                if not self.book.beat(self.job_id):
                    continue
                self.lost = "the job was cancelled"
            except BoardlabError as error:
                if error.failure != "lease_lost":
                    _log.warning("no sign of life could be given: %s", error)
                    continue
                self.lost = str(error)
            os.kill(os.getpid(), signal.SIGTERM)  # ends the session as Ctrl-C does: board off, run resumable
            return
