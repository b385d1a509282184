"""Conditions and findings that belong to the numbers of a guide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from lab.guide import measurements as guide_sheet
from lab.guide.catalogue import CellReading
from lab.guide.check import udp
from lab.guide.check.findings import Finding, run_rules
from lab.guide.check.rules import outliers
from lab.guide.measurements import Conditions, MeasuredGuide
from lab.guide.model import Cell
from lab.guide.rulebook import Effect, Rule, Severity

_UNSURE = frozenset({Severity.SUSPECT, Severity.NOTE})
_ENOUGH = 4  # numbers that all end in zeros by chance once in 10,000 times
_ZEROS = re.compile(r"(?<=[.\d])0+\s*$")
_CellKey = tuple[int, int, int]
_ReadingKey = tuple[str | None, tuple[str, tuple[tuple[str, str], ...]]]


@frozen
class AnnotatedGuide:
    """A guide with everything that is known about its numbers.

    Attributes:
        findings: cell -> what the rules say about it.
        udp_rows: cell of a UDP result -> its row.
        readings: board and key -> reading.
        alone: findings in the guide without an older one.
        digits: metric -> decimals that its numbers have, where a few numbers show it: 61.00, 38.00 and 54.00 have none.
    """

    sheet: MeasuredGuide
    conditions: Conditions
    findings: Mapping[_CellKey, Sequence[Finding]]
    udp_rows: Mapping[_CellKey, udp.UdpRow]
    readings: Mapping[_ReadingKey, CellReading]
    digits: Mapping[str, int]
    alone: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """Name of the guide in sentences."""
        return self.sheet.guide.release or self.sheet.guide.path

    def sibling(self, reading: CellReading, metric: str) -> CellReading | None:
        """The reading of another metric of the same board and parameters."""
        return self.readings.get((reading.board, (metric, reading.key[1])))

    def about(self, reading: CellReading) -> Sequence[Finding]:
        """Findings of the rules about a cell."""
        return self.findings.get(cell_key(reading.cell), ())

    def effect(self, reading: CellReading, effect: Effect) -> Finding | None:
        """Return the certain finding with this effect on a cell, or None."""
        found = self.about(reading)
        if not found:  # as of most cells
            return None
        return next((f for f in found if f.rule.effect is effect and f.severity not in _UNSURE), None)

    def suspicions(self, reading: CellReading) -> Sequence[Finding]:
        """Findings that make a cell doubtful without correcting it.

        These are suspicions, and errors of rules that neither know the right number nor say that the run failed.
        """
        return [
            f
            for f in self.about(reading)
            if (f.severity is Severity.SUSPECT and f.rule.effect is not Effect.HARMLESS)
            or (f.severity is Severity.ERROR and f.rule.effect is None)
        ]

    def number(self, reading: CellReading) -> float | None:
        """The recovered value, or the printed one."""
        found = self.effect(reading, Effect.RECOVERED)
        return found.corrected if found is not None and found.corrected is not None else reading.number


def cell_key(cell: Cell) -> _CellKey:
    """Key of a cell in its guide: table, line and column."""
    return cell.table, cell.line, cell.column


def annotate(sheet: MeasuredGuide) -> AnnotatedGuide:
    """Run the rules over a guide."""
    findings: dict[_CellKey, list[Finding]] = {}
    alone = tuple(run_rules(sheet))
    for finding in alone:
        for cell in finding.cells:
            findings.setdefault(cell_key(cell), []).append(finding)
    rows = {cell_key(r.cell): row for table in udp.tables(sheet).values() for row in table for r in row.readings}
    readings = {(r.board, r.key): r for r in sheet.of(*sheet.by_metric)}
    return AnnotatedGuide(sheet, guide_sheet.of_sheet(sheet), findings, rows, readings, _digits(sheet), alone)


def _digits(sheet: MeasuredGuide) -> dict[str, int]:
    texts = {metric: [r.cell.value.text for r in readings] for metric, readings in sheet.by_metric.items()}
    return {
        metric: max(len(_ZEROS.sub("", text.split("(")[0]).partition(".")[2].strip()) for text in of_metric)
        for metric, of_metric in texts.items()
        if len(of_metric) >= _ENOUGH
    }


@frozen
class Pair:
    """The same measurement in two guides.

    Attributes:
        old_number, new_number: recovered where a rule could, as printed otherwise.
    """

    old: CellReading
    new: CellReading
    before: AnnotatedGuide
    after: AnnotatedGuide
    old_number: float
    new_number: float

    @property
    def ratio(self) -> float | None:
        """New over old; None where the old number is zero."""
        return self.new_number / self.old_number if self.old_number else None

    @property
    def unit(self) -> str:
        """Unit of the metric."""
        return self.new.quantity.unit if self.new.quantity else (self.new.cell.unit or "")

    def sides(self) -> tuple[tuple[CellReading, AnnotatedGuide], tuple[CellReading, AnnotatedGuide]]:
        """Both readings with their evidence."""
        return (self.old, self.before), (self.new, self.after)


# --- Findings in the newer guide: new or known ---


# A rule that holds a number against the older guide's does what a comparison does: that a number moved is no evidence
# against it.
_COMPARISONS = {outliers.outlier_older.id}
_REPORTED = (Severity.ERROR, Severity.SUSPECT, Severity.WARNING)
_EFFECTS = {"broken": Effect.BROKEN, "incomparable": Effect.INCOMPARABLE}

_Place = tuple[str, Severity, str | None, object]


@frozen
class GuideFinding:
    """A finding about a place of the newer guide.

    Attributes:
        board, metric: None and empty for a table or a row as a whole.
        is_known: the same rule has the same finding for the result in the older guide.
    """

    rule: Rule
    severity: Severity
    message: str
    line: int
    board: str | None
    metric: str
    params: Mapping[str, str]
    is_known: bool


@frozen
class RuleDecision:
    """The rule that decided on a change, and the numbers it concerns.

    Attributes:
        is_known: the rule found it in both guides.
    """

    rule: Rule
    severity: Severity
    old: bool
    new: bool
    is_known: bool


def of(new: AnnotatedGuide, old: AnnotatedGuide) -> Iterator[GuideFinding]:
    """Yield the findings that matter to a comparison, cell by cell."""
    known = {place for finding in old.alone for place, _ in _places(finding)}
    for finding in run_rules(new.sheet, old.sheet):
        if finding.severity not in _REPORTED or finding.rule.id in _COMPARISONS:
            continue
        for place, reading in _places(finding):
            yield GuideFinding(
                finding.rule,
                finding.severity,
                finding.message,
                finding.line if reading is None else reading.cell.line,
                reading.board if reading else None,
                reading.metric if reading else "",
                reading.params if reading else {},
                place in known,
            )


def decision_of(pair: Pair, decided: str) -> RuleDecision | None:
    """The finding behind a verdict.

    Args:
        decided: the rule of the judge that decided.
    """
    found = [_finding(reading, side, decided) for reading, side in pair.sides()]
    old, new = found
    first = new or old
    if first is None:
        return None
    is_known = old is not None and new is not None and (old.rule, old.severity) == (new.rule, new.severity)
    return RuleDecision(first.rule, first.severity, old is not None, new is not None, is_known)


def _finding(reading: CellReading, side: AnnotatedGuide, decided: str) -> Finding | None:
    if decided in _EFFECTS:
        return side.effect(reading, _EFFECTS[decided])
    return next(iter(side.suspicions(reading)), None) if decided == "suspect" else None


def _places(finding: Finding) -> Iterator[tuple[_Place, CellReading | None]]:
    readings = ((finding.reading,) if finding.reading else ()) + finding.also
    for reading in readings:
        yield (finding.rule.id, finding.severity, reading.board, reading.key), reading
    if not readings:
        yield (finding.rule.id, finding.severity, None, ""), None
