"""Statistics over samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from lab.errors import TestStableError
from lab.metrics import uncertainty
from lab.metrics.model import Flag, Sample, Summary


def summarise(samples: Sequence[Sample]) -> Summary:
    """Summary of at least one sample. Those that are flagged `uncertain` are left out while there are others.

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
