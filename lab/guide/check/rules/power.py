"""Rails that do not add up to their total."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.measurements import MeasuredGuide, group
from lab.guide.model import CellKind
from lab.guide.rulebook import Effect, Remark, Severity, rule

_ROUNDING_MW = 0.005  # of each printed rail
_SLACK_MW = 0.01
_APPROXIMATE = 0.1  # relative, where a rail is printed as about so much


@rule("rail-total", "The rails do not add up", Severity.ERROR)
def rail_total(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find totals that differ from the sum of their rails.

    The total is the sum of the unrounded powers of the rails.

    Finding: A total more than n × 0.005 + 0.01 mW from the sum of n rails, corrected to the sum. It is suspect
    where a rail has no number and the total is larger.

    Limits: A total may include rails that the table does not list.
    """
    rails = group(sheet.of("power.rail"), lambda r: (r.cell.table, r.cell.column))
    for total in sheet.of("power.total"):
        parts = rails.get((total.cell.table, total.cell.column), ())
        if not parts or total.number is None:
            continue
        added = sum(r.number or 0.0 for r in parts)
        about = sum((r.number or 0.0) * _APPROXIMATE for r in parts if r.cell.kind is CellKind.APPROXIMATE)
        if abs(added - total.number) <= len(parts) * _ROUNDING_MW + _SLACK_MW + about:
            continue
        cells = [c for c in sheet.guide.tables[total.cell.table].cells if c.column == total.cell.column]
        lost = [c.row for c in cells if c.number is None]
        unsure = bool(lost) and total.number > added
        yield Remark(
            f"the {len(parts)} rails above add up to {added:.2f} mW, not {total.number:.2f}"
            + (f"; {', '.join(lost)} has no number and may be the difference" if unsure else ""),
            total,
            corrected=round(added, 2),
            severity=Severity.SUSPECT if unsure else None,
        )


_DDR4_V = 1.2
_LPDDR4_V = 1.1


@rule("ddr-voltage", "The voltage of another memory", Severity.SUSPECT, Effect.HARMLESS)
def ddr_voltage(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find rails with the voltage of another memory.

    The voltage column is typed by hand. DDR4 has 1.2 V, LPDDR4 1.1 V.

    Finding: A rail that is DDR4 by its name and has LPDDR4's voltage. The power does not depend on the column.
    """
    for reading in sheet.of("power.rail"):
        rail = reading.params.get("rail", "")
        printed = next((text for name, text in reading.cell.params.items() if "voltage" in name.lower()), "")
        if "ddr4" in rail and "lpddr4" not in rail and printed == f"{_LPDDR4_V:.2f}":
            yield Remark(
                f"rail {rail} is DDR4, whose nominal voltage is {_DDR4_V:.2f} V; {printed} V is LPDDR4's, copied "
                "from another board; the power is not derived from this column, so it is not affected",
                reading,
            )
