"""A guide in reStructuredText -> raw tables, modules and conditions.

docutils parses the blocks with this room's directives (lab.guide.directives) and without inline markup: a role or a
substitution means nothing to a number, and an unclosed one costs nothing. No transform runs, so nothing is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import define, evolve, field
from docutils import frontend, nodes
from docutils.parsers.rst import Parser, states
from docutils.utils import new_document

from lab.errors import ConfigurationError
from lab.guide import directives as ours
from lab.guide import headers
from lab.guide.assemble import RawRow, RawTable
from lab.guide.document import Caption, Document, Event, Untitled, assign_captions, is_module_table, modules_of
from lab.guide.model import Condition, Unread
from lab.guide.text import plain

_CAPTION = re.compile(r"Table\s*[\d.]*\s*:\s*(\S.*)", re.DOTALL)
_FRONT_MATTER = frozenset({"read this first", "about this manual", "if you need assistance"})
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


def read(path: str, text: str) -> Document:
    """Parse a guide.

    Raises:
        ConfigurationError: blocks are nested so deeply that this is no guide.
    """
    settings = frontend.get_default_settings(Parser)
    settings.report_level = settings.halt_level = 5
    settings.warning_stream = False
    settings.file_insertion_enabled = False
    settings.raw_enabled = False
    settings.syntax_highlight = "none"
    tree = new_document(path, settings)
    kept, lost = _without_long_lines(text)
    try:
        with ours.only_ours():
            Parser(inliner=_NoInline()).parse(kept, tree)
        walker = _Walker(Document(unread=lost))
        walker.visit_children(tree)
    except RecursionError:
        raise ConfigurationError(
            f"{path}: its blocks are nested more than 100 deep, so this is no performance guide; check the file's origin"
        ) from None
    return walker.finish()


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
    document: Document
    chapter: list[str] = field(factory=list)
    rubric: str = ""
    events: list[Event] = field(factory=list)
    inherited: list[str] = field(factory=list)

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
            nodes.literal_block: self._separator,
            ours.rubric: self._rubric,
            ours.rows: self._rows,
            ours.titled: self._titled,
            ours.unread: self._unread,
        }
        for passed_over in (nodes.title, nodes.line_block, nodes.comment, nodes.target, nodes.substitution_definition):
            handlers[passed_over] = lambda _node: None
        handlers.get(type(node), self.visit_children)(node)

    def _separator(self, _node: nodes.Element) -> None:
        self.events.append(None)

    def _rubric(self, node: nodes.Element) -> None:
        self.rubric = plain(node.astext())
        self.events.append(None)

    def _rows(self, node: nodes.Element) -> None:
        self._table(RawTable((), node["title"], "inline", node["line"], node["header"], tuple(node["rows"])))

    def _titled(self, node: nodes.Element) -> None:
        for table in node.findall(nodes.table):
            self._table(_of_docutils(table, node["title"]))

    def _unread(self, node: nodes.Element) -> None:
        self.document.unread.append(Unread(node["line"], node["reason"]))

    def _section(self, node: nodes.Element) -> None:
        heading = plain(node.children[0].astext()) if node.children else ""
        if not self.document.title and "performance guide" in heading.lower():
            self.document.title = heading
        counts = heading != self.document.title and heading.lower() not in _FRONT_MATTER
        self.chapter.extend([heading] if counts else [])
        self.rubric = ""
        self.events.append(None)
        self.visit_children(node)
        del self.chapter[len(self.chapter) - counts :]
        self.rubric = ""
        self.events.append(None)

    def _table(self, raw: RawTable) -> None:
        if is_module_table(raw):
            self.document.modules.extend(modules_of(raw))
            self.events.append(None)
            return
        index = len(self.document.tables)
        headings = [*self.chapter, self.rubric]
        self.inherited.append(next((h for h in reversed(headings) if h and not headers.is_board(h)), ""))
        self.document.tables.append(evolve(raw, chapter=tuple(self.chapter), title=plain(raw.title)))
        self.events.append(None if raw.title else Untitled(index))

    def _paragraph(self, node: nodes.Element) -> None:
        text = node.astext()
        if match := _CAPTION.fullmatch(text.strip()):
            self.events.append(Caption(plain(match[1])))
            return
        self.events.append(None)
        if text.startswith("The measurements shown are from"):
            self._condition(" ".join(text.split()), node)

    def _list(self, node: nodes.Element) -> None:
        """A list after a table of its chapter says under which conditions the numbers were captured."""
        chapter = self.chapter[:1]
        if any(list(table.chapter[:1]) == chapter for table in self.document.tables):
            for item in node.children:
                self._condition(plain(item.astext()), item)
        self.events.append(None)
        self.visit_children(node)

    def _condition(self, text: str, node: nodes.Node) -> None:
        where = next((n.line for n in [node, *node.findall()] if n.line), 0)
        self.document.conditions.append(Condition(text, tuple(self.chapter), len(self.document.tables), where))

    def _complaint(self, node: nodes.Element) -> None:
        if node["level"] < _ERROR:
            return
        message = node.children[0].astext().splitlines()[0] if node.children else "not understood"
        self.document.unread.append(Unread(node.get("line", 0), message.rstrip(".:")))

    def finish(self) -> Document:
        """Give every table its title."""
        named = assign_captions(self.events)
        for index, raw in enumerate(self.document.tables):
            if raw.title:
                continue
            title, source = named.get(index, (self.inherited[index], "inherited"))
            self.document.tables[index] = evolve(raw, title=title, title_source=source)
        return self.document


def _of_docutils(table: nodes.Element, title: str) -> RawTable:
    """A grid or simple table. Cells that span others leave a short row, as in any other table."""
    heads = [row for head in table.findall(nodes.thead) for row in head.children]
    bodies = [row for body in table.findall(nodes.tbody) for row in body.children]
    line = table.line or next((n.line for n in table.findall() if n.line), 0) or 0
    header = _row(heads[-1], line).cells if heads else ()
    return RawTable((), title, "inline", line, header, tuple(_row(row, line) for row in bodies))


def _row(row: nodes.Node, otherwise: int) -> RawRow:
    lines = [n.line for n in row.findall() if n.line]
    entries = row.children if isinstance(row, nodes.Element) else []
    return RawRow(min(lines, default=otherwise), tuple(" ".join(entry.astext().split()) for entry in entries))
