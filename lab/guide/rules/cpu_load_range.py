"""CPU loads below 0 or above 100 percent, and the column that is always 100."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_JIFFIES = 1.0  # percent: ticks that fall into the neighbouring second
_FULL = 98.0


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """A share of all cores lies between 0 and 100."""
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
                "every CPU load of this table is about 100 %: the test reads column 11 of mpstat as idle, which since sysstat "
                "10.1.2 is %gnice; right only if the CPU is really full at every block size",
                readings[0],
                also=readings[1:],
                severity=Severity.SUSPECT,
            )


RULE = Rule(id="cpu-load-range", title="No share of all cores", severity=Severity.ERROR, check=check)
