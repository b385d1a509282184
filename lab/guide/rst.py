"""A guide in reStructuredText -> raw tables, modules and conditions.

docutils parses the blocks with this room's directives (lab.guide.directives) and without inline markup: a role or a
substitution means nothing to a number, and an unclosed one costs nothing. No transform runs, so nothing is expanded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define
from docutils import frontend, nodes
from docutils.parsers.rst import Parser, states
from docutils.utils import new_document

from lab.errors import ConfigurationError
from lab.guide import csvtable
from lab.guide import directives as ours
from lab.guide.assemble import RawRow, RawTable
from lab.guide.document import Builder, Document
from lab.guide.model import Unread

_ERROR = 3  # docutils' level of a construct that it could not read
_LONGEST_LINE = 10_000  # docutils gives up the whole document above it


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
    tree = new_document(path, settings)
    shortened, lost = _without_long_lines(text)
    try:
        with ours.only_ours():
            Parser(inliner=_NoInline()).parse(shortened, tree)
        walker = _Walker(Builder(Document(unread=lost)))
        walker.visit_children(tree)
    except RecursionError:
        raise ConfigurationError(
            f"{path}: its blocks are nested more than 100 deep, so this is no performance guide; check the file's origin"
        ) from None
    return walker.builder.finish()


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
    depth: int = 0

    def visit_children(self, node: nodes.Element) -> None:
        for child in node.children:
            if isinstance(child, nodes.Element):
                self._visit(child)

    def _visit(self, node: nodes.Element) -> None:
        handlers: dict[type[nodes.Element], Callable[[nodes.Element], None]] = {
            nodes.section: self._section,
            nodes.table: lambda table: self._table(_of_docutils(table, "")),
            nodes.bullet_list: self._list,
            nodes.paragraph: self._paragraph,
            nodes.system_message: self._complaint,
            nodes.literal_block: lambda _node: self.builder.separator(),
            ours.rubric: lambda node: self.builder.rubric(node.astext()),
            ours.rows: self._rows,
            ours.titled: self._titled,
            ours.unread: lambda node: self.builder.unread(node["line"], node["reason"]),
            ours.merged: lambda node: self.builder.repaired(node["line"], node["reason"]),
        }
        for passed_over in (nodes.title, nodes.line_block, nodes.comment, nodes.target, nodes.substitution_definition):
            handlers[passed_over] = lambda _node: None
        handlers.get(type(node), self.visit_children)(node)

    def _rows(self, node: nodes.Element) -> None:
        self.builder.table(node["title"], node["line"], node["header"], node["rows"])
        for line, reason in node["repairs"]:
            self.builder.repaired(line, f"table {node['title'] or 'without a title'!r} {reason}")

    def _titled(self, node: nodes.Element) -> None:
        for table in node.findall(nodes.table):
            self._table(_of_docutils(table, node["title"]))

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
        lines = [(line + i, one) for i, one in enumerate(text.split("\n"))]
        rows, lost, _ = csvtable.parse_rows(lines, csvtable.Dialect())
        if lost or not self.builder.more_rows(rows):
            return False
        self.builder.repaired(line, f"{len(rows)} rows are not indented, and were taken for rows of the table above")
        return True

    def _list(self, node: nodes.Element) -> None:
        self.builder.items((item.astext(), _line(item)) for item in node.children)
        self.visit_children(node)

    def _complaint(self, node: nodes.Element) -> None:
        """Note a part that docutils could not read.

        A complaint that quotes no part of the file lost nothing.
        """
        if node["level"] < _ERROR or not any(isinstance(child, nodes.literal_block) for child in node.children):
            return
        message = node.children[0].astext().splitlines()[0] if node.children else "not understood"
        self.builder.unread(node.get("line", 0), message.rstrip(".:"))


def _line(node: nodes.Node) -> int:
    return next((n.line for n in [node, *node.findall()] if n.line), 0)


def _of_docutils(table: nodes.Element, title: str) -> RawTable:
    """Convert a grid or simple table.

    Cells that span others leave a short row.
    """
    heads = [row for head in table.findall(nodes.thead) for row in head.children]
    bodies = [row for body in table.findall(nodes.tbody) for row in body.children]
    line = table.line or next((n.line for n in table.findall() if n.line), 0) or 0
    header = _row(heads[-1], line).cells if heads else ()
    return RawTable((), title, "inline", line, header, tuple(_row(row, line) for row in bodies))


def _row(row: nodes.Node, otherwise: int) -> RawRow:
    lines = [n.line for n in row.findall() if n.line]
    entries = row.children if isinstance(row, nodes.Element) else []
    return RawRow(min(lines, default=otherwise), tuple(" ".join(entry.astext().split()) for entry in entries))
