"""The completeness of a run: its planned and its measured media, low-power modes or sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self

from attrs import frozen

from lab.results.records import OK, RunHead
from lab.results.snapshot import StoreSnapshot

COMPLETED: Final = "completed"
SECTIONS: Final = "sections"
MAX_ITEMS: Final = 200  # items of a plan that are read; a guide has some fifty sections
# Kind of run -> key of the items in its plan, and parameter of an attempt that names its item.
_ITEMS: Final = {"boot": ("media", "medium"), "low_power": ("modes", "mode"), SECTIONS: (SECTIONS, "section")}


@frozen
class PlannedItem:
    """An item of a plan: a medium, a low-power mode or a section.

    Attributes:
        kind: kind of the run.
    """

    kind: str
    name: str


@frozen
class RunCompleteness:
    """The planned and the measured cycles of a run.

    Attributes:
        kind, status: those of the run.
        planned: item -> number of planned cycles.
        present: item -> number of measured cycles; a cycle of a section is measured when all its rows are.
        metrics: metrics with samples.
    """

    kind: str
    status: str
    planned: Mapping[PlannedItem, int]
    present: Mapping[PlannedItem, int]
    metrics: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        kind: str,
        status: str,
        plan: Mapping[str, Any],
        outcomes: Iterable[tuple[Mapping[str, str], str, int]],
        metrics: Iterable[str] = (),
    ) -> Self:
        """Compare a run's plan with its attempts.

        Args:
            outcomes: parameters, outcome, and number of such attempts.
            metrics: metrics with samples.
        """
        present = Counter[PlannedItem]()
        tried: set[PlannedItem] = set()
        parameter = _ITEMS[kind][1] if kind in _ITEMS else ""
        for params, outcome, count in outcomes if parameter else ():
            item = PlannedItem(kind, params.get(parameter, ""))
            tried.add(item)
            is_row = kind == SECTIONS and params.keys() != {parameter}
            if outcome == OK and not is_row:
                present[item] += count
        planned = planned_items(kind, plan)
        if kind == SECTIONS and status == COMPLETED:
            # A completed run has tried all sections but those that the preflight refused, e.g. for lack of a tool.
            planned = {item: cycles for item, cycles in planned.items() if item in tried}
        return cls(kind, status, planned, dict(present), frozenset(metrics))

    @property
    def completed(self) -> bool:
        """True if the run has the status "completed"."""
        return self.status == COMPLETED

    @property
    def missing(self) -> bool:
        """True if an item has fewer cycles than planned."""
        return any(self.present.get(item, 0) < planned for item, planned in self.planned.items())

    @property
    def shortage(self) -> str:
        """The run's gaps, e.g. `interrupted, with 2 of 40 cycles`; empty: none."""
        if self.completed and not self.missing:
            return ""
        count = sum(min(self.present.get(item, 0), cycles) for item, cycles in self.planned.items())
        parts = [f"with {count} of {sum(self.planned.values())} cycles"] if self.planned else []
        without = [item.name for item in self.planned if not self.present.get(item)] if count else []
        parts += [f"none of {', '.join(without)}"] if without else []
        return ", ".join([*([] if self.completed else [self.status]), *parts])


def completeness_of_runs(snapshot: StoreSnapshot, heads: Sequence[RunHead]) -> dict[int, RunCompleteness]:
    """Return the completeness of these runs, by their ids."""
    ids = [head.id for head in heads]
    plans = dict(snapshot.plans(ids))
    metrics: dict[int, set[str]] = {run_id: set() for run_id in ids}
    for run_id, metric in snapshot.metrics(ids):
        metrics[run_id].add(metric)
    outcomes: dict[int, list[tuple[Mapping[str, str], str, int]]] = {run_id: [] for run_id in ids}
    for tally in snapshot.tallies(ids):
        outcomes[tally.run_id].append((tally.params, tally.outcome, tally.count))
    return {
        head.id: RunCompleteness.of(
            head.kind, head.status, plans.get(head.id, {}), outcomes[head.id], metrics[head.id]
        )
        for head in heads
    }


def planned_items(kind: str, plan: Mapping[str, Any]) -> dict[PlannedItem, int]:
    """Return the items of a plan with their numbers of cycles; empty: its kind of run has no items."""
    names = plan.get(_ITEMS[kind][0]) if kind in _ITEMS else None
    if not isinstance(names, list):
        return {}  # a plan of another version of boardlab
    names = [str(name) for name in names[:MAX_ITEMS]]
    if kind == SECTIONS:  # older plans have no repeats: each section was measured once
        repeats = plan.get("repeats")
        cycles_of = {name: repeats.get(name, 1) if isinstance(repeats, Mapping) else 1 for name in names}
    else:
        cycles_of = dict.fromkeys(names, plan.get("cycles"))
    return {PlannedItem(kind, name): cycles for name, cycles in cycles_of.items() if isinstance(cycles, int)}
