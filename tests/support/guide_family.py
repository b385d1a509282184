"""Performance guides for tests: written from tables, and the five of the family from their figures.

`tests/fixtures/guides/*.tables` hold what the five guides say in tables: headings, titles, headers, rows, and where a title
stood. Their prose is not ours to copy and nothing of it is needed. `write_rst` and `write_text` make a guide of such
tables in the vendor's two forms, so the same writer serves the five and the invented ones.

Where the originals are at hand ($BOARDLAB_GUIDES, or the folder `shared/guides` beside the checkout), `family` gives
those instead, and the same tests run on them.
"""

from __future__ import annotations

import csv
import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from attrs import define, evolve, field

from lab.guide.check import importer
from lab.guide.check.importer import Imported
from lab.results.store import Store

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "guides"
ORIGINALS = Path(os.environ.get("BOARDLAB_GUIDES", Path(__file__).resolve().parents[3] / "shared" / "guides"))
NAMES = ("am62x-11.01.rst", "am62x-09.02.rst", "am437x.rst", "am62ax-09.02.rst", "am65x-09.03-rt.txt")

_UNDERLINES = "-^\"'~"


@define
class TableText:
    """A table as it is written into a guide; `lines` are its header and rows as comma-separated values."""

    lines: Sequence[str]
    title: str = ""
    source: str = "inline"  # where the title stands: inline, before, after, rubric, inherited
    chapter: tuple[str, ...] = ("System Benchmarks",)


@define
class GuideText:
    """A guide to be written; conditions stand after the table with that many tables up to it."""

    title: str
    form: str = "rst"
    modules: list[tuple[str, str]] = field(factory=list)
    tables: list[TableText] = field(factory=list)
    conditions: list[tuple[int, str]] = field(factory=list)


def family(folder: Path) -> Mapping[str, Path]:
    """The five guides: the originals where they are, else written into `folder` from their figures."""
    if all((ORIGINALS / name).is_file() for name in NAMES):
        return {name: ORIGINALS / name for name in NAMES}
    return written(folder)


def written(folder: Path) -> Mapping[str, Path]:
    """The five guides, written from their figures."""
    paths = {name: folder / name for name in NAMES}
    for name, path in paths.items():
        path.write_text(text(figures(name)), encoding="utf-8")
    return paths


def import_guide(
    store: Store,
    path: Path,
    release: str | None,
    board: str | None,
    now: dt.datetime,
    defines: Mapping[str, str] | None = None,
) -> list[Imported]:
    """Store one guide; see `lab.guide.check.importer.prepare` for the arguments and what is raised."""
    return importer.Importer(store).add(importer.prepare(path, release, board, defines, now))


def figures(name: str) -> GuideText:
    """What one of the five says."""
    guide = GuideText("")
    for line in (FIXTURES / name).with_suffix(".tables").read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition(" ")
        parts = [part.strip() for part in rest.split("|")]
        if line.startswith("    "):
            guide.tables[-1].lines = [*guide.tables[-1].lines, line.strip()]
        elif kind == "guide":
            guide.form, guide.title = parts
        elif kind == "module":
            guide.modules.append((parts[0], parts[1]))
        elif kind == "table":
            chapter = tuple(part for part in parts[1].split(" > ") if part)
            guide.tables.append(TableText([], parts[2], parts[0], chapter))
        else:
            guide.conditions.append((len(guide.tables), parts[1]))
    return guide


def text(guide: GuideText) -> str:
    """The guide in its form."""
    return write_rst(guide) if guide.form == "rst" else write_text(guide)


def mini(
    *tables: TableText, title: str = "Linux 11.01 Performance Guide", modules: Sequence[tuple[str, str]] = ()
) -> str:
    """A small guide in RST."""
    return write_rst(GuideText(title, modules=list(modules), tables=list(tables)))


def table(header: str, *rows: str, title: str = "", chapter: Iterable[str] = ("System Benchmarks",)) -> TableText:
    """A table of unquoted comma-separated values; a title stands inline."""
    lines = [",".join(f'"{cell}"' for cell in next(csv.reader([line]))) for line in (header, *rows)]
    return TableText(lines, title, "inline" if title else "inherited", tuple(chapter))


def write_rst(guide: GuideText) -> str:
    """The vendor's source form: headings, csv-tables with titles in four places, line blocks as spacers."""
    bar = "=" * (len(guide.title) + 2)
    lines = [bar, f" {guide.title}", bar, "", *_modules(guide.modules)]
    chapter: tuple[str, ...] = ()
    for number, one in enumerate(guide.tables, start=1):
        lines += _headings(chapter, one.chapter)
        chapter = one.chapter
        caption = ["", f"Table:  **{one.title}**", ""]
        lines += ["", f".. rubric::  {one.title}", f"   :name: rubric-{number}"] if one.source == "rubric" else []
        lines += caption if one.source == "before" else []
        lines += ["", f".. csv-table:: {one.title}".rstrip() if one.source == "inline" else ".. csv-table::"]
        lines += [f"    :header: {one.lines[0]}", "", *(f"    {row}" for row in one.lines[1:]), ""]
        lines += caption if one.source == "after" else []
        stated = [condition for after, condition in guide.conditions if after == number]
        lines += (
            ["The performance numbers were captured using the following:", "", *(f"-  {c}" for c in stated), ""]
            if stated
            else []
        )
        lines += ["", "|", ""]
    return "\n".join(lines)


def write_text(guide: GuideText) -> str:
    """The rendered form: a cell a line, blank lines between, tables announced by their number."""
    lines = [f"2.3. {guide.title}", ""]
    for name, description in guide.modules:
        lines += ["Name", "", "Description", "", name, "", description, "", "Table: Evaluation Modules", ""]
    for number, one in enumerate(guide.tables, start=1):
        lines += ["Execute it with the following:", "", "./run -s ALL", f"Table 2.{number} {one.title}", ""]
        for row in one.lines:
            lines += [part for cell in next(csv.reader([row])) for part in (cell, "")]
        stated = [condition for after, condition in guide.conditions if after == number]
        lines += ["The performance numbers were captured using the following:", ""] if stated else []
        lines += [part for condition in stated for part in (f"  • {condition}", "")]
    return "\n".join(lines)


def with_rows(guide: GuideText, title: str, changed: Mapping[str, str]) -> GuideText:
    """A copy in which some rows, found by their first cell in the tables of a title, are replaced."""
    tables = [
        evolve(one, lines=[changed.get(line.split(",")[0].strip('"'), line) for line in one.lines])
        if one.title == title
        else one
        for one in guide.tables
    ]
    return evolve(guide, tables=tables)


def _modules(modules: Sequence[tuple[str, str]]) -> list[str]:
    if not modules:
        return []
    rule = f"+{'-' * 30}+{'-' * 160}+"
    lines = [rule, f"| {'Name':<28} | {'Description':<158} |", rule.replace("-", "=")]
    for name, description in modules:
        lines += [f"| {name:<28} | {description:<158} |", rule]
    return [*lines, "", "Table:  Evaluation Modules", ""]


def _headings(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """The headings that lead from one chapter to the next."""
    common = 0
    while common < min(len(before), len(now)) and before[common] == now[common]:
        common += 1
    lines: list[str] = []
    for depth in range(common, len(now)):
        lines += ["", now[depth], _UNDERLINES[depth] * max(27, len(now[depth])), ""]
    return lines
