"""One board far from the others of the same guide."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence

from lab.guide.boards import product_of
from lab.guide.catalogue import CellReading
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_FAR = 3.0  # times, beyond the board's usual distance
_VERY_FAR = 5.0  # times: beyond what another memory chip or another flash explains
_PERHAPS = (
    "; a fault of this run or a property of the board (another memory, another flash), which one guide cannot tell"
)
_ROWS_THAT_SHOW_A_HABIT = 4
_NOT_COMPARED = ("ethernet.udp.", "ipsec.", "power.", "cpu.", "lmbench.lat_ctx", "lmbench.lat_mem_rd")
_ENDS_NOT_COMPARED = ("cpu_load",)


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """Compare each number with the median of the product's other boards, less the board's usual distance in that metric.

    UDP and IPSec have rules of their own; the cache edges of lat_mem_rd and the loads of idle CPUs scatter by design.
    """
    for metric in sheet.by_metric:
        if metric.startswith(_NOT_COMPARED) or metric.endswith(_ENDS_NOT_COMPARED):
            continue
        by_key = group(
            (r for r in sheet.of(metric) if r.board and (r.number or 0) > 0), lambda r: (product_of(r.board), r.key)
        )
        distances = {key: _distances(readings) for key, readings in by_key.items()}
        for key, readings in by_key.items():
            for reading in readings:
                yield from _judge(reading, distances[key], distances.values())


def _distances(readings: Sequence[CellReading]) -> dict[str, float]:
    """Board -> log of its number over the median of the other boards."""
    found = {}
    for reading in readings:
        others = [r.number for r in readings if r.board != reading.board and r.number]
        if others and reading.number and reading.board:
            found[reading.board] = math.log(reading.number / statistics.median(others))
    return found


def _judge(
    reading: CellReading, here: Mapping[str, float], everywhere: Collection[Mapping[str, float]]
) -> Iterator[Remark]:
    board = reading.board or ""
    if board not in here:
        return
    usual = [row[board] for row in everywhere if board in row]
    habit = statistics.median(usual) if len(usual) >= _ROWS_THAT_SHOW_A_HABIT else 0.0
    excess = here[board] - habit
    has_habit = len(usual) >= _ROWS_THAT_SHOW_A_HABIT
    if abs(excess) < math.log(_FAR):
        return
    if len(here) == 2 and not (has_habit and _is_worse(reading, here[board])):
        return  # of two boards either may be the odd one, or they differ (NOR and NAND flash); the worse is named
    if len(here) > 2 and abs(here[board]) < max(map(abs, here.values())):
        return  # another board is the odd one
    is_alone = has_habit and abs(excess) >= math.log(_VERY_FAR) and abs(habit) < math.log(_FAR) / 2
    yield Remark(
        f"is {_times(here[board])} the median of the other boards"
        + (f", and usually {_times(habit)}" if has_habit else "")
        + ("; the board's other rows are not, so a fault of this run is likely" if is_alone else _PERHAPS),
        reading,
        severity=Severity.SUSPECT if is_alone else Severity.NOTE,
    )


def _is_worse(reading: CellReading, distance: float) -> bool:
    higher_is_better = reading.quantity is not None and reading.quantity.metric.better == "higher"
    return (distance < 0) == higher_is_better


def _times(log: float) -> str:
    return f"{math.exp(log):.2f} times"


RULE = Rule(id="outlier-boards", title="One board far from the others", severity=Severity.NOTE, check=check)
