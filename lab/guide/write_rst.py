"""Writer of a release's performance guide in reStructuredText."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.guide import compose, layout, page
from lab.guide.compose import ComposedTable
from lab.guide.entries import GuideRelease
from lab.guide.text import escaped

_UNDERLINES = "-^\"'~"
_READ_FIRST = (
    "The numbers of this guide were measured on the following modules. Where a board has no number the cell is empty. A cell\n"
    "holds an average, or average (minimum, maximum)."
)


def write(release: GuideRelease) -> str:
    """The whole document."""
    title = f"Linux {release.name} Performance Guide"
    bar = "=" * (len(title) + 2)
    lines = [bar, f" {title}", bar, "", ".. contents:: Contents", "   :depth: 2", "", ".. rubric:: Summary", ""]
    lines += [f"-  {escaped(f'{one.board}: {one.text}')}" for one in page.boards(release)]
    lines += ["", ".. rubric:: Read This First", "", _READ_FIRST, ""]
    simulated = sorted({entry.board for entry in release.entries if entry.evidence.is_simulated})
    if simulated:
        lines += [".. warning::", "", f"   {escaped(_simulated(simulated))}", ""]
    if release.modules:
        lines += [
            ".. list-table:: Evaluation Modules",
            "    :header-rows: 1",
            "",
            "    * - Name",
            "      - Description",
        ]
        for name, description in release.modules:
            lines += [f"    * - {escaped(name)}", f"      - {escaped(description)}"]
        lines.append("")
    about = layout.load().about
    chapter: tuple[str, ...] = ()
    composed = compose.tables(release)
    for number, table in enumerate(composed):
        lines += _headings(chapter, table.chapter, about)
        chapter = table.chapter
        lines += _table(table)
        following = composed[number + 1].chapter[:1] if number + 1 < len(composed) else ()
        if following != chapter[:1]:
            statements = release.conditions.get(chapter[0] if chapter else "", ())
            lines += _conditions((*statements, *([_simulated(simulated)] if simulated else [])))
    return "\n".join(lines).rstrip() + "\n"


def _simulated(boards: Sequence[str]) -> str:
    return f"Simulated, and no measurement of a real board: all numbers of {', '.join(boards)}."


def _headings(before: Sequence[str], now: Sequence[str], about: Mapping[str, str]) -> Iterator[str]:
    common = 0
    while common < min(len(before), len(now)) and before[common] == now[common]:
        common += 1
    for depth in range(common, len(now)):
        heading = escaped(now[depth])
        yield from ("", heading, _UNDERLINES[min(depth, len(_UNDERLINES) - 1)] * max(4, len(heading)), "")
        if text := about.get("/".join(now[: depth + 1])):
            yield from (text, "")


def _table(table: ComposedTable) -> Iterator[str]:
    yield f".. csv-table:: {escaped(table.title)}"
    yield f"    :header: {_csv(table.header)}"
    yield ""
    for row in table.rows:
        yield f"    {_csv([*row.keys, *(cell.text if cell else '' for cell in row.cells)])}"
    yield ""


def _conditions(statements: Sequence[str]) -> Iterator[str]:
    if statements:
        yield from ("The performance numbers were captured using the following:", "")
        yield from (f"-  {escaped(statement)}" for statement in statements)
        yield ""


def _csv(cells: Sequence[str]) -> str:
    return ",".join('"' + escaped(" ".join(cell.split())).replace('"', '""') + '"' for cell in cells)
