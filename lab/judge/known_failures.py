"""Known failures: a signature of a failure or a number, its ticket, and the release with the fix.

They stand in farm.yaml (docs/farm/farm-yaml.md). Alertmanager mails none of them, until one comes back in a release
with its fix.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal

from attrs import field, frozen

from lab.failures import CATALOGUE
from lab.judge.labels import REAL_TIME, is_numbered, release_key, same_release
from lab.judge.records import StoredVerdict
from lab.results.standing_failures import StandingFailure

_TICKET: Final = re.compile(r"https?://[^\s'\"<>]+")
_NUMBER: Final = re.compile(r"\d+")
_COMMIT: Final = re.compile(r"(?:^|[-_.+])g[0-9a-f]{7,}\b")  # its digits are no order


class KnownState(enum.StrEnum):
    """The state of a known failure in a release."""

    OPEN = "open"  # the release has no fix
    RETURNED = "returned"  # the release has the fix, and the failure all the same
    UNCLEAR = "unclear"  # the labels do not tell


@frozen
class KnownFailure:
    """The signature of a known failure, or of a number that is known to be worse.

    Attributes:
        ticket: its address.
        fixed_in: the first release with the fix; empty: none has it.
        failure: its class.
        pattern: a regular expression that its line or its message has; empty: any.
        metric: a number's, with * and ?.
        direction: in which it moved; empty: to the worse.
        board_types: where it is known; empty: everywhere.
    """

    ticket: str = field()
    failure: str = ""
    pattern: str = field(default="")
    metric: str = ""
    direction: Literal["", "higher", "lower"] = ""
    board_types: tuple[str, ...] = ()
    fixed_in: str = ""

    @ticket.validator
    def _is_an_address(self, _attribute: object, value: str) -> None:
        if not _TICKET.fullmatch(value):
            raise ValueError(f"ticket: {value!r}: expected an address, e.g. https://tracker.example.org/LAB-12")

    @pattern.validator
    def _is_a_pattern(self, _attribute: object, value: str) -> None:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"pattern: {value!r} is no regular expression: {error}") from None

    def __attrs_post_init__(self) -> None:
        if bool(self.failure) == bool(self.metric):
            raise ValueError(f"{self.ticket}: expected either `failure`, a class, or `metric`")
        if self.failure and self.failure not in CATALOGUE:
            raise ValueError(f"failure: no class {self.failure!r}; docs/failures.md has them")
        if (self.pattern and not self.failure) or (self.direction and not self.metric):
            raise ValueError(f"{self.ticket}: `pattern` is of a `failure`, `direction` of a `metric`")

    def is_failing(self, failing: StandingFailure) -> bool:
        """True if a standing failure has this signature."""
        text = (failing.line, failing.message)
        return (
            failing.cause.outcome == self.failure
            and self._is_of(failing.board_type)
            and any(re.search(self.pattern, line) for line in text)
        )

    def is_number(self, board_type: str, metric: str, *, higher: bool, worse: bool) -> bool:
        """True if a number that moved has this signature."""
        moved = worse if not self.direction else higher == (self.direction == "higher")
        return bool(self.metric) and moved and fnmatchcase(metric, self.metric) and self._is_of(board_type)

    def state(self, release: str) -> KnownState:
        """Its state in a release."""
        if not self.fixed_in:
            return KnownState.OPEN
        if same_release(release, self.fixed_in):
            return KnownState.RETURNED
        own, other = (label.lower().removesuffix(REAL_TIME) for label in (release, self.fixed_in))
        if not (is_numbered(own) and is_numbered(other)) and _form(own) != _form(other):
            return KnownState.UNCLEAR
        return KnownState.OPEN if release_key(own) < release_key(other) else KnownState.RETURNED

    def _is_of(self, board_type: str) -> bool:
        return not self.board_types or board_type in self.board_types


def _form(label: str) -> str:
    """A label without its build numbers, e.g. main-# of main-0412."""
    return label if _COMMIT.search(label) else _NUMBER.sub("#", label)


@frozen
class Recognition:
    """The known failures behind a failure or a change.

    Attributes:
        known: at least one.
    """

    state: KnownState
    known: tuple[KnownFailure, ...]

    @property
    def phrase(self) -> str:
        """The begin of a title."""
        tickets = ", ".join(dict.fromkeys(failure.ticket for failure in self.known))
        fixes = ", ".join(dict.fromkeys(failure.fixed_in for failure in self.known if failure.fixed_in))
        match self.state:
            case KnownState.OPEN:
                return f"Known ({tickets}): "
            case KnownState.RETURNED:
                return f"Back after its fix in {fixes} ({tickets}): "
            case _:
                return f"Known, perhaps without its fix in {fixes} ({tickets}): "


_FIRST: Final = (KnownState.OPEN, KnownState.RETURNED, KnownState.UNCLEAR)  # an open ticket explains it


def recognise(known: Iterable[KnownFailure], release: str) -> Recognition | None:
    """The known failures with their state in a release, if any."""
    states = [(failure.state(release), failure) for failure in known]
    if not states:
        return None
    first = min((state for state, _ in states), key=_FIRST.index)
    return Recognition(first, tuple(failure for state, failure in states if state is first))


def of_failing(known: Sequence[KnownFailure], failing: StandingFailure) -> Recognition | None:
    """The known failures that a standing failure is; None: it is new."""
    return recognise((failure for failure in known if failure.is_failing(failing)), failing.release)


def of_verdict(known: Sequence[KnownFailure], verdict: StoredVerdict) -> Recognition | None:
    """The known failures that a verdict is; None: it is new."""
    higher, board_type = verdict.direction > 0, verdict.run.board_type
    matching = (
        failure
        for failure in known
        if failure.is_number(board_type, verdict.metric, higher=higher, worse=verdict.worse)
    )
    return recognise(matching, verdict.run.release)
