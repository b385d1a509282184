"""TCP that moves nothing."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Effect, Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_DEAD_MBIT_S = 5.0  # no board of the family, however slow, is within two orders of magnitude


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """A gigabit port with a few Mbit/s had no connection for most of the minute."""
    rows = group(sheet.of("ethernet.tcp."), lambda r: (r.cell.table, r.cell.row, r.board))
    for readings in rows.values():
        for reading in readings:
            if reading.metric == "ethernet.tcp.throughput" and (reading.number or 0.0) < _DEAD_MBIT_S:
                yield Remark(
                    f"{reading.cell.value.text} Mbit/s over a gigabit port: the connection stood still, this is no result",
                    reading,
                    also=tuple(r for r in readings if r is not reading),
                )


RULE = Rule(id="tcp-dead", title="TCP that moves nothing", severity=Severity.ERROR, check=check, effect=Effect.BROKEN)
