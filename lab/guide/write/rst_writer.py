"""Writer of a release's performance guide in reStructuredText, and as the guide that its text is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import define, evolve, field

from lab.guide import catalogue, layout
from lab.guide.catalogue import CellReading
from lab.guide.measurements import MeasuredGuide, measure
from lab.guide.model import Column, Condition, Guide, Module, Table, split_boards
from lab.guide.read.assemble import row_cells, unclear_cells
from lab.guide.read.document import SOFTWARE, SUMMARY, module
from lab.guide.read.markup import escape
from lab.guide.read.raw_table import RawRow, unit
from lab.guide.write.compose import ComposedTable, SampleLine, compose_tables
from lab.guide.write.entries import GuideEntry, GuideRelease, summary_table
from lab.judge.text import RUN
from lab.metrics import by_name

_UNDERLINES = "-^\"'~"
_COMMAND_WIDTH: Final = 100  # of a printed page
_READ_FIRST = (
    "All performance numbers of this document were gathered on the following evaluation modules, unless otherwise "
    "specified.",
)
_MODULE_HEADER = ("Name", "Description")
_ABOUT = (
    "Each table has a row for a measurement and columns for a board. A cell holds one number, or average (minimum, "
    "maximum). A",
    "board without a number has an empty cell. Above a table stand the commands that gave its numbers; {a|b} is one of "
    "them after",
    "the other. Below it stand, for each board, the number of samples of a cell and, of several, their expanded "
    "uncertainty (±,",
    "95 %), as the median of the table's cells. Footnotes mark the numbers that need a remark; n/a with a footnote is "
    "a number that",
    "was measured or published, and is wrong.",
)


@define
class WrittenGuide:
    """Lines of a guide, and the records that a reader finds in them.

    Attributes:
        entries: line and column -> the number there.
        readings: of all cells, in reading order.
        _open: the headings above the next table.
    """

    release: GuideRelease
    lines: list[str] = field(factory=list)
    entries: dict[tuple[int, int], GuideEntry] = field(factory=dict)
    modules: list[Module] = field(factory=list)
    tables: list[Table] = field(factory=list)
    conditions: list[Condition] = field(factory=list)
    readings: list[CellReading] = field(factory=list)
    _open: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole document."""
        return "\n".join(self.lines).rstrip() + "\n"

    def sheet(self, path: str) -> MeasuredGuide:
        """The guide that a reader of the text has.

        Args:
            path: its name in sentences.
        """
        boards = frozenset(column.board for table in self.tables for column in table.columns if column.board)
        guide = Guide(
            path=path,
            format="rst",
            title=f"Linux {self.release.name} Performance Guide",
            release=self.release.name,
            modules=tuple(self.modules),
            tables=tuple(self.tables),
            conditions=tuple(split_boards(condition, boards) for condition in self.conditions),
            unread=tuple(sorted(unclear_cells(self.tables), key=lambda part: part.line)),
            release_source="given",
        )
        return measure(guide, catalogue.without_repetitions(self.readings))

    def write(self) -> None:
        """Fill the lines and the records from the release."""
        release = self.release
        title = f"Linux {release.name} Performance Guide"
        bar = "=" * (len(title) + 2)
        self.lines += [bar, f" {title}", bar, "", ".. contents:: Contents", "   :depth: 2", ""]
        self.lines += [".. rubric:: Read This First", ""]
        if release.modules:
            self.lines += [*_READ_FIRST, ""]
        for text in (*release.warnings, *release.open_regressions):
            self.lines += [".. warning::", "", f"   {escape(text)}", ""]
        if release.modules:
            self._write_modules()
        if release.software:
            self._write_software()
        self.lines += [".. rubric:: About This Manual", "", *_ABOUT, ""]
        self._write_summary()
        tables = compose_tables(release)
        above: tuple[str, ...] = ()
        for number, table in enumerate(tables):
            self._write_headings(above, table.chapter)
            above = table.chapter
            self._write_table(table)
            following = tables[number + 1].chapter[:1] if number + 1 < len(tables) else ()
            if following != above[:1]:
                stated = release.conditions.get(above[0] if above else "", ())
                self._write_conditions((*stated, *release.warnings))
        if release.notes:
            self.lines += [".. rubric:: Notes", ""]
            self.lines += [f".. [{number}] {escape(text)}" for number, text in enumerate(release.notes, 1)]

    def _write_summary(self) -> None:
        summary = summary_table(self.release)
        self.lines += [".. csv-table:: Summary", f"    :header: {_csv((SUMMARY, *summary.header[1:]))}", ""]
        self.lines += [*(f"    {_csv(row)}" for row in summary.rows), ""]
        for text in self.release.origins:
            self.lines += [escape(text), ""]

    def _write_modules(self) -> None:
        self.lines += [".. list-table:: Evaluation Modules", "    :header-rows: 1", ""]
        for row in (_MODULE_HEADER, *self.release.modules):
            name, description = _on_one_line(row)
            if row is not _MODULE_HEADER:
                self.modules.append(module(name, description, len(self.lines) + 1))
            self.lines += [f"    * - {escape(name)}", f"      - {escape(description)}"]
        self.lines.append("")

    def _write_software(self) -> None:
        software = self.release.software
        boards = [board for board in self.release.boards if any(board in versions for versions in software.values())]
        self.lines += [".. csv-table:: Software", f"    :header: {_csv((SOFTWARE, *boards))}", ""]
        for component, versions in software.items():
            self.lines.append(f"    {_csv((component, *(versions.get(board, '') for board in boards)))}")
        self.lines.append("")

    def _write_headings(self, above: Sequence[str], chapter: tuple[str, ...]) -> None:
        common = 0
        while common < min(len(above), len(chapter)) and above[common] == chapter[common]:
            common += 1
        for depth in range(common, len(chapter)):
            heading = escape(chapter[depth])
            self.lines += ["", heading, _UNDERLINES[min(depth, len(_UNDERLINES) - 1)] * max(4, len(heading)), ""]
            if text := layout.load().about.get("/".join(chapter[: depth + 1])):
                self.lines += [text, ""]
        if len(chapter) > common:  # else the text stays below the headings before
            self._open = chapter

    def _write_table(self, table: ComposedTable) -> None:
        if table.commands:
            lines: list[str] = []
            for command in table.commands:
                lines += textwrap.wrap(
                    command, _COMMAND_WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False
                )
            self.lines += ["Measured with the following:", "", "::", "", *(f"    {line}" for line in lines), ""]
        index, begin = len(self.tables), len(self.lines) + 1
        self.lines += [f".. csv-table:: {escape(table.title)}", f"    :header: {_csv(table.header)}", ""]
        header = _on_one_line(table.header)
        boards = (*(None for _ in table.keys), *(board for board, _ in table.columns))
        texts = (*header[: len(table.keys)], *_on_one_line([column for _, column in table.columns]))
        columns = tuple(
            Column(heading, board, text, unit(text), is_key=board is None)
            for heading, board, text in zip(header, boards, texts, strict=True)
        )
        rows = []
        for row in table.rows:
            cells = [*row.keys, *(entry.text if entry else "" for entry in row.cells)]
            marks = ["".join(f" [{mark}]_" for mark in entry.marks) if entry else "" for entry in row.cells]
            self.lines.append(f"    {_csv(cells, [*('' for _ in row.keys), *marks])}")
            rows.append(RawRow(len(self.lines), _on_one_line(cells)))
            self.entries |= {
                (len(self.lines), number): entry for number, entry in enumerate(row.cells, len(row.keys)) if entry
            }
        title = " ".join(table.title.split())
        written_cells = tuple(cell for row in rows for cell in row_cells(row, index, columns))
        written = Table(index, self._open, title, "inline", begin, header, columns, written_cells)
        self.tables.append(written)
        self.readings += _readings(written, self.entries)
        self.lines += ["", *(self._sample_line(line) for line in table.sample_lines()), ""]

    def _sample_line(self, line: SampleLine) -> str:
        page = self.release.run_page
        runs = ", ".join(f"`{run} <{page.replace(RUN, str(run))}>`__" if page else str(run) for run in line.runs)
        return f"| {escape(line.text)} (run{'s' * (len(line.runs) > 1)} {runs})"

    def _write_conditions(self, stated: Sequence[str]) -> None:
        if not stated:
            return
        self.lines += ["The performance numbers were captured using the following:", ""]
        for text in stated:
            self.lines.append(f"-  {escape(text)}")
            condition = Condition(" ".join(text.split()), self._open, len(self.tables), len(self.lines))
            if not any(evolve(condition, line=other.line) == other for other in self.conditions):
                self.conditions.append(condition)
        self.lines.append("")


def write(release: GuideRelease) -> str:
    """Write the whole document."""
    return compose(release).text


def compose(release: GuideRelease) -> WrittenGuide:
    """The document's lines, and what a reader finds in them."""
    guide = WrittenGuide(release)
    guide.write()
    return guide


def _readings(table: Table, entries: Mapping[tuple[int, int], GuideEntry]) -> Iterator[CellReading]:
    """The metrics of written cells: their own; of others what the printed words stand for."""
    words = catalogue.load()
    entry_of = {id(cell): entries.get((cell.line, cell.column)) for cell in table.cells}
    others = [cell for cell in table.cells if (entry := entry_of[id(cell)]) is None or not entry.metric]
    as_printed = iter(words.read_cells(table, others))
    for cell in table.cells:
        entry = entry_of[id(cell)]
        if entry is None or not entry.metric:
            yield next(as_printed)
        elif entry.origin is None and layout.load().place(entry.metric, entry.params) is None:
            yield CellReading(table, cell, None)  # of a table that guides do not have
        else:
            yield CellReading(table, cell, by_name(entry.metric), words.as_read(entry.metric, entry.params, cell))


def _csv(cells: Sequence[str], marks: Sequence[str] = ()) -> str:
    texts = [escape(cell).replace('"', '""') for cell in _on_one_line(cells)]
    return ",".join(f'"{text}{mark}"' for text, mark in zip(texts, marks or [""] * len(texts), strict=True))


def _on_one_line(cells: Sequence[str]) -> tuple[str, ...]:
    return tuple(" ".join(cell.split()) for cell in cells)
