"""A verdict in words, and as a document for other programs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from attrs import asdict

from lab.judge.telling import size
from lab.results.formatting import label
from lab.results.verdictrecords import Mute, Review, Verdict


def name(verdict: Verdict) -> str:
    """Which number it is of, e.g. `boot.time (sd)`."""
    params = label(verdict.params)
    return f"{verdict.metric} ({params})" if params else verdict.metric


def interval(verdict: Verdict) -> str:
    """The 95 % interval of the effect, e.g. `+2.4 % to +3.8 %`; that of a mode is not known."""
    if verdict.low is None or verdict.high is None:
        return "not known"
    return f"{100 * verdict.low:+.1f} % to {100 * verdict.high:+.1f} %"


def differences(verdict: Verdict) -> str:
    """What differs between the run that it began with and the one before, e.g. `board: A, was B`."""
    return "; ".join(f"{what}: {now}, was {was}" for what, (was, now) in verdict.differs.items())


def needs(verdicts: Iterable[Verdict]) -> str:
    """Why the judge says nothing of numbers without a history, e.g. `needs 8 earlier runs, has 5`; empty: all have one."""
    from lab.judge.history.constants import CONSTANTS  # noqa: PLC0415 - with numpy

    had = {verdict.n for verdict in verdicts if verdict.outcome == "no history"}
    if not had:
        return ""
    return f"needs {CONSTANTS.first_runs} earlier runs, has {' to '.join(map(str, sorted({min(had), max(had)})))}"


def sentence(verdict: Verdict) -> str:
    """All of it, for a message."""
    if verdict.since_run is None:
        why = f", {needs([verdict])}" if verdict.outcome == "no history" else ""
        return f"{name(verdict)} on {verdict.run.board}, run {verdict.run.id}: {verdict.outcome}{why}"
    direction = "worse" if verdict.worse else "better"
    differs = differences(verdict) or "nothing that is known of the runs differs"
    return (
        f"{name(verdict)} on {verdict.run.board}: {verdict.outcome}, {size(verdict)}, {direction}, "
        f"since run {verdict.since_run} (n = {verdict.n}); {differs}"
    )


def document(verdict: Verdict) -> dict[str, Any]:
    """A verdict for `--json`."""
    run = verdict.run
    return {
        "id": verdict.id,
        "run": run.id,
        "board_type": run.board_type,
        "board": run.board,
        "release": run.release,
        "run_started_at": run.started_at.isoformat(),
        "metric": verdict.metric,
        "definition_version": verdict.version,
        "unit": verdict.unit,
        "better": verdict.better,
        "params": dict(verdict.params),
        "outcome": verdict.outcome,
        "worse": verdict.worse,
        "effect": verdict.effect,
        "low": verdict.low,
        "high": verdict.high,
        "mode": verdict.mode,
        "n": verdict.n,
        "since_run": verdict.since_run,
        "reruns": verdict.reruns,
        "differs": {what: list(both) for what, both in verdict.differs.items()},
        "judged_at": verdict.judged_at.isoformat(),
        "open": verdict.open,
        "review": None if verdict.review is None else plain_document(verdict.review),
        "muted": None if verdict.muted is None else plain_document(verdict.muted),
    }


def plain_document(record: Review | Mute) -> dict[str, Any]:
    """A review or a mute for `--json`."""
    return asdict(record, value_serializer=lambda _record, _field, value: _written(value))


def _written(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.datetime) else value
