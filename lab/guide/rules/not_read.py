"""Parts of the file that were left out."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide import causes
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """Whatever else is found, is found in the rest only."""
    for cause in causes.of(sheet.guide.unread):
        yield Remark(f"not read: {cause.text}", line=cause.lines[0])


RULE = Rule(id="not-read", title="A part that was not read", severity=Severity.WARNING, check=check)
