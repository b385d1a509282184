"""Uncertainty of numbers in the terms of the GUM.

JCGM 100:2008, Guide to the expression of uncertainty in measurement.

A ± in boardlab is an *expanded uncertainty* that is to cover the true value with 95 % (GUM 2.3.5, 6.2). Its
components are

- *type A* (GUM 4.2): the spread of repeated readings. The standard uncertainty of their mean is the sample standard
  deviation by the root of their number; Student's t is the coverage factor for so few of them (GUM G.3).
- *type B* (GUM 4.3): bounds known without repeating: a stamp's lateness, the step of a register, a resistor's
  tolerance. These are stated as bounds already, so nothing is multiplied to them.

Independent components are added in quadrature (GUM 5.1.2).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Final

NORMAL_95: Final = statistics.NormalDist().inv_cdf(0.975)  # coverage factor for many readings: 1.96
UNCERTAIN_SHARE: Final = 0.5  # ± of a number that is no boot time, as a share of it, beyond which it is `uncertain`
SIGMA_OF_MAD: Final = 1.4826  # a normal distribution's standard deviation over its median absolute deviation
# Student's t for 1 to 30 degrees of freedom; any table of it has them to fewer places.
_T95: Final = (
    *(12.7062047, 4.3026527, 3.1824463, 2.7764451, 2.5705818, 2.4469119, 2.3646243, 2.3060041, 2.2621572, 2.2281389),
    *(2.2009852, 2.1788128, 2.1603687, 2.1447867, 2.1314495, 2.1199053, 2.1098156, 2.1009220, 2.0930241, 2.0859634),
    *(2.0796138, 2.0738731, 2.0686576, 2.0638986, 2.0595386, 2.0555294, 2.0518305, 2.0484071, 2.0452296, 2.0422725),
)


def of_interval(first: float, last: float) -> float:
    """± of the time between two stamps, in their ± unit.

    Each stamp is late by 0 to its own bound and never early, so their difference is wrong by at most the larger one,
    either way.
    """
    return max(first, last)


def of_step(step: float) -> float:
    """± of a reading rounded to `step`: half of it."""
    return step / 2


def of_mean(values: Sequence[float], bounds: Sequence[float]) -> float:
    """± of the mean of at least one reading.

    Args:
        bounds: the type B ± of each reading. The errors may all have one sign, so they do not average out: the mean is
            wrong by at most the mean of them.
    """
    count = len(values)
    spread = of_deviation(deviation(values), count) if count > 1 else 0.0
    return combine((spread, statistics.fmean(bounds)))


def wilson(count: int, of: int) -> tuple[float, float]:
    """Bounds of a share (0 to 1) at 95 %: Wilson's interval.

    E. B. Wilson, Journal of the American Statistical Association 22, 1927. It holds for none and for all, too.
    """
    share, z2 = count / of, NORMAL_95**2
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    reach = NORMAL_95 / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of**2))
    return (max(0.0, middle - reach) if count else 0.0, min(1.0, middle + reach) if count < of else 1.0)


def combine(components: Iterable[float]) -> float:
    """± of independent components together."""
    return math.hypot(*components)


def deviation(values: Sequence[float]) -> float:
    """Sample standard deviation of two or more values, in two passes.

    `statistics.stdev` computes in fractions, which takes 16 times as long (`python -m timeit`, 20 values); the
    difference is in the last digits of a float.
    """
    mean = statistics.fmean(values)
    return math.sqrt(math.fsum((value - mean) * (value - mean) for value in values) / (len(values) - 1))


def of_deviation(deviation: float, count: int) -> float:
    """± of a mean by sample standard deviation; 0 for one."""
    return student_t95(count - 1) * deviation / math.sqrt(count) if count > 1 else 0.0


def student_t95(degrees: int) -> float:
    """The 0.975 quantile of Student's t.

    From the table, and above it by Abramowitz & Stegun 26.7.5 (relative error < 1e-6).

    A test compares it with scipy's, which is not used here: it takes seconds to import, and 30 MB of a long-running
    program.
    """
    if degrees <= len(_T95):
        return _T95[degrees - 1]
    z = NORMAL_95
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3
