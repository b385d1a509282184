"""Statistics over samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from lab.errors import TestStableError
from lab.metrics.model import Flag, Sample, Summary

_NORMAL: Final = statistics.NormalDist().inv_cdf(0.975)
# For 1 to 30 degrees of freedom; any table of Student's t has them to fewer places.
_T95: Final = (
    *(12.7062047, 4.3026527, 3.1824463, 2.7764451, 2.5705818, 2.4469119, 2.3646243, 2.3060041, 2.2621572, 2.2281389),
    *(2.2009852, 2.1788128, 2.1603687, 2.1447867, 2.1314495, 2.1199053, 2.1098156, 2.1009220, 2.0930241, 2.0859634),
    *(2.0796138, 2.0738731, 2.0686576, 2.0638986, 2.0595386, 2.0555294, 2.0518305, 2.0484071, 2.0452296, 2.0422725),
)


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
    statistical = student_t95(n - 1) * std / math.sqrt(n) if n > 1 else 0.0
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


def student_t95(degrees: int) -> float:
    """The 0.975 quantile of Student's t: of the table, and above it by Abramowitz & Stegun 26.7.5 (relative error < 1e-6).

    A test compares it with scipy's, which is not used here: it takes seconds to import, and 30 MB of a long-running program.
    """
    if degrees <= len(_T95):
        return _T95[degrees - 1]
    z = _NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3
