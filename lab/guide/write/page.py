"""A release as a performance guide: one HTML file without network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version

from attrs import field, frozen
from markupsafe import Markup

from lab.guide import layout
from lab.guide.write.compose import ComposedTable, SampleLine, compose_tables
from lab.guide.write.entries import GuideEntry, GuideRelease, summary_table
from lab.judge.text import RUN
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
    f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{_SCRIPT_HASH}'; base-uri "
    "'none'; form-action 'none'; frame-ancestors 'none'"
)


@frozen
class CellView:
    """A cell of the page; `run`: address of its run's page, empty without one."""

    anchor: str
    board: str
    text: str
    marks: tuple[int, ...]
    hover: str
    source: str
    note: str
    values: str
    excerpt: str
    run: str


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
    sample_lines: list[SampleLine]
    commands: tuple[str, ...]


@frozen
class ChapterView:
    """A chapter of the page."""

    anchor: str
    title: str
    about: str
    tables: list[TableView]
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
    by_top_chapter: dict[str, list[ComposedTable]] = {}
    for table in compose_tables(release):
        by_top_chapter.setdefault(table.chapter[0] if table.chapter else "Other results", []).append(table)
    anchors = iter(range(1, len(release.entries) + 1))
    about = layout.load().about
    chapters = []
    for title, tables in by_top_chapter.items():
        views: list[TableView] = []
        headings: list[str] = []
        for table in tables:
            heading = " / ".join(table.chapter[1:])
            views.append(_table_view(table, heading if heading not in headings else "", anchors, release))
            headings.append(heading)
        chapters.append(
            ChapterView(
                "c-" + re.sub(r"\W+", "-", title.lower()).strip("-"),
                title,
                about.get(title, ""),
                views,
                release.conditions.get(title, ()),
                list(figures.get(title, ())),
            )
        )
    return (
        environment("lab.guide.write", "lab.figures")
        .get_template("guide.html.j2")
        .render(
            title=f"Linux {release.name} Performance Guide",
            boards=release.boards,
            modules=release.modules,
            software=[
                (name, [versions.get(board, "") for board in release.boards])
                for name, versions in release.software.items()
            ],
            notes=release.notes,
            warnings=[*release.warnings, *release.open_regressions],
            summary=summary_table(release),
            origins=release.origins,
            run_page=release.run_page,
            count=sum(cell is not None for c in chapters for t in c.tables for row in t.rows for cell in row.cells),
            chapters=chapters,
            trend=trend,
            left_out=(*release.failed, *release.left_out),
            script=Markup(_SCRIPT),  # noqa: S704 - ours
            script_hash=_SCRIPT_HASH,
            program=f"boardlab {version('boardlab')}",
        )
    )


def _table_view(table: ComposedTable, heading: str, anchors: Iterator[int], release: GuideRelease) -> TableView:
    keys = len(table.rows[0].keys) if table.rows else 1
    rows = tuple(
        RowView(row.keys, tuple(_cell_view(entry, anchors, release) if entry else None for entry in row.cells))
        for row in table.rows
    )
    about = layout.load().about.get("/".join(table.chapter), "") if heading else ""
    return TableView(heading, about, table.title, keys, table.header, rows, table.sample_lines(), table.commands)


def _cell_view(entry: GuideEntry, anchors: Iterator[int], release: GuideRelease) -> CellView:
    evidence = entry.evidence
    remarks = [release.notes[mark - 1] for mark in entry.marks]
    listed = () if entry.is_withheld else evidence.values[:_MOST_VALUES]
    values = ", ".join(f"{value:.4g}" for value in listed) + (" ..." if len(evidence.values) > len(listed) else "")
    facts = [f"n = {evidence.samples}"] if evidence.samples is not None else []
    if evidence.uncertainty is not None and entry.metric and (evidence.samples or 0) > 1:
        metric = by_name(entry.metric)
        facts.append(f"± {number(evidence.uncertainty, evidence.uncertainty, metric)} {metric.unit}")
    return CellView(
        anchor=f"n{next(anchors)}",
        board=entry.board,
        text=entry.text,
        marks=entry.marks,
        hover=". ".join([*filter(None, [", ".join(facts)]), *remarks]),
        source=f"{evidence.source}: {evidence.note}" if entry.is_withheld and evidence.is_broken else evidence.source,
        note=" ".join(remarks),
        values=f"samples: {values}" if listed else "",
        excerpt="" if entry.is_withheld else evidence.excerpt,
        run=release.run_page.replace(RUN, str(evidence.run_id)) if evidence.samples is not None else "",
    )
