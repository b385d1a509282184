"""Writer of a release's performance guide in reStructuredText."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import define, field

from lab.guide import compose, layout, page
from lab.guide.assemble import RawRow
from lab.guide.compose import ComposedTable
from lab.guide.document import Builder, Document
from lab.guide.entries import GuideRelease
from lab.guide.text import escaped

_UNDERLINES = "-^\"'~"
_READ_FIRST = (
    "The numbers of this guide were measured on the following modules. Where a board has no number the cell is empty. A cell",
    "holds an average, or average (minimum, maximum).",
)
_MODULE_HEADER = ("Name", "Description")


def write(release: GuideRelease) -> str:
    """Write the whole document."""
    return "\n".join(_written(release).lines).rstrip() + "\n"


def document(release: GuideRelease) -> Document:
    """Content of the written guide, with the lines of its text."""
    return _written(release).builder.finish()


@define
class _Writer:
    """Lines of a guide, and the same content for a reader."""

    lines: list[str] = field(factory=list)
    builder: Builder = field(factory=Builder)

    def rubric(self, text: str) -> None:
        self.lines += [f".. rubric:: {text}", ""]
        self.builder.rubric(text)

    def modules(self, modules: Sequence[tuple[str, str]]) -> None:
        begin = len(self.lines) + 1
        self.lines += [".. list-table:: Evaluation Modules", "    :header-rows: 1", ""]
        rows = []
        for cells in (_MODULE_HEADER, *modules):
            rows.append(RawRow(len(self.lines) + 1, tuple(" ".join(cell.split()) for cell in cells)))
            self.lines += [f"    * - {escaped(cells[0])}", f"      - {escaped(cells[1])}"]
        self.lines.append("")
        self.builder.table("Evaluation Modules", begin, rows[0].cells, rows[1:])

    def headings(self, before: Sequence[str], now: Sequence[str], about: Mapping[str, str]) -> None:
        common = 0
        while common < min(len(before), len(now)) and before[common] == now[common]:
            common += 1
        for depth in range(common, len(now)):
            heading = escaped(now[depth])
            self.lines += ["", heading, _UNDERLINES[min(depth, len(_UNDERLINES) - 1)] * max(4, len(heading)), ""]
            self.builder.heading(depth + 2, heading)
            if text := about.get("/".join(now[: depth + 1])):
                self.lines += [text, ""]

    def table(self, table: ComposedTable) -> None:
        begin, title = len(self.lines) + 1, escaped(table.title)
        self.lines += [f".. csv-table:: {title}", f"    :header: {_csv(table.header)}", ""]
        rows = []
        for row in table.rows:
            cells = [*row.keys, *(cell.text if cell else "" for cell in row.cells)]
            self.lines.append(f"    {_csv(cells)}")
            rows.append(RawRow(len(self.lines), _on_one_line(cells)))
        self.lines.append("")
        self.builder.table(title, begin, _on_one_line(table.header), rows)

    def conditions(self, statements: Sequence[str]) -> None:
        if statements:
            self.lines += ["The performance numbers were captured using the following:", ""]
            items = [(escaped(statement), len(self.lines) + 1 + i) for i, statement in enumerate(statements)]
            self.lines += [*(f"-  {text}" for text, _ in items), ""]
            self.builder.items(items)


def _written(release: GuideRelease) -> _Writer:
    title = f"Linux {release.name} Performance Guide"
    bar = "=" * (len(title) + 2)
    writer = _Writer([bar, f" {title}", bar, "", ".. contents:: Contents", "   :depth: 2", ""])
    writer.builder.heading(1, title)
    writer.rubric("Summary")
    writer.lines += [f"-  {escaped(f'{one.board}: {one.text}')}" for one in page.boards(release)]
    writer.lines.append("")
    writer.rubric("Read This First")
    writer.lines += [*_READ_FIRST, ""]
    warnings = _warnings(release)
    for text in warnings:
        writer.lines += [".. warning::", "", f"   {escaped(text)}", ""]
    if release.modules:
        writer.modules(release.modules)
    about = layout.load().about
    chapter: tuple[str, ...] = ()
    composed = compose.tables(release)
    for number, table in enumerate(composed):
        writer.headings(chapter, table.chapter, about)
        chapter = table.chapter
        writer.table(table)
        following = composed[number + 1].chapter[:1] if number + 1 < len(composed) else ()
        if following != chapter[:1]:
            statements = release.conditions.get(chapter[0] if chapter else "", ())
            writer.conditions((*statements, *warnings))
    return writer


def _warnings(release: GuideRelease) -> list[str]:
    """Sentences on numbers of simulated boards and of runs that did not complete."""
    boards = sorted({entry.board for entry in release.entries if entry.evidence.is_simulated})
    found = [f"Simulated, and no measurement of a real board: all numbers of {', '.join(boards)}."] if boards else []
    counts = Counter(
        (entry.board, entry.evidence.incomplete) for entry in release.entries if entry.evidence.incomplete
    )
    for (board, why), count in sorted(counts.items()):
        found.append(f"Incomplete, since {why}: {count} number{'s' * (count > 1)} of {board}.")
    return found


def _csv(cells: Sequence[str]) -> str:
    return ",".join('"' + escaped(cell).replace('"', '""') + '"' for cell in _on_one_line(cells))


def _on_one_line(cells: Sequence[str]) -> tuple[str, ...]:
    return tuple(" ".join(cell.split()) for cell in cells)
