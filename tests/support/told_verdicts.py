"""Verdicts as the store gives them back, made up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from lab.judge.records import ChangeStart, Mute, OutcomeName, StoredVerdict
from lab.results.records import Run

NIGHT = dt.datetime(2026, 11, 19, 2, 0, tzinfo=dt.UTC)
OLD, NEW = "a" * 64, "b1b2b3b4b5b6" + "c" * 52
BEGAN = {number: ChangeStart(number, NIGHT + dt.timedelta(days=number), "11.02") for number in range(1, 20)}
MUTE = Mute(1, "*", None, {}, NIGHT + dt.timedelta(days=99), "known", "ada", NIGHT)


def a_run(number: int = 12, board: str = "am62x-1") -> Run:
    began = BEGAN[number]
    return Run(
        number, "boot", "am62xx_sk", board, began.release, "completed", began.at, began.at, plan={}, provenance={}
    )


def moved(
    metric: str = "boot.time",
    params: Mapping[str, str] | None = None,
    outcome: OutcomeName = "regression",
    effect: float | None = 0.03,
    *,
    about: float | None = 0.004,
    run: int = 12,
    since: int | None = 12,
    board: str = "am62x-1",
    differs: Mapping[str, tuple[str, str]] | None = None,
    muted: bool = False,
) -> StoredVerdict:
    """One number that moved by `effect` ± `about`."""
    has = effect is not None and about is not None
    return StoredVerdict(
        metric=metric,
        version=1,
        params={"medium": "sd"} if params is None else params,
        outcome=outcome,
        direction=0 if effect is None else 1 if effect > 0 else -1,
        since_run=since,
        n=20,
        effect=effect,
        low=effect - about if has else None,
        high=effect + about if has else None,
        mode=about is None,
        differs={"image": (OLD, NEW)} if differs is None else differs,
        id=1,
        run=a_run(run, board),
        unit="s",
        better="lower",
        judged_at=NIGHT,
        review=None,
        muted=MUTE if muted else None,
    )


def still(outcome: OutcomeName = "none") -> StoredVerdict:
    """A number that did not move."""
    return moved(outcome=outcome, effect=None, since=None, differs={})
