"""The loop of cycles: measure, record, retry within a bound, continue.

A failed attempt is recorded with its class and never becomes a sample. Only a transient error (lab/errors.py) is
retried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Generic, TypeVar

from attrs import define, frozen

from lab.errors import BoardlabError

# Before the first, second and any later retry: a killed service needs a moment to return.
BACKOFF_S = (0.0, 2.0, 5.0)
AWAY_BACKOFF_S = (5.0, 20.0, 40.0)  # the same of what another host has, which may be booting
AWAY_S = 300.0  # so long a host may be away before a cycle is given up
# Of what another host has; a port that is missing here is not tried again.
AWAY = frozenset({"exporter_gone", "console_link", "port_missing"})

Result = TypeVar("Result")


@frozen
class CycleAttempt(Generic[Result]):
    """One try of one cycle.

    Attributes:
        cycle: from 1.
        number: from 1 within the cycle.
        result: of `measure`, or None when it raised `error`.
        again: another attempt follows.
    """

    cycle: int
    number: int
    result: Result | None
    error: BoardlabError | None
    again: bool = False


@define
class Retries:
    """The retry policy of a cycle.

    Attempts that fail since a host is away do not count with the others.

    Attributes:
        most: further attempts after transient errors; 0: none.
        failed: attempts that failed otherwise.
        aways: those that failed since a host is away.
        away_s: the pauses after these.
    """

    most: int
    failed: int = 0
    aways: int = 0
    away_s: float = 0.0

    def pause_s(self, error: BoardlabError) -> float | None:
        """Pause after a failed attempt; None: no further attempt."""
        if not error.transient or not self.most:
            return None
        if error.failure in AWAY:
            pause_s = _after(self.aways, AWAY_BACKOFF_S)
            self.aways, self.away_s = self.aways + 1, self.away_s + pause_s
            return pause_s if self.away_s <= AWAY_S else None
        self.failed += 1
        return _after(self.failed - 1, BACKOFF_S) if self.failed <= self.most else None


def _after(failed: int, pauses_s: tuple[float, ...]) -> float:
    return pauses_s[min(failed, len(pauses_s) - 1)]


def nothing_before_cycle() -> None:
    """Do nothing before a cycle."""


def run_cycles(
    cycles: Iterable[int],
    measure: Callable[[int, int], Result],
    record: Callable[[CycleAttempt[Result]], None],
    *,
    retries: int,
    sleep: Callable[[float], None],
    before_cycle: Callable[[], None] = nothing_before_cycle,
) -> None:
    """Measure every cycle with retries after transient errors; see `Retries`.

    Every attempt is handed to `record` before the next one begins, so that nothing measured is lost.

    Args:
        measure: called with the cycle and the attempt's number, both from 1.
        sleep: waits that many seconds.
        before_cycle: called before each cycle; ends the session to give the board away.

    Raises:
        BoardlabError: the error of the last attempt of the first cycle that could not be measured.
    """
    for cycle in cycles:
        before_cycle()
        tries = Retries(retries)
        for number in count(1):
            try:
                result = measure(cycle, number)
            except BoardlabError as error:
                pause_s = tries.pause_s(error)
                record(CycleAttempt(cycle, number, None, error, again=pause_s is not None))
                if pause_s is None:
                    raise
                sleep(pause_s)
            else:
                record(CycleAttempt(cycle, number, result, None))
                break
