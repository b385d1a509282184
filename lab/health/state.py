"""What follows from checks and from how attempts ended; pure functions: nobody types a board's health in."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from lab.health.model import Check, Event, Health, Rule, State

DEVICE_FAULTS: Final = 3  # attempts in a row that failed on the board's account, after which it is to be looked at
SILENT: Final = "silent"  # the class of a board of which no byte came
APART: Final = dt.timedelta(minutes=10)
SHOWN_BY_NOTHING: Final = "its last check did not pass: nothing showed that power and console work"
STALE: Final = dt.timedelta(days=14)  # a pass on another host that is older says nothing about today's faults


def in_a_row(events: Iterable[Event], rule: Rule, now: dt.datetime) -> list[Event]:
    """The faults of the lab since the last sign that the lab works, within the rule's window, oldest first.

    Of those that are less than APART from each other the first: an outage of minutes fails a cycle with all its retries.

    A good attempt, a passed check, or a fault of the board, for which the lab had to work, is such a sign; a fault of the test or of
    the configuration is none, and none of the lab either.
    """
    row: list[Event] = []
    for event in sorted(events, key=lambda each: each.at):
        if event.kind == "lab" and now - event.at <= rule.window:
            if not row or event.at - row[-1].at >= APART:
                row.append(event)
        elif _shows_the_lab_works(event):
            row.clear()
    return row


def _shows_the_lab_works(event: Event) -> bool:
    """A board that says nothing at all shows nothing: its console may be dead, or its power switch."""
    return event.kind == "ok" or (event.kind == "board" and not event.check and event.failure != SILENT)


def quarantine(events: Iterable[Event], rule: Rule, now: dt.datetime) -> str:
    """Why a board is to be kept out; empty: it is not."""
    row = in_a_row(events, rule, now)
    return told(row) if len(row) >= rule.faults else ""


def told(row: Sequence[Event]) -> str:
    """`5 faults of the lab in a row: pdu_timeout 4 times, port_lost`."""
    found = Counter(event.failure for event in row).most_common()
    classes = ", ".join(f"{name} {count} times" if count > 1 else name for name, count in found)
    return f"{len(row)} fault{'s' * (len(row) > 1)} of the lab in a row: {classes}"


def due(last: Check | None, events: Iterable[Event], rule: Rule, now: dt.datetime, *, kept: bool) -> str:
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
    events: Sequence[Event],
    checks: Sequence[Check],
    rule: Rule,
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
    events: Sequence[Event], last: Check | None, row: Sequence[Event], rule: Rule, kept: str
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


def _device_faults(events: Sequence[Event]) -> list[Event]:
    """The attempts at the end that failed on the board's account."""
    tail: list[Event] = []
    for event in reversed(events):
        if event.kind != "board" or event.check:
            break
        tail.insert(0, event)
    return tail


def _newer(tail: Sequence[Event], last: Check | None) -> bool:
    """Whether attempts are newer than the last check."""
    return last is None or tail[-1].at > last.at
