"""Reader of guides in HTML, built by docutils or Sphinx or saved.

Nothing is fetched and nothing runs: tags are read as text; navigation, styles and scripts are skipped.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

from attrs import define, field

from lab.guide.model import CellKind, value_of
from lab.guide.read.document import Builder, Document
from lab.guide.read.raw_table import MOST_COLUMNS, RawRow, SpanningCell, join_header, spread

_IS_HTML = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|table|div|section|h[1-6]|p)\b",
    re.I | re.S,
)
_SKIPPED = frozenset(
    {"script", "style", "nav", "footer", "head", "template", "svg", "button", "select", "noscript", "iframe"}
)
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_SKIPPED_CLASSES = re.compile(
    r"(?:^|\s)(?:sphinxsidebar\w*|(?:bd-)?sidebar[\w-]*|toctree-wrapper|related|headerlink|breadcrumbs?|wy-nav-side"
    r"|contents|not-results)(?=\s|$)"
)
_NEVER_SKIPPED = frozenset({"html", "body", "main", "article", "section"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_TEXTS = frozenset({"p", "li", "caption", "th", "td", "figcaption", "pre", "dt", *_HEADINGS})
_NUMBERS = {CellKind.VALUE, CellKind.RANGE}
_MOST_HEADER_LINES = 4


def looks_like(text: str) -> bool:
    """Return whether a text is HTML."""
    return _IS_HTML.match(text) is not None


def read(text: str) -> Document:
    """Parse a page."""
    document = _parse(text, skips_classes=True)
    return document if document.tables else _parse(text, skips_classes=False)  # a theme that calls the page a sidebar


def _parse(text: str, *, skips_classes: bool) -> Document:
    parser = _Page(skips_classes=skips_classes)
    parser.feed(text)
    parser.close()
    parser.end_table()
    return parser.builder.finish()


@define
class _Row:
    line: int
    cells: list[SpanningCell] = field(factory=list)
    is_head: bool = True


@define
class _Table:
    line: int
    caption: str = ""
    head: list[_Row] = field(factory=list)
    body: list[_Row] = field(factory=list)
    in_head: bool | None = None  # None: the page has not marked its head


class _Page(HTMLParser):
    """Gathers text in the innermost text element; the end tag classifies it."""

    def __init__(self, *, skips_classes: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.skips_classes = skips_classes
        self.builder = Builder()
        self.skipping: list[str] = []
        self.texts: list[tuple[str, int, str, list[str]]] = []  # tag, line, class, pieces
        self.table: _Table | None = None
        self.row: _Row | None = None
        self.spans = (1, 1)
        self.items: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        if tag in _VOID:
            if tag == "br":
                self.handle_data(" ")
            return
        is_navigation = named.get("role") in {"navigation", "search", "contentinfo"}
        if self.skipping:
            self.skipping.append(tag) if tag == self.skipping[0] else None
            return
        has_class = self.skips_classes and _SKIPPED_CLASSES.search(named.get("class", "")) is not None
        if tag in _SKIPPED or ((is_navigation or has_class) and tag not in _NEVER_SKIPPED):
            self.skipping = [tag]
            return
        match tag:
            case "table":
                self.end_table()
                self.table = _Table(self.getpos()[0])
            case "thead" | "tbody":
                self.end_row()
                if self.table is not None and (tag == "thead" or self.table.in_head):
                    self.table.in_head = tag == "thead"
            case "tr":
                self.end_row()
                self.row = _Row(self.getpos()[0])
            case "th" | "td":
                self.end_cell()
                self.spans = (_count(named.get("colspan", "1")), _count(named.get("rowspan", "1")))
                if self.row is not None:
                    self.row.is_head &= tag == "th"
        self._mark(tag)
        if tag in _TEXTS:
            if tag in {"p", "li"} and self.texts and self.texts[-1][0] == "p":
                self.handle_endtag("p")  # HTML closes it so
            self.texts.append((tag, self.getpos()[0], named.get("class", ""), []))

    def handle_endtag(self, tag: str) -> None:
        if self.skipping:
            if tag == self.skipping[0]:
                self.skipping.pop()
            return
        if tag != "sup":
            self._mark(tag)
        match tag:
            case "table":
                self.end_table()
                return
            case "tr" | "thead" | "tbody":
                self.end_row()
                return
            case "th" | "td":
                self.end_cell()
                return
            case "ul" | "ol":
                if self.items:
                    self.builder.items(self.items)
                    self.items = []
                return
        if tag in _TEXTS and any(open_tag == tag for open_tag, *_ in self.texts):
            while self.texts and self.texts[-1][0] != tag:
                self._end_text()
            self._end_text()

    def handle_data(self, data: str) -> None:
        if not self.skipping and self.texts:
            self.texts[-1][3].append(data)

    def _mark(self, tag: str) -> None:
        """Keep the mark of a raised number, and of bold text in a paragraph, which may be a table's title."""
        if tag == "sup":  # a footnote's number is no digit of the number before it
            self.handle_data("^")
        elif tag in {"b", "strong"} and [open_tag for open_tag, *_ in self.texts] == ["p"]:
            self.handle_data("**")

    def _end_text(self) -> None:
        """Classify the innermost text element at its end."""
        tag, line, classes, pieces = self.texts.pop()
        text = " ".join("".join(pieces).split())
        inside = any(open_tag in {"th", "td", "caption", "li", "figcaption"} for open_tag, *_ in self.texts)
        if inside and tag != "caption":
            self.texts[-1][3].append(f" {text} ")
        elif tag in {"caption", "figcaption"} and self.table is not None:
            self.table.caption = text
        elif tag == "figcaption":
            self.builder.caption(text)
        elif tag in _HEADINGS:
            self.builder.heading(int(tag[1]), text)
        elif tag == "li":
            self.items.append((text, line))
        elif tag == "p" and "rubric" in classes.split():
            self.builder.rubric(text)
        elif tag == "pre":
            self.builder.separator()
        elif text:
            self.builder.paragraph(text, line)

    def end_cell(self) -> None:
        """Put the open cell into its row."""
        if self.row is None or not any(tag in {"th", "td"} for tag, *_ in self.texts):
            return
        while self.texts[-1][0] not in {"th", "td"}:
            self._end_text()
        text = " ".join("".join(self.texts.pop()[3]).split())
        self.row.cells.append(SpanningCell(text, *self.spans))

    def end_row(self) -> None:
        """Put the open row into its table."""
        self.end_cell()
        if self.table is not None and self.row is not None and self.row.cells:
            is_first = self.table.in_head is None and not self.table.body
            is_head = self.table.in_head or (is_first and self.row.is_head)
            (self.table.head if is_head else self.table.body).append(self.row)
        self.row = None

    def end_table(self) -> None:
        """Give the open table to the builder."""
        self.end_row()
        table, self.table = self.table, None
        if table is None:
            return
        lines = spread(row.cells[:MOST_COLUMNS] for row in table.body)
        body = [RawRow(row.line, texts) for row, texts in zip(table.body, lines, strict=True)]
        head = list(spread(row.cells[:MOST_COLUMNS] for row in table.head[:_MOST_HEADER_LINES]))
        header = join_header(head) if head else ()
        kinds = {value_of(cell).kind for cell in body[0].cells} if len(body) > 1 else _NUMBERS
        if not header and not kinds & _NUMBERS:
            header, body = body[0].cells, body[1:]
        if header or body:
            self.builder.table(table.caption, table.line, header, body)


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and 0 < int(text[:4]) <= MOST_COLUMNS else 1
