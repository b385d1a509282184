"""The loop of cycles: measure, record, retry within a bound, go on.

A failed attempt is recorded with its class and never becomes a sample. Whether it is retried depends only on whether
its error is transient (lab/errors.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from attrs import frozen

from lab.errors import BoardlabError

# Before the first, second and any later retry: a killed service needs a moment to return, another host the time of its boot.
BACKOFF_S = (0.0, 2.0, 5.0)
AWAY_BACKOFF_S = (5.0, 20.0, 40.0)
AWAY = frozenset(
    {"exporter_gone", "console_link", "port_missing"}
)  # of what another host has; a port that is missing here is not tried again

Result = TypeVar("Result")


@frozen
class Attempt(Generic[Result]):
    """One try of one cycle.

    Attributes:
        cycle: from 1. number: from 1 within the cycle.
        result: what `measure` returned, or None when it raised `error`.
    """

    cycle: int
    number: int
    result: Result | None
    error: BoardlabError | None


def backoff_s(failed: int, error: BoardlabError) -> float:
    """How long to wait after so many failed attempts, the last one with this error, before the next one."""
    pauses_s = AWAY_BACKOFF_S if error.failure in AWAY else BACKOFF_S
    return pauses_s[min(failed, len(pauses_s)) - 1]


def unheeding() -> None:
    """Nobody is given the board."""


def run_cycles(
    cycles: Iterable[int],
    measure: Callable[[int, int], Result],
    record: Callable[[Attempt[Result]], None],
    *,
    retries: int,
    sleep: Callable[[float], None],
    heed: Callable[[], None] = unheeding,
) -> None:
    """Measure every cycle of `cycles`, each with at most `retries` further attempts after a transient error.

    Every attempt is handed to `record` before the next one begins, so that nothing measured is lost.

    Args:
        measure: called with the cycle and the attempt's number, both from 1.
        sleep: waits that many seconds.
        heed: called before each cycle; ends the session where the board is to be given to somebody.

    Raises:
        BoardlabError: the error of the last attempt of the first cycle that could not be measured.
    """
    for cycle in cycles:
        heed()
        for number in range(1, retries + 2):
            try:
                result = measure(cycle, number)
            except BoardlabError as error:
                record(Attempt(cycle, number, None, error))
                if not error.transient or number > retries:
                    raise
                sleep(backoff_s(number, error))
            else:
                record(Attempt(cycle, number, result, None))
                break
