"""Guides, findings, comparisons and trends for a person at a terminal."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lab.figures.lines import span
from lab.guide.catalogue import params_text
from lab.guide.check.findings import RuleFinding
from lab.guide.compare.causes import find_causes, heading, quiet_changes, verdict_line
from lab.guide.compare.comparison import Change, Comparison
from lab.guide.compare.trend import Trend
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import CellKind, group_reasons
from lab.guide.rulebook import Rule, Severity
from lab.guide.write import export

_EXAMPLES = 3  # of one rule, unless all are wanted
_BARS = "▁▂▃▄▅▆▇█"


def describe_guide(sheet: MeasuredGuide) -> Iterator[str]:
    """Describe a file table by table."""
    guide = sheet.guide
    counts = Counter(cell.kind for table in guide.tables for cell in table.cells)
    yield f"{guide.path}: {guide.title or 'no title'}, release {guide.release or 'unknown'}"
    yield f"  boards: {', '.join(guide.boards) or 'none named'}"
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind in CellKind if counts[kind])
    yield f"  {len(guide.tables)} tables, {counts.total()} cells: {kinds}"
    for table in guide.tables:
        unattributed = sum(cell.kind is CellKind.UNATTRIBUTED for cell in table.cells)
        chapter = " > ".join([*table.chapter, ""]) if table.chapter else ""
        yield f"  {table.line:5}  {chapter}{table.title}  [{len(table.cells)} cells" + (
            f", {unattributed} unattributed]" if unattributed else "]"
        )
    recoveries = export.recovery_findings(sheet).values()
    if recoveries:
        unsure = sum(bool(finding.uncertainty) for finding in recoveries)
        yield f"  {len(recoveries)} cells average two operations; their own values are recovered (--json)" + (
            f", {unsure} of them from means, within 25 % (10 % in 82 of 100)" if unsure else " to a printed sample"
        )
    unknown_rows = export.unknown_rows(sheet)
    if unknown_rows:
        yield f"  {len(unknown_rows)} rows stand for no metric of boardlab and are kept as they are:"
        for table_index, row, line in unknown_rows:
            yield f"  {line:5}  {guide.tables[table_index].title}: {row}"


def list_unknown(sheet: MeasuredGuide) -> Iterator[str]:
    """List the numbers without a metric, and their share."""
    cells = export.unknown_cells(sheet)
    numbers = sum(reading.number is not None for reading in sheet.readings)
    share = 100 * len(cells) / numbers if numbers else 0.0
    yield f"{sheet.guide.path}: {len(cells)} of {numbers} numbers stand for no metric of boardlab ({share:.2f} %)"
    for cell in cells:
        board = f"{cell['board']}: " if cell["board"] else ""
        table = sheet.guide.tables[cell["table"]]
        yield f"  {cell['line']:5}  {table.name}: {cell['row']} | {board}{cell['metric']}: {cell['text']}"


def list_unread(sheet: MeasuredGuide) -> Iterator[str]:
    """List the unread and the repaired parts of a file by cause."""
    for what, parts in (("not read", sheet.guide.unread), ("mended", sheet.guide.repairs)):
        for group in group_reasons(parts):
            yield f"{sheet.guide.path}:{group.lines[0]}: {what}: {group.text}"


def list_findings(findings: Sequence[RuleFinding], *, show_all: bool) -> Iterator[str]:
    """Findings by rule, the surest first."""
    counts = Counter(f.severity for f in findings)
    yield ", ".join(f"{counts[severity]} {severity}" for severity in Severity if counts[severity]) or "nothing found"
    order = list(Severity)
    by_rule = sorted(findings, key=lambda f: (order.index(f.severity), f.rule.id))
    for (severity, rule), group in itertools.groupby(by_rule, key=lambda f: (f.severity, f.rule)):
        members = list(group)
        yield ""
        page = rule.address or f"`lab guide rules {rule.id}`"
        yield f"{severity} {rule.id} ({len(members)}): {rule.title}; see {page}"
        for f in members if show_all else members[:_EXAMPLES]:
            yield f"  {f.file}:{f.line}: {_place(f)}{f.message}"
        if len(members) > _EXAMPLES and not show_all:
            yield f"  … and {len(members) - _EXAMPLES} more (--all)"


def _place(finding: RuleFinding) -> str:
    """Place of a finding: row, board, and text the message lacks."""
    if finding.reading is None:
        return ""
    cell = finding.reading.cell
    place = cell.row[:48] + (f", {finding.reading.board}" if finding.reading.board else "")
    text = cell.value.text
    return f"{place}: " if finding.message.startswith(text) else f"{place}: {text!r} "


def explain_rules(rules: Iterable[Rule]) -> Iterator[str]:
    """Explain rules."""
    for rule in rules:
        yield from ("", f"{rule.id}: {rule.title} ({rule.severity})", "")
        yield from (rule.text or f"see {rule.address}").splitlines()


def list_changes(comparison: Comparison, *, show_all: bool) -> Iterator[str]:
    """List the changes of a comparison by cause, the urgent ones first.

    Args:
        show_all: include each number of a cause with the judge's reason, and noise.
    """
    named = zip(comparison.names, comparison.paths, strict=True)
    yield " -> ".join(path if path == name else f"{name} ({path})" for name, path in named)
    if comparison.earlier:
        yield f"with a look at {comparison.looked_at}"
    yield verdict_line(comparison)
    for kind, causes in itertools.groupby(find_causes(comparison), key=lambda cause: cause.kind):
        yield ""
        yield heading(kind, comparison.names)
        for cause in causes:
            yield f"  {cause.factor}  {cause.text}" if cause.factor else f"  {cause.text}"
            if show_all:
                yield from itertools.chain.from_iterable(map(_describe_change, cause.changes))
    if show_all:
        yield ""
        yield "noise, or below the resolution"
        yield from itertools.chain.from_iterable(map(_describe_change, quiet_changes(comparison)))


def _describe_change(change: Change) -> Iterator[str]:
    ratio = f"{change.ratio:.3g}x" if change.ratio is not None else "-"
    yield (
        f"    {ratio:>7}  {change.board or 'no board'}  {change.metric} {params_text(change.params)}  "
        f"{change.old:g} -> {change.new:g} {change.unit}  (lines {change.lines[0]}, {change.lines[1]})"
    )
    yield f"             {change.verdict}: {change.reason}"


def draw_trends(trends: Iterable[Trend]) -> Iterator[str]:
    """One line of bars for each series, and its points."""
    for series in trends:
        definition = f"  {series.definition}" if series.definition else ""
        name = f"{series.metric} {params_text(series.params)}  {series.board}"
        yield f"{name}  [{series.unit}, {series.better} is better]{definition}"
        bars = draw_bars([point.value for point in series.points])
        for point, bar in zip(series.points, bars, strict=True):
            spread = f"  ({point.low:g} to {point.high:g})" if point.low is not None and point.high is not None else ""
            yield f"  {point.release:>9}  {bar}  {point.value:g}{spread}{f'  {point.note}' if point.note else ''}"
        yield f"  {'':>9}  {''.join(bars)}"


def draw_bars(values: Sequence[float]) -> list[str]:
    """Draw a sparkline over the values' span (`lab.figures.lines.span`)."""
    low, high = span(values)
    steps = len(_BARS) - 1
    return [
        _BARS[math.ceil((value - low) / (high - low) * steps - 0.5) if high > low else steps // 2] for value in values
    ]
