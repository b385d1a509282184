"""Guides, findings and comparisons as JSON and CSV; docs/guides/index.md describes the shapes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import asdict
from attrs.filters import exclude, include

from lab.guide.catalogue import CellReading
from lab.guide.check.findings import RuleFinding, run_rules
from lab.guide.compare import causes
from lab.guide.compare.causes import Cause
from lab.guide.compare.comparison import Change, Comparison
from lab.guide.compare.trend import Trend
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import CellKind
from lab.guide.rulebook import Effect

_CSV_COLUMNS = (
    *("file", "table", "title", "row", "board", "metric", "unit", "kind", "value", "min", "max", "text", "line"),
    *("quantity", "params", "own", "own_uncertainty"),
)


def guide_document(sheet: MeasuredGuide) -> dict[str, Any]:
    """Export a file: tables, and its cells in reading order.

    `table` of a cell is an index into `tables`.
    """
    source, own = sheet.guide, recovery_findings(sheet)
    return {
        "file": source.path,
        "format": source.format,
        "title": source.title,
        "release": source.release,
        "release_source": source.release_source or None,
        "boards": list(source.boards),
        "modules": [asdict(module, filter=exclude("clock_step_mhz")) for module in source.modules],
        "conditions": [asdict(condition, filter=exclude("after_table")) for condition in source.conditions],
        "tables": [asdict(table, filter=exclude("index", "columns", "cells")) for table in source.tables],
        "cells": [cell_document(reading, own.get(id(reading))) for reading in sheet.readings],
        "unknown_rows": [{"table": table, "row": row, "line": line} for (table, row, line) in unknown_rows(sheet)],
        "unread": [asdict(part) for part in source.unread],
        "repairs": [asdict(part) for part in source.repairs],
    }


def recovery_findings(sheet: MeasuredGuide) -> dict[int, RuleFinding]:
    """Reading (by its id) -> the finding that knows its right number."""
    return {
        id(f.reading): f for f in run_rules(sheet) if f.rule.effect is Effect.RECOVERED and f.corrected is not None
    }


def cell_document(reading: CellReading, own: RuleFinding | None = None) -> dict[str, Any]:
    """Export one cell.

    `quantity` is boardlab's metric or null; `own` is the number that a rule recovered, with its ±.
    """
    c = reading.cell
    return {
        "table": c.table,
        "row": c.row,
        "board": c.board,
        "metric": c.metric,
        "unit": c.unit,
        "kind": str(c.kind),
        "value": c.value.number,
        "min": c.value.low,
        "max": c.value.high,
        "text": c.value.text,
        "line": c.line,
        "quantity": reading.metric or None,
        "params": dict(reading.params or c.params),
        "likely_board": c.likely_board,
        "own": own.corrected if own else None,
        "own_uncertainty": own.uncertainty if own else None,
    }


def unknown_rows(sheet: MeasuredGuide) -> list[tuple[int, str, int]]:
    """(Table, row, line) of each row whose results have no metric."""
    cells = [reading.cell for reading in sheet.readings if _is_unknown(reading) and reading.number is not None]
    return list(dict.fromkeys((cell.table, cell.row, cell.line) for cell in cells))


def unknown_cells(sheet: MeasuredGuide) -> list[dict[str, Any]]:
    """Numbers without a metric of boardlab, with their file.

    Parameters of a test and repeated names are left out.
    """
    return [
        {"file": sheet.guide.path, **cell_document(reading)}
        for reading in sheet.readings
        if _is_unknown(reading) and reading.number is not None and reading.cell.kind is not CellKind.IDENTIFIER
    ]


def _is_unknown(reading: CellReading) -> bool:
    cell = reading.cell
    return reading.quantity is None and cell.metric is not None and not reading.table.columns[cell.column].is_key


def to_csv(sheets: Sequence[MeasuredGuide]) -> str:
    """All cells of some guides, one a line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for sheet in sheets:
        own = recovery_findings(sheet)
        for reading in sheet.readings:
            row = cell_document(reading, own.get(id(reading)))
            params = ";".join(f"{name}={value}" for name, value in row["params"].items())
            writer.writerow(row | {"file": sheet.guide.path, "title": reading.table.title, "params": params})
    return out.getvalue()


def findings_document(findings: Iterable[RuleFinding]) -> dict[str, Any]:
    """Export findings.

    `cell` is null for a finding about a table or a row as a whole.
    """
    return {
        "findings": [
            {
                "rule": f.rule.id,
                "severity": str(f.severity),
                "file": f.file,
                "line": f.line,
                "cell": _place(f.reading) if f.reading else None,
                "message": f.message,
                "corrected": f.corrected,
                "uncertainty": f.uncertainty,
                "also": [_place(reading) for reading in f.also],
                "page": f.rule.page,
            }
            for f in findings
        ]
    }


def _place(reading: CellReading) -> dict[str, Any]:
    c = reading.cell
    return {
        "table": reading.table.name,
        "row": c.row,
        "board": c.board,
        "metric": c.metric,
        "text": c.value.text,
        "line": c.line,
    }


def trends_document(trends: Iterable[Trend]) -> dict[str, Any]:
    """Series of a metric over releases."""
    return {
        "trends": [
            {
                **asdict(series, filter=exclude("points")),
                "points": [
                    {"release": p.release, "value": p.value, "min": p.low, "max": p.high, "note": p.note}
                    for p in series.points
                ],
            }
            for series in trends
        ]
    }


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Export a comparison: causes, rows, and results of one guide only.

    The most important come first. `rows` of a cause are indices into the list of all rows.
    """
    places = {id(change): place for place, change in enumerate(comparison.changes)}
    return {
        "old": {"name": comparison.names[0], "file": comparison.paths[0]},
        "new": {"name": comparison.names[1], "file": comparison.paths[1]},
        "earlier": list(comparison.earlier),
        "verdict": causes.verdict_line(comparison),
        "causes": [_cause(cause, places) for cause in causes.find_causes(comparison)],
        "rows": [_row(change) for change in comparison.changes],
        "only_old": [cell_document(reading) for reading in comparison.only_old],
        "only_new": [cell_document(reading) for reading in comparison.only_new],
    }


def _cause(cause: Cause, places: dict[int, int]) -> dict[str, Any]:
    return {
        "kind": str(cause.kind),
        "what": cause.what,
        "why": cause.why,
        "boards": list(cause.boards),
        "numbers": cause.count,
        "factor_low": cause.factors[0] if cause.factors else None,
        "factor_high": cause.factors[1] if cause.factors else None,
        "rule": cause.rule or None,
        "rows": [places[id(change)] for change in cause.changes],
    }


def _row(c: Change) -> dict[str, Any]:
    as_they_are = include("board", "metric", "params", "old", "new", "ratio", "verdict", "reason", "unit")
    low, high = c.interval or (None, None)
    pairs = {"uncertainty": c.uncertainties, "text": c.printed, "line": c.lines}
    return {
        **asdict(c, filter=as_they_are),
        "low": low,
        "high": high,
        "returns_to": c.returns_to or None,
        "crept_from": c.crept_from or None,
        **{f"{side}_{name}": both[at] for name, both in pairs.items() for at, side in enumerate(("old", "new"))},
    }
