"""What became of a number from one release to the next, on the same board.

The change is from the newest release to the one before it, by their numbers (11.01 after 10.00); only numbers of the same
definition and parameters are compared. It is a regression where the average is worse by more than LEAST_CHANGE and by more
than both averages' ± (95 %) added in quadrature. One run is an observation: the alert wants the same of two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import evolve, frozen

from exporters.figures import ExportedMeasurement, LatestRun, RunKey
from lab.metrics import Flag, uncertainty
from lab.metrics.catalogue import BOOT_STAGE

LEAST_CHANGE: Final = 0.02  # relative; below it nobody acts
_NUMBERS: Final = re.compile(r"\d+(\.\d+)*")
_AVERAGE: Final = "avg"


@frozen
class MetricChange:
    """A number in the newest release, against the release before.

    Attributes:
        ratio: of the change to the old average; positive: the number grew. regression: whether it is one.
    """

    group: LatestRun
    figure: ExportedMeasurement
    against: str
    ratio: float
    regression: bool


def changes(groups: Iterable[LatestRun]) -> Iterator[MetricChange]:
    """The changes of all numbers that have one."""
    by_place: dict[RunKey, dict[tuple[int, ...], LatestRun]] = {}
    for group in groups:
        if _NUMBERS.fullmatch(group.key.release):
            place = evolve(group.key, release="")
            number = tuple(int(part) for part in group.key.release.split("."))
            by_place.setdefault(place, {})[number] = group
    for releases in by_place.values():
        if len(releases) < 2:
            continue
        old, new = (releases[number] for number in sorted(releases)[-2:])
        if _simulated(old) == _simulated(new):
            yield from _between(old, new)


def _between(old: LatestRun, new: LatestRun) -> Iterator[MetricChange]:
    before = {(figure.metric, figure.labels): figure for figure in old.figures}
    for figure in new.figures:
        was = before.get((figure.metric, figure.labels))
        if was is None or figure.metric == BOOT_STAGE.name or _average(was) == 0:
            continue
        difference = _average(figure) - _average(was)
        ratio = difference / abs(_average(was))
        worse = difference if figure.name.better == "lower" else -difference
        sure = worse > uncertainty.combined((figure.uncertainty, was.uncertainty))
        yield MetricChange(new, figure, old.key.release, ratio, sure and abs(ratio) > LEAST_CHANGE)


def _average(figure: ExportedMeasurement) -> float:
    return figure.values[figure.stats.index(_AVERAGE)]


def _simulated(group: LatestRun) -> bool:
    return any(flag == Flag.SIMULATED for _, flag in group.flagged)
