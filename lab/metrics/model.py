"""The records of a number: metric, samples, uncertainty and provenance."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Final, Literal

from attrs import field, frozen, validators

from lab.errors import TestStableError
from lab.metrics import uncertainty
from lab.metrics.flags import Flag


@frozen
class Metric:
    """A quantity that boardlab measures.

    Attributes:
        name: dotted, e.g. "boot.time".
        unit: SI unit symbol; values are stored in it.
        better: which direction is an improvement.
        definition: of the quantity, in one sentence.
        version: of the definition; numbers of different versions are never compared.
        resolution: smallest difference that the method can show, in `unit`.
        source: of the definition.
        quantum: why only few values are possible; empty: only the resolution limits them.
        vendor: how the vendor's guides form their number, if it differs from this definition. The store has the
            corrected number; writing a guide computes the vendor's from it.
    """

    name: str
    unit: str
    better: Literal["lower", "higher"]
    definition: str
    resolution: float = field(validator=validators.ge(0))
    source: str
    version: int = 1
    quantum: str = ""
    vendor: str = ""


@frozen
class Sample:
    """One reading of a metric.

    Attributes:
        value: in the metric's unit.
        uncertainty: bound of the error of this reading, ±, in the metric's unit.
        cycle: which cycle of the run it is, from 1.
    """

    value: float
    uncertainty: float = field(validator=validators.ge(0))
    cycle: int
    flags: frozenset[Flag] = frozenset()


LARGEST: Final = 1e100  # sums and squares of such numbers are finite


def finite(instance: object, attribute: object, value: Any) -> None:
    """Refuse what is no finite number (a validator of attrs).

    Raises:
        TestStableError: it is none, or beyond LARGEST.
    """
    number: Any = value
    if not (isinstance(value, Real) and abs(number) <= LARGEST):
        name = getattr(attribute, "name", "value")
        raise TestStableError(
            f"{name} of a {type(instance).__name__} must be a finite number, at most {LARGEST:g}; "
            f"got {repr_short(value, 40)}"
        )


def repr_short(value: object, width: int = 200) -> str:
    """A wrong value for a message; Python refuses the digits of a very large integer."""
    try:
        return repr(value)[:width]
    except ValueError:
        return f"a {type(value).__name__} that cannot be shown"


@frozen
class SampleRecord:
    """One reading of a metric.

    Attributes:
        metric: its name in `lab.metrics.catalogue`.
        params: distinguish it from the metric's other numbers, e.g. {"medium": "sd"}.
        value: in the metric's unit.
        uncertainty: ±, in the metric's unit.
        flags: values of `lab.metrics.Flag`.
        log_start, log_end: the bytes that the value was read from: of the console's stream,
            and in the store of the attempt's log.
        declared: the metric itself where a lab declares it (`lab.metrics.lab_metrics`), and
            the catalogue has none; not read back.
    """

    metric: str
    params: Mapping[str, str]
    value: float = field(validator=finite)
    uncertainty: float = field(validator=finite)
    flags: frozenset[str] = frozenset()
    log_start: int | None = None
    log_end: int | None = None
    declared: Metric | None = None

    def __attrs_post_init__(self) -> None:
        if self.uncertainty < 0:
            raise TestStableError(f"the uncertainty of {self.metric} must not be negative, got {self.uncertainty}")
        unknown = sorted(self.flags - set(Flag))
        if unknown:
            raise TestStableError(f"unknown flags {', '.join(unknown)} on {self.metric}; declare them in lab.metrics")


@frozen
class Moment:
    """The arrival of a marker's last byte at the host.

    The stamp is never early: the byte arrived within `uncertainty_ns` before `t_ns` (see `lab.console.moments`).

    Attributes:
        name: of the pattern.
        t_ns: CLOCK_MONOTONIC_RAW of the host.
        position: just after the marker's last byte: in the port's stream, and in the store in the attempt's log.
        text: the line as far as the marker, without control characters.
    """

    name: str
    t_ns: int
    uncertainty_ns: int
    position: int
    text: str = ""


def sample_of(
    metric: Metric,
    params: Mapping[str, str],
    value: float,
    bound: float | None = None,
    flags: Iterable[str] = (),
    window: tuple[int | None, int | None] = (None, None),
    *,
    declared: bool = False,
) -> SampleRecord:
    """A number of an attempt: of boots, suspends, sections and `measure` alike.

    Args:
        bound: ±; None: half of the metric's resolution.
        window: the bytes of the console's stream that it was read from.
        declared: a lab's own metric, which the catalogue lacks.

    Raises:
        TestStableError: the value or its ± is no finite number, or the ± is negative.
    """
    bound = uncertainty.of_step(metric.resolution) if bound is None else bound
    own_metric = metric if declared else None
    return SampleRecord(metric.name, dict(params), value, bound, frozenset(flags), *window, declared=own_metric)


@frozen
class Summary:
    """Statistics over samples, in the metric's unit.

    Attributes:
        std: sample standard deviation (n - 1); 0 with one sample.
        uncertainty: ± of the mean at 95 %: Student's t times the standard error, and the mean of the readings'
            bounds, added in quadrature (docs/boot-time.md).
    """

    n: int
    mean: float
    median: float
    min: float
    max: float
    p95: float
    std: float
    uncertainty: float


@frozen
class Measurement:
    """A number with everything that makes it believable.

    Attributes:
        params: distinguish it from other measurements of the same metric, e.g. {"medium": "sd"}.
        provenance: board, release, host, adapter, clock …, to judge it later.
    """

    metric: Metric
    params: Mapping[str, str]
    samples: tuple[Sample, ...]
    provenance: Mapping[str, Any] = field(factory=dict)

    @property
    def flags(self) -> frozenset[Flag]:
        """The flags of all samples."""
        return frozenset().union(*(s.flags for s in self.samples))


def summarise(samples: Sequence[Sample]) -> Summary:
    """Summarise at least one sample, without `uncertain` ones if possible.

    The 95th percentile is interpolated between order statistics (type 7 of Hyndman & Fan 1996, numpy's default).

    Raises:
        TestStableError: no samples.
    """
    if not samples:
        raise TestStableError("no samples to summarise: every cycle failed or none was run")
    samples = [s for s in samples if Flag.UNCERTAIN not in s.flags] or samples
    values = sorted(s.value for s in samples)
    n = len(values)
    std = uncertainty.deviation(values) if n > 1 else 0.0
    rank = 0.95 * (n - 1)
    low = math.floor(rank)
    p95 = values[low] + (values[min(low + 1, n - 1)] - values[low]) * (rank - low)
    return Summary(
        n=n,
        mean=statistics.fmean(values),
        median=statistics.median(values),
        min=values[0],
        max=values[-1],
        p95=p95,
        std=std,
        uncertainty=uncertainty.of_mean(values, [s.uncertainty for s in samples]),
    )
