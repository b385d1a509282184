"""Rails that do not add up to their total."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.model import CellKind
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_ROUNDING_MW = 0.005  # of each printed rail
_SLACK_MW = 0.01
_APPROXIMATE = 0.1  # relative, where a rail is printed as about so much


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """The vendor sums unrounded powers, so each rail may add half a unit of its last digit."""
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


RULE = Rule(id="rail-total", title="The rails do not add up", severity=Severity.ERROR, check=check)
