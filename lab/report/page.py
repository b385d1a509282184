"""The pages of a run, and of a board's check."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Final
from urllib.parse import urlencode

from attrs import frozen
from markupsafe import Markup

from lab.figures.bars import Flame, FlamePart, StageKey, flame, waterfalls
from lab.figures.power import PowerFigure
from lab.health import BoardCheck
from lab.judge.baseline import JudgedRun
from lab.judge.boot_breakdown import SHOWN, BootBreakdown, clock_lines, difference_lines, remarks, rows, tree_rows
from lab.judge.boottree import IN_PARALLEL, BootNode
from lab.judge.compare import Verdict
from lab.metrics.catalogue import BOOT_STAGE
from lab.report import view
from lab.report.names import Names
from lab.report.view import comparison
from lab.results import formatting
from lab.results.artifacts import ArtifactStore
from lab.results.formatting import duration
from lab.results.listing import STAGE, Overview
from lab.terminal import environment, json_text

UNCERTAINTY: Final = (
    "± bounds the error of the average at 95 % confidence: Student's t times the standard error over the cycles, and "
    "the largest timing error of a single cycle, added in quadrature."
)


SITE_HEAD: Final = "<!-- the head of the site -->"  # which differs from person to person, and the page does not


def render(
    run: Overview,
    artifacts: ArtifactStore,
    judged: JudgedRun | None = None,
    before: Overview | None = None,
    notes: Sequence[str] = (),
    home: str = "",
    power: Sequence[PowerFigure] = (),
    against: str = "",
    where: Sequence[BootBreakdown] = (),
    where_before: Sequence[BootBreakdown] = (),
) -> str:
    """Render a run's page, the same text for the same run.

    In place of a missing or damaged log stands the reason.

    Args:
        judged: the verdicts on its numbers.
        before: the run whose stages stand beside this one's.
        notes: remarks on the run's label.
        home: address of the list of runs, where the page is one of a site, which puts its own head for SITE_HEAD.
        where: parts of its boots.
        where_before: the same of `before`.
        power: the rails' power in some attempts.
        against: the requested baseline, for a site's address of the verdict.
    """
    names = Names(run.run)
    groups = view.groups(run, artifacts, names)
    tables = view.tables(run, names)
    return (
        environment("lab.report", "lab.figures")
        .get_template("report.html.j2")
        .render(
            run=run.run,
            virtual=run.virtual,
            names=names,
            took=duration((run.run.finished_at - run.run.started_at).total_seconds()) if run.run.finished_at else "",
            attempts=len(run.attempts),
            tables=tables,
            tiles=view.tiles(run, names),
            limits=view.limits(run, names),
            failure_rates=view.failure_rates(run, names),
            strip=view.cycles(run, names, before),
            waterfalls=waterfalls(
                run.stages,
                names.media,
                None if before is None else before.stages,
                None if judged is None else _stage_words(judged),
            ),
            where=[_parts(breakdown, where_before, names) for breakdown in where],
            comparison=comparison(judged, names) if judged is not None and run.numbers else None,
            before=None if before is None else before.run,
            drifts=view.drifts(run, names),
            notes=notes,
            home=home,
            site_head=Markup(SITE_HEAD),  # noqa: S704 - it is a constant
            power=power,
            data=_site_data(run, against)
            if home
            else [
                (
                    f"run-{run.run.id}.csv",
                    "CSV, one line a sample",
                    _inside("text/csv", formatting.export_csv([run])),
                ),
                (
                    f"run-{run.run.id}.json",
                    "JSON, with every attempt",
                    _inside("application/json", json_text(formatting.export_document([run]))),
                ),
            ],
            failure_causes=view.failure_causes(groups) if run.run.status != "completed" else [],
            failed=view.failures(groups),
            failed_attempts=len(run.failed),
            groups=groups,
            facts=view.facts(run),
            uncertainty=UNCERTAINTY,
            program=f"boardlab {version('boardlab')}",
        )
    )


def render_check(check: BoardCheck, document: Mapping[str, object]) -> str:
    """Render a board's check; `document` is for programs."""
    return (
        environment("lab.report", "lab.figures")
        .get_template("check.html.j2")
        .render(
            check=check,
            data=_inside("application/json", json_text(document)),
            program=f"boardlab {version('boardlab')}",
        )
    )


@frozen
class WhereSection:
    """The parts of a medium's boots.

    Attributes:
        changes: what differs from the other run, one line each; () without one.
        rows: of the tree, under `columns`.
        others: title and rows of what runs in parallel or has no place in it.
    """

    title: str
    figures: tuple[Flame, ...]
    changes: tuple[str, ...]
    remarks: tuple[str, ...]
    clocks: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[list[str], ...]
    others: tuple[tuple[str, list[list[str]]], ...]


def _parts(where: BootBreakdown, others: Sequence[BootBreakdown], names: Names) -> WhereSection:
    """A medium's tree as a flame graph, below that of another run, and as a table."""
    other = next((breakdown for breakdown in others if breakdown.medium == where.medium), None)
    drawn = [breakdown for breakdown in (other, where) if breakdown is not None and breakdown.tree is not None]
    columns = ("part", "length", "±", *(("before", "difference") if other else ("start, s", "%")))
    return WhereSection(
        names.media.get(where.medium, where.medium),
        (*_flames(drawn, 1), *_flames(drawn, 2)),
        () if other is None else tuple(difference_lines(other, where)),
        tuple(remarks(where)),
        tuple(clock_lines(where)),
        columns,
        tuple(tree_rows(where, other)),
        tuple(rows(where)),
    )


_MANY_PARTS: Final = 5  # of a stage, from which on it is drawn by itself


def _flames(drawn: Sequence[BootBreakdown], depth: int) -> Iterator[Flame]:
    """The trees (1), or their stages with many parts (2), those of all runs on one axis."""
    by_path: dict[tuple[str, ...], list[tuple[BootBreakdown, BootNode]]] = {}
    for breakdown in drawn:
        for path, node in breakdown.tree.all() if breakdown.tree else ():
            many = sum(part.placed for part in (*node.parts, *node.beside)) >= _MANY_PARTS
            if len(path) == depth and node.length_s > 0 and (depth == 1 or many):
                by_path.setdefault(path, []).append((breakdown, node))
    for of_path in by_path.values():
        longest_s = max(node.length_s for _, node in of_path)
        for breakdown, node in of_path:
            name = "" if depth == 1 else f": {node.name}"
            inside = [
                (len(path) - 2, part)
                for path, part in node.all()
                if len(path) > 1 and part.placed and not part.name.endswith(IN_PARALLEL)
            ]
            below = 1 + max((row for row, _ in inside), default=-1)
            parts = [
                FlamePart(part.name, row, part.start_s - node.start_s, part.length_s)
                for row, part in (*inside, *_lanes(node.beside, below))
            ]
            yield flame(f"run {breakdown.run}, release {breakdown.release}{name}", parts, longest_s)


def _lanes(beside: Sequence[BootNode], first: int) -> Iterator[tuple[int, BootNode]]:
    """The rows, from `first` on, of the longest parts in parallel: each in the first row that is free at its time."""
    ends: list[float] = []
    longest = sorted(beside, key=lambda part: part.length_s)[-SHOWN:]
    for part in sorted(longest, key=lambda part: part.start_s):
        lane = next((number for number, end_s in enumerate(ends) if end_s <= part.start_s), len(ends))
        ends[lane : lane + 1] = [part.start_s + part.length_s]
        yield first + lane, part


def _site_data(run: Overview, against: str) -> list[tuple[str, str, str]]:
    """The addresses of a run's data on a site.

    A saved page has the data inside.
    """
    address = f"/runs/{run.run.id}"
    verdicts = f"/api/v1/runs/{run.run.id}/verdicts" + (f"?{urlencode({'against': against})}" if against else "")
    return [
        (f"run-{run.run.id}.csv", "CSV, one line a sample", f"{address}/samples.csv"),
        (f"run-{run.run.id}.json", "JSON, with every attempt", f"{address}/run.json"),
        (f"run-{run.run.id}-verdict.json", "JSON, the verdict on every number", verdicts),
    ]


def _inside(kind: str, text: str) -> str:
    """A file as an address that has it inside (RFC 2397)."""
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


def _stage_words(judged: JudgedRun) -> dict[StageKey, str]:
    """The stages that got "worse" or "better"."""
    words = {Verdict.REGRESSION: "worse", Verdict.IMPROVEMENT: "better"}
    return {
        StageKey(number.average.params.get("medium", ""), number.average.params[STAGE]): words[
            number.judgement.verdict
        ]
        for number in judged.numbers
        if number.average.metric.name == BOOT_STAGE.name and number.judgement.verdict in words
    }
