"""How numbers are written: no longer than their uncertainty allows, in a unit that fits their size, and no minus before a zero."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import evolve

from lab.metrics import Measurement, Metric, Summary, summarise

_GUIDE_DECIMALS: Final = 2
_MOST_DECIMALS: Final = 9
_MOST_AVERAGES: Final = 4  # in a line of the list; a run of sections has hundreds
_THOUSANDTHS: Final = {"J": "mJ", "W": "mW"}


def guide_cell(summary: Summary) -> str:
    """A cell of a guide, as the vendor writes it: `16.24 (min 15.96, max 16.42)`."""
    mean, low, high = (fixed(value, _GUIDE_DECIMALS) for value in (summary.mean, summary.min, summary.max))
    return f"{mean} (min {low}, max {high})"


def average_cell(summary: Summary, metric: Metric) -> str:
    """The form of the performance guide's boot table, with as many decimals as the ± allows: `16.245 (min 15.960, max 16.416)`."""
    mean, low, high = (
        number(value, summary.uncertainty, metric) for value in (summary.mean, summary.min, summary.max)
    )
    return f"{mean} (min {low}, max {high})"


def readable(metric: Metric, summaries: Sequence[Summary]) -> tuple[Metric, list[Summary]]:
    """The same numbers in a unit that fits their size: below 1 J in mJ, below 1 W in mW."""
    small = _THOUSANDTHS.get(metric.unit)
    if small is None or max((max(abs(s.mean), abs(s.max)) for s in summaries), default=1.0) >= 1.0:
        return metric, list(summaries)
    in_small = [
        Summary(s.n, *(1e3 * v for v in (s.mean, s.median, s.min, s.max, s.p95, s.std, s.uncertainty)))
        for s in summaries
    ]
    return evolve(metric, unit=small, resolution=1e3 * metric.resolution), in_small


def decimals(uncertainty: float, resolution: float = 0.0) -> int:
    """How many decimals a value with this ± deserves: two digits of the ±, and none finer than the method resolves."""
    finest = _places(resolution, 1) if resolution > 0 else _MOST_DECIMALS
    return finest if uncertainty <= 0 else min(finest, _places(uncertainty, 2))


def number(value: float, uncertainty: float, metric: Metric) -> str:
    """A value without its unit, with as many decimals as its uncertainty allows."""
    return fixed(value, decimals(uncertainty, metric.resolution))


def fixed(value: float, places: int) -> str:
    """A value with so many decimals; what rounds to zero has no sign."""
    return f"{value:z.{places}f}"


def with_uncertainty(value: float, uncertainty: float, metric: Metric) -> str:
    """`3.214 ± 0.012 s`."""
    return f"{number(value, uncertainty, metric)} ± {number(uncertainty, uncertainty, metric)} {metric.unit}"


def label(params: Mapping[str, str]) -> str:
    """Parameters in a few words: `sd`, or `medium=sd, stage=Kernel` where there are several."""
    if len(params) == 1:
        return next(iter(params.values()))
    return ", ".join(f"{key}={value}" for key, value in sorted(params.items()))


def anchor(params: Mapping[str, str]) -> str:
    """The id of these parameters' list of cycles in a run's report."""
    return "cycles-" + re.sub(r"[^a-z0-9]+", "-", label(params).lower())


def duration(seconds: float) -> str:
    """`42 s`, `5 min 12 s` or `3 h 07 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def headline(own: Sequence[Measurement]) -> str:
    """The averages of one metric in a line, e.g. `boot.time [s] sd 5.829, emmc 5.9`."""
    if not own:
        return "-"
    metric = own[0].metric
    shown, summaries = readable(metric, [summarise(m.samples) for m in own])
    averages = [
        f"{label(m.params)} {number(s.mean, s.uncertainty, shown)}".strip()
        for m, s in zip(own[:_MOST_AVERAGES], summaries, strict=False)
    ]
    more = f" and {len(own) - len(averages)} more" if len(own) > len(averages) else ""
    return f"{metric.name} [{shown.unit}] {', '.join(averages)}{more}"


def _places(value: float, digits: int) -> int:
    """Decimals that show `digits` significant digits of a positive value."""
    return min(_MOST_DECIMALS, max(0, digits - 1 - math.floor(math.log10(value) + 1e-9)))
