"""The kernel's time stamps against the host's: cross-check of both clocks.

`[   12.345678] text` carries the time at which the kernel logged the line (printk, CONFIG_PRINTK_TIME). The line
leaves the UART then or later, behind the output that was queued before it. So host stamps of first characters lie on
or above a straight line over the kernel's times, and the lower envelope is the truth. Lines that waited long say
nothing about the clocks and are left out: the log from before the console was registered, and what queued behind a
slow line. The line below all others that is closest to them in sum is an edge of their lower convex hull (Moon,
Skelly, Towsley: Estimation and Removal of Clock Skew from Network Delay Measurements, INFOCOM 1999).

That line says nothing about a step, since what lies off it is left out. A step is looked for by itself (`clock_step`):
a line that the kernel logged while the console was idle left at once, so its two times are as far apart as the clocks
are. Two such lines have to say the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field, frozen

from lab.console.model import LATE_WINDOW_NS, Event, Lateness, LineTiming
from lab.console.moments import StampedLine, stamp_lines
from lab.host.clock import NS_PER_S

MIN_LINES = 20
MAX_WAIT_NS = 10_000_000  # some lines' length at 115200 Bd, and far more than two crystals drift in a boot
MIN_SPAN_NS = NS_PER_S // 10  # over less, stamps that are sure to 0.2 ms say nothing about a rate
IDLE_NS = 3_000_000  # of the console before a line that left at once, beyond the evidence of late stamps
STEP_NS = 50_000_000  # such a line may still wait for the lock of the consoles, or for the thread that prints
LATE_STEP_NS = 250_000_000  # upwards a long wait looks the same: only what stays up for several lines counts
STAYS_LINES = 5
AGREE_NS = 3_000_000  # lines that left at once are as far from the kernel's times as that, one as the other
AGREE_APART_NS = 100_000_000
DRIFT_LIMIT = 500e-6  # two crystals differ by at most 200 ppm; the rest is the fit over some seconds of boot
ENDS_AT = (0.1, 0.9)  # of the span: its first and last line may have waited
# Console log levels, a caller (CONFIG_PRINTK_CALLER), and the time of day that a logger puts in front of each line may
# stand around it. What else stands before it was printed earlier, and its time is not the line's; of a line that was
# lost a bracket may be left.
_STAMP = re.compile(rb"[\r \[]{0,8}(?:[^\[\n]{0,40}\d\d:\d\d[^\[\n]{0,60})?(?:<\d>)?\[ *(\d{1,9})\.(\d{6})(?:@\d+)?\]")


@frozen
class PrintkFit:
    """The fit between the host's stamps and the kernel's times.

    Attributes:
        n: lines that were used; of `lines` with a time of this boot.
        span_s: between the first and the last of them.
        rate_ppm: by how much an interval is longer on the host's clock than on the kernel's, parts per million.
        offset_ns: the host's clock at the kernel's time 0.
        residual_median_ns, residual_p95_ns, residual_max_ns: how long lines waited before they left the UART; a stamp
            that is late, or a clock that drifts, adds to it.
        drift_ns: by how much the lines that left at once are off any line of a rate within `DRIFT_LIMIT`.
        late_ns: how late one of the stamps may be: the reading process' usual lateness, and the evidence of more.
    """

    n: int
    lines: int
    span_s: float
    rate_ppm: float
    offset_ns: int
    residual_median_ns: float
    residual_p95_ns: float
    residual_max_ns: float
    drift_ns: float = 0.0
    late_ns: int = 0

    @property
    def drifts(self) -> bool:
        """True if the clocks' rates differ by more than `DRIFT_LIMIT`, whatever late stamps do to them."""
        return self.drift_ns > self.late_ns


def fit_printk(events: Iterable[Event], timing: LineTiming) -> PrintkFit | None:
    """Fit the kernel's times to the host's stamps.

    Lines with the time 0 are left out: the kernel's clock did not run yet. So are lines whose time does not fit
    between their neighbours', such as garbled ones. Of several boots the one with the most lines is taken.

    Returns: None when fewer than 20 lines are left, or less than 0.1 s of them.
    """
    import numpy as np  # noqa: PLC0415  (numpy takes 0.1 s to import; only this needs it)

    late = _Evidence()
    lines = (line for line in stamp_lines(late.watch(events), timing) if isinstance(line, StampedLine))
    stamps = [(_kernel_ns(match), line.t_ns) for line in lines if (match := _STAMP.match(line.data))]
    points = np.array([stamp for stamp in stamps if stamp[0] > 0], dtype=np.int64).reshape(-1, 2)
    if len(points) < MIN_LINES:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(points[:, 0], 2, mode="edge"), 5)
    points = points[np.median(windows, axis=1) == points[:, 0]]
    boots = np.split(points, np.flatnonzero(np.diff(points[:, 0]) < 0) + 1)
    points = max(boots, key=len)
    boot_lines = len(points)
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
        lines=boot_lines,
        span_s=float(kernel[-1]) / NS_PER_S,
        rate_ppm=(slope - 1) * 1e6,
        offset_ns=int(origin[1]) + round(intercept - slope * int(origin[0])),
        residual_median_ns=float(median),
        residual_p95_ns=float(p95),
        residual_max_ns=float(residuals.max()),
        drift_ns=_drift(kernel.tolist(), host.tolist(), slope),
        late_ns=timing.hold_ns + timing.scheduling_ns + max(late.near(t_ns) for t_ns in points[:, 1].tolist()),
    )


def clock_step(events: Iterable[Event], timing: LineTiming) -> int:
    """Largest step between both clocks that no waiting line explains (ns).

    Negative: time is missing in the host's stamps (it was suspended, or its virtual machine paused), or bytes and the
    time that they took are missing. Positive: the kernel's clock stood still, or the host's jumped ahead. 0: none was
    seen; with few kernel lines, as with `quiet`, none can be.
    """
    lines = _in_order(list(_kernel_lines(events, timing)))
    worst = 0
    reference: tuple[int, int] | None = None  # kernel's time, and the least distance that two lines agree on
    at_once: list[_KernelLine] = []
    for number, line in enumerate(lines):
        distance = line.host_ns - line.kernel_ns
        if reference is not None:
            drift = round(DRIFT_LIMIT * abs(line.kernel_ns - reference[0]))
            step = distance - reference[1]
            if step < -STEP_NS - drift:
                worst = max(worst, step, key=abs)
            elif line.left_at_once and step > LATE_STEP_NS + drift + line.late_ns:
                later = [other.host_ns - other.kernel_ns for other in lines[number:]]
                stays = min(later) - reference[1]
                if len(later) >= STAYS_LINES and stays > LATE_STEP_NS + drift:
                    worst = max(worst, stays, key=abs)
        if line.left_at_once:
            # One that only seems so, since the line or its adapter paused within a queue, stands alone.
            agreed = any(_agree(line, other) for other in at_once)
            at_once.append(line)
            if agreed and (reference is None or distance < reference[1]):
                reference = line.kernel_ns, distance
    return worst


def _agree(line: _KernelLine, other: _KernelLine) -> bool:
    """True if two prompt lines give the same step at different times."""
    apart_ns = abs(line.kernel_ns - other.kernel_ns)
    differ_ns = abs((line.host_ns - line.kernel_ns) - (other.host_ns - other.kernel_ns))
    return apart_ns >= AGREE_APART_NS and differ_ns <= AGREE_NS + round(DRIFT_LIMIT * apart_ns)


def _in_order(lines: Sequence[_KernelLine]) -> list[_KernelLine]:
    """Return the lines whose times fit between their neighbours'."""
    ordered = []
    for number, line in enumerate(lines):
        around = [neighbour.kernel_ns for neighbour in lines[max(0, number - 2) : number + 3]]
        if min(around[:1] + around[1:2]) <= line.kernel_ns <= max(around[-2:]):
            ordered.append(line)
    return ordered


@frozen
class _KernelLine:
    """A kernel line: its time, the host's stamp, idle console before it."""

    kernel_ns: int
    host_ns: int
    left_at_once: bool
    late_ns: int


def _kernel_lines(events: Iterable[Event], timing: LineTiming) -> Iterator[_KernelLine]:
    """Return a boot's kernel lines without those of time 0."""
    before: StampedLine | None = None
    kernel: tuple[int, int] | None = None  # the times of the kernel's line before
    late = _Evidence()
    for line in stamp_lines(late.watch(events), timing):
        if not isinstance(line, StampedLine):
            before = None
            continue
        match = _STAMP.match(line.data)
        if match and (kernel_ns := _kernel_ns(match)) > 0:
            late_ns = late.near(line.t_ns)
            idle = before is not None and line.t_ns - before.t_ns > (
                timing.bytes_ns(len(before.data)) + timing.hold_ns + IDLE_NS + late_ns
            )
            # Behind a pause the kernel's own clock has gone on as well; else the line comes from its log of before.
            paused = kernel is not None and abs((kernel_ns - kernel[0]) - (line.t_ns - kernel[1])) < STEP_NS // 2
            yield _KernelLine(kernel_ns, line.t_ns, idle and paused and late_ns < STEP_NS // 2, late_ns)
            kernel = kernel_ns, line.t_ns
        before = line


@define
class _Evidence:
    """The evidence of late stamps, as it passes by."""

    _lateness: list[Lateness] = field(factory=list)

    def watch(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Lateness):
                self._lateness.append(event)
            yield event

    def near(self, t_ns: int) -> int:
        return max(
            (e.lateness_ns for e in self._lateness if abs(t_ns - e.t_ns) <= LATE_WINDOW_NS + e.lateness_ns), default=0
        )


def _kernel_ns(stamp: re.Match[bytes]) -> int:
    return int(stamp[1]) * NS_PER_S + int(stamp[2]) * 1000


def _line_below(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Return slope and intercept of the lower envelope line; x ascends.

    Of all lines below all points it has the least sum of distances.

    It is the edge of the lower convex hull over the mean of x.
    """
    hull = _hull(zip(x, y, strict=True))
    mean = sum(x) / len(x)
    right = next(number for number, point in enumerate(hull) if point[0] >= mean)
    (x0, y0), (x1, y1) = hull[max(right, 1) - 1], hull[max(right, 1)]
    slope = (y1 - y0) / (x1 - x0)
    return slope, y0 - slope * x0


def _hull(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the lower convex hull of points whose x ascends."""
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) > 1:
            (x0, y0), (x1, y1), (x2, y2) = hull[-2], hull[-1], point
            if (x1 - x0) * (y2 - y1) > (y1 - y0) * (x2 - x1):  # it turns up
                break
            hull.pop()
        hull.append(point)
    return hull


def _drift(x: Sequence[float], y: Sequence[float], slope: float) -> float:
    """Return how far the lower envelope is off a line of the nearest allowed slope, near both ends."""
    import numpy as np  # noqa: PLC0415 - see fit_printk

    allowed = min(max(slope, 1 - DRIFT_LIMIT), 1 + DRIFT_LIMIT)
    hull = _hull((at, value - allowed * at) for at, value in zip(x, y, strict=True))
    at, off = zip(*hull, strict=True)
    near_ends = np.interp([x[0] + share * (x[-1] - x[0]) for share in ENDS_AT], at, off)
    return float(near_ends.max() - min(off))
