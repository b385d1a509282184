"""Five guides in a store, and what their numbers are printed as."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from lab.guide import measurements
from lab.guide.check import importer
from lab.guide.measurements import MeasuredGuide
from lab.guide.read import reader
from lab.guide.write import rst_writer
from lab.guide.write.entries import GuideRelease
from lab.results import Store
from support.guide_family import import_guide

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
SK = "am62xx_sk-fs"
RELEASES = {
    "am62x-11.01.rst": "11.01",
    "am62x-09.02.rst": "09.02",
    "am437x.rst": "6.3",
    "am62ax-09.02.rst": "09.03",
    "am65x-09.03-rt.txt": "10.00",
}


def put(store: Store, path: Path, release: str, board: str | None = None) -> list[importer.Imported]:
    return import_guide(store, path, release, board, NOW)


def texts(one: MeasuredGuide, nameless: str | None = None) -> dict[tuple[str | None, object], str]:
    """What each number of a guide is printed as; without aliases and what no board can be given."""
    return {
        (r.board or nameless, r.key if r.quantity else (r.cell.row, r.cell.metric)): r.cell.value.text
        for r in one.readings
        if r.cell.metric is not None
        and not r.is_alias
        and not r.table.columns[r.cell.column].is_key
        and r.cell.value.text
    }


def reread(release: GuideRelease) -> MeasuredGuide:
    guide = reader.parse("written.rst", rst_writer.write(release))
    assert guide.unread == ()
    return measurements.of_guide(guide)
