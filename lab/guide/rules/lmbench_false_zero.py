"""latency_for_1.00_mb_block_size: a zero that was never measured."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.catalogue import CellReading
from lab.guide.rulebook import Effect, Remark, Rule, Severity
from lab.guide.sheet import Sheet

_ROUNDING = 0.011


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """A minimum of 0.00 in the alias of lat_mem_rd 1000k is a misread line of lat_mmap."""
    own = {r.board: r.number for r in sheet.of("lmbench.lat_mem_rd") if r.params["size"] == "1000k"}
    for reading in sheet.readings:
        value = reading.cell.value
        if not reading.is_alias or reading.params.get("size") != "1000k" or value.low != 0 or not value.high:
            continue
        yield _remark(reading, own.get(reading.board))


def _remark(reading: CellReading, own: float | None) -> Remark:
    value = reading.cell.value
    why = "the vendor's pattern also matches the lat_mmap line '1.000000 46', whose first digit it reads as the latency 0"
    if own is not None:
        return Remark(
            f"{why}; the row lat_mem_rd-stride128-sz1000k holds the value, {own:.2f}", reading, corrected=own
        )
    if value.number is not None and value.high is not None and abs(2 * value.number - value.high) <= _ROUNDING:
        return Remark(f"{why}; the value is the maximum, {value.high:.2f}", reading, corrected=value.high)
    return Remark(
        f"{why}; several runs are mixed and their number is not known, so the value cannot be recovered",
        reading,
        severity=Severity.SUSPECT,
    )


RULE = Rule(
    id="lmbench-false-zero",
    title="A zero that was never measured",
    severity=Severity.ERROR,
    check=check,
    effect=Effect.RECOVERED,
)
