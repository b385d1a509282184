"""What our own rules say of the newer of two guides: what is new in it, and what the older guide has, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from lab.guide import rulebook
from lab.guide.annotated import AnnotatedGuide, Pair
from lab.guide.catalogue import CellReading
from lab.guide.rulebook import Effect, Finding, Rule, Severity
from lab.guide.rules import outlier_older

# A rule that holds a number against the older guide's does what a comparison does: that a number moved is no evidence
# against it.
_COMPARISONS = {outlier_older.RULE.id}
_TOLD = (Severity.ERROR, Severity.SUSPECT, Severity.WARNING)
_EFFECTS = {"broken": Effect.BROKEN, "incomparable": Effect.INCOMPARABLE}

_Place = tuple[str, Severity, str | None, object]


@frozen
class Fault:
    """What a rule says of a place of the newer guide.

    Attributes:
        board, metric: None and empty where it is about a table or a row as a whole.
        is_known: the same rule says it of the same result in the older guide.
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
class Blame:
    """The rule whose finding decided on a change, and which of the two numbers it is about.

    Attributes:
        is_known: the same rule says it of both.
    """

    rule: Rule
    severity: Severity
    old: bool
    new: bool
    is_known: bool


def of(new: AnnotatedGuide, old: AnnotatedGuide) -> Iterator[Fault]:
    """The findings that matter to a comparison, one for each cell, in the guide's order."""
    known = {place for finding in old.said for place, _ in _places(finding)}
    for finding in rulebook.run(new.sheet, old.sheet):
        if finding.severity not in _TOLD or finding.rule.id in _COMPARISONS:
            continue
        for place, reading in _places(finding):
            yield Fault(
                finding.rule,
                finding.severity,
                finding.message,
                finding.line if reading is None else reading.cell.line,
                reading.board if reading else None,
                reading.metric if reading else "",
                reading.params if reading else {},
                place in known,
            )


def blame(pair: Pair, decided: str) -> Blame | None:
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
    return Blame(first.rule, first.severity, old is not None, new is not None, is_known)


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
