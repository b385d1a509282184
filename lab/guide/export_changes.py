"""A comparison as JSON; docs/guides/compare.md describes the shape."""

from __future__ import annotations

from typing import Any

from lab.guide import export, grouping
from lab.guide.compare import Change, Comparison
from lab.guide.grouped import Cause


def document(found: Comparison) -> dict[str, Any]:
    """The causes and the rows of a comparison, most important first, and the results that only one guide has.

    `rows` of a cause are places in the list of all rows.
    """
    places = {id(change): place for place, change in enumerate(found.changes)}
    return {
        "old": {"name": found.names[0], "file": found.paths[0]},
        "new": {"name": found.names[1], "file": found.paths[1]},
        "earlier": list(found.earlier),
        "verdict": grouping.verdict_line(found),
        "causes": [_cause(cause, places) for cause in grouping.causes(found)],
        "rows": [_row(change) for change in found.changes],
        "only_old": [export.cell(reading) for reading in found.only_old],
        "only_new": [export.cell(reading) for reading in found.only_new],
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
    return {
        "board": c.board,
        "metric": c.metric,
        "params": dict(c.params),
        "old": c.old,
        "new": c.new,
        "old_uncertainty": c.uncertainties[0],
        "new_uncertainty": c.uncertainties[1],
        "ratio": c.ratio,
        "low": c.interval[0] if c.interval else None,
        "high": c.interval[1] if c.interval else None,
        "verdict": str(c.verdict),
        "reason": c.reason,
        "returns_to": c.returns_to or None,
        "crept_from": c.crept_from or None,
        "unit": c.unit,
        "old_text": c.printed[0],
        "new_text": c.printed[1],
        "old_line": c.lines[0],
        "new_line": c.lines[1],
    }
