"""What follows from checks and from how attempts ended; pure functions: nobody types a board's health in."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal

from attrs import field, frozen, validators

DEVICE_FAULTS: Final = 3  # attempts in a row that failed on the board's account, after which it is to be looked at
SILENT: Final = "silent"  # the class of a board of which no byte came
APART: Final = dt.timedelta(minutes=10)
SHOWN_BY_NOTHING: Final = "its last check did not pass: nothing showed that power and console work"
STALE: Final = dt.timedelta(days=14)  # a pass on another host that is older says nothing about today's faults


def in_a_row(events: Iterable[HealthEvent], rule: QuarantineRule, now: dt.datetime) -> list[HealthEvent]:
    """The faults of the lab since the last sign that the lab works, within the rule's window, oldest first.

    Of those that are less than APART from each other the first: an outage of minutes fails a cycle with all its retries.

    A good attempt, a passed check, or a fault of the board, for which the lab had to work, is such a sign; a fault of the test or of
    the configuration is none, and none of the lab either.
    """
    row: list[HealthEvent] = []
    for event in sorted(events, key=lambda each: each.at):
        if event.kind == "lab" and now - event.at <= rule.window:
            if not row or event.at - row[-1].at >= APART:
                row.append(event)
        elif _shows_the_lab_works(event):
            row.clear()
    return row


def _shows_the_lab_works(event: HealthEvent) -> bool:
    """A board that says nothing at all shows nothing: its console may be dead, or its power switch."""
    return event.kind == "ok" or (event.kind == "board" and not event.check and event.failure != SILENT)


def quarantine(events: Iterable[HealthEvent], rule: QuarantineRule, now: dt.datetime) -> str:
    """Why a board is to be kept out; empty: it is not."""
    row = in_a_row(events, rule, now)
    return told(row) if len(row) >= rule.faults else ""


def told(row: Sequence[HealthEvent]) -> str:
    """`5 faults of the lab in a row: pdu_timeout 4 times, port_lost`."""
    found = Counter(event.failure for event in row).most_common()
    classes = ", ".join(f"{name} {count} times" if count > 1 else name for name, count in found)
    return f"{len(row)} fault{'s' * (len(row) > 1)} of the lab in a row: {classes}"


def due(
    last: Check | None, events: Iterable[HealthEvent], rule: QuarantineRule, now: dt.datetime, *, kept: bool
) -> str:
    """Why a board is to be checked before it takes a run; empty: it need not.

    Args:
        events: of the board, its attempts and checks. kept: it is in quarantine.
    """
    if kept:
        return "it is in quarantine"
    if last is None:
        return "it was never checked"
    if now - last.at > dt.timedelta(hours=rule.age_h):
        return f"its last check is older than {rule.age_h:g} h"
    if not last.passed:
        return "its last check failed"
    if row := in_a_row(events, rule, now):
        return f"it ended with a fault of the lab ({row[-1].failure})"
    return ""


def derive(
    board: str,
    events: Sequence[HealthEvent],
    checks: Sequence[Check],
    rule: QuarantineRule,
    now: dt.datetime,
    *,
    kept: str = "",
    maintenance: str = "",
) -> Health:
    """The health of a board.

    Args:
        events: its attempts and checks; `rule` says which are too old. checks: the latest of each host.
        kept, maintenance: why it is in quarantine or in maintenance; empty: it is not.
    """
    last = max(checks, key=lambda check: check.at, default=None)
    ordered = sorted(events, key=lambda each: each.at)
    row = in_a_row(ordered, rule, now)
    state, reasons = _judged(ordered, last, row, rule, kept)
    if reasons and (blamed := host_blamed(checks)):
        reasons.append(blamed)
    if maintenance:
        state, reasons = "maintenance", [maintenance, *reasons]
    since = row[0].at if row else last.at if last is not None and reasons and not last.passed else None
    known = last is not None or any(event.kind != "other" for event in ordered)
    return Health(
        board,
        state,
        tuple(reasons if known or maintenance or kept else ["it was never checked, and has measured nothing lately"]),
        since,
        last.at if last is not None else None,
        known,
    )


def host_blamed(checks: Sequence[Check]) -> str:
    """Whether the host is at fault: the same board failed on it, and passed on another; empty: nothing says so.

    Args:
        checks: of one board, the latest of each host.
    """
    speaking = [check for check in checks if check.of_a_host]
    last = max(speaking, key=lambda check: check.at, default=None)
    if last is None or last.passed:
        return ""
    elsewhere = (check for check in speaking if not _one_host(check.host, last.host))
    other = max(
        (check for check in elsewhere if check.passed and last.at - check.at < STALE),
        key=lambda check: check.at,
        default=None,
    )
    if other is None:
        return ""
    return (
        f"it passed on {other.host} at {other.at:%Y-%m-%d %H:%M} UTC, so the fault is {last.host}'s: its adapters, its hub, "
        "its power switch, its cables"
    )


def _one_host(one: str, other: str) -> bool:
    """Whether two names are of one host, with its domain and without."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def shared(checks: Iterable[Check]) -> dict[str, str]:
    """Board -> what it shares with others: boards of one host of which the latest check failed with one class of the lab or of the host.

    Args:
        checks: the latest of each board.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    passed = {check.host for check in checks if check.passed}
    for check in checks:
        if check.of_a_host and (part := check.fault or check.hosts) is not None and not check.passed:
            alike.setdefault((check.host, part.failure), []).append(check.board)
    found = {}
    for (host, failure), boards in alike.items():
        for board in boards if len(boards) > 1 else ():
            others = ", ".join(sorted(other for other in boards if other != board))
            whole = "nothing on it passed" if host not in passed else "others on it passed"
            found[board] = (
                f"{others} on {host} failed the same way ({failure}), {whole}: look at what they share there"
            )
    return found


def _judged(
    events: Sequence[HealthEvent], last: Check | None, row: Sequence[HealthEvent], rule: QuarantineRule, kept: str
) -> tuple[State, list[str]]:
    state: State = "healthy"
    reasons: list[str] = []
    good = max((event.at for event in events if event.kind == "ok"), default=None)
    stands = last is not None and (good is None or good <= last.at)  # nothing good came after it
    if kept:
        state, reasons = "bad", [kept]
    if last is not None and stands and not last.passed:
        state = "bad"
        reasons += [f"{part.name}: {part.message} ({part.failure})" for part in last.failed] or [SHOWN_BY_NOTHING]
    if row and not kept:
        state = "bad" if len(row) >= rule.faults or state == "bad" else "suspect"
        reasons.append(told(row))
    if last is not None and stands and last.passed and last.failed:
        state = "suspect" if state == "healthy" else state
        what = ", ".join(part.failure for part in last.failed)
        reasons.append(
            f"it does not boot ({what}), and the lab around it works: look at its release, then at the board"
        )
    tail = _device_faults(events)
    if len(tail) >= DEVICE_FAULTS and _newer(tail, last):
        state = "suspect" if state == "healthy" else state
        classes = ", ".join(dict.fromkeys(event.failure for event in tail))
        reasons.append(
            f"its last {len(tail)} attempts failed on the board's account ({classes}): the release, or the board"
        )
    if not events and last is None and not kept:
        state = "suspect"
    return state, reasons


def _device_faults(events: Sequence[HealthEvent]) -> list[HealthEvent]:
    """The attempts at the end that failed on the board's account."""
    tail: list[HealthEvent] = []
    for event in reversed(events):
        if event.kind != "board" or event.check:
            break
        tail.insert(0, event)
    return tail


def _newer(tail: Sequence[HealthEvent], last: Check | None) -> bool:
    """Whether attempts are newer than the last check."""
    return last is None or tail[-1].at > last.at


# --- The records of a board's health ---


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
class QuarantineRule:
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


DEFAULT_RULE: Final = QuarantineRule()


@frozen
class CheckedPart:
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
    parts: tuple[CheckedPart, ...]
    duration_s: float = 0.0
    env: str = ""
    person: str = ""
    job_id: int | None = None
    id: int = 0

    @property
    def failed(self) -> tuple[CheckedPart, ...]:
        """The parts that failed, in the order of PARTS."""
        return tuple(part for part in self.parts if part.outcome == "failed")

    @property
    def passed(self) -> bool:
        """Whether the board can take runs: power and console work, and nothing else of the equipment failed."""
        shown = {part.name for part in self.parts if part.outcome == "ok"}
        return {"power", "console"} <= shown and not any(part.name in EQUIPMENT for part in self.failed)

    @property
    def fault(self) -> CheckedPart | None:
        """The part that failed on the account of the lab's equipment; None: none did."""
        return self.fault_in(PARTS)

    def fault_in(self, names: Collection[str]) -> CheckedPart | None:
        """The first of these parts that failed on the account of the lab's equipment; None: none did."""
        return next((part for part in self.failed if part.name in names and counts(part.fault, part.failure)), None)

    @property
    def hosts(self) -> CheckedPart | None:
        """The part that failed on the account of the host itself; None: none did."""
        return next((part for part in self.failed if part.failure in HOSTS), None)

    @property
    def of_a_host(self) -> bool:
        """Whether it says anything of the board's host: not where all that failed is the way there."""
        return bool(self.host) and not (self.failed and all(part.failure in WAYS for part in self.failed))

    @property
    def event(self) -> HealthEvent:
        """What it says beside the attempts of runs."""
        worst = self.fault or next((part for part in self.failed if part.name in EQUIPMENT), None)
        if self.passed or worst is None:
            return HealthEvent(self.at, "ok" if self.passed else "other", host=self.host, check=True)
        return HealthEvent(self.at, _kind(worst.fault, worst.failure), worst.failure, self.host, check=True)


@frozen
class HealthEvent:
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
    def of_attempt(cls, at: dt.datetime, outcome: str, fault: str | None, host: str = "") -> HealthEvent:
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
