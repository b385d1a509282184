"""Health derived from checks and outcomes, by pure functions."""

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
STALE: Final = dt.timedelta(days=14)  # a pass that is older says nothing about today


def in_a_row(events: Iterable[HealthEvent], rule: QuarantineRule, now: dt.datetime) -> list[HealthEvent]:
    """The lab's faults since its last sign of working, oldest first.

    Only faults within the rule's window count.

    Of faults less than APART from each other only the first counts: an outage of minutes fails a cycle with all its
    retries.

    A good attempt, a passed check, or a fault of the board, for which the lab had to work, is such a sign; a fault of
    the test or of the configuration is neither a sign nor a fault of the lab.
    """
    row: list[HealthEvent] = []
    for event in sorted(events, key=lambda event: event.at):
        if event.kind == "lab" and now - event.at <= rule.window:
            if not row or event.at - row[-1].at >= APART:
                row.append(event)
        elif _shows_the_lab_works(event):
            row.clear()
    return row


def _shows_the_lab_works(event: HealthEvent) -> bool:
    """True if an event proves that the lab works.

    A silent board proves nothing: its console or power switch may be dead.
    """
    return event.kind == "ok" or (event.kind == "board" and not event.check and event.failure != SILENT)


def quarantine(events: Iterable[HealthEvent], rule: QuarantineRule, now: dt.datetime) -> str:
    """The reason for a quarantine; empty: none is due."""
    row = in_a_row(events, rule, now)
    return fault_summary(row) if len(row) >= rule.faults else ""


def fault_summary(row: Sequence[HealthEvent]) -> str:
    """`5 faults of the lab in a row: pdu_timeout 4 times, port_lost`."""
    counts_by_class = Counter(event.failure for event in row).most_common()
    classes = ", ".join(f"{name} {count} times" if count > 1 else name for name, count in counts_by_class)
    return f"{len(row)} fault{'s' * (len(row) > 1)} of the lab in a row: {classes}"


def due(
    last: BoardCheck | None,
    events: Iterable[HealthEvent],
    rule: QuarantineRule,
    now: dt.datetime,
    *,
    quarantined: bool,
) -> str:
    """The reason for a check before the next run; empty: none.

    Args:
        events: of the board, its attempts and checks.
        quarantined: it is in quarantine.
    """
    if quarantined:
        return "it is in quarantine"
    if last is None:
        return "it was never checked"
    if not -APART <= now - last.at <= dt.timedelta(hours=rule.age_h):
        dated = (
            f"dated {last.at:%Y-%m-%d %H:%M} UTC, in the future" if last.at > now else f"older than {rule.age_h:g} h"
        )
        return f"its last check is {dated}"
    if not last.passed:
        return "its last check failed"
    if row := in_a_row(events, rule, now):
        return f"it ended with a fault of the lab ({row[-1].failure})"
    return ""


def derive(
    board: str,
    events: Sequence[HealthEvent],
    checks: Sequence[BoardCheck],
    rule: QuarantineRule,
    now: dt.datetime,
    *,
    quarantined: str = "",
    maintenance: str = "",
) -> Health:
    """The health of a board.

    Args:
        events: its attempts and checks; `rule` excludes old ones.
        checks: the latest of each host.
        quarantined, maintenance: reason of its quarantine or maintenance; empty: none.
    """
    last = max(checks, key=lambda check: check.at, default=None)
    ordered = sorted(events, key=lambda event: event.at)
    row = in_a_row(ordered, rule, now)
    state, reasons = _judge(ordered, last, row, rule, quarantined)
    if reasons and (blame_sharing := host_blamed(checks)):
        reasons.append(blame_sharing)
    if maintenance:
        state, reasons = "maintenance", [maintenance, *reasons]
    since = row[0].at if row else last.at if last is not None and reasons and not last.passed else None
    is_stale = last is not None and last.passed and now - last.at > STALE
    is_known = (last is not None and not is_stale) or any(event.kind != "other" for event in ordered)
    if not (is_known or maintenance or quarantined):
        when = "never checked" if last is None else f"last checked {(now - last.at).days} days ago"
        state, reasons = "suspect", [f"it was {when}, and has measured nothing lately"]
    return Health(
        board,
        state,
        tuple(reasons),
        since,
        last.at if last is not None else None,
        is_known,
    )


def host_blamed(checks: Sequence[BoardCheck]) -> str:
    """The evidence against the host: the board passed on another; or "".

    Args:
        checks: of one board, the latest of each host.
    """
    speaking = [check for check in checks if check.of_a_host]
    last = max(speaking, key=lambda check: check.at, default=None)
    if last is None or last.passed:
        return ""
    elsewhere = (check for check in speaking if not _is_one_host(check.host, last.host))
    other = max(
        (check for check in elsewhere if check.passed and last.at - check.at < STALE),
        key=lambda check: check.at,
        default=None,
    )
    if other is None:
        return ""
    return (
        f"it passed on {other.host} at {other.at:%Y-%m-%d %H:%M} UTC, so the fault is {last.host}'s: its adapters, "
        "its hub, its power switch, its cables"
    )


def _is_one_host(name: str, other: str) -> bool:
    """True if two names are of one host, with or without domain."""
    return name == other or name.startswith(f"{other}.") or other.startswith(f"{name}.")


def find_shared(checks: Iterable[BoardCheck]) -> dict[str, str]:
    """Boards of one host that fail with the same class, by board.

    Only classes of the lab or of the host count.

    Args:
        checks: the latest of each board.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    passed = {check.host for check in checks if check.passed}
    for check in checks:
        if check.of_a_host and (part := check.fault or check.hosts) is not None and not check.passed:
            alike.setdefault((check.host, part.failure), []).append(check.board)
    reasons = {}
    for (host, failure), boards in alike.items():
        for board in boards if len(boards) > 1 else ():
            others = ", ".join(sorted(other for other in boards if other != board))
            whole = "nothing on it passed" if host not in passed else "others on it passed"
            reasons[board] = (
                f"{others} on {host} failed the same way ({failure}), {whole}: look at what they share there"
            )
    return reasons


def _judge(
    events: Sequence[HealthEvent],
    last: BoardCheck | None,
    row: Sequence[HealthEvent],
    rule: QuarantineRule,
    quarantined: str,
) -> tuple[State, list[str]]:
    state: State = "healthy"
    reasons: list[str] = []
    good = max((event.at for event in events if event.kind == "ok"), default=None)
    stands = last is not None and (good is None or good <= last.at)  # nothing good came after it
    if quarantined:
        state, reasons = "bad", [quarantined]
    if last is not None and stands and not last.passed:
        state = "bad"
        reasons += [f"{part.name}: {part.message} ({part.failure})" for part in last.failed] or [SHOWN_BY_NOTHING]
    if row and not quarantined:
        state = "bad" if len(row) >= rule.faults or state == "bad" else "suspect"
        reasons.append(fault_summary(row))
    if last is not None and stands and last.passed and last.failed:
        state = "suspect" if state == "healthy" else state
        what = ", ".join(part.failure for part in last.failed)
        reasons.append(
            f"it does not boot ({what}), and the lab around it works: look at its release, then at the board"
        )
    tail: list[HealthEvent] = []  # the last attempts that failed on the board's account
    for event in reversed(events):
        if event.kind != "board" or event.check:
            break
        tail.insert(0, event)
    if len(tail) >= DEVICE_FAULTS and (last is None or tail[-1].at > last.at):
        state = "suspect" if state == "healthy" else state
        classes = ", ".join(dict.fromkeys(event.failure for event in tail))
        reasons.append(
            f"its last {len(tail)} attempts failed on the board's account ({classes}): the release, or the board"
        )
    if not events and last is None and not quarantined:
        state = "suspect"
    return state, reasons


State = Literal["healthy", "suspect", "bad", "maintenance"]
Outcome = Literal["ok", "failed", "not tried"]
PARTS: Final = ("power", "console", "medium", "rails", "boot")
EQUIPMENT: Final = PARTS[:-1]  # requirements of a run for any release; a successful boot is not among them

PROVISION_NEEDS: Final = ("power", "console", "rails")  # the medium may be what a new release mends

# Classes of the host that a board is plugged into: it slept, it was too busy, its console server has no room.
HOSTS: Final = frozenset({"host_suspended", "stamps_uncertain", "console_overrun", "console_full", "console_shared"})
# Classes of the way to a board's host: the exporter or the coordinator is away, the connection is. They say nothing of
# what is at that host.
WAYS: Final = frozenset({"exporter_gone", "coordinator_unreachable", "console_link"})
# Classes of the lab in which a release may have its part: the software on the board is another one, falls back to
# another medium, or speaks at another speed.
RELEASES: Final = frozenset({"software_changed", "mixed_boot", "wrong_medium", "garbled"})
# Faults of the lab by their class that say nothing about a board's equipment: the host's, the release's; somebody else
# has it, the results cannot be written.
NOT_EQUIPMENT: Final = (
    HOSTS | RELEASES | {"place_busy", "place_lost", "console_busy", "lease_lost", "results", "artifacts"}
)


@frozen
class QuarantineRule:
    """The limits for quarantine and for due checks.

    Attributes:
        faults: number of the lab's faults in a row that begin a quarantine.
        window_h: older faults count no more, in hours.
        age_h: maximum age of a check before a scheduled run, in hours.
    """

    faults: int = field(default=3, validator=validators.ge(1))
    window_h: float = field(default=72.0, validator=validators.gt(0))
    age_h: float = field(default=24.0, validator=validators.gt(0))

    @property
    def window(self) -> dt.timedelta:
        """The window of counting faults."""
        return dt.timedelta(hours=self.window_h)


DEFAULT_RULE: Final = QuarantineRule()


@frozen
class CheckedPart:
    """One part of a check.

    Attributes:
        name: of PARTS.
        failure, fault: class and party at fault (lab.errors) of a failed part.
        message: finding or remedy.
        said: the end of the console's output meanwhile.
    """

    name: str
    outcome: Outcome
    failure: str = ""
    fault: str = ""
    message: str = ""
    said: str = ""


@frozen
class BoardCheck:
    """A check of a board.

    Attributes:
        host: of the board; empty: unknown.
        at: its end.
        job_id: of the job that had the board.
        id: in the store; 0: not stored yet.
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
        """True if the board can take runs: power, console, equipment work."""
        good = {part.name for part in self.parts if part.outcome == "ok"}
        return {"power", "console"} <= good and not any(part.name in EQUIPMENT for part in self.failed)

    @property
    def verdict(self) -> str:
        """E.g. `passed; boot failed (kernel_panic); not tried: medium, rails`."""
        untried = [part.name for part in self.parts if part.outcome == "not tried"]
        texts = ["passed" if self.passed else "did not pass"]
        texts += [f"{part.name} failed ({part.failure})" for part in self.failed]
        return "; ".join([*texts, *([f"not tried: {', '.join(untried)}"] if untried else [])])

    @property
    def fault(self) -> CheckedPart | None:
        """The failed part of the lab's equipment; None: none."""
        return self.fault_in(PARTS)

    def fault_in(self, names: Collection[str]) -> CheckedPart | None:
        """The first of these parts that failed by the lab's equipment."""
        return next((part for part in self.failed if part.name in names and counts(part.fault, part.failure)), None)

    @property
    def hosts(self) -> CheckedPart | None:
        """The part that failed by the host itself; None: none."""
        return next((part for part in self.failed if part.failure in HOSTS), None)

    @property
    def of_a_host(self) -> bool:
        """True if it concerns the board's host, beyond the connection to it."""
        return bool(self.host) and not (self.failed and all(part.failure in WAYS for part in self.failed))

    @property
    def event(self) -> HealthEvent:
        """The check as an event beside attempts."""
        worst = self.fault or next((part for part in self.failed if part.name in EQUIPMENT), None)
        if self.passed or worst is None:
            return HealthEvent(self.at, "ok" if self.passed else "other", host=self.host, check=True)
        return HealthEvent(self.at, _kind(worst.fault, worst.failure), worst.failure, self.host, check=True)


@frozen
class HealthEvent:
    """An attempt of a run, or a check.

    Attributes:
        kind: "ok", the party at fault ("lab": the equipment, "board"), or "other", which concerns neither.
        failure: its class.
        check: it was a check.
    """

    at: dt.datetime
    kind: Literal["ok", "lab", "board", "other"]
    failure: str = ""
    host: str = ""
    check: bool = False

    @classmethod
    def of_attempt(cls, at: dt.datetime, outcome: str, fault: str | None, host: str = "") -> HealthEvent:
        """The event of a stored attempt; `outcome`: "ok" or failure class."""
        return cls(
            at, "ok" if outcome == "ok" else _kind(fault or "", outcome), "" if outcome == "ok" else outcome, host
        )


@frozen
class Health:
    """The derived health of a board.

    Attributes:
        reasons: the gravest first; empty: none.
        since: of the oldest counting fault; None: none, or unknown.
        checked_at: time of the last check.
        known: True with any information on the board.
    """

    board: str
    state: State
    reasons: tuple[str, ...] = ()
    since: dt.datetime | None = None
    checked_at: dt.datetime | None = None
    known: bool = True

    @property
    def gravest(self) -> str:
        """The first reason, for a line with room for one."""
        return next(iter(self.reasons), "nothing says why")

    @property
    def troubled(self) -> bool:
        """True for a known board that is suspect or bad."""
        return self.known and self.state in {"suspect", "bad"}


def counts(fault: str, failure: str) -> bool:
    """True if a failure is of the lab's equipment."""
    return fault == "lab" and failure not in NOT_EQUIPMENT


def _kind(fault: str, failure: str) -> Literal["lab", "board", "other"]:
    if counts(fault, failure):
        return "lab"
    return "board" if fault == "board" else "other"
