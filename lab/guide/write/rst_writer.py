"""Writer of a release's performance guide in reStructuredText."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field

from lab.guide import layout
from lab.guide.read.assemble import RawRow
from lab.guide.read.document import SOFTWARE, Builder, Document
from lab.guide.read.markup import escaped
from lab.guide.write import compose, page
from lab.guide.write.compose import ComposedTable
from lab.guide.write.entries import GuideEntry, GuideRelease

_UNDERLINES = "-^\"'~"
_READ_FIRST = (
    "All performance numbers of this document were gathered on the following evaluation modules, unless otherwise specified.",
)
_MODULE_HEADER = ("Name", "Description")
_ABOUT = (
    "Each table has a row for a measurement and columns for a board. A cell holds one number, or average (minimum, maximum). A",
    "board without a number has an empty cell. Below a table stand, for each board, the number of samples of a cell and their",
    "expanded uncertainty (±, 95 %), as the median of the table's cells. Footnotes mark the numbers that need a remark; n/a with a",
    "footnote is a number that was measured or published, and is wrong.",
)


def write(release: GuideRelease) -> str:
    """Write the whole document."""
    return "\n".join(_written(release).lines).rstrip() + "\n"


def document(release: GuideRelease) -> Document:
    """Content of the written guide, with the lines of its text."""
    return _written(release).builder.finish()


def document_with_places(release: GuideRelease) -> tuple[Document, Mapping[tuple[int, int], GuideEntry]]:
    """The same, and the numbers by line and column."""
    written = _written(release)
    return written.builder.finish(), written.places


def printed(release: GuideRelease) -> list[GuideEntry]:
    """The numbers in the guide's order."""
    return list(_written(release).places.values())


@define
class _Writer:
    """Lines of a guide, and the same content for a reader."""

    lines: list[str] = field(factory=list)
    builder: Builder = field(factory=Builder)
    places: dict[tuple[int, int], GuideEntry] = field(factory=dict)  # (line, column) -> the number there

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

    def headings(
        self, before: Sequence[str], now: Sequence[str], about: Mapping[str, str], release: GuideRelease
    ) -> None:
        common = 0
        while common < min(len(before), len(now)) and before[common] == now[common]:
            common += 1
        for depth in range(common, len(now)):
            heading = escaped(now[depth])
            self.lines += ["", heading, _UNDERLINES[min(depth, len(_UNDERLINES) - 1)] * max(4, len(heading)), ""]
            self.builder.heading(depth + 2, heading)
            if text := about.get("/".join(now[: depth + 1])):
                self.lines += [text, ""]
            if not depth and (commands := release.commands.get(now[0])):
                self.lines += ["Measured with the following:", "", "::", "", *(f"    {each}" for each in commands), ""]

    def table(self, table: ComposedTable) -> None:
        begin, title = len(self.lines) + 1, escaped(table.title)
        self.lines += [f".. csv-table:: {title}", f"    :header: {_csv(table.header)}", ""]
        rows = []
        for row in table.rows:
            cells = [*row.keys, *(cell.text if cell else "" for cell in row.cells)]
            marks = [
                *("" for _ in row.keys),
                *("".join(f" [{n}]_" for n in cell.marks) if cell else "" for cell in row.cells),
            ]
            self.lines.append(f"    {_csv(cells, marks)}")
            rows.append(RawRow(len(self.lines), _on_one_line(cells)))
            self.places |= {
                (len(self.lines), len(row.keys) + n): cell for n, cell in enumerate(row.cells) if cell is not None
            }
        self.lines.append("")
        self.builder.table(title, begin, _on_one_line(table.header), rows)
        for text in compose.taken(table):
            self.lines += [f"| {escaped(text)}"]
        self.lines.append("")

    def software(self, boards: Sequence[str], versions: Mapping[str, Mapping[str, str]]) -> None:
        begin = len(self.lines) + 1
        own = [board for board in boards if any(board in each for each in versions.values())]
        header = (SOFTWARE, *own)
        self.lines += [".. csv-table:: Software", f"    :header: {_csv(header)}", ""]
        rows = []
        for component, of in versions.items():
            cells = (component, *(of.get(board, "") for board in own))
            self.lines.append(f"    {_csv(cells)}")
            rows.append(RawRow(len(self.lines), cells))
        self.lines.append("")
        self.builder.table("Software", begin, header, rows)

    def notes(self, notes: Sequence[str]) -> None:
        if notes:
            self.rubric("Notes")
            self.lines += [f".. [{number}] {escaped(text)}" for number, text in enumerate(notes, 1)]

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
    writer.rubric("Read This First")
    if release.modules:
        writer.lines += [*_READ_FIRST, ""]
    warnings = page.warnings(release)
    for text in (*warnings, *page.regressions(release)):
        writer.lines += [".. warning::", "", f"   {escaped(text)}", ""]
    if release.modules:
        writer.modules(release.modules)
    if release.software:
        writer.software(release.boards, release.software)
    writer.rubric("About This Manual")
    writer.lines += [*_ABOUT, ""]
    writer.lines += [f"-  {escaped(f'{one.board}: {one.text}')}" for one in page.boards(release)]
    writer.lines.append("")
    about = layout.load().about
    chapter: tuple[str, ...] = ()
    composed = compose.tables(release)
    for number, table in enumerate(composed):
        writer.headings(chapter, table.chapter, about, release)
        chapter = table.chapter
        writer.table(table)
        following = composed[number + 1].chapter[:1] if number + 1 < len(composed) else ()
        if following != chapter[:1]:
            statements = release.conditions.get(chapter[0] if chapter else "", ())
            writer.conditions((*statements, *warnings))
    writer.notes(release.notes)
    return writer


def _csv(cells: Sequence[str], marks: Sequence[str] = ()) -> str:
    texts = [escaped(cell).replace('"', '""') for cell in _on_one_line(cells)]
    return ",".join(f'"{text}{mark}"' for text, mark in zip(texts, marks or [""] * len(texts), strict=True))


def _on_one_line(cells: Sequence[str]) -> tuple[str, ...]:
    return tuple(" ".join(cell.split()) for cell in cells)
