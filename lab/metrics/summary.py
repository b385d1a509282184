"""Statistics over samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from lab.errors import TestStableError
from lab.metrics.model import Sample, Summary


def summarise(samples: Sequence[Sample]) -> Summary:
    """Summary of at least one sample.

    The 95th percentile is interpolated between order statistics (type 7 of Hyndman & Fan 1996, numpy's default).

    Raises:
        TestStableError: no samples.
    """
    if not samples:
        raise TestStableError("no samples to summarise: every cycle failed or none was run")
    values = sorted(s.value for s in samples)
    n = len(values)
    std = statistics.stdev(values) if n > 1 else 0.0
    statistical = _student_t95(n - 1) * std / math.sqrt(n) if n > 1 else 0.0
    bound = max(s.uncertainty for s in samples)
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
        uncertainty=math.hypot(statistical, bound),
    )


def _student_t95(degrees: int) -> float:
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import, and only runs with samples need it

    return float(stdtrit(degrees, 0.975))
