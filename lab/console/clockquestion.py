"""A question for the clock of a console server, on its way beside what is read."""

from __future__ import annotations

import time

from lab.console.status import of_another_boardlab
from lab.console.wire import Message, raise_refusal
from lab.errors import LabStableError
from lab.host.clock import MonotonicRaw
from lab.host.clockrelation import ClockReading


class ClockQuestion:
    """A question on its way, begun now.

    Attributes:
        deadline: when the server is silent, by time.monotonic().
    """

    def __init__(self, timeout_s: float) -> None:
        self.put_off(timeout_s)
        self._asked_ns = MonotonicRaw().now_ns()
        self._told_ns = 0
        self._answer: Message | None = None

    def put_off(self, timeout_s: float) -> None:
        """Something came: the answer is behind it."""
        self.deadline = time.monotonic() + timeout_s

    def answered(self, answer: Message) -> None:
        """The answer has come, now."""
        self._told_ns = MonotonicRaw().now_ns()
        self._answer = answer

    def reading(self) -> ClockReading | None:
        """What the clock of the stamps showed, on which time line, between two readings of this process's; None: no answer yet.

        Raises:
            LabStableError: the server is another boardlab's, and does not know the question.
        """
        if self._answer is None:
            return None
        try:
            raise_refusal(self._answer)
        except LabStableError as error:
            if "unknown request" not in str(error):
                raise
            raise of_another_boardlab("what its clock shows") from error
        return ClockReading(self._asked_ns, int(self._answer["t_ns"]), self._told_ns, str(self._answer["line"]))
