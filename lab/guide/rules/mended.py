"""Malformed tables that were read all the same."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide import causes
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """docutils and Sphinx drop such a table, or show it otherwise than it was meant."""
    for cause in causes.of(sheet.guide.repairs):
        yield Remark(f"mended: {cause.text}", line=cause.lines[0])


RULE = Rule(id="mended", title="Malformed, and read all the same", severity=Severity.WARNING, check=check)
