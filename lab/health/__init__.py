"""Whether a board and the lab around it can take runs: what a check found, and what follows from checks and failures."""

from lab.health.state import (
    DEFAULT_RULE,
    Check,
    CheckedPart,
    Health,
    HealthEvent,
    QuarantineRule,
    State,
    derive,
    due,
    host_blamed,
    in_a_row,
    quarantine,
)

__all__ = [
    "DEFAULT_RULE",
    "Check",
    "CheckedPart",
    "Health",
    "HealthEvent",
    "QuarantineRule",
    "State",
    "derive",
    "due",
    "host_blamed",
    "in_a_row",
    "quarantine",
]
