"""Guides, findings, comparisons and trends for a person at a terminal."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lab.figures.lines import span
from lab.guide import model
from lab.guide.check.findings import Finding
from lab.guide.compare import causes
from lab.guide.compare.comparison import Change, Comparison
from lab.guide.compare.trend import Trend
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import CellKind
from lab.guide.rulebook import Rule, Severity
from lab.guide.write import export

_EXAMPLES = 3  # of one rule, unless all are wanted
_BARS = "▁▂▃▄▅▆▇█"


def guide(sheet: MeasuredGuide) -> Iterator[str]:
    """Describe a file table by table."""
    source = sheet.guide
    counts = Counter(cell.kind for table in source.tables for cell in table.cells)
    total = sum(counts.values())
    yield f"{source.path}: {source.title or 'no title'}, release {source.release or 'unknown'}"
    yield f"  boards: {', '.join(source.boards) or 'none named'}"
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind in CellKind if counts[kind])
    yield f"  {len(source.tables)} tables, {total} cells: {kinds}"
    for table in source.tables:
        loose = sum(cell.kind is CellKind.UNATTRIBUTED for cell in table.cells)
        where = " > ".join([*table.chapter, ""]) if table.chapter else ""
        yield f"  {table.line:5}  {where}{table.title}  [{len(table.cells)} cells" + (
            f", {loose} unattributed]" if loose else "]"
        )
    own = export.recovered(sheet).values()
    if own:
        unsure = [f for f in own if f.uncertainty]
        yield f"  {len(own)} cells average two operations; their own values are recovered (--json)" + (
            f", {len(unsure)} of them from means, within 25 % (10 % in 82 of 100)"
            if unsure
            else " to a printed sample"
        )
    unknown = export.unknown_rows(sheet)
    if unknown:
        yield f"  {len(unknown)} rows stand for no metric of boardlab and are kept as they are:"
        for table_index, row, line in unknown:
            yield f"  {line:5}  {source.tables[table_index].title}: {row}"


def unknown(sheet: MeasuredGuide) -> Iterator[str]:
    """List the numbers without a metric, and their share."""
    cells = export.unknown_cells(sheet)
    numbers = sum(r.number is not None for r in sheet.readings)
    share = 100 * len(cells) / numbers if numbers else 0.0
    yield f"{sheet.guide.path}: {len(cells)} of {numbers} numbers stand for no metric of boardlab ({share:.2f} %)"
    for cell in cells:
        board = f"{cell['board']}: " if cell["board"] else ""
        table = sheet.guide.tables[cell["table"]]
        yield f"  {cell['line']:5}  {table.name}: {cell['row']} | {board}{cell['metric']}: {cell['text']}"


def unread(sheet: MeasuredGuide) -> Iterator[str]:
    """List the unread and the repaired parts of a file by cause."""
    for what, parts in (("not read", sheet.guide.unread), ("mended", sheet.guide.repairs)):
        for cause in model.of(parts):
            yield f"{sheet.guide.path}:{cause.lines[0]}: {what}: {cause.text}"


def findings(found: Sequence[Finding], *, show_all: bool) -> Iterator[str]:
    """Findings by rule, the surest first."""
    counts = Counter(f.severity for f in found)
    yield ", ".join(f"{counts[severity]} {severity}" for severity in Severity if counts[severity]) or "nothing found"
    order = list(Severity)
    by_rule = sorted(found, key=lambda f: (order.index(f.severity), f.rule.id))
    for (severity, rule), group in itertools.groupby(by_rule, key=lambda f: (f.severity, f.rule)):
        members = list(group)
        yield ""
        yield f"{severity} {rule.id} ({len(members)}): {rule.title}; see {rule.address or f'`lab guide rules {rule.id}`'}"
        for f in members if show_all else members[:_EXAMPLES]:
            yield f"  {f.file}:{f.line}: {_cell(f)}{f.message}"
        if len(members) > _EXAMPLES and not show_all:
            yield f"  … and {len(members) - _EXAMPLES} more (--all)"


def rules(asked: Sequence[Rule]) -> Iterator[str]:
    """Explain rules."""
    for rule in asked:
        yield from ("", f"{rule.id}: {rule.title} ({rule.severity})", "")
        yield from (rule.text or f"see {rule.address}").splitlines()


def _cell(f: Finding) -> str:
    """Place of a finding: row, board, and text the message lacks."""
    if f.reading is None:
        return ""
    board = f.reading.cell.board or f.reading.cell.likely_board
    place = f.reading.cell.row[:48] + (f", {board}" if board else "")
    text = f.reading.cell.value.text
    return f"{place}: " if f.message.startswith(text) else f"{place}: {text!r} "


def comparison(found: Comparison, *, show_all: bool) -> Iterator[str]:
    """List the changes of a comparison by cause, the urgent ones first.

    Args:
        show_all: include each number of a cause with the judge's reason, and noise.
    """
    named = zip(found.names, found.paths, strict=True)
    yield " -> ".join(path if path == name else f"{name} ({path})" for name, path in named)
    if found.earlier:
        yield f"with a look at {found.looked_at}"
    yield causes.verdict_line(found)
    for kind, group in itertools.groupby(causes.causes(found), key=lambda cause: cause.kind):
        yield ""
        yield causes.heading(kind, found.names)
        for cause in group:
            yield f"  {cause.factor}  {cause.text}" if cause.factor else f"  {cause.text}"
            if show_all:
                yield from itertools.chain.from_iterable(map(_change, cause.changes))
    if show_all:
        yield ""
        yield "noise, or below the resolution"
        yield from itertools.chain.from_iterable(map(_change, causes.quiet(found)))


def _change(change: Change) -> Iterator[str]:
    ratio = f"{change.ratio:.3g}x" if change.ratio is not None else "-"
    yield (
        f"    {ratio:>7}  {change.board or 'no board'}  {change.metric} {params(change.params)}  "
        f"{change.old:g} -> {change.new:g} {change.unit}  (lines {change.lines[0]}, {change.lines[1]})"
    )
    yield f"             {change.verdict}: {change.reason}"


def params(values: Mapping[str, str]) -> str:
    """Parameters in one word each."""
    return " ".join(f"{name}={value.replace(' ', '_')}" for name, value in values.items())


def trend(found: Iterable[Trend]) -> Iterator[str]:
    """One line of bars for each series, and its points."""
    for series in found:
        definition = f"  {series.definition}" if series.definition else ""
        yield (
            f"{series.metric} {params(series.params)}  {series.board}  [{series.unit}, {series.better} is better]{definition}"
        )
        values = [p.value for p in series.points]
        for point, bar in zip(series.points, bars(values), strict=True):
            spread = f"  ({point.low:g} to {point.high:g})" if point.low is not None and point.high is not None else ""
            yield f"  {point.release:>9}  {bar}  {point.value:g}{spread}{f'  {point.note}' if point.note else ''}"
        yield f"  {'':>9}  {''.join(bars(values))}"


def bars(values: Sequence[float]) -> list[str]:
    """Draw a sparkline over the values' span (`lab.guide.trend.span`)."""
    low, high = span(values)
    steps = len(_BARS) - 1
    return [
        _BARS[math.ceil((value - low) / (high - low) * steps - 0.5) if high > low else steps // 2] for value in values
    ]
