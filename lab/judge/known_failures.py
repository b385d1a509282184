"""Known failures: the signature of a failure or of a worse number, its ticket, and the release with the fix.

farm.yaml lists them (docs/farm/farm-yaml.md). Alertmanager sends no mail about a known failure, unless it comes back in
a release that has the fix.
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
_COMMIT: Final = re.compile(r"(?:^|[-_.+])g[0-9a-f]{7,}\b")  # the digits of a commit have no order


class KnownState(enum.StrEnum):
    """The state of a known failure in a release."""

    OPEN = "open"  # the release has no fix
    RETURNED = "returned"  # the release has the fix, and the failure all the same
    UNCLEAR = "unclear"  # the labels do not show whether the release has the fix


@frozen
class KnownFailure:
    """The signature of a known failure, or of a number that is known to be worse.

    Attributes:
        ticket: URL of the ticket.
        failure: failure class; empty: it is a number.
        pattern: regular expression within the failure's line or message; empty: any text.
        metric: metric of a number, with `*` and `?`; empty: it is a failure.
        direction: direction in which the number moved; empty: whichever is worse.
        board_types: board types that have it; empty: all.
        fixed_in: first release with the fix; empty: there is none yet.
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
        """Return True if a standing failure has this signature."""
        text = (failing.line, failing.message)
        return (
            failing.cause.outcome == self.failure
            and self._is_of(failing.board_type)
            and any(re.search(self.pattern, line) for line in text)
        )

    def is_number(self, board_type: str, metric: str, *, higher: bool, worse: bool) -> bool:
        """Return True if a number that moved has this signature.

        Args:
            higher: True if it rose.
            worse: True if it got worse.
        """
        moved = worse if not self.direction else higher == (self.direction == "higher")
        return bool(self.metric) and moved and fnmatchcase(metric, self.metric) and self._is_of(board_type)

    def state(self, release: str) -> KnownState:
        """Return the state of the failure in a release that shows it."""
        if not self.fixed_in:
            return KnownState.OPEN
        if same_release(release, self.fixed_in):
            return KnownState.RETURNED
        own, other = (label.lower().removesuffix(REAL_TIME) for label in (release, self.fixed_in))
        if not (is_numbered(own) and is_numbered(other)) and _form(own) != _form(other):
            return KnownState.UNCLEAR
        return KnownState.OPEN if release_key(own) < release_key(other) else KnownState.RETURNED

    def _is_of(self, board_type: str) -> bool:
        """Return True if boards of this type may have the failure."""
        return not self.board_types or board_type in self.board_types


def _form(label: str) -> str:
    """Return a label without its build number, e.g. main-# for main-0412; labels of one form have an order."""
    return label if _COMMIT.search(label) else _NUMBER.sub("#", label)


@frozen
class Recognition:
    """The known failures that explain a failure or a change.

    Attributes:
        state: their state in the release.
        known: the known failures, at least one.
    """

    state: KnownState
    known: tuple[KnownFailure, ...]

    @property
    def phrase(self) -> str:
        """The beginning of a title, e.g. `Known (https://tracker.example.org/LAB-12): `."""
        tickets = ", ".join(dict.fromkeys(failure.ticket for failure in self.known))
        fixes = ", ".join(dict.fromkeys(failure.fixed_in for failure in self.known if failure.fixed_in))
        match self.state:
            case KnownState.OPEN:
                return f"Known ({tickets}): "
            case KnownState.RETURNED:
                return f"Back after its fix in {fixes} ({tickets}): "
            case _:
                return f"Known, perhaps without its fix in {fixes} ({tickets}): "


_PRECEDENCE: Final = (KnownState.OPEN, KnownState.RETURNED, KnownState.UNCLEAR)  # an open ticket explains the failure


def recognise(matching: Iterable[KnownFailure], release: str) -> Recognition | None:
    """Return the known failures that explain a failure or a change of a release; None: it is new.

    Args:
        matching: known failures whose signature it has.
    """
    states = [(failure.state(release), failure) for failure in matching]
    if not states:
        return None
    first = min((state for state, _ in states), key=_PRECEDENCE.index)
    return Recognition(first, tuple(failure for state, failure in states if state is first))


def of_failing(known: Sequence[KnownFailure], failing: StandingFailure) -> Recognition | None:
    """Return the known failures that explain a standing failure; None: it is new."""
    return recognise((failure for failure in known if failure.is_failing(failing)), failing.release)


def of_verdict(known: Sequence[KnownFailure], verdict: StoredVerdict) -> Recognition | None:
    """Return the known failures that explain a verdict; None: it is new."""
    higher, board_type = verdict.direction > 0, verdict.run.board_type
    matching = (
        failure
        for failure in known
        if failure.is_number(board_type, verdict.metric, higher=higher, worse=verdict.worse)
    )
    return recognise(matching, verdict.run.release)
