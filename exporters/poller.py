"""Sources that are polled, each in its own thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from attrs import define, field

from lab.errors import BoardlabError
from lab.host.clock import Clock, utc_now

OVERDUE: Final = 3  # intervals without an answer after which a source hangs
MIN_TIMEOUT_S: Final = 60.0  # a lower limit of these intervals
_log = logging.getLogger(__name__)

Outcome = TypeVar("Outcome")


@define(eq=False)
class Poller(Generic[Outcome]):
    """Polls one source.

    Attributes:
        name: the label `collector`.
        read: asks the source; a BoardlabError is logged, and the source is down until the next answer.
        interval_s: between two polls.
        latest: the last answer, valid while `fresh`; None before the first.
    """

    name: str
    read: Callable[[], Outcome]
    interval_s: float
    clock: Clock
    latest: Outcome | None = field(default=None, init=False)
    answered_at: float = field(default=0.0, init=False)
    duration_s: float = field(default=0.0, init=False)
    _answered_ns: int = field(default=0, init=False)
    _failure: str = field(default="", init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _stop: threading.Event = field(factory=threading.Event, init=False)

    @property
    def fresh(self) -> bool:
        """Return whether the last poll succeeded, recently enough."""
        timeout_s = max(OVERDUE * self.interval_s, MIN_TIMEOUT_S)
        age_s = (self.clock.now_ns() - self._answered_ns) / 1e9
        return self.latest is not None and not self._failure and age_s <= timeout_s

    def poll(self) -> None:
        """Poll once."""
        begun_ns = self.clock.now_ns()
        try:
            answer = self.read()
        except BoardlabError as error:
            if str(error) != self._failure:
                _log.warning("collector %s is down: %s", self.name, error)
            self._failure = str(error) or type(error).__name__
            return
        if self._failure or self.latest is None:
            _log.info("collector %s is up%s", self.name, "" if self.latest is None else " again")
        self._failure = ""
        self.latest, self._answered_ns = answer, self.clock.now_ns()
        self.answered_at, self.duration_s = utc_now().timestamp(), (self._answered_ns - begun_ns) / 1e9

    def start(self) -> None:
        """Poll in a thread, at once and at each interval, until `stop`."""
        self._thread = threading.Thread(target=self._run, name=f"collector {self.name}", daemon=True)
        self._thread.start()

    def stop(self, patience_s: float = 1.0) -> None:
        """Stop polling."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(patience_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.poll()
            self._stop.wait(self.interval_s)
