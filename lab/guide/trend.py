"""One metric of one board over several releases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from lab.errors import ConfigurationError
from lab.guide import annotated
from lab.guide.entries import GuideRelease
from lab.guide.model import CellKind, release_key
from lab.guide.rulebook import Effect
from lab.guide.sheet import Sheet
from lab.guide.text import value_of
from lab.metrics import by_name

_PRINTED = 0.006  # a mean and its print with two decimals


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
        evidence = annotated.annotate(sheet)
        for reading in sheet.of(metric):
            value = evidence.number(reading)
            if reading.board != board or value is None or not wanted.items() <= reading.params.items():
                continue
            if reading.quantity is not None:
                units = {"unit": reading.quantity.metric.unit, "better": reading.quantity.metric.better}
            broken = evidence.effect(reading, Effect.BROKEN) or evidence.effect(reading, Effect.INCOMPARABLE)
            cell = reading.cell.value
            is_own_range = cell.kind is CellKind.RANGE and not evidence.effect(reading, Effect.RECOVERED)
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


def of_releases(releases: Iterable[GuideRelease], metric: str, board: str, wanted: Mapping[str, str]) -> list[Trend]:
    """The series of a metric from the store, oldest release first.

    Raises:
        ConfigurationError: no release has the metric for the board.
    """
    ordered = sorted(releases, key=lambda release: release_key(release.name))
    series: dict[tuple[tuple[str, str], ...], list[Point]] = {}
    for release in ordered:
        for entry in release.entries:
            if entry.metric != metric or entry.value is None or not wanted.items() <= entry.params.items():
                continue
            printed = value_of(entry.text)
            is_own_range = printed.number is not None and abs(printed.number - entry.value) < _PRINTED
            point = Point(
                release.name,
                entry.value,
                printed.low if is_own_range else None,
                printed.high if is_own_range else None,
                entry.evidence.note if entry.evidence.is_broken else "",
            )
            series.setdefault(tuple(sorted(entry.params.items())), []).append(point)
    if not series:
        metrics = sorted({entry.metric for release in ordered for entry in release.entries if entry.metric})
        raise ConfigurationError(
            f"no release has {metric!r} of board {board!r}; it has: {', '.join(metrics) or 'no numbers'}"
        )
    known = by_name(metric)
    return [Trend(metric, dict(key), board, known.unit, known.better, tuple(points)) for key, points in series.items()]


def _nothing(sheets: Sequence[Sheet], metric: str, board: str) -> str:
    boards = sorted({b for sheet in sheets for b in sheet.guide.boards})
    metrics = sorted({name for sheet in sheets for name in sheet.by_metric})
    if not any(metric in sheet.by_metric for sheet in sheets):
        return f"no guide has the metric {metric!r}; there are: {', '.join(metrics)}"
    return f"no guide has {metric} of board {board!r}; there are: {', '.join(boards)}"
