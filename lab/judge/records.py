"""The records of verdicts, reviews and mutes.

The outcomes are those of `lab.judge.history.Outcome`; docs/judge.md explains them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal

from attrs import define, field, frozen

from lab.errors import TestStableError
from lab.results.records import Run

OutcomeName = Literal[
    "regression", "improvement", "environment", "unsure: rerun asked", "no history", "no samples", "none"
]
Decision = Literal["accepted", "rejected"]
OUTCOMES: Final[tuple[OutcomeName, ...]] = (
    *("regression", "improvement", "environment", "unsure: rerun asked", "no history", "no samples", "none"),
)
CALLED: Final[tuple[OutcomeName, ...]] = ("regression", "improvement", "environment")  # outcomes of a moved number
UNSURE: Final[OutcomeName] = "unsure: rerun asked"
OPEN: Final[tuple[OutcomeName, ...]] = ("regression", "environment", UNSURE)  # outcomes that a person should look at
DRIFT: Final = "drift"  # key of `differs`: the change is a sum of small steps from the first run to the second
_LEFT: Final = 0.5  # a change is over if no more than this share of it is left


@define
class LaterChanges:
    """The changes of a number after one of its changes; they are added from the newest to the oldest.

    Changes add up as logarithms: -50 % takes back +100 %. A drift is itself a sum that includes some of the other
    changes, so it is not added to them.
    """

    _steps: float = 0.0
    _drift: float | None = None  # size of the newest drift

    def add(self, effect: float, *, crept: bool) -> None:
        """Add the next older change.

        Args:
            effect: relative change, e.g. 0.02.
            crept: True if it is a drift.
        """
        if not crept:
            self._steps += _logarithm(effect)
        elif self._drift is None:
            self._drift = _logarithm(effect)

    def undoes(self, effect: float, *, crept: bool) -> bool:
        """Return True if the later changes took back at least half of this one, or a later drift includes it."""
        if crept and self._drift is not None:
            return True
        drift, change = self._drift or 0.0, _logarithm(effect)
        later = self._steps + (drift if drift * change < 0 else 0.0)
        return change * (change + later) <= change**2 * _LEFT


def _logarithm(effect: float) -> float:
    """Return a relative change as a logarithm; a change to 0 counts as one to a thousandth."""
    return math.log1p(max(effect, -0.999))


@frozen
class NewVerdict:
    """The judge's verdict on one number of one run.

    Attributes:
        metric, version, params: identity of the number, as in `lab.metrics.Measurement`.
        direction: 1: the number rose; -1: it fell; 0: neither.
        since_run: id of the change's first run; None: there is no change.
        n: number of samples since then; for the outcome "no history": number of earlier runs with this number.
        effect: relative change of the number; 0.02 is 2 % more, whether that is better or worse.
        low, high: 95 % interval of the effect; None: the change is a mode.
        mode: True if single boots are slower or faster now, in a mode of their own. The effect is then the distance of
            the modes.
        reruns: number of further runs of the same image and night that were used.
        differs: cause -> its value in the run before `since_run`, and in that run. A drift has only the key `DRIFT`,
            with its first and last run. A failure rate has the shares before and since.
    """

    metric: str
    version: int
    params: Mapping[str, str]
    outcome: OutcomeName
    direction: int = 0
    since_run: int | None = None
    n: int = 0
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    mode: bool = False
    reruns: int = 0
    differs: Mapping[str, tuple[str, str]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise TestStableError(f"a verdict is {', '.join(OUTCOMES)}; got {self.outcome!r}")
        if not all(value is None or math.isfinite(value) for value in (self.effect, self.low, self.high)):
            raise TestStableError(f"effect and interval of a verdict on {self.metric} must be finite")

    @property
    def number(self) -> tuple[str, int, tuple[tuple[str, str], ...]]:
        """The identity of its number: metric, version and sorted parameters."""
        return self.metric, self.version, tuple(sorted(self.params.items()))

    @property
    def crept(self) -> bool:
        """True if the change is a drift, i.e. a sum of small steps."""
        return DRIFT in self.differs


@frozen(kw_only=True)
class StoredVerdict(NewVerdict):
    """A verdict that was read from the store, with what has happened to it since.

    Attributes:
        run: the run that was judged.
        unit, better: unit and direction of the metric, as it was defined then.
        judged_at: when the run was judged.
        outdated: True if the verdict requested a rerun and a later run has a verdict on the number, or if its drift has
            a verdict in a later run.
        over: True if later runs took back at least half of the change, or a later run of its board and kind was
            accepted.
        review: a person's decision on the run; None: there is none.
        muted: the mute that covers the number; None: there is none.
    """

    id: int
    run: Run
    unit: str
    better: Literal["lower", "higher"]
    judged_at: dt.datetime
    outdated: bool = False
    over: bool = False
    review: Review | None
    muted: Mute | None

    @property
    def worse(self) -> bool:
        """True if the number got worse, for whatever reason."""
        return self.direction != 0 and (self.direction > 0) != (self.better == "higher")

    @property
    def open(self) -> bool:
        """True if a person should look at it: it may be a change, and nothing has closed it."""
        return self._undecided and self.outcome in OPEN and not self.over

    @property
    def alarms(self) -> bool:
        """True if it is a confirmed regression that no decision and no mute has closed."""
        return self._undecided and self.outcome == "regression"

    @property
    def _undecided(self) -> bool:
        return self.review is None and self.muted is None and not self.outdated


@frozen
class ChangeStart:
    """The first run of a change."""

    run: int
    at: dt.datetime
    release: str


@frozen
class Review:
    """A person's decision on a run.

    Attributes:
        decision: "accepted": the run's numbers are the new baseline; "rejected": they are wrong, and do not count.
        by: the person.
    """

    id: int
    run_id: int
    decision: Decision
    by: str
    reason: str
    at: dt.datetime


@frozen
class Mute:
    """A mute of the alerts of some numbers until an instant.

    Attributes:
        metric: name of the metric; `*` and `?` stand for any characters.
        board: name of the board; None: all boards.
        params: parameters that the number must have; `*` and `?` in a value stand for any characters.
        until: end of the mute.
        by: the person.
        at: start of the mute.
    """

    id: int
    metric: str
    board: str | None
    params: Mapping[str, str]
    until: dt.datetime
    reason: str
    by: str
    at: dt.datetime

    def covers(self, board: str, metric: str, params: Mapping[str, str], at: dt.datetime) -> bool:
        """Return True if it mutes this number at this instant."""
        return (
            self.at <= at < self.until
            and self.board in {None, board}
            and fnmatchcase(metric, self.metric)
            and all(name in params and fnmatchcase(params[name], pattern) for name, pattern in self.params.items())
        )
