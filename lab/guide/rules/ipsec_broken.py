"""IPSec runs whose tunnel did not carry the traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.guide.catalogue import CellReading
from lab.guide.model import CellKind
from lab.guide.rulebook import Effect, Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

DEAD_MBIT_S = 5.0
_SPREAD = 10.0  # largest run over smallest, in one cell


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """A tunnel that works carries tens of Mbit/s on the slowest board; a few Mbit/s are a tunnel that kept breaking."""
    rows = group(sheet.of("ipsec."), lambda r: (r.cell.table, r.cell.row, r.board))
    best: dict[str | None, float] = {}
    for reading in sheet.of("ipsec.throughput"):
        best[reading.board] = max(best.get(reading.board, 0.0), reading.number or 0.0)
    for readings in rows.values():
        throughput = next((r for r in readings if r.metric == "ipsec.throughput"), None)
        if throughput is not None:
            yield from _row(throughput, readings, best[throughput.board])


def _row(throughput: CellReading, readings: Sequence[CellReading], best: float) -> Iterator[Remark]:
    value = throughput.cell.value
    also = tuple(r for r in readings if r is not throughput)
    if value.number is not None and value.number <= DEAD_MBIT_S:
        load = next((r.number for r in readings if r.metric == "ipsec.cpu_load"), None)
        evidence = [f"with {load:.0f} % CPU load" if load is not None else ""]
        evidence.append(f"while another algorithm of this board reaches {best:.0f}" if best > DEAD_MBIT_S else "")
        yield Remark(
            f"{value.text} Mbit/s {', '.join(e for e in evidence if e)}: the tunnel did not carry the traffic, this is no result",
            throughput,
            also=also,
        )
    elif value.kind is CellKind.RANGE and value.low is not None and value.high and value.high > _SPREAD * value.low:
        yield Remark(
            f"averages runs from {value.low:g} to {value.high:g} Mbit/s: some of them had a broken tunnel, and the average "
            "means nothing",
            throughput,
            also=also,
        )


RULE = Rule(
    id="ipsec-broken",
    title="The tunnel did not carry the traffic",
    severity=Severity.ERROR,
    check=check,
    effect=Effect.BROKEN,
)
