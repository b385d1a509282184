"""A guide in reStructuredText -> raw tables, modules and conditions.

docutils parses the blocks with directives of our own and without inline markup: a role or a
substitution means nothing to a number, and an unclosed one costs nothing. No transform runs, so nothing is expanded.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from attrs import define, evolve
from docutils import frontend, nodes
from docutils.parsers.rst import Parser, states
from docutils.utils import new_document

from lab.errors import ConfigurationError
from lab.guide.model import Unread
from lab.guide.read import csvtable, directives, drawn_table
from lab.guide.read.document import Builder, Document
from lab.guide.read.markup import plain
from lab.guide.read.plain_text import PIPES
from lab.guide.read.raw_table import RawRow, RawTable, SpanningCell, join_header, spread

_ERROR = 3  # docutils' level of a construct that it could not read
_LONGEST_LINE = 10_000  # docutils gives up the whole document above it


_BOLD: Final = re.compile(r"\*\*(.*\S)\*\*")  # a cell's whole text


class _NoInline(states.Inliner):
    def init_customizations(self, settings: object) -> None:
        """No patterns are needed; docutils builds some hundred lines of them."""

    def adjust_uri(self, uri: str) -> str:
        return uri

    def parse(
        self, text: str, _lineno: int, _memo: object, _parent: nodes.Element
    ) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        return [nodes.Text(text)], []


def read(path: str, text: str, defines: Mapping[str, str] | None = None) -> Document:
    """Parse a guide.

    Args:
        defines: names in `ifconfig` -> values, which choose its branches.

    Raises:
        ConfigurationError: blocks are nested so deeply that this is no guide.
    """
    settings = frontend.get_default_settings(Parser)
    settings.report_level = settings.halt_level = 5
    settings.warning_stream = False
    settings.file_insertion_enabled = False
    settings.raw_enabled = False
    settings.syntax_highlight = "none"
    settings.boardlab_defines = dict(defines or {})
    settings.boardlab_lines = set()  # of csv-tables, and of what is passed over
    tree = new_document(path, settings)
    shortened, lost = _without_long_lines(text)
    apart, titles = _titles_apart(shortened)
    try:
        with directives.own_directives():
            Parser(inliner=_NoInline()).parse(apart, tree)
        walker = _Walker(Builder(Document(unread=lost)), text.split("\n"))
        walker.visit_children(tree)
    except RecursionError:
        raise ConfigurationError(
            f"{path}: its blocks are nested more than 100 deep, so this is no performance guide; check the file's "
            "origin"
        ) from None
    for line in titles:
        walker.builder.repair(line, "a table has no blank line between its title and it")
    document = walker.builder.finish()
    read_lines = settings.boardlab_lines | {row.line for table in document.tables for row in table.rows}
    read_lines |= {part.line for part in document.unread}
    document.unread += _stray_rows(text, read_lines, _hidden(tree))
    return document


_ROW: Final = re.compile(r'\s*"[^"]*"\s*,\s*"[^"]*\d[^"]*"')  # with a number behind its name
_NO_COMMENT: Final = re.compile(r"(?:csv-table|list-table|table)\s*:")  # a directive that lacks a colon


def _stray_rows(text: str, read_lines: set[int], hidden: set[str]) -> Iterator[Unread]:
    """Rows of comma-separated values, and of Markdown, that stand in no table."""
    piped = False
    for number, line in enumerate(text.split("\n"), 1):
        piped = PIPES.match(line) is not None or (piped and "|" in line)
        if number in read_lines or line.strip() in hidden:
            continue
        if _ROW.match(line):
            yield Unread(
                number,
                f"a row of comma-separated values belongs to no table: {line.strip()[:60]}; is its directive or "
                "indent wrong?",
            )
        elif piped and re.search(r"\d", line):
            yield Unread(
                number, f"a row of a Markdown table, which reStructuredText does not have: {line.strip()[:60]}"
            )


def _hidden(tree: nodes.document) -> set[str]:
    """Lines of comments and literal blocks, which hold no results."""
    hidden: set[str] = set()
    for node in tree.findall(lambda node: isinstance(node, nodes.comment | nodes.literal_block)):
        if not _NO_COMMENT.match(node.astext()):
            hidden.update(line.strip() for line in node.astext().split("\n"))
    return hidden


_TABLE: Final = re.compile(r"( *)\.\. (?:csv-table|list-table|table)::[ \t]*(.*)")
# Docutils reads on by itself
_NO_TITLE: Final = re.compile(r" *(?:\.\. |[-*+] |\"|(?P<line>[^\w\s])(?P=line){2,}\s*$)")


def _titles_apart(text: str) -> tuple[str, list[int]]:
    """Move a title into the table that begins right below it.

    docutils takes such a table for a part of the title's paragraph. No line is added.

    Returns:
        The text, and the lines of those tables.
    """
    lines = text.split("\n")
    table_lines = []
    for i in range(1, len(lines)):
        match, above = _TABLE.fullmatch(lines[i]), lines[i - 1]
        if match is None or not above.strip() or _NO_TITLE.match(above) or not above.startswith(match[1]):
            continue
        if above[len(match[1])] == " " or (i > 1 and lines[i - 2].strip() and match[2]):
            continue
        if match[2]:
            lines[i - 2 : i] = [above, ""]
        else:
            lines[i - 1], lines[i] = "", f"{lines[i].rstrip()} {plain(above.strip().removeprefix('Table:'))}"
        table_lines.append(i + 1)
    return "\n".join(lines), table_lines


def _without_long_lines(text: str) -> tuple[str, list[Unread]]:
    lines = text.split("\n")
    lost = []
    for i, line in enumerate(lines):
        if len(line) > _LONGEST_LINE:
            lost.append(Unread(i + 1, f"a line of {len(line)} characters was left out (at most {_LONGEST_LINE})"))
            lines[i] = ""
    return "\n".join(lines), lost


@define
class _Walker:
    builder: Builder
    lines: Sequence[str]  # of the file
    depth: int = 0

    def visit_children(self, node: nodes.Element) -> None:
        handlers: dict[type[nodes.Element], Callable[[nodes.Element], None]] = {
            nodes.section: self._section,
            nodes.table: lambda table: self._grid(table, ""),
            nodes.bullet_list: self._list,
            nodes.paragraph: self._paragraph,
            nodes.system_message: self._complaint,
            nodes.literal_block: lambda _node: self.builder.separator(),
            directives.rubric: lambda node: self.builder.rubric(node.astext()),
            directives.rows: self._rows,
            directives.titled: self._titled_table,
            directives.unread: lambda node: self.builder.unread(node["line"], node["reason"]),
            directives.merged: lambda node: self.builder.repair(node["line"], node["reason"]),
        }
        for passed_over in (nodes.title, nodes.line_block, nodes.comment, nodes.target, nodes.substitution_definition):
            handlers[passed_over] = lambda _node: None
        for child in node.children:
            if isinstance(child, nodes.Element):
                handlers.get(type(child), self.visit_children)(child)

    def _rows(self, node: nodes.Element) -> None:
        self.builder.table(node["title"], node["line"], node["header"], node["rows"])
        for line, reason in node["repairs"]:
            self.builder.repair(line, f"table {node['title'] or 'without a title'!r} {reason}")

    def _titled_table(self, node: nodes.Element) -> None:
        for part in node.findall(nodes.Element):
            if isinstance(part, nodes.table):
                self._grid(part, node["title"])
            elif isinstance(part, nodes.system_message):
                self._complaint(part, node["title"])

    def _grid(self, table: nodes.Element, title: str) -> None:
        """Read a drawn table, by its bars where docutils has taken a bar beside its border for text."""
        line = table.line or next((n.line for n in table.findall() if n.line), 0) or 0
        head = [row.cells for part in table.findall(nodes.thead) for row in _rows(part, line)]
        body = [row for part in table.findall(nodes.tbody) for row in _rows(part, line)]
        raw = _with_header(RawTable((), title, "inline", line, join_header(head) if head else (), tuple(body)))
        entries = (entry for entry in table.findall(nodes.entry) if "morecols" in entry)
        if any(" | " in entry.astext() for entry in entries):
            start = raw.line
            while start > 1 and drawn_table.is_line(self.lines[start - 2]):
                start -= 1
            drawn = list(itertools.takewhile(drawn_table.is_line, self.lines[start - 1 :]))
            if self._overrun_grid(drawn, start, title):
                return
        self._table(raw)

    def _table(self, raw: RawTable) -> None:
        self.builder.table(raw.title, raw.line, raw.header, raw.rows)

    def _section(self, node: nodes.Element) -> None:
        self.depth += 1
        self.builder.heading(self.depth, node.children[0].astext() if node.children else "")
        self.visit_children(node)
        self.builder.close(self.depth)
        self.depth -= 1

    def _paragraph(self, node: nodes.Element) -> None:
        text = node.astext()
        if text.startswith('"') and self._rows_without_indent(text, node.line or 0):
            return
        self.builder.paragraph(text, _line(node))

    def _rows_without_indent(self, text: str, line: int) -> bool:
        """Take unindented rows below a csv-table.

        docutils reads them as prose, and the table stays without rows.
        """
        lines = [(line + i, row) for i, row in enumerate(text.split("\n"))]
        rows, lost, _ = csvtable.parse_rows(lines, csvtable.Dialect())
        if lost or not self.builder.more_rows(rows):
            return False
        self.builder.repair(line, f"{len(rows)} rows are not indented, and were taken for rows of the table above")
        return True

    def _list(self, node: nodes.Element) -> None:
        self.builder.items((item.astext(), _line(item)) for item in node.children)
        self.visit_children(node)

    def _complaint(self, node: nodes.Element, title: str = "") -> None:
        """Note a part that docutils could not read.

        A complaint that quotes no part of the file lost nothing. A heading that skips a level is one of the next
        level, and a grid whose text runs over its borders is read by its bars.
        """
        quoted = [child.astext() for child in node.children if isinstance(child, nodes.literal_block)]
        if node["level"] < _ERROR or not quoted:
            return
        message = node.children[0].astext().splitlines()[0] if node.children else "not understood"
        line = node.get("line", 0)
        if message.startswith("Inconsistent title style"):
            heading = next(text for text in quoted[0].split("\n") if any(map(str.isalnum, text)))
            self.builder.heading(self.depth + 1, heading)
        elif message.startswith("Malformed table"):
            drawn = quoted[0].split("\n")
            above = range(line, max(line - len(drawn), 0), -1)  # docutils names the line of the fault
            start = next((n for n in above if [text.strip() for text in self.lines[n - 1 : n + 1]] == drawn[:2]), line)
            if not self._overrun_grid(drawn, start, title):
                self.builder.unread(line, message.rstrip(".:"))
        else:
            self.builder.unread(line, message.rstrip(".:"))

    def _overrun_grid(self, drawn: Sequence[str], start: int, title: str) -> bool:
        """Read a grid by its bars, where its rows have one number of cells."""
        grid = drawn_table.parse([(start + i, text) for i, text in enumerate(drawn)], ())
        widths = {len(row.cells) for row in grid.rows} | ({len(grid.header)} if grid.header else set())
        if len(widths) != 1:
            return False
        self._table(_with_header(RawTable((), title, "inline", start, grid.header, grid.rows)))
        self.builder.repair(start, "a drawn table's text runs over its borders")
        return True


def _line(node: nodes.Node) -> int:
    return next((n.line for n in [node, *node.findall()] if n.line), 0)


def _with_header(raw: RawTable) -> RawTable:
    """A drawn table whose bold first row is its header."""
    if raw.header or len(raw.rows) < 2 or not all(_BOLD.fullmatch(cell) for cell in raw.rows[0].cells if cell):
        return raw
    return evolve(raw, header=raw.rows[0].cells, rows=raw.rows[1:])


def _rows(part: nodes.Element, otherwise: int) -> Iterator[RawRow]:
    """Rows of a table's head or body."""
    rows = [row for row in part.children if isinstance(row, nodes.Element)]
    lines = (
        [
            SpanningCell(" ".join(entry.astext().split()), entry.get("morecols", 0) + 1, entry.get("morerows", 0) + 1)
            for entry in row.findall(nodes.entry)
        ]
        for row in rows
    )
    for row, cells in zip(rows, spread(lines), strict=True):
        yield RawRow(min((n.line for n in row.findall() if n.line), default=otherwise), cells)
