"""mpstat's average over all cores, from sysstat or BusyBox: columns are found by their names.

The vendor takes columns 6 and 11, which are %iowait and %idle in BusyBox only; with sysstat from 10.1.2 on column 11 is
%gnice, and the load comes out near 100 %.
"""

from __future__ import annotations

import math

from attrs import frozen

from lab.benchmarks.output import lines, missing, refused

ROUNDED = 1.0  # percent: some ten columns, each rounded, and the processor's times are not read all at once


@frozen
class CpuLoad:
    """A load over all cores, and the bytes of the line that it was read from."""

    percent: float
    start: int
    end: int


def parse(output: bytes) -> CpuLoad:
    """100 - %iowait - %idle of the line `Average: all`.

    Raises:
        TestTransientError: there is no such line, or no such columns, or they are not shares of one whole.
    """
    names: list[str] = []
    for line in lines(output):
        words = line.text.split()
        if "CPU" in words[:3] and "%idle" in words:
            names = words[words.index("CPU") :]
        if words[:2] == ["Average:", "all"] and len(words) - 1 == len(names):
            values = dict(zip(names[1:], words[2:], strict=True))
            try:
                whole = sum(map(float, values.values()))
                load = 100 - float(values["%iowait"]) - float(values["%idle"])
            except (KeyError, ValueError) as error:
                raise missing("mpstat", "the columns %iowait and %idle", line.text) from error
            if not math.isclose(whole, 100, abs_tol=ROUNDED):
                raise refused("mpstat", f"its columns add up to {whole:g} %, not to 100 ({line.text!r})")
            return CpuLoad(max(0.0, load), line.start, line.end)
    first = next((line.text for line in lines(output) if line.text.strip()), "")
    raise missing("mpstat", "a header with %idle and a line `Average: all`", first)
