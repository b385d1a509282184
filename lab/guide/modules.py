"""The table "Evaluation Modules": which boards were measured, and at what clock."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.guide.assemble import RawTable
from lab.guide.cells import decimals
from lab.guide.model import Module

_CLOCK = re.compile(r"ARM\s+running\s+at\s+(\d+(?:\.\d+)?)\s*([GM])Hz", re.IGNORECASE)


def is_module_table(raw: RawTable) -> bool:
    """Whether a table lists modules, not results."""
    return [text.strip().lower() for text in raw.header] == ["name", "description"]


def of_table(raw: RawTable) -> Iterator[Module]:
    """Its modules."""
    for row in raw.rows:
        if len(row.cells) == 2:
            yield module(row.cells[0].strip(), row.cells[1].strip(), row.line)


def module(name: str, description: str, line: int) -> Module:
    """A module with the clock that its description names."""
    match = _CLOCK.search(description)
    if not match:
        return Module(name, description, None, 0.0, line)
    scale = 1000.0 if match[2].upper() == "G" else 1.0
    return Module(name, description, float(match[1]) * scale, scale * 10.0 ** -decimals(match[1]), line)
