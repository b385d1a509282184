"""What a change between two releases can be."""

from __future__ import annotations

import enum

from attrs import frozen


class Verdict(enum.StrEnum):
    """In the order in which a table shows them: what needs a person first."""

    REGRESSION = "regression"
    BROKEN_RUN = "broken run"
    IMPROVEMENT = "improvement"
    CONDITIONS_CHANGED = "conditions changed"
    DEFINITION_CHANGED = "definition changed"
    NOT_COMPARABLE = "not comparable"
    BELOW_RESOLUTION = "below resolution"
    NOISE = "noise"


@frozen
class Judgement:
    """A verdict and why, in one sentence."""

    verdict: Verdict
    reason: str
