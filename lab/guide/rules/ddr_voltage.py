"""A DDR4 rail with the nominal voltage of LPDDR4."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Effect, Remark, Rule, Severity
from lab.guide.sheet import Sheet

_DDR4_V = 1.2
_LPDDR4_V = 1.1


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """The voltage column is nominal; DDR4 has 1.2 V, LPDDR4 1.1 V."""
    for reading in sheet.of("power.rail"):
        rail = reading.params.get("rail", "")
        printed = next((text for name, text in reading.cell.params.items() if "voltage" in name.lower()), "")
        if "ddr4" in rail and "lpddr4" not in rail and printed == f"{_LPDDR4_V:.2f}":
            yield Remark(
                f"rail {rail} is DDR4, whose nominal voltage is {_DDR4_V:.2f} V; {printed} V is LPDDR4's, copied from another "
                "board; the power is not derived from this column, so it is not affected",
                reading,
            )


RULE = Rule(
    id="ddr-voltage",
    title="The voltage of another memory",
    severity=Severity.SUSPECT,
    check=check,
    effect=Effect.HARMLESS,
)
