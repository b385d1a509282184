"""Measurements of a guide, for the rules and the comparison."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from attrs import field, frozen

from lab.errors import ConfigurationError
from lab.guide import boards, catalogue
from lab.guide.catalogue import CellReading
from lab.guide.model import Condition, Guide, Table
from lab.judge.labels import release_key

_K = TypeVar("_K")

# (first release, how it enters MCU Only); source: the vendor's low-power guide.
_MCU_ONLY = (
    ((10,), "a latency limit of 100 (written to a file of microseconds)"),
    ((11,), "a latency limit of 100000 us"),
)
_MCU_ONLY_FIRST = "the wake-up file of the M4F core"


@frozen
class Neighbour:
    """The same measurement in another release, as printed, with its conditions."""

    release: str
    value: float
    conditions: frozenset[str] = frozenset()


@frozen
class Neighbours:
    """The nearest releases of a board before and after."""

    before: Neighbour
    after: Neighbour


@frozen
class MeasuredGuide:
    """A guide and the metrics of its cells.

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
        """Return some metrics' readings; a final dot makes a name a prefix."""
        readings: list[CellReading] = []
        for metric in metrics:
            if metric.endswith("."):
                readings += [r for name, rs in self.by_metric.items() if name.startswith(metric) for r in rs]
            else:
                readings += self.by_metric.get(metric, ())
        return tuple(readings)

    def condition(self, table: Table) -> tuple[Condition, ...]:
        """Return the conditions that the guide states next after a table.

        Only those in the table's top chapter count.
        """
        later = [
            c for c in self.guide.conditions if c.after_table > table.index and c.chapter[:1] == table.chapter[:1]
        ]
        return tuple(c for c in later if c.after_table == later[0].after_table)


def of_guide(guide: Guide) -> MeasuredGuide:
    """Look up every cell in the catalogue."""
    return measure(guide, catalogue.load().readings(guide))


def require_numbers(sheet: MeasuredGuide) -> MeasuredGuide:
    """The guide, if its tables have a number.

    Raises:
        ConfigurationError: they have none, so the file is no guide, or a page of one.
    """
    guide = sheet.guide
    if not any(r.number is not None for r in sheet.readings):
        first = f" Line {guide.unread[0].line}: {guide.unread[0].reason}" if guide.unread else ""
        raise ConfigurationError(
            f"{guide.path}: read as {guide.format}, its {len(guide.tables)} tables have no number; is this the "
            f"guide's source, or a page of it?{first}"
        )
    return sheet


def require_metrics(sheet: MeasuredGuide) -> MeasuredGuide:
    """The guide, if a number of it stands for a metric.

    Raises:
        ConfigurationError: none does, so the file is no performance guide, or one of another kind.
    """
    guide = require_numbers(sheet).guide
    if not sheet.by_metric:
        raise ConfigurationError(
            f"{guide.path}: no number of its {len(guide.tables)} tables stands for a metric of boardlab, so there is "
            f"nothing to check, compare or import; is it a performance guide? `lab guide read {guide.path}` shows what "
            "was read"
        )
    return sheet


def measure(guide: Guide, readings: Iterable[CellReading]) -> MeasuredGuide:
    """A guide with the readings of its cells, in reading order."""
    readings = tuple(readings)
    numbers = (r for r in readings if r.quantity is not None and r.number is not None and not r.is_alias)
    return MeasuredGuide(guide, readings, group(numbers, lambda reading: reading.metric))


def group(readings: Iterable[CellReading], key: Callable[[CellReading], _K]) -> dict[_K, tuple[CellReading, ...]]:
    """Readings by a key, in order of appearance."""
    groups: defaultdict[_K, list[CellReading]] = defaultdict(list)
    for reading in readings:
        groups[key(reading)].append(reading)
    return {name: tuple(members) for name, members in groups.items()}


@frozen
class Conditions:
    """Conditions under which a guide's numbers were taken.

    Attributes:
        media: (product or board, storage medium) -> the device used.
        clocks_mhz: board -> clock.
    """

    media: Mapping[tuple[str, str], frozenset[str]]
    clocks_mhz: Mapping[str | None, float]
    release: str | None


def conditions_of(sheet: MeasuredGuide) -> Conditions:
    """Collect the conditions that a guide states for its numbers."""
    media: dict[tuple[str, str], frozenset[str]] = {}
    for reading in sheet.of("storage.", "uboot."):
        for condition in sheet.condition(reading.table):
            if not condition.boards or reading.board in condition.boards:
                owner = (reading.board or "") if condition.boards else boards.product_of(reading.board)
                key = (owner, reading.params.get("medium", ""))
                media[key] = media.get(key, frozenset()) | {condition.text}
    clocks = {r.board: r.number for r in sheet.of("cpu.clock") if r.number}
    return Conditions(media, clocks, sheet.guide.release)


def media_of(reading: CellReading, conditions: Conditions) -> tuple[str, ...]:
    """Return the storage devices that are stated for a reading.

    Empty: none is stated, or the reading is of no storage medium.
    """
    if not reading.metric.startswith(("storage.", "uboot.")):
        return ()
    medium = reading.params.get("medium", "")
    owners = {boards.product_of(reading.board), reading.board or ""}
    return tuple(sorted({text for owner in owners for text in conditions.media.get((owner, medium), ())}))


def medium_differs(reading: CellReading, old: Conditions, new: Conditions) -> bool:
    """Return whether two guides state different media for a reading."""
    before, after = (set(media_of(reading, side)) for side in (old, new))
    return bool(before - after and after - before)


def way_into_sleep(reading: CellReading, conditions: Conditions) -> str:
    """Method of entering a reading's sleep mode.

    Empty: it is the same in all releases, or the release is unknown.
    """
    if reading.params.get("mode") != "mcuonly" or not conditions.release:
        return ""
    ways = [way for first, way in _MCU_ONLY if release_key(conditions.release) >= first]
    return ways[-1] if ways else _MCU_ONLY_FIRST
