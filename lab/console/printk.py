"""The kernel's own time stamps against the host's: a cross-check of both clocks.

`[   12.345678] text` carries the time at which the kernel logged the line (printk, CONFIG_PRINTK_TIME). The line leaves
the UART then or later, behind the output that was queued before it. So host stamps of first characters lie on or above
a straight line over the kernel's times, and the lower envelope is the truth. The line below all points that is
closest to them in sum is found on the lower convex hull (Moon, Skelly, Towsley: Estimation and Removal of Clock Skew
from Network Delay Measurements, INFOCOM 1999).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from attrs import frozen

from lab.console.model import NS_PER_S, Chunk, Event, Gap, LineTiming
from lab.console.moments import arrival_ns

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MIN_LINES = 20
MIN_SPAN_NS = NS_PER_S // 10  # over less, stamps that are sure to 0.2 ms say nothing about a rate
HEAD_BYTES = 32  # of a line are enough for its time
_STAMP = re.compile(rb"(?:<\d+>)?\[ *(\d{1,9})\.(\d{6})[\]@]")  # "@" begins CONFIG_PRINTK_CALLER's part in some trees


@frozen
class PrintkFit:
    """How the host's stamps and the kernel's times agree.

    Attributes:
        n: lines that were used.
        rate_ppm: by how much the kernel's clock runs slower than the host's, parts per million.
        offset_ns: the host's clock at the kernel's time 0.
        residual_median_ns, residual_p95_ns, residual_max_ns: how long lines waited before they left the UART; a stamp
            that is late, or a clock that drifts, adds to it.
    """

    n: int
    rate_ppm: float
    offset_ns: int
    residual_median_ns: float
    residual_p95_ns: float
    residual_max_ns: float
