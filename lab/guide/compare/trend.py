"""Trends of one metric over several releases.

Each definition, set of parameters and board of a product has a series.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from lab.errors import ConfigurationError
from lab.guide import boards
from lab.guide.catalogue import CellReading
from lab.guide.check.annotations import AnnotatedGuide, annotate
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import CellKind
from lab.guide.rulebook import Effect
from lab.judge.labels import is_real_time, release_key
from lab.metrics import by_name


@frozen
class TrendPoint:
    """The number of one release.

    Attributes:
        low: smallest reading, where the source has a range that belongs to this number.
        high: largest one.
        note: why the number is unreliable; empty where nothing is known against it.
    """

    release: str
    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""


@frozen
class Trend:
    """A series of points, oldest release first.

    Attributes:
        product: what the board carries; numbers of different products are never one series.
        definition: what tells the series from others of the same board and parameters, e.g. the SD card; empty without
            such.
    """

    metric: str
    params: Mapping[str, str]
    board: str
    unit: str
    better: str
    points: tuple[TrendPoint, ...]
    product: str = ""
    definition: str = ""


@frozen
class PublishedPoint:
    """A number of a release, with the facts that choose its series.

    Attributes:
        definition: its definition, if there are several, as the end of a sentence; empty: not known.
        conditions: under which it was taken, e.g. the SD card; empty: not stated.
    """

    board: str
    product: str
    params: Mapping[str, str]
    point: TrendPoint
    definition: str = ""
    conditions: frozenset[str] = frozenset()

    @property
    def kernel(self) -> str:
        """The kernel of the release: real-time or standard."""
        return "real-time kernel" if is_real_time(self.point.release) else "standard kernel"


def build_series(points: Iterable[PublishedPoint], metric: str) -> list[Trend]:
    """Group numbers of one product, board and parameters into series.

    A known difference of definition or conditions begins another series. A number whose definition or conditions are
    not known goes on with the series before it.
    """
    lines: dict[object, list[_Line]] = {}
    for point in sorted(points, key=lambda point: release_key(point.point.release)):
        siblings = lines.setdefault((point.product, point.board, tuple(sorted(point.params.items()))), [])
        line = next((line for line in reversed(siblings) if line.takes(point)), None)
        if line is None:
            line = _Line()
            siblings.append(line)
        line.add(point)
    quantity = by_name(metric)
    return [
        Trend(
            metric,
            dict(sorted(line.members[0].params.items())),
            line.members[0].board,
            quantity.unit,
            quantity.better,
            tuple(member.point for member in line.members),
            line.members[0].product,
            _difference(line, siblings),
        )
        for siblings in lines.values()
        for line in siblings
    ]


def trends_of_guides(
    sheets: Iterable[MeasuredGuide], metric: str, board: str, wanted: Mapping[str, str]
) -> list[Trend]:
    """The series of a metric in guides.

    Args:
        board: as the headers spell it, or a product, e.g. "AM62x", for each of its boards.
        wanted: only series with these parameters.

    Raises:
        ConfigurationError: no guide has the metric for the board, or a guide does not tell its release.
    """
    sheets = list(sheets)
    names = {name for sheet in sheets for name in sheet.guide.boards}
    points: list[PublishedPoint] = []
    for sheet in sheets:
        release = sheet.guide.kernel_release
        if release is None:
            raise ConfigurationError(
                f"{sheet.guide.path}: neither its title nor its name tells the release; rename it, e.g. am62x-11.01.rst"
            )
        evidence = annotate(sheet)
        for reading in sheet.of(metric):
            if _is_wanted(reading.board or "", board, names) and wanted.items() <= reading.params.items():
                points += _points(reading, evidence, release)
    if not points:
        there = sorted({name for sheet in sheets for name in sheet.by_metric})
        if metric not in there:
            raise ConfigurationError(f"no guide has the metric {metric!r}; there are: {', '.join(there)}")
        raise ConfigurationError(f"no guide has {metric} of board {board!r}; there are: {', '.join(sorted(names))}")
    return build_series(points, metric)


def _is_wanted(name: str, board: str, names: Iterable[str]) -> bool:
    """Return whether a board was asked for.

    Its name counts; a product stands for its boards if no board has that name.
    """
    if board in names:
        return name == board
    return bool(name) and boards.product_of(name) == boards.product_of(board) and boards.is_product(board)


def _points(reading: CellReading, evidence: AnnotatedGuide, release: str) -> Iterable[PublishedPoint]:
    value = evidence.value(reading)
    if value is None:
        return
    broken = evidence.finding_with(Effect.BROKEN, reading) or evidence.finding_with(Effect.INCOMPARABLE, reading)
    cell, board = reading.cell.value, reading.board or ""
    clock = evidence.readings.get((reading.board, ("cpu.clock", ()))) if reading.metric.endswith(".per_mhz") else None
    doubts = (doubt for of in (reading, clock) if of is not None for doubt in evidence.suspicions(of))
    why = broken or next(doubts, None)
    is_own_range = cell.kind is CellKind.RANGE and not evidence.finding_with(Effect.RECOVERED, reading)
    point = TrendPoint(
        release,
        value,
        cell.low if is_own_range else None,
        cell.high if is_own_range else None,
        why.rule.title if why else "",
    )
    facts = evidence.evidence(reading, board)
    product = boards.product_of(board)
    yield PublishedPoint(board, product, reading.params, point, facts.definition_text, frozenset(facts.conditions))


@define
class _Line:
    """A growing series with its latest definition and conditions."""

    members: list[PublishedPoint] = field(factory=list)
    definition: str = ""
    conditions: frozenset[str] = frozenset()

    def takes(self, point: PublishedPoint) -> bool:
        same_kernel = not self.members or self.members[0].kernel == point.kernel
        same_definition = not (self.definition and point.definition and self.definition != point.definition)
        differ = self.conditions - point.conditions and point.conditions - self.conditions
        return same_kernel and same_definition and not differ

    def add(self, point: PublishedPoint) -> None:
        self.members.append(point)
        self.definition = point.definition or self.definition
        self.conditions = point.conditions or self.conditions


def _difference(line: _Line, siblings: Sequence[_Line]) -> str:
    """Distinguish a series from the others of the same parameters."""
    parts = []
    if len({other.members[0].kernel for other in siblings}) > 1:
        parts.append(line.members[0].kernel)
    if len({other.definition for other in siblings}) > 1:
        parts.append(line.definition)
    if len({other.conditions for other in siblings}) > 1:
        common = frozenset.intersection(*(other.conditions for other in siblings))
        parts.append("; ".join(sorted(line.conditions - common)))
    return ", ".join(text for text in parts if text)


def first_of_each(points: Iterable[PublishedPoint]) -> list[PublishedPoint]:
    """Of the numbers of one release, board and parameters the first."""
    first: dict[object, PublishedPoint] = {}
    for point in points:
        first.setdefault((point.board, point.point.release, tuple(sorted(point.params.items()))), point)
    return list(first.values())
