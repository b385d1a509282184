"""Rules for CPU loads: out of range, constant, or never low."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.guide import boards
from lab.guide.catalogue import CellReading
from lab.guide.measurements import MeasuredGuide, group
from lab.guide.rulebook import Remark, Severity, rule

_JIFFIES = 1.0  # percent: ticks that fall into the neighbouring second
_FULL = 98.0


@rule("cpu-load-range", "A CPU load beyond 0 to 100 %", Severity.ERROR)
def cpu_load_range(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find loads that are no share of all cores.

    A load lies between 0 and 100 %. The vendor's test reads column 11 of mpstat as idle; since sysstat 10.1.2 that
    is %gnice.

    Finding: Below 0 or above 101 %. Three or more fio loads that are all at least 98 % are suspected to be of the
    wrong column.

    Limits: A processor that is full at every block size looks the same.
    """
    for reading in sheet.readings:
        load = reading.number
        if load is None or not reading.metric.endswith("cpu_load"):
            continue
        if load < 0 or load > 100 + _JIFFIES:
            yield Remark(f"a CPU load of {reading.cell.value.text} % is no share of all cores", reading)
    tables = group(sheet.of("storage.fio.cpu_load"), lambda r: r.cell.table)
    for readings in tables.values():
        if len(readings) > 2 and all((r.number or 0.0) >= _FULL for r in readings):
            yield Remark(
                "every CPU load of this table is about 100 %: the test reads column 11 of mpstat as idle, which "
                "since sysstat 10.1.2 is %gnice; right only if the CPU is really full at every block size",
                readings[0],
                also=readings[1:],
                severity=Severity.SUSPECT,
            )


_CORES = (2, 4, 8)  # of a device whose number is not known
_LEAST_ROWS = 10
_LEAST_TABLES = 2
_ABOVE = 3.0  # percent: what the lightest test adds


@rule("load-floor", "One core is always busy", Severity.NOTE)
def load_floor(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find boards where one core is always busy.

    A process that never sleeps takes one core, 25 % of four, and is in every load of the board.

    Finding: Ten or more loads from two tables, none below the share of one core, the smallest within 3 % above it. The
    share is that of the device's cores; of an unknown device a half, a quarter or an eighth. Comparisons hold such
    loads against no loads without the busy core.

    Limits: Tests that keep one core busy by themselves look the same.
    """
    for board, readings in _loads(sheet).items():
        if cores := _busy_of(board, readings):
            yield Remark(
                f"none of {len(readings)} CPU loads of {board or 'this guide'} is below {100 / cores:g} %, the share "
                f"of one of {cores} cores: one core seems to be busy with something else all the time, and every load "
                "has it in it",
                readings[0],
                also=readings[1:],
            )


def background_of(sheet: MeasuredGuide) -> dict[str | None, str]:
    """Background load of each board, in words; a board whose loads do not tell it is missing."""
    backgrounds: dict[str | None, str] = {}
    for board, readings in _loads(sheet).items():
        if cores := _busy_of(board, readings):
            backgrounds[board] = f"one of {cores} cores busy with something else"
        elif _lowest(readings) < 100 / (boards.cores_of(board) or max(_CORES)):
            backgrounds[board] = "no core busy with something else"
    return backgrounds


def is_of_all_cores(metric: str) -> bool:
    """Return whether a metric is a load over all cores, which a busy core is in."""
    return metric.endswith("cpu_load") and not metric.startswith(("openssl.", "crypto."))


def _loads(sheet: MeasuredGuide) -> dict[str | None, tuple[CellReading, ...]]:
    return group(sheet.of(*filter(is_of_all_cores, sheet.by_metric)), lambda r: r.board)


def _busy_of(board: str | None, readings: Sequence[CellReading]) -> int | None:
    """Number of cores of which one is always busy; None: no core is."""
    if len(readings) < _LEAST_ROWS or len({r.cell.table for r in readings}) < _LEAST_TABLES:
        return None
    own = boards.cores_of(board)
    numbers = _CORES if own is None else (own,)
    return next((n for n in numbers if n > 1 and 100 / n <= _lowest(readings) <= 100 / n + _ABOVE), None)


def _lowest(readings: Sequence[CellReading]) -> float:
    return min(r.number or 0.0 for r in readings)
