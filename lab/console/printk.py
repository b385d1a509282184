"""The kernel's own time stamps against the host's: a cross-check of both clocks.

`[   12.345678] text` carries the time at which the kernel logged the line (printk, CONFIG_PRINTK_TIME). The line leaves
the UART then or later, behind the output that was queued before it. So host stamps of first characters lie on or above
a straight line over the kernel's times, and the lower envelope is the truth. Lines that waited long say nothing about
the clocks and are left out: the log from before the console was registered, and what queued behind a slow line. The
line below all others that is closest to them in sum is an edge of their lower convex hull (Moon, Skelly, Towsley:
Estimation and Removal of Clock Skew from Network Delay Measurements, INFOCOM 1999).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from lab.console.model import NS_PER_S, Event, LineTiming
from lab.console.text import StampedLine, stamped_lines

MIN_LINES = 20
MAX_WAIT_NS = 10_000_000  # some lines' length at 115200 Bd, and far more than two crystals drift in a boot
MIN_SPAN_NS = NS_PER_S // 10  # over less, stamps that are sure to 0.2 ms say nothing about a rate
_STAMP = re.compile(rb"\[ *(\d{1,9})\.(\d{6})\]")


@frozen
class PrintkFit:
    """How the host's stamps and the kernel's times agree.

    Attributes:
        n: lines that were used; of `lines` with a time of this boot.
        span_s: between the first and the last of them.
        rate_ppm: by how much an interval is longer on the host's clock than on the kernel's, parts per million.
        offset_ns: the host's clock at the kernel's time 0.
        residual_median_ns, residual_p95_ns, residual_max_ns: how long lines waited before they left the UART; a stamp
            that is late, or a clock that drifts, adds to it.
    """

    n: int
    lines: int
    span_s: float
    rate_ppm: float
    offset_ns: int
    residual_median_ns: float
    residual_p95_ns: float
    residual_max_ns: float


def fit_printk(events: Iterable[Event], timing: LineTiming) -> PrintkFit | None:
    """Fit the kernel's times to the host's stamps.

    Lines with the time 0 are left out: the kernel's clock did not run yet. So are lines whose time does not fit between
    their neighbours', such as garbled ones. Of several boots the one with the most lines is taken.

    Returns: None when fewer than 20 lines are left, or less than 0.1 s of them.
    """
    import numpy as np  # noqa: PLC0415  (numpy takes 0.1 s to import; only this needs it)

    points = np.array([stamp for stamp in _stamps(events, timing) if stamp[0] > 0], dtype=np.int64).reshape(-1, 2)
    if len(points) < MIN_LINES:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(points[:, 0], 2, mode="edge"), 5)
    points = points[np.median(windows, axis=1) == points[:, 0]]
    boots = np.split(points, np.flatnonzero(np.diff(points[:, 0]) < 0) + 1)
    points = max(boots, key=len)
    lines = len(points)
    waits = points[:, 1] - points[:, 0]
    points = points[waits - waits.min() <= MAX_WAIT_NS]
    if len(points) < MIN_LINES or np.ptp(points[:, 0]) < MIN_SPAN_NS:
        return None
    origin = points[0]
    kernel, host = (points - origin).astype(np.float64).T
    slope, intercept = _line_below(kernel.tolist(), host.tolist())
    residuals = host - (intercept + slope * kernel)
    median, p95 = np.percentile(residuals, [50, 95])
    return PrintkFit(
        n=len(points),
        lines=lines,
        span_s=float(kernel[-1]) / NS_PER_S,
        rate_ppm=(slope - 1) * 1e6,
        offset_ns=int(origin[1]) + round(intercept - slope * int(origin[0])),
        residual_median_ns=float(median),
        residual_p95_ns=float(p95),
        residual_max_ns=float(residuals.max()),
    )


def _stamps(events: Iterable[Event], timing: LineTiming) -> Iterator[tuple[int, int]]:
    """The kernel's time of each line that has one, and the host's time of its first character, in nanoseconds."""
    for line in stamped_lines(events, timing):
        if isinstance(line, StampedLine) and (match := _STAMP.match(line.data)):
            yield int(match[1]) * NS_PER_S + int(match[2]) * 1000, line.t_ns


def _line_below(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Slope and intercept of the line below all points with the least sum of distances; x ascends.

    It is the edge of the lower convex hull over the mean of x.
    """
    hull: list[tuple[float, float]] = []
    for point in zip(x, y, strict=True):
        while len(hull) > 1 and not _turns_up(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    mean = sum(x) / len(x)
    right = next(number for number, point in enumerate(hull) if point[0] >= mean)
    (x0, y0), (x1, y1) = hull[max(right, 1) - 1], hull[max(right, 1)]
    slope = (y1 - y0) / (x1 - x0)
    return slope, y0 - slope * x0


def _turns_up(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) > (b[1] - a[1]) * (c[0] - a[0])
