"""The records of a board's health."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import Final, Literal

from attrs import field, frozen, validators

State = Literal["healthy", "suspect", "bad", "maintenance"]
Outcome = Literal["ok", "failed", "not tried"]
PARTS: Final = ("power", "console", "medium", "rails", "boot")
EQUIPMENT: Final = PARTS[:-1]  # what a run needs whatever its release is worth; that the release boots is none of it

PROVISION_NEEDS: Final = ("power", "console", "rails")  # the medium may be what a new release mends

# Classes of the host that a board is plugged into: it slept, it was too busy, its console server has no room.
HOSTS: Final = frozenset({"host_suspended", "stamps_uncertain", "console_overrun", "console_full", "console_shared"})
# Classes of the way to a board's host: the exporter or the coordinator is away, the connection is. They say nothing of what is at that host.
WAYS: Final = frozenset({"exporter_gone", "coordinator_unreachable", "console_link"})
# Classes of the lab in which a release may have its part: the software on the board is another one, falls back to another medium, or speaks at another speed.
RELEASES: Final = frozenset({"software_changed", "mixed_boot", "wrong_medium", "garbled"})
# Faults of the lab by their class that say nothing about a board's equipment: the host's, the release's; somebody else has it, the results cannot be written.
NOT_EQUIPMENT: Final = (
    HOSTS | RELEASES | {"place_busy", "place_lost", "console_busy", "lease_lost", "results", "artifacts"}
)


@frozen
class Rule:
    """When a board is kept out by itself, and when it is to be checked.

    Attributes:
        faults: of the lab in a row, after which the board is in quarantine.
        window_h: older faults count no more, in hours.
        age_h: a check that is older is to be made anew before a scheduled run, in hours.
    """

    faults: int = field(default=3, validator=validators.ge(1))
    window_h: float = field(default=72.0, validator=validators.gt(0))
    age_h: float = field(default=24.0, validator=validators.gt(0))

    @property
    def window(self) -> dt.timedelta:
        """How far back faults count."""
        return dt.timedelta(hours=self.window_h)


DEFAULT_RULE: Final = Rule()


@frozen
class Part:
    """One thing that was checked.

    Attributes:
        name: of PARTS. failure, fault: its class and whose fault it is (lab.errors), where it failed.
        message: what was found, or what to do. said: the end of what the console said meanwhile.
    """

    name: str
    outcome: Outcome
    failure: str = ""
    fault: str = ""
    message: str = ""
    said: str = ""


@frozen
class Check:
    """A check of a board.

    Attributes:
        host: that the board is plugged into; empty: nobody could tell. at: when it ended. job_id: of the job that had the board. id: in the store; 0: not there yet.
    """

    board: str
    board_type: str
    host: str
    at: dt.datetime
    parts: tuple[Part, ...]
    duration_s: float = 0.0
    env: str = ""
    person: str = ""
    job_id: int | None = None
    id: int = 0

    @property
    def failed(self) -> tuple[Part, ...]:
        """The parts that failed, in the order of PARTS."""
        return tuple(part for part in self.parts if part.outcome == "failed")

    @property
    def passed(self) -> bool:
        """Whether the board can take runs: power and console work, and nothing else of the equipment failed."""
        shown = {part.name for part in self.parts if part.outcome == "ok"}
        return {"power", "console"} <= shown and not any(part.name in EQUIPMENT for part in self.failed)

    @property
    def fault(self) -> Part | None:
        """The part that failed on the account of the lab's equipment; None: none did."""
        return self.fault_in(PARTS)

    def fault_in(self, names: Collection[str]) -> Part | None:
        """The first of these parts that failed on the account of the lab's equipment; None: none did."""
        return next((part for part in self.failed if part.name in names and counts(part.fault, part.failure)), None)

    @property
    def hosts(self) -> Part | None:
        """The part that failed on the account of the host itself; None: none did."""
        return next((part for part in self.failed if part.failure in HOSTS), None)

    @property
    def of_a_host(self) -> bool:
        """Whether it says anything of the board's host: not where all that failed is the way there."""
        return bool(self.host) and not (self.failed and all(part.failure in WAYS for part in self.failed))

    @property
    def event(self) -> Event:
        """What it says beside the attempts of runs."""
        worst = self.fault or next((part for part in self.failed if part.name in EQUIPMENT), None)
        if self.passed or worst is None:
            return Event(self.at, "ok" if self.passed else "other", host=self.host, check=True)
        return Event(self.at, _kind(worst.fault, worst.failure), worst.failure, self.host, check=True)


@frozen
class Event:
    """An attempt of a run, or a check.

    Attributes:
        kind: "ok", whose fault it was ("lab": of the equipment, "board"), or "other", which says nothing of either.
        failure: its class. check: it was a check.
    """

    at: dt.datetime
    kind: Literal["ok", "lab", "board", "other"]
    failure: str = ""
    host: str = ""
    check: bool = False

    @classmethod
    def of_attempt(cls, at: dt.datetime, outcome: str, fault: str | None, host: str = "") -> Event:
        """Of an attempt as the store has it; `outcome`: "ok", or its failure class."""
        return cls(
            at, "ok" if outcome == "ok" else _kind(fault or "", outcome), "" if outcome == "ok" else outcome, host
        )


@frozen
class Health:
    """What follows.

    Attributes:
        reasons: why, the gravest first; none where nothing is to be said.
        since: of the oldest fault that counts; None: nothing is wrong, or nobody knows.
        checked_at: when it was checked last. known: anything is known of the board at all.
    """

    board: str
    state: State
    reasons: tuple[str, ...] = ()
    since: dt.datetime | None = None
    checked_at: dt.datetime | None = None
    known: bool = True

    @property
    def gravest(self) -> str:
        """The first of the reasons, for a line that has room for one."""
        return next(iter(self.reasons), "nothing says why")

    @property
    def troubled(self) -> bool:
        """Whether there is something to look at. A board of which nothing is known is none."""
        return self.known and self.state in {"suspect", "bad"}


def counts(fault: str, failure: str) -> bool:
    """Whether a failure is one of the lab's equipment."""
    return fault == "lab" and failure not in NOT_EQUIPMENT


def _kind(fault: str, failure: str) -> Literal["lab", "board", "other"]:
    if counts(fault, failure):
        return "lab"
    return "board" if fault == "board" else "other"
