"""A number far from the older release, while its neighbours moved little."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from lab.guide import conditions
from lab.guide.boards import product_of
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_FAR = 2.0  # times, beyond how far the metric usually moved
_NOT_COMPARED = ("ethernet.udp.", "ipsec.", "power.", "cpu.", "lmbench.lat_mem_rd", "lmbench.bw_mem", "whetstone.")
_ENDS_NOT_COMPARED = ("cpu_load",)


def check(sheet: Sheet, older: Sheet | None) -> Iterator[Remark]:
    """Only with an older guide, and only what has no explanation of its own.

    A change that the other boards made too is the release's, not a fault of one run; another SD card is a condition; the
    definition of UDP and the steps of sensors are left to their rules. Where no other board has the row, nothing tells a fault
    of one run from a change of the software, and the number is noted.
    """
    if older is None:
        return
    before = {(r.board, r.key): r.number for r in older.of(*older.by_metric) if r.number and r.number > 0}
    known = conditions.of_sheet(older), conditions.of_sheet(sheet)
    for metric, readings in group(sheet.of(*sheet.by_metric), lambda r: r.metric).items():
        if metric.startswith(_NOT_COMPARED) or metric.endswith(_ENDS_NOT_COMPARED):
            continue
        moves = [
            (reading, math.log(reading.number / old))
            for reading in readings
            if (old := before.get((reading.board, reading.key))) and reading.number and reading.number > 0
            if reading.cell.metric is not None and not conditions.medium_differs(reading, *known)
        ]
        for reading, move in moves:
            usual = statistics.median(m for r, m in moves)
            others = [
                m
                for r, m in moves
                if r.key == reading.key
                and r.board != reading.board
                and product_of(r.board) == product_of(reading.board)
            ]
            expected = statistics.median(others) if others else usual
            if min(abs(move), abs(move - expected), abs(move - usual)) >= math.log(_FAR):
                yield Remark(
                    f"is {math.exp(move):.2f} times the older guide's {before[reading.board, reading.key]:g}, while "
                    + (f"the other boards moved {math.exp(expected):.2f} times and " if others else "")
                    + f"{metric} {math.exp(usual):.2f} times in the median; measure again, or say why it moved",
                    reading,
                    severity=Severity.SUSPECT if others else Severity.NOTE,
                )


RULE = Rule(id="outlier-older", title="Far from the older release", severity=Severity.NOTE, check=check)
