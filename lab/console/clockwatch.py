"""The clock of a console server that may be on another host, asked beside what is read: no byte waits for an answer."""

from __future__ import annotations

import time
from typing import Final

from attrs import define, field

from lab.console.client import ConsoleClient
from lab.console.clockquestion import ClockQuestion
from lab.console.stream import left_s
from lab.host.clock import time_line
from lab.host.clockrelation import ClockReading, ClockRelation

AGAIN_S: Final = 5.0  # after the last answer; it shows as well that the server still answers


@define
class ClockWatch:
    """Keeps what is known of the server's clock up to date.

    Each reader asks for itself: an answer is also the sign that its own connection is alive, which no other reader's is.

    Attributes:
        relation: of the server's clock to this host's.
    """

    relation: ClockRelation
    _question: ClockQuestion | None = field(default=None, init=False)
    _next: float = field(default=0.0, init=False)

    def ask(self, client: ConsoleClient) -> ClockReading:
        """Ask, and wait for the answer.

        Raises:
            LabTransientError: there is none, or that host was booted again.
        """
        return self._take(client.clock())

    def look(self, client: ConsoleClient) -> float:
        """Ask when it is time, and take what was answered since. Returns: for how many seconds there is nothing to do here.

        Raises:
            LabTransientError: that host was booted again.
        """
        if self._question is not None and (reading := self._question.reading()) is not None:
            self._question = None
            self._take(reading)
        if self._question is None and not left_s(self._next):
            self._question = client.ask_clock()
        return left_s(self._next if self._question is None else self._question.deadline)

    def check(self, client: ConsoleClient) -> None:
        """To be asked when there is nothing more to be received.

        Raises:
            LabTransientError: the answer has not come in time.
        """
        question = self._question
        if question is not None and question.reading() is None and not left_s(question.deadline):
            raise client.silent()

    def forget(self) -> None:
        """The connection is over: what is on its way will not be answered."""
        self._question = None

    def _take(self, reading: ClockReading) -> ClockReading:
        self._next = time.monotonic() + AGAIN_S
        self.relation.same = reading.line == time_line()
        if not self.relation.same:
            self.relation.add(reading)
        return reading
