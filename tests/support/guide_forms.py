"""A guide of tables in the further forms that guides come in: HTML, plain text as Sphinx writes it, Markdown, tabs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import takewhile

from support.guide_family import GuideText, TableText, write_rst, write_text

_WIDEST = 60


def cells_of(table: TableText) -> list[list[str]]:
    """Header and rows of a table as cells."""
    return [next(csv.reader([line])) for line in table.lines]


def write_html(guide: GuideText) -> str:
    """As Sphinx builds it, with what a browser's "save page" leaves around it."""
    lines = [
        "<!DOCTYPE html>",
        "<html><head><title>Guide 1.2.3</title><script>var a = '<table>';</script></head><body>",
    ]
    lines += [
        '<nav><ul><li><a href="#">Table of contents</a></li></ul></nav>',
        f"<h1>2.3. {escape(guide.title)}¶</h1>",
    ]
    for chapter, table in _with_headings(guide):
        lines += [f"<h{depth + 1}>{escape(text)}</h{depth + 1}>" for depth, text in chapter]
        lines.append('<table class="docutils align-default" id="id1">')
        lines += [
            f'<caption><span class="caption-text">{escape(table.title)}</span><a class="headerlink">¶</a></caption>'
        ]
        header, *rows = cells_of(table)
        lines += [
            "<thead>",
            "<tr>" + "".join(f'<th class="head"><p>{escape(c)}</p></th>' for c in header) + "</tr>",
            "</thead>",
        ]
        lines.append("<tbody>")
        for row in rows:
            lines += ["<tr>", *(f"<td><p>{escape(c)}</p></td>" for c in row), "</tr>"]
        lines += ["</tbody>", "</table>"]
    return "\n".join([*lines, "<footer><p>Copyright</p></footer>", "</body></html>", ""])


def write_plain(guide: GuideText) -> str:
    """As Sphinx's text builder writes it; each column is as wide as its longest word, and longer cells are wrapped."""
    lines = [guide.title, "*" * len(guide.title), ""]
    for chapter, table in _with_headings(guide):
        for depth, text in chapter:
            lines += ["", text, '=-~"+'[depth - 1] * len(text), ""]
        lines += ["", table.title, "^" * len(table.title), "", *_grid(cells_of(table)), ""]
    return "\n".join(lines)


def write_markdown(guide: GuideText) -> str:
    """Headings with #, tables with bars, the title in a line of its own before the table."""
    lines = [f"# {guide.title}", ""]
    for chapter, table in _with_headings(guide):
        lines += [part for depth, text in chapter for part in (f"{'#' * (depth + 1)} {text}", "")]
        header, *rows = cells_of(table)
        lines += [f"**Table: {table.title}**", "", _bars(header), _bars(["---"] * len(header)), *map(_bars, rows), ""]
    return "\n".join(lines)


def write_tabs(guide: GuideText) -> str:
    """As a browser copies a page: a heading is a line, a row is a line with tabs."""
    lines = [f"2.3. {guide.title}¶", ""]
    for number, (chapter, table) in enumerate(_with_headings(guide), start=1):
        lines += [part for depth, text in chapter for part in (f"2.3.{'1.' * depth} {text}¶", "")]
        lines += [f"Table 2.{number} {table.title}¶", *("\t".join(row) for row in cells_of(table)), ""]
    return "\n".join(lines)


FORMS: Mapping[str, Callable[[GuideText], str]] = {
    "rst": write_rst,
    "text": write_text,
    "html": write_html,
    "plain text": write_plain,
    "markdown": write_markdown,
    "tab-separated": write_tabs,
}


def _with_headings(guide: GuideText) -> Iterator[tuple[list[tuple[int, str]], TableText]]:
    """Each table, and the (depth, heading) pairs that lead to it from the one before."""
    before: Sequence[str] = ()
    for table in guide.tables:
        common = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(before, table.chapter, strict=False))))
        yield [(depth + 1, table.chapter[depth]) for depth in range(common, len(table.chapter))], table
        before = table.chapter


def _bars(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _grid(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(word) for row in rows for word in [*row[i].split(), ""]) for i in range(len(rows[0]))]
    border = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [border]
    for number, row in enumerate(rows):
        wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for i in range(max(map(len, wrapped))):
            parts = [cell[i] if i < len(cell) else "" for cell in wrapped]
            lines.append("|" + "|".join(f" {part:<{width}} " for part, width in zip(parts, widths, strict=True)) + "|")
        lines.append(border if number else border.replace("-", "=").replace("+", "|"))
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
