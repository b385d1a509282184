"""A guide seen as measurements: what the rules and the comparison work on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from attrs import field, frozen

from lab.guide import catalogue
from lab.guide.catalogue import CellReading
from lab.guide.model import Condition, Guide, Table

_K = TypeVar("_K")


@frozen
class Neighbour:
    """The same measurement in another release, as printed, with the conditions that it states."""

    release: str
    value: float
    conditions: frozenset[str] = frozenset()


@frozen
class Neighbours:
    """The nearest releases of a board before and after."""

    before: Neighbour
    after: Neighbour


@frozen
class Sheet:
    """A guide and what each of its cells measures.

    Attributes:
        readings: one for every cell, in reading order.
        by_metric: metric name -> its readings that hold a number; aliases are left out.
        neighbours: board and key -> the same in the releases before and after, where a history was given and has both.
    """

    guide: Guide
    readings: tuple[CellReading, ...]
    by_metric: Mapping[str, tuple[CellReading, ...]]
    neighbours: Mapping[tuple[str | None, object], Neighbours] = field(factory=dict)

    def of(self, *metrics: str) -> tuple[CellReading, ...]:
        """The numbers of some metrics; a name that ends in a dot stands for all that begin with it."""
        found: list[CellReading] = []
        for metric in metrics:
            if metric.endswith("."):
                found += [r for name, rs in self.by_metric.items() if name.startswith(metric) for r in rs]
            else:
                found += self.by_metric.get(metric, ())
        return tuple(found)

    def condition(self, table: Table) -> tuple[Condition, ...]:
        """What the guide says after a table, in the same top chapter, about how its numbers were captured."""
        later = [
            c for c in self.guide.conditions if c.after_table > table.index and c.chapter[:1] == table.chapter[:1]
        ]
        return tuple(c for c in later if c.after_table == later[0].after_table)


def of_guide(guide: Guide) -> Sheet:
    """Look up every cell in the catalogue."""
    readings = tuple(catalogue.load().readings(guide))
    by_metric = group(
        (r for r in readings if r.quantity is not None and r.number is not None and not r.is_alias), lambda r: r.metric
    )
    return Sheet(guide, readings, by_metric)


def group(readings: Iterable[CellReading], key: Callable[[CellReading], _K]) -> dict[_K, tuple[CellReading, ...]]:
    """Readings by a key, in order of appearance."""
    found: defaultdict[_K, list[CellReading]] = defaultdict(list)
    for reading in readings:
        found[key(reading)].append(reading)
    return {name: tuple(members) for name, members in found.items()}
