"""File system tables whose columns say Raw."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_FILE_SYSTEM = re.compile(r"ext[234]|vfat|ubifs", re.IGNORECASE)
_RAW = re.compile(r"\braw\b", re.IGNORECASE)


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """The test script writes files in both; only the column's name was copied from another table."""
    readings = sheet.of("storage.file.throughput", "storage.fio.throughput")
    for table_index, members in group(readings, lambda r: r.cell.table).items():
        table = sheet.guide.tables[table_index]
        system = _FILE_SYSTEM.search(table.title)
        raw = [r for r in members if _RAW.search(r.cell.metric or "")]
        if system and raw and not _RAW.search(table.title):
            yield Remark(
                f"the columns say Raw, but {table.title!r} is measured through {system[0].upper()}: the same test as in the "
                "tables that name the file system",
                raw[0],
                also=tuple(raw[1:]),
            )


RULE = Rule(id="raw-label", title="Raw that is a file system", severity=Severity.WARNING, check=check)
