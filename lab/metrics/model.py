"""The records of a number: metric, samples, uncertainty and provenance."""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen, validators

from lab.errors import TestStableError
from lab.metrics import uncertainty


class Flag(enum.StrEnum):
    """A disturbance or doubt of a number; it never changes the value."""

    MEDIUM_UNVERIFIED = "medium_unverified"  # fewer than two sources named the medium, or the root file system did not
    BOARD_UNVERIFIED = "board_unverified"  # nothing said which board it is
    MODE_UNVERIFIED = "mode_unverified"  # nothing names the low-power mode that was reached, and nothing another one
    OFF_UNVERIFIED = "off_unverified"  # the board was silent already before it was switched off, so nothing proved it
    ON_UNVERIFIED = (
        "on_unverified"  # neither rails nor other boots confirm when the power came, or they contradict the switch
    )
    CLOCK_DISAGREES = "clock_disagrees"  # the kernel's printk times and the host's stamps drift apart, or step; or bytes came too soon
    CONSOLE_OVERRUN = "console_overrun"  # the kernel's tty driver counted lost bytes, or the text shows that some are
    REMOTE_STAMP = (
        "remote_stamp"  # no console server stamped the bytes where they came: they came over a network first
    )
    PROMPT_REPEATED = "prompt_repeated"  # something else looked like the prompt, or came behind it
    FLOW_UNVERIFIED = (
        "flow_unverified"  # the boot has this flow's moments, but so would another one that lost characters
    )
    PROMPT_UNVERIFIED = "prompt_unverified"  # a carriage return there got no answer, and no other output came
    NOT_CROSS_CHECKED = "not_cross_checked"  # the board said nothing of its own boot or suspend, or was not asked
    KERNEL_ERRORS = (
        "kernel_errors"  # the log shows trouble that the boot or resume survived; the lines are in the attempt
    )
    UNCERTAIN = "uncertain"  # the ± is beyond half of the number; others of its kind are averaged without it
    POWER_GAP = "power_gap"  # samples of a rail are missing
    POWER_NACK = "power_nack"  # a sensor did not answer now and then
    POWER_STUCK = "power_stuck"  # a sensor repeats itself
    POWER_IMPLAUSIBLE = "power_implausible"  # a voltage or current that the rail cannot have
    POWER_FEW_SAMPLES = "power_few_samples"  # too short for the sensor's averaging
    SENSOR_RESET = "sensor_reset"  # a sensor lost its settings on the way
    GOVERNOR = "governor"  # the processor's clock was not fixed at its highest (cpufreq governor `performance`)
    CLOCK_DIFFERS = "clock_differs"  # the processor does not run at the clock of its board type
    SETUP_CHANGED = "setup_changed"  # another SD card, or another version of a tool, than in the board's run before
    NOT_MONOTONIC = "not_monotonic"  # packets were lost at a rate below one that lost none
    SHORTENED = "shortened"  # a program ran for a shorter time than its definition says (benchmarks: seconds)
    SIMULATED = "simulated"  # a virtual board; never compared with a real one


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


def finite(instance: object, attribute: object, value: float) -> None:
    """Refuse a number that is not finite (a validator of attrs).

    Raises:
        TestStableError: it is nan or infinite.
    """
    if not math.isfinite(value):
        name = getattr(attribute, "name", "value")
        raise TestStableError(f"{name} of a {type(instance).__name__} must be a finite number, got {value!r}")


@frozen
class SampleRecord:
    """One reading of a metric.

    Attributes:
        metric: its name in `lab.metrics.catalogue`.
        params: distinguish it from the metric's other numbers, e.g. {"medium": "sd"}.
        value: in the metric's unit.
        uncertainty: ±, in the metric's unit.
        flags: values of `lab.metrics.Flag`.
        log_start, log_end: the bytes that the value was read from: of the console's stream, and in the store of the attempt's log.
        declared: the metric itself where a lab declares it (`lab.metrics.declared`), and the catalogue has none; not read back.
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
    its = metric if declared else None
    return SampleRecord(metric.name, dict(params), value, bound, frozenset(flags), *window, declared=its)


@frozen
class Summary:
    """Statistics over samples, in the metric's unit.

    Attributes:
        std: sample standard deviation (n - 1); 0 with one sample.
        uncertainty: ± of the mean at 95 %: Student's t times the standard error, and the largest bound of a single
            reading, added in quadrature (docs/boot-time.md).
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


# --- Statistics ---


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
    std = statistics.stdev(values) if n > 1 else 0.0
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
        uncertainty=uncertainty.of_mean(values, max(s.uncertainty for s in samples)),
    )
