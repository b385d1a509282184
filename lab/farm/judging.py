"""`lab run --judge`: a run is judged as it ends; where the judge asks, the same is measured again, so that it is sure today."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.judge import words
from lab.judge.history import CONSTANTS
from lab.judge.stored import RunVerdicts, judge_run
from lab.results import Store
from lab.results.histories import Item
from lab.results.verdicts import read_verdicts

MOST_RERUNS: Final = CONSTANTS.most_reruns
Measure = Callable[[int], int | None]  # measures what a run asked for; the new run, None: there is none


def judged(store: Store, run_id: int, measure: Measure, say: Callable[[str], None]) -> bool:
    """Judge a run, have measured again what it asks for, and say what came of it; whether no number is worse for sure.

    Args:
        measure: measures again what the run with this id asked for.

    Raises:
        BoardlabError: the store cannot be used.
    """
    found = judge_run(store, run_id)
    for number in range(1, MOST_RERUNS + 1):
        if not found.asked:
            break
        say(f"run {found.run.id}: {_asking(found)}; measuring again, {number} of at most {MOST_RERUNS}")
        again = measure(found.run.id)
        if again is None:
            break
        found = judge_run(store, again)
    verdicts = read_verdicts(store, run_id=found.run.id)
    moved = [verdict for verdict in verdicts if verdict.direction]
    for verdict in moved:
        say(f"verdict: {words.sentence(verdict)}")
    if not moved:
        say(f"run {found.run.id}: none of {len(verdicts)} numbers has moved for sure (lab judge show {found.run.id})")
    return not any(verdict.alarms for verdict in verdicts)


def _asking(found: RunVerdicts) -> str:
    count = sum(each.asks for each in found.judged)
    what = ", ".join(sorted(_label(item) for item in found.asked))
    return f"{count} number{'s' * (count > 1)} of {what} may have moved"


def _label(item: Item) -> str:
    return " ".join(value for _, value in item)
