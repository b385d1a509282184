"""The health of boards and their lab: checks, failures and quarantine."""

from lab.health.state import (
    DEFAULT_RULE,
    BoardCheck,
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
    "BoardCheck",
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
