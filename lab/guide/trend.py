"""One metric of one board over several releases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from lab.errors import ConfigurationError
from lab.guide import evidence as known
from lab.guide.model import Kind, release_key
from lab.guide.rulebook import Effect
from lab.guide.sheet import Sheet


@frozen
class Point:
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
    """A series of points, oldest release first."""

    metric: str
    params: Mapping[str, str]
    board: str
    unit: str
    better: str
    points: tuple[Point, ...]


def of_guides(sheets: Iterable[Sheet], metric: str, board: str, wanted: Mapping[str, str]) -> list[Trend]:
    """The series of a metric, one for each set of its parameters.

    Args:
        wanted: only series with these parameters.

    Raises:
        ConfigurationError: no guide has the metric for the board, or a guide does not tell its release.
    """
    ordered = sorted(sheets, key=lambda sheet: release_key(sheet.guide.release))
    series: dict[tuple[tuple[str, str], ...], list[Point]] = {}
    units: dict[str, str] = {}
    for sheet in ordered:
        if sheet.guide.release is None:
            raise ConfigurationError(
                f"{sheet.guide.path}: neither its title nor its name tells the release; rename it, e.g. am62x-11.01.rst"
            )
        evidence = known.evidence(sheet)
        for reading in sheet.of(metric):
            value = evidence.number(reading)
            if reading.board != board or value is None or not wanted.items() <= reading.params.items():
                continue
            if reading.quantity is not None:
                units = {"unit": reading.quantity.metric.unit, "better": reading.quantity.metric.better}
            broken = evidence.effect(reading, Effect.BROKEN) or evidence.effect(reading, Effect.INCOMPARABLE)
            cell = reading.cell.value
            is_own_range = cell.kind is Kind.RANGE and not evidence.effect(reading, Effect.RECOVERED)
            point = Point(
                sheet.guide.release,
                value,
                cell.low if is_own_range else None,
                cell.high if is_own_range else None,
                f"{broken.rule.title}" if broken else "",
            )
            series.setdefault(reading.key[1], []).append(point)
    if not series:
        raise ConfigurationError(_nothing(ordered, metric, board))
    return [Trend(metric, dict(key), board, **units, points=tuple(points)) for key, points in series.items()]


def _nothing(sheets: Sequence[Sheet], metric: str, board: str) -> str:
    boards = sorted({b for sheet in sheets for b in sheet.guide.boards})
    metrics = sorted({name for sheet in sheets for name in sheet.by_metric})
    if not any(metric in sheet.by_metric for sheet in sheets):
        return f"no guide has the metric {metric!r}; there are: {', '.join(metrics)}"
    return f"no guide has {metric} of board {board!r}; there are: {', '.join(boards)}"
