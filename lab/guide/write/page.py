"""A release as a performance guide: one HTML file without network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version

from attrs import field, frozen
from markupsafe import Markup

from lab.guide import layout
from lab.guide.write import compose
from lab.guide.write.compose import ComposedTable
from lab.guide.write.entries import GuideEntry, GuideRelease
from lab.metrics import by_name
from lab.results.formatting import number
from lab.terminal import environment

_MOST_VALUES = 50
_SCRIPT = """
function open_evidence() { const row = document.getElementById(location.hash.slice(1));
  if (row && row.closest("details")) { row.closest("details").open = true; row.scrollIntoView(); } }
addEventListener("hashchange", open_evidence); open_evidence();
"""  # not every browser opens the details that hold a link's target
_SCRIPT_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
# For a server that gives the page to a browser: nothing but the page's own style, pictures and this script.
POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{_SCRIPT_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


@frozen
class CellView:
    """A cell of the page."""

    anchor: str
    board: str
    text: str
    marks: tuple[int, ...]
    hover: str
    source: str
    note: str
    values: str
    excerpt: str


@frozen
class RowView:
    """A row of the page."""

    keys: tuple[str, ...]
    cells: tuple[CellView | None, ...]


@frozen
class TableView:
    """A table of the page; `heading` is empty where it repeats."""

    heading: str
    about: str
    title: str
    keys: int
    header: tuple[str, ...]
    rows: tuple[RowView, ...]
    taken: list[str]


@frozen
class ChapterView:
    """A chapter of the page."""

    anchor: str
    title: str
    about: str
    tables: list[TableView]
    commands: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    figures: list[tuple[Markup, str]] = field(factory=list)


def render(
    release: GuideRelease, figures: Mapping[str, Sequence[tuple[Markup, str]]], trend: Markup | None = None
) -> str:
    """The page.

    Args:
        figures: top chapter -> (figure, caption).
        trend: all chapters over releases; empty without one.
    """
    chapters = []
    anchors = iter(range(1, len(release.entries) + 1))
    for title, tables in compose.by_top_chapter(compose.tables(release)).items():
        views: list[TableView] = []
        headings: list[str] = []
        for table in tables:
            heading = " / ".join(table.chapter[1:])
            views.append(_table(table, heading if heading not in headings else "", anchors, release.notes))
            headings.append(heading)
        found = list(figures.get(title, ()))
        anchor = "c-" + re.sub(r"\W+", "-", title.lower()).strip("-")
        about = layout.load().about.get(title, "")
        commands, conditions = (tuple(of.get(title, ())) for of in (release.commands, release.conditions))
        chapters.append(ChapterView(anchor, title, about, views, commands, conditions, found))
    return (
        environment("lab.guide.write", "lab.figures")
        .get_template("guide.html.j2")
        .render(
            title=f"Linux {release.name} Performance Guide",
            boards=release.boards,
            modules=release.modules,
            software=[
                (name, [of.get(board, "") for board in release.boards]) for name, of in release.software.items()
            ],
            notes=release.notes,
            warnings=[*warnings(release), *regressions(release)],
            summaries=[(one.board, one.text) for one in boards(release)],
            count=sum(cell is not None for c in chapters for t in c.tables for row in t.rows for cell in row.cells),
            chapters=chapters,
            trend=trend,
            left_out=(*release.failed, *release.left_out),
            script=Markup(_SCRIPT),  # noqa: S704 - ours
            script_hash=_SCRIPT_HASH,
            program=f"boardlab {version('boardlab')}",
        )
    )


def _table(table: ComposedTable, heading: str, anchors: Iterator[int], notes: Sequence[str]) -> TableView:
    keys = len(table.rows[0].keys) if table.rows else 1
    rows = tuple(
        RowView(row.keys, tuple(_cell(cell, anchors, notes) if cell else None for cell in row.cells))
        for row in table.rows
    )
    about = layout.load().about.get("/".join(table.chapter), "") if heading else ""
    return TableView(heading, about, table.title, keys, table.header, rows, compose.taken(table))


def _cell(entry: GuideEntry, anchors: Iterator[int], notes: Sequence[str]) -> CellView:
    evidence = entry.evidence
    listed = () if entry.is_withheld else evidence.values[:_MOST_VALUES]
    values = ", ".join(f"{value:.4g}" for value in listed) + (" ..." if len(evidence.values) > len(listed) else "")
    return CellView(
        anchor=f"n{next(anchors)}",
        board=entry.board,
        text=entry.text,
        marks=entry.marks,
        hover=_hover(entry, notes),
        source=evidence.source,
        note=" ".join(notes[mark - 1] for mark in entry.marks),
        values=f"samples: {values}" if listed else "",
        excerpt="" if entry.is_withheld else evidence.excerpt,
    )


def _hover(entry: GuideEntry, notes: Sequence[str]) -> str:
    evidence = entry.evidence
    parts = [f"n = {evidence.samples}"] if evidence.samples is not None else []
    if evidence.uncertainty is not None and entry.metric:
        metric = by_name(entry.metric)
        parts.append(f"± {number(evidence.uncertainty, evidence.uncertainty, metric)} {metric.unit}")
    return ". ".join([*([", ".join(parts)] if parts else []), *(notes[mark - 1] for mark in entry.marks)])


def warnings(release: GuideRelease) -> list[str]:
    """Sentences on numbers of simulated boards and of incomplete runs."""
    simulated = sorted({entry.board for entry in release.entries if entry.evidence.is_simulated})
    found = (
        [f"Simulated, and no measurement of a real board: all numbers of {', '.join(simulated)}."] if simulated else []
    )
    counts = Counter(
        (entry.board, entry.evidence.incomplete) for entry in release.entries if entry.evidence.incomplete
    )
    for (board, why), count in sorted(counts.items()):
        found.append(f"Incomplete, since {why}: {count} number{'s' * (count > 1)} of {board}.")
    return found


def regressions(release: GuideRelease) -> list[str]:
    """Sentences on regressions that nobody has decided on."""
    return [f"Open regression of {text}." for text in release.regressions]


_HEADLINE = "boot.time"  # of each medium, with the default root file system


@frozen
class BoardSummary:
    """A board of a written guide.

    Attributes:
        numbers: how many it has; `measured` of them here, the others are published ones.
        care: how many have a footnote; `withheld` of them are not printed.
        boots: medium -> boot time as printed, with its unit.
    """

    board: str
    numbers: int
    measured: int
    care: int
    withheld: int
    boots: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """In one sentence."""
        sources = [
            f"{count} {word}"
            for count, word in ((self.measured, "measured here"), (self.numbers - self.measured, "published"))
            if count
        ]
        care = f"; {self.care} with a footnote" if self.care else ""
        care += f", {self.withheld} of them not printed" if self.withheld else ""
        boots = "".join(f"; boots from {medium} in {time}" for medium, time in self.boots)
        return f"{self.numbers} number{'s' * (self.numbers != 1)} ({', '.join(sources)}){care}{boots}"


def boards(release: GuideRelease) -> list[BoardSummary]:
    """Each board of a release, in its order."""
    return [_board(name, [e for e in release.entries if e.board == name]) for name in release.boards]


def _board(name: str, entries: Sequence[GuideEntry]) -> BoardSummary:
    boots = [
        (entry.params["medium"], f"{entry.text} {by_name(_HEADLINE).unit}")
        for entry in entries
        if entry.metric == _HEADLINE and entry.params.keys() == {"medium"}
    ]
    return BoardSummary(
        name,
        len(entries),
        sum(entry.evidence.samples is not None for entry in entries),
        sum(bool(entry.marks) for entry in entries),
        sum(entry.is_withheld for entry in entries),
        tuple(sorted(boots)),
    )
