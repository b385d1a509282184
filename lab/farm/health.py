"""What farm.yaml says of boards' health: when one is kept out, and which board the lab is judged by."""

from __future__ import annotations

from typing import Final

from attrs import field, frozen, validators

from lab.farm import values
from lab.health import DEFAULT_RULE, Rule

BEFORE_ALL: Final = "01:30"  # half an hour before a schedule's own default


@frozen
class HealthConfig:
    """Boards' health.

    Attributes:
        faults, window_h, age_h: of lab.health.Rule.
        reference: a board of `schedules` or `boards` that is checked first each night; empty: there is none. at: when.
    """

    faults: int = field(default=DEFAULT_RULE.faults, validator=validators.ge(1))
    window_h: float = field(default=DEFAULT_RULE.window_h, validator=validators.gt(0))
    age_h: float = field(default=DEFAULT_RULE.age_h, validator=validators.gt(0))
    reference: str = field(default="", validator=values.word)
    at: str = field(default=BEFORE_ALL, validator=values.time)

    @property
    def rule(self) -> Rule:
        """When a board is kept out, and when it is checked."""
        return Rule(self.faults, self.window_h, self.age_h)
