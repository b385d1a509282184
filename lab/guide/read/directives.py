"""Harmless directives of reStructuredText for guides: no file, no network.

docutils keeps one table of directives for the whole process. While a guide is parsed, `own_directives` replaces it by
the table of this module, which knows every name: tables are kept as rows of text, containers are entered, programs and
pictures are skipped, and a reference to another file is noted as unread.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives

from lab.guide.read import csvtable
from lab.guide.read.raw_table import RawRow, join_header

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
        parts: list[nodes.Node] = [
            rows(
                title=block.title, line=self.lineno, header=block.header, rows=list(block.rows), repairs=block.repairs
            )
        ]
        parts.extend(unread(line=line, reason=reason) for line, reason in block.lost)
        return parts


class _ListTable(_Base):
    def run(self) -> list[nodes.Node]:
        body = []
        for item in _children(self.inside(), nodes.list_item):
            cells = tuple(" ".join(cell.astext().split()) for cell in _children(item, nodes.list_item))
            body.append(RawRow(min((n.line for n in item.findall() if n.line), default=self.lineno), cells))
        above = csvtable.count(self.options.get("header-rows"))
        header = join_header([row.cells for row in body[:above]]) if 0 < above <= len(body) else ()
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
            return [merged(line=self.lineno, reason=explain_undecided(self.argument)), self.inside()]
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
def own_directives() -> Iterator[None]:
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
    descendants: list[nodes.Element] = []
    for child in node.children:
        if isinstance(child, kind):
            descendants.append(child)
        elif isinstance(child, nodes.Element):
            descendants.extend(_children(child, kind))
    return descendants


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


def explain_undecided(condition: str) -> str:
    """Reason for a branch that was read without a choice."""
    try:
        names = sorted({node.id for node in ast.walk(ast.parse(condition, mode="eval")) if isinstance(node, ast.Name)})
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        names = []
    how = f"choose with --define {names[0]}=VALUE" if names else "its condition is not understood"
    return (
        f"branches of `ifconfig` were all read, though one device has one of them; {how}, as in `ifconfig:: "
        f"{condition}`"
    )


def _truth(node: ast.expr, defines: Mapping[str, str]) -> bool | None:
    truth: bool | None = None
    match node:
        case ast.BoolOp(op=op, values=values):
            truths = [_truth(value, defines) for value in values]
            decisive = isinstance(op, ast.Or)
            truth = decisive if decisive in truths else None if None in truths else not decisive
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(operand, defines)
            truth = None if inner is None else not inner
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            truth = _compare(_values(left, defines), op, _values(right, defines))
        case ast.Name(id=name) if name in defines:
            truth = defines[name].lower() not in {"", "0", "false", "no"}
        case ast.Constant(value=value):
            truth = bool(value)
    return truth


def _compare(left: list[str] | None, op: ast.cmpop, right: list[str] | None) -> bool | None:
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
            texts = [_values(part, defines) for part in parts]
            return None if None in texts else [value for values in texts for value in values or []]
    return None
