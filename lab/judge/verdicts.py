"""The verdicts on a change between two numbers."""

from __future__ import annotations

import enum

from attrs import frozen


class Verdict(enum.StrEnum):
    """Verdicts in a table's order: those that need a person first."""

    REGRESSION = "regression"
    SUSPECT = "suspect"
    BROKEN_RUN = "broken run"
    IMPROVEMENT = "improvement"
    CONDITIONS_CHANGED = "conditions changed"
    DEFINITION_CHANGED = "definition changed"
    NOT_COMPARABLE = "not comparable"
    BELOW_RESOLUTION = "below resolution"
    NOISE = "noise"
    NO_HISTORY = "no history"
    NO_SAMPLES = "no samples"

    @property
    def moved(self) -> bool:
        """True if the number itself got better or worse."""
        return self in {Verdict.REGRESSION, Verdict.IMPROVEMENT}


@frozen
class Judgement:
    """A verdict and why, in one sentence.

    Attributes:
        effect: the relative change, e.g. 0.02: the number is 2 % higher; None: undefined, e.g. from zero.
        low, high: of the effect, at 95 %, with the noise between runs and both ±.
        rule: the deciding one of `lab.judge.compare`, e.g. "clock"; "moved": no rule explained the difference; "crept":
            one of many small steps; "flow": only boots of another flow could be compared.
        returns_to: the earlier release with the same level; empty: none.
        crept_from: the earlier release since which steps of one direction have added up, none of them more than noise; empty where
            it moved at once, or not at all. The effect stays that against the last release.
    """

    verdict: Verdict
    reason: str
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    rule: str = "moved"
    returns_to: str = ""
    crept_from: str = ""
