"""What the runs of a job were to give, and what they gave: planned and present samples of each medium, mode or section."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from exporters.labels import clean
from lab.results.records import OK
from lab.results.snapshot import RunHead, StoreSnapshot

COMPLETED: Final = "completed"
SECTIONS: Final = "sections"
MAX_ITEMS: Final = 200  # of a run; a guide has some fifty sections
# Kind of run -> where its plan lists what is measured, and the attempts' parameter that names one of that.
_ITEMS: Final = {"boot": ("media", "medium"), "low_power": ("modes", "mode"), SECTIONS: (SECTIONS, "section")}


@frozen
class Item:
    """What a plan lists: a medium, a low-power mode, a section.

    Attributes:
        kind: of the run.
    """

    kind: str
    name: str


@frozen
class Yield:
    """What a run was to give and what it gave.

    Attributes:
        planned, present: cycles with their samples; a cycle of a section is present when it has all its rows.
        metrics: those that have samples.
    """

    kind: str
    completed: bool
    planned: Mapping[Item, int]
    present: Mapping[Item, int]
    metrics: frozenset[str]

    @property
    def missing(self) -> bool:
        """Whether something that was planned is not there."""
        return any(self.present.get(item, 0) < planned for item, planned in self.planned.items())


def yields(snapshot: StoreSnapshot, heads: Sequence[RunHead]) -> dict[int, Yield]:
    """The yields of these runs, by their ids."""
    ids = [head.id for head in heads]
    plans = dict(snapshot.plans(ids))
    metrics: dict[int, set[str]] = {run_id: set() for run_id in ids}
    for run_id, metric in snapshot.metrics(ids):
        metrics[run_id].add(metric)
    good: dict[int, dict[Item, int]] = {run_id: {} for run_id in ids}
    tried: dict[int, set[Item]] = {run_id: set() for run_id in ids}
    kinds = {head.id: head.kind for head in heads}
    for tally in snapshot.tallies(ids):
        kind = kinds[tally.run_id]
        if kind not in _ITEMS:
            continue
        parameter = _ITEMS[kind][1]
        item = Item(kind, clean(tally.params.get(parameter, "")))
        tried[tally.run_id].add(item)
        is_row = kind == SECTIONS and tally.params.keys() != {parameter}
        if tally.outcome == OK and not is_row:
            good[tally.run_id][item] = good[tally.run_id].get(item, 0) + tally.count
    found = {}
    for head in heads:
        completed = head.status == COMPLETED
        planned = _planned(head.kind, plans.get(head.id, {}))
        if (
            head.kind == SECTIONS and completed
        ):  # what was not tried then was refused by its preflight: no tool, no tester
            planned = {item: cycles for item, cycles in planned.items() if item in tried[head.id]}
        found[head.id] = Yield(head.kind, completed, planned, good[head.id], frozenset(metrics[head.id]))
    return found


def gone_items(now: Iterable[Yield], before: Iterable[Yield]) -> dict[Item, int]:
    """Media and modes that earlier runs of the same kinds measured and that are planned no more -> how often they were."""
    runs = list(now)
    kinds = {run.kind for run in runs} - {SECTIONS}  # of sections the metrics tell
    there = {item for run in runs for item in run.planned}
    found: dict[Item, int] = {}
    for run in before:
        if run.kind in kinds:
            found |= {item: run.planned.get(item, 1) for item in run.present if item not in there}
    return found


def gone_metrics(now: Iterable[Yield], before: Iterable[Yield]) -> set[tuple[str, str]]:
    """Kind and name of metrics that earlier runs gave, and that today's, though completed, did not give."""
    runs = list(now)
    kinds = {run.kind for run in runs} - {run.kind for run in runs if not run.completed}
    there = {(run.kind, metric) for run in runs for metric in run.metrics}
    return {(run.kind, metric) for run in before if run.kind in kinds for metric in run.metrics} - there


def _planned(kind: str, plan: Mapping[str, Any]) -> dict[Item, int]:
    names = plan.get(_ITEMS[kind][0]) if kind in _ITEMS else None
    if not isinstance(names, list):
        return {}  # another boardlab's
    names = [str(name) for name in names[:MAX_ITEMS]]
    if kind == SECTIONS:  # before it was in the plan, each was measured once
        repeats = plan.get("repeats")
        each = {name: repeats.get(name, 1) if isinstance(repeats, Mapping) else 1 for name in names}
    else:
        each = dict.fromkeys(names, plan.get("cycles"))
    return {Item(kind, clean(name)): cycles for name, cycles in each.items() if isinstance(cycles, int)}
