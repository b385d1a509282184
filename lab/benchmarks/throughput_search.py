"""The highest rate without loss: RFC 2544, section 26.1."""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import define, field, frozen

from lab.errors import BoardTransientError

# The RFC asks for the fastest rate at which the device loses nothing in a trial of 60 s, and leaves the search free.
# This one halves the bracket between the fastest rate that lost nothing and the slowest that lost something, with
# short trials, until the bracket is narrower than the tolerance or than the sender's own step; then a long trial has
# to confirm the rate. Where it does not, the rate counts as lossy and the search goes on below it; where that happens
# twice, short trials do not tell (buffers hide their losses), and the search begins again with long ones only.


TOLERANCE = 0.005  # of the rate that is found
MAX_TRIALS = 60
_WIDE = 2.0  # a bracket whose ends are farther apart is halved on a logarithmic scale


@frozen
class Trial:
    """One trial.

    Attributes:
        rate: offered, in the caller's unit.
        loss: lost share of the sent data.
        is_long: of the RFC's length.
    """

    rate: float
    loss: float
    is_long: bool


@frozen
class Throughput:
    """The result of a search.

    Attributes:
        rate: the fastest that lost nothing in a long trial.
        tolerance: width of the final bracket, in the unit of the rate: the truth may be faster by it.
        trials: in their order.
        is_monotonic: no rate lost anything below one that lost nothing, beyond the tolerance; False hints at a link
            whose losses have another reason than its capacity.
    """

    rate: float
    tolerance: float
    trials: tuple[Trial, ...]
    is_monotonic: bool


@define
class _Search:
    send: Callable[[float, bool], float]
    lowest: float
    tolerance: float
    step: float
    passed: list[float]
    failed: float
    trials: list[Trial] = field(factory=list)
    only_long: bool = False

    def holds(self, rate: float, *, is_long: bool = False) -> bool:
        is_long = is_long or self.only_long
        if len(self.trials) >= MAX_TRIALS:
            raise BoardTransientError(
                f"no stable rate without loss after {MAX_TRIALS} trials, between {self.passed[-1]:g} and "
                f"{self.failed:g}: something else than the load loses packets. Look at the link (ethtool -S) and at "
                "what else runs",
                failure="search_unstable",
            )
        loss = self.send(rate, is_long)
        self.trials.append(Trial(rate, loss, is_long))
        return loss == 0.0

    def narrow(self) -> None:
        """Halve the bracket until it is narrow enough."""
        while self.width > max(self.step, self.tolerance * self.passed[-1]):
            low, high = self.passed[-1], self.failed
            middle = math.sqrt(low * high) if high > _WIDE * low else (low + high) / 2
            if self.holds(middle):
                self.passed.append(middle)
            else:
                self.failed = middle

    @property
    def width(self) -> float:
        return self.failed - self.passed[-1]


def search(
    send: Callable[[float, bool], float],
    *,
    lowest: float,
    highest: float,
    step: float,
    tolerance: float = TOLERANCE,
) -> Throughput:
    """Find the highest rate without loss.

    Args:
        send: offers a rate, for a short or a long time, and returns the lost share.
        lowest: a rate of any working link.
        highest: the link's capacity; nothing is tried above.
        step: the smallest difference of rates that the sender can make.
        tolerance: the bracket's width at which the search ends, as a share of the rate.

    Raises:
        BoardTransientError: even the lowest rate loses packets, or the losses do not depend on the rate.
    """
    state = _Search(send, lowest, tolerance, step, [], highest)
    if state.holds(highest) and state.holds(highest, is_long=True):
        return Throughput(highest, 0.0, tuple(state.trials), is_monotonic=True)
    if not state.holds(lowest):
        raise BoardTransientError(
            f"even {lowest:g} packets a second lost some: the link is broken, or other traffic loads it. Look at the "
            "cable, the link's errors (ethtool -S), and what else runs on both ends",
            failure="link_lossy",
        )
    state.passed = [lowest]
    unconfirmed = 0
    while True:
        state.narrow()
        rate = state.passed[-1]
        if state.holds(rate, is_long=True):
            break
        unconfirmed += 1
        state.failed = rate
        if len(state.passed) > 1:
            state.passed.pop()
        if unconfirmed == 2:
            state.passed, state.only_long = [lowest], True
    best = max(trial.rate for trial in state.trials if not trial.loss)
    lossy = [trial.rate for trial in state.trials if trial.loss]
    is_monotonic = not lossy or min(lossy) > best * (1 - 2 * tolerance)
    return Throughput(rate, state.width, tuple(state.trials), is_monotonic)
