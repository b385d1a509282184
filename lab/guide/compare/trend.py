"""Trends of one metric over several releases.

Each definition, set of parameters and board of a product has a series.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from lab.errors import ConfigurationError
from lab.guide import boards
from lab.guide.catalogue import CellReading
from lab.guide.check import annotations as guide_annotations
from lab.guide.compare import comparison as compare
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import CellKind
from lab.guide.rulebook import Effect
from lab.judge.labels import is_real_time, release_key
from lab.metrics import by_name


@frozen
class TrendPoint:
    """The number of one release.

    Attributes:
        low, high: the range, where the source has one that belongs to this number.
        note: why the number is to be taken with care; empty where nothing is known against it.
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
        definition: what tells the series from others of the same board and parameters, e.g. the SD card; empty without such.
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


def series(found: Iterable[PublishedPoint], metric: str) -> list[Trend]:
    """Group numbers of one product, board and parameters into series.

    A known difference of definition or conditions begins another series. A number whose definition or conditions are
    not known goes on with the series before it.
    """
    ordered = sorted(found, key=lambda one: release_key(one.point.release))
    lines: dict[object, list[_Line]] = {}
    for one in ordered:
        of_params = lines.setdefault((one.product, one.board, tuple(sorted(one.params.items()))), [])
        line = next((line for line in reversed(of_params) if line.takes(one)), None)
        if line is None:
            line = _Line()
            of_params.append(line)
        line.add(one)
    known = by_name(metric)
    return [
        Trend(
            metric,
            dict(sorted(line.members[0].params.items())),
            line.members[0].board,
            known.unit,
            known.better,
            tuple(one.point for one in line.members),
            line.members[0].product,
            _difference(line, of_params),
        )
        for of_params in lines.values()
        for line in of_params
    ]


def of_guides(sheets: Iterable[MeasuredGuide], metric: str, board: str, wanted: Mapping[str, str]) -> list[Trend]:
    """The series of a metric in guides.

    Args:
        board: as the headers spell it, or a product, e.g. "AM62x", for each of its boards.
        wanted: only series with these parameters.

    Raises:
        ConfigurationError: no guide has the metric for the board, or a guide does not tell its release.
    """
    ordered = list(sheets)
    named = {name for sheet in ordered for name in sheet.guide.boards}
    found: list[PublishedPoint] = []
    for sheet in ordered:
        release = sheet.guide.kernel_release
        if release is None:
            raise ConfigurationError(
                f"{sheet.guide.path}: neither its title nor its name tells the release; rename it, e.g. am62x-11.01.rst"
            )
        evidence = guide_annotations.annotate(sheet)
        for reading in sheet.of(metric):
            if is_wanted(reading.board or "", board, named) and wanted.items() <= reading.params.items():
                found += _published(reading, evidence, release)
    if not found:
        raise ConfigurationError(_nothing(ordered, metric, board))
    return series(found, metric)


def is_wanted(name: str, board: str, named: Iterable[str]) -> bool:
    """Return whether a board was asked for.

    Its name counts; a product stands for its boards if no board has that name.
    """
    if board in named:
        return name == board
    return bool(name) and boards.product_of(name) == boards.product_of(board) and boards.is_product(board)


def _published(
    reading: CellReading, evidence: guide_annotations.AnnotatedGuide, release: str
) -> Iterable[PublishedPoint]:
    value = evidence.number(reading)
    if value is None:
        return
    broken = evidence.effect(reading, Effect.BROKEN) or evidence.effect(reading, Effect.INCOMPARABLE)
    cell, board = reading.cell.value, reading.board or ""
    is_own_range = cell.kind is CellKind.RANGE and not evidence.effect(reading, Effect.RECOVERED)
    point = TrendPoint(
        release,
        value,
        cell.low if is_own_range else None,
        cell.high if is_own_range else None,
        f"{broken.rule.title}" if broken else "",
    )
    known = compare.evidence(reading, evidence, board)
    yield PublishedPoint(
        board,
        boards.product_of(board),
        reading.params,
        point,
        known.definition_text,
        frozenset(known.conditions),
    )


@define
class _Line:
    """A growing series with its latest definition and conditions."""

    members: list[PublishedPoint] = field(factory=list)
    definition: str = ""
    conditions: frozenset[str] = frozenset()

    def takes(self, one: PublishedPoint) -> bool:
        same_kernel = not self.members or self.members[0].kernel == one.kernel
        same_definition = not (self.definition and one.definition and self.definition != one.definition)
        differ = self.conditions - one.conditions and one.conditions - self.conditions
        return same_kernel and same_definition and not differ

    def add(self, one: PublishedPoint) -> None:
        self.members.append(one)
        self.definition = one.definition or self.definition
        self.conditions = one.conditions or self.conditions


def _difference(line: _Line, of_params: Sequence[_Line]) -> str:
    """Distinguish a series from the others of the same parameters."""
    parts = []
    if len({other.members[0].kernel for other in of_params}) > 1:
        parts.append(line.members[0].kernel)
    if len({other.definition for other in of_params}) > 1:
        parts.append(line.definition)
    if len({other.conditions for other in of_params}) > 1:
        common = frozenset.intersection(*(other.conditions for other in of_params))
        parts.append("; ".join(sorted(line.conditions - common)))
    return ", ".join(text for text in parts if text)


def _nothing(sheets: Sequence[MeasuredGuide], metric: str, board: str) -> str:
    boards_there = sorted({b for sheet in sheets for b in sheet.guide.boards})
    metrics = sorted({name for sheet in sheets for name in sheet.by_metric})
    if not any(metric in sheet.by_metric for sheet in sheets):
        return f"no guide has the metric {metric!r}; there are: {', '.join(metrics)}"
    return f"no guide has {metric} of board {board!r}; there are: {', '.join(boards_there)}"


def first_of_each(found: Iterable[PublishedPoint]) -> list[PublishedPoint]:
    """Of the numbers of one release, board and parameters the first."""
    first: dict[object, PublishedPoint] = {}
    for one in found:
        first.setdefault((one.board, one.point.release, tuple(sorted(one.params.items()))), one)
    return list(first.values())
