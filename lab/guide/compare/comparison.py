"""Comparison of two guides of one family: changes, directions and significance.

Guides of earlier releases, if given, show the usual scatter of a number and its earlier values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import field, frozen

from lab.guide.catalogue import CellReading
from lab.guide.check.annotations import AnnotatedGuide, annotate
from lab.guide.check.findings import RuleFinding
from lab.guide.check.rules.clocks import is_confirmed, speeds_beside_clock
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import CellKind
from lab.guide.rulebook import Effect, Rule, Severity
from lab.judge import noise
from lab.judge.baseline import judge_release
from lab.judge.compare import Verdict
from lab.judge.noise import CPU_CLOCK
from lab.judge.number import Number

_MOST_NAMES = 3
_REPORTED = (Severity.ERROR, Severity.SUSPECT, Severity.WARNING)
_EFFECTS = {"broken": Effect.BROKEN, "incomparable": Effect.INCOMPARABLE}  # by rule of the judge

Key = tuple[str | None, str, tuple[tuple[str, str], ...]]  # board, metric, parameters
_FindingKey = tuple[str, Severity, str | None, object]


@frozen
class GuideFinding:
    """A finding about a place of the newer guide.

    Attributes:
        board: None for a table or a row as a whole.
        metric: empty for such.
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
        old, new: it found the older, the newer guide's number.
        is_known: the rule found it in both guides.
    """

    rule: Rule
    severity: Severity
    old: bool
    new: bool
    is_known: bool


@frozen
class Earlier:
    """Numbers of earlier releases.

    Attributes:
        numbers: board, metric and parameters -> the releases' numbers, the oldest first.
        names: of the releases, the oldest first.
    """

    numbers: Mapping[Key, Sequence[Number]] = field(factory=dict)
    names: tuple[str, ...] = ()


@frozen
class _Pair:
    """The same measurement in two guides."""

    old: CellReading
    new: CellReading
    before: AnnotatedGuide
    after: AnnotatedGuide

    @property
    def board(self) -> str | None:
        return self.new.board or self.old.board

    def sides(self) -> tuple[tuple[CellReading, AnnotatedGuide], tuple[CellReading, AnnotatedGuide]]:
        """Both readings with their evidence."""
        return (self.old, self.before), (self.new, self.after)


@frozen
class Change:
    """One measurement in two guides.

    Attributes:
        board: None where neither guide names one.
        old: recovered where a rule could, as printed otherwise; in `unit`.
        new: the same of the newer guide.
        ratio: new over old; None where old is zero.
        interval: of the relative change, at 95 %, with the noise between runs; None where there is none.
        uncertainties: of both, as far as the guides print it: half of the range, else of the last digit.
        printed: both cells as they stand in the guides.
        lines: of the two cells.
        rule: of the judge, the one that decided ("clock"); "moved" where it got worse or better.
        decision: of our own rules on the two numbers, where they decided.
        returns_to: the earlier release whose level the new number only is again; empty where there is none.
        crept_from: the earlier release since which small steps of one direction have added up; empty where they have
            not.
        clocks: of the board's processor in both guides, in MHz, where they differ and the number follows it.
    """

    board: str | None
    metric: str
    params: Mapping[str, str]
    unit: str
    old: float
    new: float
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: Verdict
    reason: str
    uncertainties: tuple[float, float]
    printed: tuple[str, str]
    lines: tuple[int, int]
    rule: str = "moved"
    decision: RuleDecision | None = None
    returns_to: str = ""
    crept_from: str = ""
    clocks: tuple[float, float] | None = None

    @property
    def follows_clock(self) -> bool:
        """Return whether the number scales with the processor's clock."""
        return noise.load().of(self.metric, self.params).follows_clock


@frozen
class Comparison:
    """Common results of two guides, most important first, and the unmatched ones.

    Attributes:
        names: of the older and the newer guide in sentences.
        paths: their files.
        faults: findings of the rules in the newer guide.
        clocks: board -> clock of its processor in the newer guide, in MHz.
        earlier: names of the releases before the older one that were looked at, the oldest first.
    """

    changes: tuple[Change, ...]
    only_old: tuple[CellReading, ...]
    only_new: tuple[CellReading, ...]
    names: tuple[str, str] = ("", "")
    paths: tuple[str, str] = ("", "")
    faults: tuple[GuideFinding, ...] = ()
    clocks: Mapping[str | None, float] = field(factory=dict)
    earlier: tuple[str, ...] = ()

    @property
    def looked_at(self) -> str:
        """The earlier releases for a sentence; empty without any."""
        if len(self.earlier) <= _MOST_NAMES:
            return ", ".join(self.earlier)
        return f"{len(self.earlier)} releases, {self.earlier[0]} to {self.earlier[-1]}"


@frozen
class _ResultKey:
    """The key of a result, the same in two guides.

    Attributes:
        board: None: the guide names none.
        place: its column in a short row whose boards are not known, else 0.
    """

    board: str | None
    metric: str
    params: tuple[tuple[str, str], ...]
    place: int = 0

    @property
    def what(self) -> tuple[str, tuple[tuple[str, str], ...], int]:
        """All but the board."""
        return self.metric, self.params, self.place


def compare(
    old: MeasuredGuide, new: MeasuredGuide, board: str | None = None, earlier: Earlier | None = None
) -> Comparison:
    """Compare all results of two guides.

    Args:
        board: only this one, as a header spells it, and what may be of it (rows whose board is not known).
        earlier: the numbers of the releases before the older guide.
    """
    earlier = earlier or Earlier()
    before, after = annotate(old), annotate(new, old)
    doubted_boards = _doubted_clocks(before, after)
    before, after = before.without_clocks(doubted_boards), after.without_clocks(doubted_boards)
    olds, news = _results(before), _results(after)
    partners = _partners(olds, news)
    used = set(partners.values())
    pairs = [(olds[partner], news[key]) for key, partner in partners.items() if partner is not None]
    changes = (_change(_Pair(a, b, before, after), earlier) for a, b in pairs)
    return Comparison(
        tuple(sorted((c for c in changes if _concerns(board, c.board)), key=_weight)),
        tuple(r for key, r in olds.items() if key not in used and _concerns(board, r.board)),
        tuple(news[key] for key, partner in partners.items() if partner is None and _concerns(board, key.board)),
        # two guides of one release are told apart by their files
        names=(before.name, after.name) if before.name != after.name else (old.guide.path, new.guide.path),
        paths=(old.guide.path, new.guide.path),
        faults=tuple(fault for fault in _faults(after, before) if _concerns(board, fault.board)),
        clocks=after.conditions.clocks_mhz,
        earlier=earlier.names,
    )


def _doubted_clocks(before: AnnotatedGuide, after: AnnotatedGuide) -> set[str | None]:
    """Boards whose clock is no condition of the comparison.

    The rows that follow the clock decide; without such rows, what the rules say about the clock.
    """
    speeds = speeds_beside_clock(before.sheet, after.sheet)
    old, new = before.conditions.clocks_mhz, after.conditions.clocks_mhz
    suspects = {r.board for side in (before, after) for r in side.sheet.of(CPU_CLOCK) if side.suspicions(r)}
    return {
        board
        for board in old.keys() & new.keys()
        if (board in suspects if board not in speeds else not is_confirmed(speeds[board], old[board], new[board]))
    }


def _concerns(wanted: str | None, board: str | None) -> bool:
    """Return whether a row belongs to the wanted board, or may."""
    return wanted is None or board is None or board == wanted


def _results(evidence: AnnotatedGuide) -> dict[_ResultKey, CellReading]:
    """A guide's numbers that can be compared.

    Those of unknown tables have their row and table as key.
    """
    results: dict[_ResultKey, CellReading] = {}
    for reading in evidence.sheet.readings:
        cell = reading.cell
        if reading.number is None or reading.is_alias or not noise.load().of(reading.metric, reading.params).judged:
            continue
        if reading.quantity is not None:
            metric, params = reading.key
        elif cell.metric and not reading.table.columns[cell.column].is_key:
            metric, params = cell.metric.lower(), (("row", cell.row), ("table", reading.table.title.lower()))
        else:
            continue
        place = cell.column if cell.kind is CellKind.UNATTRIBUTED and reading.board is None else 0
        results.setdefault(_ResultKey(reading.board, metric, params, place), reading)
    return results


def _partners(
    olds: Mapping[_ResultKey, CellReading], news: Mapping[_ResultKey, CellReading]
) -> dict[_ResultKey, _ResultKey | None]:
    """Newer key -> the older guide's.

    Where one guide names no board (a table of powers headed "Power (mW)") and the other names exactly one, they belong
    together.
    """
    old_by_what, new_by_what = _by_what(olds), _by_what(news)
    partners: dict[_ResultKey, _ResultKey | None] = {}
    for key in news:
        older = old_by_what.get(key.what, [])
        is_only = len(older) == 1 and len(new_by_what[key.what]) == 1
        fits = is_only and (older[0].board is None) != (key.board is None)
        partners[key] = key if key in olds else older[0] if fits else None
    return partners


def _by_what(keys: Iterable[_ResultKey]) -> dict[tuple[str, tuple[tuple[str, str], ...], int], list[_ResultKey]]:
    groups: dict[tuple[str, tuple[tuple[str, str], ...], int], list[_ResultKey]] = {}
    for key in keys:
        groups.setdefault(key.what, []).append(key)
    return groups


def _change(pair: _Pair, earlier: Earlier) -> Change:
    """A pair with the judge's verdict on it."""
    old_number, new_number = (side.number(reading, pair.board) for reading, side in pair.sides())
    history = earlier.numbers.get((pair.board, *pair.new.key), ())
    judgement = judge_release(history, old_number, new_number, noise.load())
    old, new = (side.value(reading) or 0.0 for reading, side in pair.sides())
    cell, quantity = pair.new.cell, pair.new.quantity
    short = [side.name for r, side in pair.sides() if r.cell.kind is CellKind.UNATTRIBUTED and r.board is not None]
    note = f"; the row is short in {' and '.join(short)}, its board follows from the columns that boards leave empty"
    clocks = tuple(side.conditions.clocks_mhz.get(pair.board, 0.0) for _, side in pair.sides())
    follows_clock = noise.load().of(pair.new.metric, pair.new.params).follows_clock
    return Change(
        board=pair.board,
        metric=pair.new.metric or f"{cell.row}: {cell.metric}",
        params=pair.new.params or cell.params,
        unit=quantity.unit if quantity else (cell.unit or ""),
        old=old,
        new=new,
        ratio=new / old if old else None,
        interval=None if judgement.low is None or judgement.high is None else (judgement.low, judgement.high),
        verdict=judgement.verdict,
        reason=judgement.reason + (note if short else ""),
        uncertainties=(pair.before.uncertainty(pair.old), pair.after.uncertainty(pair.new)),
        printed=(pair.old.cell.value.text, cell.value.text),
        lines=(pair.old.cell.line, cell.line),
        rule=judgement.rule,
        decision=_decision(pair, judgement.rule),
        returns_to=judgement.returns_to,
        crept_from=judgement.crept_from,
        clocks=(clocks[0], clocks[1]) if follows_clock and all(clocks) and noise.is_another_clock(*clocks) else None,
    )


def _weight(change: Change) -> tuple[int, float]:
    """The sort key of changes: by verdict, then the largest first."""
    size = abs(math.log(change.ratio)) if change.ratio and change.ratio > 0 else math.inf
    return list(Verdict).index(change.verdict), -size


def _decision(pair: _Pair, decided: str) -> RuleDecision | None:
    """The finding behind a verdict.

    Args:
        decided: the rule of the judge that decided.
    """
    findings: list[RuleFinding | None] = []
    for reading, side in pair.sides():
        if decided in _EFFECTS:
            findings.append(side.finding_with(_EFFECTS[decided], reading))
        else:
            findings.append(next(iter(side.suspicions(reading)), None) if decided == "suspect" else None)
    old, new = findings
    first = new or old
    if first is None:
        return None
    is_known = old is not None and new is not None and (old.rule, old.severity) == (new.rule, new.severity)
    return RuleDecision(first.rule, first.severity, old is not None, new is not None, is_known)


def _faults(new: AnnotatedGuide, old: AnnotatedGuide) -> Iterator[GuideFinding]:
    """Yield the findings that matter to a comparison, cell by cell."""
    known_keys = {key for finding in old.findings for key, _ in _finding_keys(finding)}
    for finding in new.findings:
        if finding.severity not in _REPORTED:
            continue
        for key, reading in _finding_keys(finding):
            yield GuideFinding(
                finding.rule,
                finding.severity,
                finding.message,
                finding.line if reading is None else reading.cell.line,
                reading.board if reading else None,
                reading.metric if reading else "",
                reading.params if reading else {},
                key in known_keys,
            )


def _finding_keys(finding: RuleFinding) -> Iterator[tuple[_FindingKey, CellReading | None]]:
    """Yield the keys of a finding, one for each of its readings.

    A finding about a whole table has one key, without a reading.
    """
    readings = ((finding.reading,) if finding.reading else ()) + finding.also
    for reading in readings:
        yield (finding.rule.id, finding.severity, reading.board, reading.key), reading
    if not readings:
        yield (finding.rule.id, finding.severity, None, ""), None


def earlier_of(sheets: Sequence[MeasuredGuide]) -> Earlier:
    """The numbers of some guides, given the oldest first."""
    numbers: dict[Key, list[Number]] = {}
    names: dict[str, None] = {}
    for sheet in sheets:
        side = annotate(sheet)
        names[side.name] = None
        for reading in sheet.of(*sheet.by_metric):
            numbers.setdefault((reading.board, *reading.key), []).append(side.number(reading, reading.board))
    return Earlier(numbers, tuple(names))
