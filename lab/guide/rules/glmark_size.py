"""glmark2 at 1920x1080 that scores like the small window."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Effect, Remark, Rule, Severity
from lab.guide.sheet import Sheet

_SAME = 0.02


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """A screen of 1920x1080 has four times the pixels of the default window, so equal scores are of equal sizes."""
    for reading in sheet.readings:
        score = reading.number
        if score is None or "1920x1080" not in reading.cell.row or "glmark2" not in reading.cell.row.lower():
            continue
        small_row = reading.cell.row.replace("1920x1080", "").strip()
        small = [
            r.number
            for r in sheet.readings
            if r.cell.table == reading.cell.table and r.cell.row == small_row and r.number is not None
            if reading.board is None or r.board == reading.board
        ]
        same = next((other for other in small if abs(score / other - 1) <= _SAME), None) if all(small) else None
        if same is not None:
            yield Remark(
                f"scores {score:g} at 1920x1080 and {same:g} in the default window of a quarter of the pixels: it was not run at "
                "1920x1080",
                reading,
            )


RULE = Rule(
    id="glmark-size",
    title="Not run at that size",
    severity=Severity.ERROR,
    check=check,
    effect=Effect.INCOMPARABLE,
)
