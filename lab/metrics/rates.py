"""How often a board fails: shares of attempts, and how sure a rise of one is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from attrs import field, frozen, validators

from lab.metrics import uncertainty
from lab.metrics.model import Metric

OK: Final = "ok"
BOARD: Final = "board"
FAILED: Final = "failed"  # key of a verdict's `differs`: failed attempts before the change, and since then
# Chances of a change in a board that did not change. Below SURE a change is called, so that one in a hundred such
# boards is called by mistake; below HINT it is `unsure`.
SURE: Final = 0.01
HINT: Final = 0.2
_DEFINITION: Final = (
    "Share of the attempts at {what} that failed by the board's fault, of all that were good or failed so; a cycle "
    "that a retry saved counts with its failed attempt. Failures of the lab, of the test "
    "and of the configuration say nothing of the board."
)


def _metric(name: str, what: str) -> Metric:
    return Metric(name, "%", "lower", _DEFINITION.format(what=what), 0.0, "boardlab, docs/results.md")


RATES: Final[Mapping[str, Metric]] = {  # by kind of run
    "boot": _metric("boot.failure_rate", "a boot"),
    "low_power": _metric("low_power.failure_rate", "a suspend and resume"),
}


@frozen
class FailureRate:
    """Failed attempts of all that say something of the board.

    Attributes:
        failed: attempts that failed by the board's fault.
        tried: these, and the good attempts.
    """

    failed: int = field(validator=validators.ge(0))
    tried: int = field(validator=validators.ge(1))

    def __attrs_post_init__(self) -> None:
        if self.failed > self.tried:
            raise ValueError(f"{self.failed} of {self.tried} cannot have failed")

    @classmethod
    def of(cls, outcomes: Iterable[tuple[str, str | None, int]]) -> FailureRate | None:
        """The rate of attempts; None: none is about the board.

        Args:
            outcomes: outcome, fault and number of attempts.
        """
        counted = [(outcome != OK, count) for outcome, fault, count in outcomes if outcome == OK or fault == BOARD]
        tried = sum(count for _, count in counted)
        return cls(sum(count for failed, count in counted if failed), tried) if tried else None

    @classmethod
    def of_share(cls, share: str) -> FailureRate:
        """The rate of a text, e.g. "3 of 60"."""
        failed, tried = share.split(" of ")
        return cls(int(failed), int(tried))

    @property
    def share(self) -> str:
        """E.g. "3 of 60"."""
        return f"{self.failed} of {self.tried}"

    @property
    def percent(self) -> float:
        """The failed share in percent."""
        return 100 * self.failed / self.tried

    @property
    def interval_percent(self) -> tuple[float, float]:
        """Wilson's interval of the share at 95 %, in percent."""
        low, high = uncertainty.wilson(self.failed, self.tried)
        return 100 * low, 100 * high

    def text(self) -> str:
        """E.g. "3 of 60: 5.0 % (95 %: 1.7 to 13.7 %)"."""
        low, high = self.interval_percent
        return f"{self.share}: {self.percent:.1f} % (95 %: {low:.1f} to {high:.1f} %)"


@frozen
class RateChange:
    """A failure rate beside that of the runs before.

    Attributes:
        now: of this run.
        before: of all earlier runs together; None: there are none.
    """

    now: FailureRate
    before: FailureRate | None

    @property
    def chance(self) -> float:
        """The chance of so large a change, in its direction, if nothing changed: Fisher's exact test, one-sided."""
        if self.before is None:
            return 1.0
        rises = self.now.failed * self.before.tried >= self.before.failed * self.now.tried
        failed = self.now.failed + self.before.failed
        all_tried = self.now.tried + self.before.tried
        counts = range(self.now.failed, min(failed, self.now.tried) + 1) if rises else range(self.now.failed + 1)
        ways = sum(
            math.comb(self.now.tried, k) * math.comb(self.before.tried, failed - k)
            for k in counts
            if 0 <= failed - k <= self.before.tried
        )
        return ways / math.comb(all_tried, failed)

    @property
    def outcome(self) -> str:
        """ "regression", "improvement", "unsure" or "none"; "no history" without earlier runs."""
        if self.before is None:
            return "no history"
        if self.chance >= HINT:
            return "none"
        if self.chance >= SURE:
            return "unsure"
        return "regression" if self.now.percent > self.before.percent else "improvement"

    def text(self) -> str:
        """The change for a person, with how sure it is."""
        if self.before is None:
            return f"{self.now.text()}; no earlier run"
        return (
            f"{self.now.text()}; before {self.before.share}; by chance alone in {100 * self.chance:.2g} % of "
            f"such runs: {self.outcome}"
        )
