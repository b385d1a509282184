"""A number far from the older release, while its neighbours moved little."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_FAR = 2.0  # times, beyond how far the metric usually moved
_NOT_COMPARED = ("ethernet.udp.", "ipsec.", "power.", "cpu.", "lmbench.lat_mem_rd", "lmbench.bw_mem", "whetstone.")
_ENDS_NOT_COMPARED = ("cpu_load",)


def check(sheet: Sheet, older: Sheet | None) -> Iterator[Remark]:
    """Only with an older guide. What has an explanation of its own (UDP definition, sensor steps) is left to its rule."""
    if older is None:
        return
    before = {(r.board, r.key): r.number for r in older.of(*older.by_metric) if r.number}
    for metric, readings in group(sheet.of(*sheet.by_metric), lambda r: r.metric).items():
        if metric.startswith(_NOT_COMPARED) or metric.endswith(_ENDS_NOT_COMPARED):
            continue
        moves = [
            (reading, math.log(reading.number / old))
            for reading in readings
            if (old := before.get((reading.board, reading.key))) and reading.number and old > 0 and reading.number > 0
        ]
        usual = statistics.median(move for _, move in moves) if moves else 0.0
        for reading, move in moves:
            if abs(move - usual) >= math.log(_FAR) and abs(move) >= math.log(_FAR):
                yield Remark(
                    f"is {math.exp(move):.2f} times the older guide's {before[reading.board, reading.key]:g}, while "
                    f"{metric} moved {math.exp(usual):.2f} times in the median; measure again, or say why it moved",
                    reading,
                )


RULE = Rule(id="outlier-older", title="Far from the older release", severity=Severity.SUSPECT, check=check)
