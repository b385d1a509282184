"""A guide in reStructuredText -> raw tables, modules and conditions.

docutils parses the blocks with directives of our own and without inline markup: a role or a
substitution means nothing to a number, and an unclosed one costs nothing. No transform runs, so nothing is expanded.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final

from attrs import define
from docutils import frontend, nodes
from docutils.parsers.rst import Directive, Parser, directives, states
from docutils.utils import new_document

from lab.errors import ConfigurationError
from lab.guide.model import Unread
from lab.guide.read import csvtable
from lab.guide.read.assemble import RawRow, RawTable
from lab.guide.read.document import Builder, Document
from lab.guide.read.markup import plain
from lab.guide.read.plain_text import PIPES

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
    settings.boardlab_lines = set()  # of csv-tables, and of what is passed over
    tree = new_document(path, settings)
    shortened, lost = _without_long_lines(text)
    apart, titles = _titles_apart(shortened)
    try:
        with only_ours():
            Parser(inliner=_NoInline()).parse(apart, tree)
        walker = _Walker(Builder(Document(unread=lost)))
        walker.visit_children(tree)
    except RecursionError:
        raise ConfigurationError(
            f"{path}: its blocks are nested more than 100 deep, so this is no performance guide; check the file's origin"
        ) from None
    for line in titles:
        walker.builder.repaired(line, "a table has no blank line between its title and it")
    document = walker.builder.finish()
    known = settings.boardlab_lines | {row.line for table in document.tables for row in table.rows}
    known |= {part.line for part in document.unread}
    document.unread += _stray_rows(text, known, _hidden(tree))
    return document


_ROW: Final = re.compile(r'\s*"[^"]*"\s*,\s*"[^"]*\d[^"]*"')  # with a number behind its name
_NO_COMMENT: Final = re.compile(r"(?:csv-table|list-table|table)\s*:")  # a directive that lacks a colon


def _stray_rows(text: str, known: set[int], hidden: set[str]) -> Iterator[Unread]:
    """Rows of comma-separated values, and of Markdown, that stand in no table."""
    piped = False
    for number, line in enumerate(text.split("\n"), 1):
        piped = PIPES.match(line) is not None or (piped and "|" in line)
        if number in known or line.strip() in hidden:
            continue
        if _ROW.match(line):
            yield Unread(
                number,
                f"a row of comma-separated values belongs to no table: {line.strip()[:60]}; is its directive or indent wrong?",
            )
        elif piped and re.search(r"\d", line):
            yield Unread(
                number, f"a row of a Markdown table, which reStructuredText does not have: {line.strip()[:60]}"
            )


def _hidden(tree: nodes.document) -> set[str]:
    """Lines of comments and literal blocks, which hold no results."""
    found: set[str] = set()
    for node in tree.findall(lambda node: isinstance(node, nodes.comment | nodes.literal_block)):
        if not _NO_COMMENT.match(node.astext()):
            found.update(line.strip() for line in node.astext().split("\n"))
    return found


_TABLE: Final = re.compile(r"( *)\.\. (?:csv-table|list-table|table)::[ \t]*(.*)")
_NO_TITLE: Final = re.compile(
    r" *(?:\.\. |[-*+] |\"|(?P<line>[^\w\s])(?P=line){2,}\s*$)"
)  # docutils reads on by itself


def _titles_apart(text: str) -> tuple[str, list[int]]:
    """Move a title into the table that begins right below it.

    docutils takes such a table for a part of the title's paragraph. No line is added.

    Returns:
        The text, and the lines of those tables.
    """
    lines = text.split("\n")
    found = []
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
        found.append(i + 1)
    return "\n".join(lines), found


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
            rubric: lambda node: self.builder.rubric(node.astext()),
            rows: self._rows,
            titled: self._titled,
            unread: lambda node: self.builder.unread(node["line"], node["reason"]),
            merged: lambda node: self.builder.repaired(node["line"], node["reason"]),
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
    """Convert a grid or simple table; spanning cells leave short rows."""
    heads = [row for head in table.findall(nodes.thead) for row in head.children]
    bodies = [row for body in table.findall(nodes.tbody) for row in body.children]
    line = table.line or next((n.line for n in table.findall() if n.line), 0) or 0
    header = _row(heads[-1], line).cells if heads else ()
    return RawTable((), title, "inline", line, header, tuple(_row(row, line) for row in bodies))


def _row(row: nodes.Node, otherwise: int) -> RawRow:
    lines = [n.line for n in row.findall() if n.line]
    entries = row.children if isinstance(row, nodes.Element) else []
    return RawRow(min(lines, default=otherwise), tuple(" ".join(entry.astext().split()) for entry in entries))


# --- Harmless RST directives for guides: no file, no network ---
# docutils keeps one table of directives for the whole process. While a guide is parsed, `only_ours` replaces it by the
# table of this module, which knows every name: tables are kept as rows of text, containers are entered, programs and
# pictures are skipped, and a reference to another file is noted as unread.


_PATH_MAX = 4096  # of the kernel: no file has a longer name


class rows(nodes.General, nodes.Element):  # noqa: N801 - docutils names its nodes in lower case
    """A table as text: `title`, `line`, `header`, `rows` (of RawRow), `repairs`."""


class unread(nodes.General, nodes.Element):  # noqa: N801
    """A place that was left out; attributes `line` and `reason`."""


class merged(nodes.General, nodes.Element):  # noqa: N801
    """A place that was read without certainty: attributes `line` and `reason`."""


class rubric(nodes.General, nodes.TextElement):  # noqa: N801
    """A heading that opens no section."""


class titled(nodes.General, nodes.Element):  # noqa: N801
    """A `table` directive around a grid or simple table; attribute `title`."""


class _AnyOption(dict[str, Callable[[str], Any]]):
    """An option table that takes every option as text.

    An unknown option must not lose the directive.
    """

    def __missing__(self, name: str) -> Callable[[str], Any]:
        return directives.unchanged


class _Base(Directive):
    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[Any] = _AnyOption(name=directives.unchanged)

    @property
    def argument(self) -> str:
        return " ".join(self.arguments[0].split()) if self.arguments else ""

    def unread(self, reason: str) -> list[nodes.Node]:
        return [unread(line=self.lineno, reason=reason)]

    def inside(self) -> nodes.Element:
        container = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, container, match_titles=True)
        return container

    def takes_lines(self) -> None:
        """Note that the content's lines are read or passed over."""
        self.state.document.settings.boardlab_lines.update(self.line_of(i) for i in range(len(self.content)))

    def line_of(self, index: int) -> int:
        """Line in the file, from 1, of a line of the content."""
        offset = self.content.offset(index)
        return self.content_offset + index + 1 if offset is None else offset + 1


class _CsvTable(_Base):
    optional_arguments = 0
    option_spec = None  # the block is read by csvtable, which forgives more

    def run(self) -> list[nodes.Node]:
        self.takes_lines()
        block = csvtable.parse([(self.line_of(i), line) for i, line in enumerate(self.content)], self.lineno)
        if block.source is not None:
            option, value = block.source
            return self.unread(f"csv-table takes its rows from :{option}: {value}, which is not opened")
        found: list[nodes.Node] = [
            rows(
                title=block.title, line=self.lineno, header=block.header, rows=list(block.rows), repairs=block.repairs
            )
        ]
        found.extend(unread(line=line, reason=reason) for line, reason in block.lost)
        return found


class _ListTable(_Base):
    def run(self) -> list[nodes.Node]:
        body = []
        for item in _children(self.inside(), nodes.list_item):
            cells = tuple(" ".join(cell.astext().split()) for cell in _children(item, nodes.list_item))
            body.append(RawRow(_line_or(item, self.lineno), cells))
        above = csvtable.count(self.options.get("header-rows"))
        header = body[above - 1].cells if 0 < above <= len(body) else ()
        return [rows(title=self.argument, line=self.lineno, header=header, rows=body[above:], repairs=())]


class _Titled(_Base):
    def run(self) -> list[nodes.Node]:
        node = titled(title=self.argument)
        node += self.inside().children
        return [node]


class _Rubric(_Base):
    def run(self) -> list[nodes.Node]:
        return [rubric(self.argument, self.argument)]


class _Container(_Base):
    """Admonitions, `only`, tabs and unknown directives: their content belongs to the guide."""

    def run(self) -> list[nodes.Node]:
        return [self.inside()]


class _Ifconfig(_Base):
    """A conditional branch, chosen by the caller's definitions.

    An undecided branch is read and reported.
    """

    def run(self) -> list[nodes.Node]:
        defines = getattr(self.state.document.settings, "boardlab_defines", {})
        is_wanted = holds(self.argument, defines)
        if is_wanted is None:
            return [merged(line=self.lineno, reason=undecided(self.argument)), self.inside()]
        if is_wanted:
            return [self.inside()]
        self.takes_lines()
        return []


class _Ignored(_Base):
    """Programs, pictures, lists of contents: no results in there."""

    def run(self) -> list[nodes.Node]:
        self.takes_lines()
        return []


class _OtherFile(_Base):
    def run(self) -> list[nodes.Node]:
        if self.name == "include" and self.argument.startswith("<"):  # docutils' own character names
            return []
        return self.unread(
            f".. {self.name}:: {self.argument[:_PATH_MAX]} is not followed; read it as a file of its own"
        )


_IGNORED = (
    *("code", "code-block", "sourcecode", "parsed-literal", "highlight", "literal", "math", "graphviz", "mermaid"),
    *("image", "figure", "video", "toctree", "contents", "index", "meta", "class", "sectnum", "default-role", "role"),
    *("title", "date", "unicode", "replace", "header", "footer", "target-notes", "todo", "todolist"),
)


class _Table(dict[str, type[Directive]]):
    """The directives by name; an unlisted one is a container."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> type[Directive]:
        return _Container


@contextlib.contextmanager
def only_ours() -> Iterator[None]:
    """Replace docutils' directives by ours for the time of the context.

    Sphinx does the same, as docutils has no public way to remove a directive. Like docutils, it is not thread-safe.
    """
    ours = _Table(dict.fromkeys(_IGNORED, _Ignored))
    ours |= {"csv-table": _CsvTable, "list-table": _ListTable, "table": _Titled, "rubric": _Rubric}
    ours |= {"ifconfig": _Ifconfig}
    ours |= {"include": _OtherFile, "literalinclude": _OtherFile, "raw": _OtherFile}
    module = vars(directives)
    before = module["_directives"]
    module["_directives"] = ours
    try:
        yield
    finally:
        module["_directives"] = before


def _children(node: nodes.Element, kind: type[nodes.Element]) -> list[nodes.Element]:
    """The nearest descendants of a kind."""
    found: list[nodes.Element] = []
    for child in node.children:
        if isinstance(child, kind):
            found.append(child)
        elif isinstance(child, nodes.Element):
            found.extend(_children(child, kind))
    return found


def _line_or(node: nodes.Element, otherwise: int) -> int:
    lines = [n.line for n in node.findall() if n.line]
    return min(lines) if lines else otherwise


def holds(condition: str, defines: Mapping[str, str]) -> bool | None:
    """Evaluate a condition such as `CONFIG_part_variant in ('AM62X', 'AM62AX')`.

    Returns None if the definitions do not decide it.

    Args:
        defines: names -> values; a value is compared as text, without regard to case.
    """
    try:
        return _truth(ast.parse(condition, mode="eval").body, defines)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def undecided(condition: str) -> str:
    """Reason for a branch that was read without a choice."""
    try:
        names = sorted({node.id for node in ast.walk(ast.parse(condition, mode="eval")) if isinstance(node, ast.Name)})
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        names = []
    how = f"choose with --define {names[0]}=VALUE" if names else "its condition is not understood"
    return f"branches of `ifconfig` were all read, though one device has one of them; {how}, as in `ifconfig:: {condition}`"


def _truth(node: ast.expr, defines: Mapping[str, str]) -> bool | None:
    truth: bool | None = None
    match node:
        case ast.BoolOp(op=op, values=values):
            found = [_truth(value, defines) for value in values]
            decisive = isinstance(op, ast.Or)
            truth = decisive if decisive in found else None if None in found else not decisive
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(operand, defines)
            truth = None if inner is None else not inner
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            truth = _compared(_values(left, defines), op, _values(right, defines))
        case ast.Name(id=name) if name in defines:
            truth = defines[name].lower() not in {"", "0", "false", "no"}
        case ast.Constant(value=value):
            truth = bool(value)
    return truth


def _compared(left: list[str] | None, op: ast.cmpop, right: list[str] | None) -> bool | None:
    if left is None or right is None or len(left) != 1:
        return None
    match op:
        case ast.In() | ast.Eq():
            return left[0] in right
        case ast.NotIn() | ast.NotEq():
            return left[0] not in right
    return None


def _values(node: ast.expr, defines: Mapping[str, str]) -> list[str] | None:
    match node:
        case ast.Name(id=name):
            return [defines[name].lower()] if name in defines else None
        case ast.Constant(value=value):
            return [str(value).lower()]
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            found = [_values(part, defines) for part in parts]
            return None if None in found else [value for values in found for value in values or []]
    return None
