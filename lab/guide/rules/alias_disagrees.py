"""Two rows print the same sample under two names, and differ."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """Both rows come from one line of output, so they are equal to the last digit."""
    first = {(r.board, r.key): r for r in sheet.of("lmbench.")}
    for alias in sheet.readings:
        other = first.get((alias.board, alias.key)) if alias.is_alias else None
        if other is None or alias.number is None or other.number is None or alias.cell.value.low == 0:
            continue  # a minimum of zero is lmbench-false-zero's
        if alias.number != other.number:
            yield Remark(
                f"prints {alias.cell.value.text}, but {other.cell.row!r} in line {other.cell.line} prints "
                f"{other.cell.value.text}; both are the same sample, so one of them was edited or misread",
                alias,
            )


RULE = Rule(id="alias-disagrees", title="Two names of one sample disagree", severity=Severity.ERROR, check=check)
