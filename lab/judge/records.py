"""Records of verdicts, reviews and mutes.

Outcomes are those of `lab.judge.history.Outcome`; docs/judge.md explains them.
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
CALLED: Final[tuple[OutcomeName, ...]] = ("regression", "improvement", "environment")  # the number moved
UNSURE: Final[OutcomeName] = "unsure: rerun asked"
OPEN: Final[tuple[OutcomeName, ...]] = ("regression", "environment", UNSURE)  # a person should look
DRIFT: Final = "drift"  # of `differs`: the change is a sum of small steps from that run to this one
_LEFT: Final = 0.5  # share of a change; with no more left of it, it is over


@define
class LaterChanges:
    """Later changes of a number, read from the newest to the oldest.

    A drift is a sum with some of the others in it: it is not added to them. Changes add up as logarithms: -50 % takes
    back +100 %.
    """

    _steps: float = 0.0
    _drift: float | None = None  # of the newest

    def add(self, effect: float, *, crept: bool) -> None:
        """Add the next older change; `effect`: relative."""
        if not crept:
            self._steps += _logarithm(effect)
        elif self._drift is None:
            self._drift = _logarithm(effect)

    def undoes(self, effect: float, *, crept: bool) -> bool:
        """True if later changes took back at least half of one, or a later drift has this one in it."""
        if crept and self._drift is not None:
            return True
        drift, change = self._drift or 0.0, _logarithm(effect)
        since = self._steps + (drift if drift * change < 0 else 0.0)
        return change * (change + since) <= change**2 * _LEFT


def _logarithm(effect: float) -> float:
    """A relative change as a logarithm; of one to 0 that of a thousandth."""
    return math.log1p(max(effect, -0.999))


@frozen
class NewVerdict:
    """The judge's verdict on one number of one run.

    Attributes:
        metric, version, params: identify the number, as in `lab.metrics.Measurement`.
        direction: 1 the number rose, -1 it fell, 0 neither.
        since_run: id of the change's first run; None: no change.
        n: samples since then; of "no history": earlier runs that have the number.
        effect: relative change of the number, 0.02 is 2 % more (not: worse).
        low, high: its 95 % interval; None of a mode.
        mode: the change is a new mode of single boots; the effect is then the distance of the modes.
        reruns: number of further runs of the same image and night that were used.
        differs: cause -> (before, since), of the run before `since_run` and that one; only DRIFT: both runs of a drift;
            of a failure rate: both shares.
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
        """Metric, version and sorted parameters, which identify its number."""
        return self.metric, self.version, tuple(sorted(self.params.items()))

    @property
    def crept(self) -> bool:
        """True if the change is the sum of small steps."""
        return DRIFT in self.differs


@frozen(kw_only=True)
class StoredVerdict(NewVerdict):
    """A verdict as stored.

    Attributes:
        run: the run that was judged.
        unit, better: of the metric, as it was defined then.
        outdated: a rerun was requested, and a later run has a verdict on the number; or a drift that went on to a later
            run.
        over: later runs took back at least half of the change, or a later run of its board and kind is accepted.
        review: a person's decision on the run since; None: none.
        muted: end of its mute; None: not muted (now, or at the requested instant).
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
        """True if the number got worse, for any reason."""
        return self.direction != 0 and (self.direction > 0) != (self.better == "higher")

    @property
    def open(self) -> bool:
        """True if a person should look at it.

        It may be a change, without a decision on its run, not muted, outdated or over.
        """
        return self._undecided and self.outcome in OPEN and not self.over

    @property
    def alarms(self) -> bool:
        """True for a confirmed regression, without a decision and not muted."""
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
        decision: accepted: its numbers are the new baseline; rejected: they are wrong, and do not count.
    """

    id: int
    run_id: int
    decision: Decision
    by: str
    reason: str
    at: dt.datetime


@frozen
class Mute:
    """A mute of numbers' alerts until an instant.

    Attributes:
        metric: its name, with `*` and `?`.
        board: its name; None: every board.
        params: required parameters of a number, values with `*` and `?`; others are ignored.
        until: its end.
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
        """True if it mutes that number at that instant."""
        return (
            self.at <= at < self.until
            and self.board in {None, board}
            and fnmatchcase(metric, self.metric)
            and all(name in params and fnmatchcase(params[name], pattern) for name, pattern in self.params.items())
        )
