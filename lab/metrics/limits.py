"""Limits of a metric's numbers, and their checks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Literal, Self, TypeAlias

from attrs import asdict, frozen

from lab.metrics.model import Metric, Summary, summarise
from lab.metrics.model import Sample as MetricSample
from lab.metrics.uncertainty import NORMAL_95


class LimitOutcome(StrEnum):
    """The result of a limit for a number."""

    PASS = "pass"  # noqa: S105 - no password
    MARGINAL = "marginal"
    FAIL = "fail"


@frozen
class Limit:
    """A limit of a metric's numbers.

    A number fails beyond the limit, and is marginal within the guard band before it. The band is never narrower than
    the ± of the number: guarded acceptance of JCGM 106:2012, 8.3.2.

    Attributes:
        of: "sample", each of them; "mean"; or "spread", the standard deviation of the samples.
        min, max: in the metric's unit; None: no such limit.
        expected, percent: in place of both: the number is `expected` ± `percent` of it.
        guard: width of the guard band, in the metric's unit.
    """

    of: Literal["sample", "mean", "spread"] = "mean"
    min: float | None = None
    max: float | None = None
    expected: float | None = None
    percent: float | None = None
    guard: float = 0.0

    def __attrs_post_init__(self) -> None:
        numbers = [value for value in asdict(self).values() if isinstance(value, float)]
        if not all(math.isfinite(value) for value in numbers):
            raise ValueError("a limit is made of finite numbers")
        if (self.expected is None) != (self.percent is None):
            raise ValueError("expected and percent belong together: give both, or min and max")
        if (self.expected is None) == (self.min is None and self.max is None):
            raise ValueError("give min, max or both; or expected and percent")
        if self.guard < 0 or (self.percent or 0.0) < 0:
            raise ValueError("guard and percent are not negative")
        low, high = self.bounds
        if high - low < 2 * self.guard or high < low:
            raise ValueError(f"nothing can pass between {low:g} and {high:g} with a guard of {self.guard:g}")

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest number that does not fail."""
        if self.expected is not None and self.percent is not None:
            reach = abs(self.expected) * self.percent / 100
            return self.expected - reach, self.expected + reach
        return (-math.inf if self.min is None else self.min, math.inf if self.max is None else self.max)

    def outcome(self, value: float, uncertainty: float) -> LimitOutcome:
        """The outcome of one number and its ±."""
        low, high = self.bounds
        guard = max(self.guard, uncertainty)
        if not low <= value <= high:
            return LimitOutcome.FAIL
        return LimitOutcome.PASS if low + guard <= value <= high - guard else LimitOutcome.MARGINAL

    def text(self, metric: Metric) -> str:
        """The limit as text, e.g. "at most 0.5 s, guard 0.02 s"."""
        low, high = self.bounds
        unit = f" {metric.unit}".rstrip()
        bounds = [f"at least {low:g}{unit}"] * math.isfinite(low) + [f"at most {high:g}{unit}"] * math.isfinite(high)
        return ", ".join([*bounds, *([f"guard {self.guard:g}{unit}"] if self.guard else [])])

    def document(self) -> dict[str, Any]:
        """The limit for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self | None:
        """The limit from JSON; None: a newer boardlab wrote it otherwise, or it is damaged."""
        try:
            return cls(**document)
        except (TypeError, ValueError):
            return None


def limits_of(documents: Mapping[str, Any], metric: str) -> list[Limit]:
    """A metric's limits from the JSON of an attempt."""
    return [limit for document in documents.get(metric, ()) if (limit := Limit.of_document(document)) is not None]


Limits: TypeAlias = Mapping[str, tuple[Limit, ...]]  # by metric


@frozen
class LimitCheck:
    """A limit held against the samples of a number.

    Attributes:
        value, uncertainty: the sample nearest to failing, the mean or the spread.
    """

    limit: Limit
    value: float
    uncertainty: float
    outcome: LimitOutcome

    def sentence(self, metric: Metric, title: str) -> str:
        """The check for a person, e.g. "camera.first_frame: mean 0.61 s ± 0.01 s: fail (at most 0.5 s)"."""
        return f"{title}: {self.limit.of} {self.number(metric)}: {self.outcome} ({self.limit.text(metric)})"

    def number(self, metric: Metric) -> str:
        """The value, e.g. "0.61 s ± 0.01 s"."""
        unit = f" {metric.unit}".rstrip()
        return f"{self.value:.6g}{unit} ± {self.uncertainty:.2g}{unit}"


def check(limits: Iterable[Limit], samples: Iterable[MetricSample]) -> list[LimitCheck]:
    """Hold limits against samples; the spread of one is unknown, and so marginal."""
    readings = list(samples)
    return [
        limit_check for limit in limits if (limit_check := _check(limit, readings, summarise(readings))) is not None
    ]


def _check(limit: Limit, samples: list[MetricSample], summary: Summary) -> LimitCheck | None:
    if limit.of == "mean":
        figures = [(summary.mean, summary.uncertainty)]
    elif limit.of == "sample":
        figures = [(sample.value, sample.uncertainty) for sample in samples]
    elif summary.n < 2:  # its spread is not known
        figures = [(summary.std, math.inf)] if summary.n else []
    else:  # the standard deviation of a standard deviation, of normal samples: JCGM 100:2008, E.4.3
        figures = [(summary.std, NORMAL_95 * summary.std / math.sqrt(2 * (summary.n - 1)))]
    severity = list(LimitOutcome)
    low, high = limit.bounds

    def badness(figure: tuple[float, float]) -> tuple[int, float]:
        return severity.index(limit.outcome(*figure)), -min(figure[0] - low, high - figure[0])

    if not figures:
        return None
    worst = max(figures, key=badness)
    return LimitCheck(limit, *worst, limit.outcome(*worst))
