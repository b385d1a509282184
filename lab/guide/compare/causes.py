"""Changes between two guides, grouped by cause, one cause a line.

A cause is a finding of the rules, or numbers that moved by one factor. Every change beyond noise belongs to exactly
one cause.
"""

from __future__ import annotations

import enum
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from attrs import field, frozen

from lab.guide.check.rules.clocks import CLOCKS_MHZ
from lab.guide.check.rules.outliers import boards_exchanged
from lab.guide.compare.comparison import Change, Comparison, GuideFinding
from lab.guide.compare.metric_groups import group_of, row_labels
from lab.guide.rulebook import Effect, Severity
from lab.judge import noise
from lab.judge.compare import Verdict
from lab.metrics import by_name

_QUIET = {Verdict.NOISE, Verdict.BELOW_RESOLUTION}
_RIGHT = {Effect.RECOVERED, Effect.HARMLESS}
_RowKey: TypeAlias = tuple[str | None, str, tuple[tuple[str, str], ...]]  # board, metric and parameters
_MOST = math.log(10)  # a number that fell to a hundredth is not worth more than ten of them
_MOST_BOARDS = 3
_ALIKE = 0.03  # logarithm: rows of one clock differ by no more
_EXACT = 0.015  # of a clock that a core has
_UNIT_FACTORS = (8, 1000, 1024, 1_000_000, 1024**2)  # bits and bytes, and prefixes
_ENOUGH_ROWS = 3  # that no change but that of a unit moves by such a factor
_ENOUGH = 2  # benchmarks of the processor that show its clock


class Kind(enum.StrEnum):
    """Of a cause, in the order in which a reader wants them."""

    WRONG = "wrong or broken"
    WORSE = "worse"
    SUSPECT = "suspect"
    CONDITIONS = "under other conditions"
    BETTER = "better"
    INCOMPARABLE = "not comparable"
    KNOWN = "known before, or only misleading"


@frozen
class Cause:
    """One cause and the numbers that it changed.

    Attributes:
        what: the rows, in a few words.
        why: the explanation; may be empty.
        boards: by name.
        count: numbers that it is about.
        factors: the smallest and the largest new number over its old one, None where the ratio means nothing.
        rule: id of the rule that found it; empty without one.
        changes: those of the numbers that both guides have and that are more than noise.
    """

    kind: Kind
    what: str
    why: str
    boards: tuple[str, ...]
    count: int
    factors: tuple[float, float] | None = None
    rule: str = ""
    changes: tuple[Change, ...] = field(default=(), repr=False)

    @property
    def factor(self) -> str:
        """`x 0.77`, or `x 0.75 to 0.80`; empty where there is none."""
        if self.factors is None:
            return ""
        low, high = (f"{factor:.3g}" if factor < 0.1 else f"{factor:.2f}" for factor in self.factors)
        return f"× {low}" if low == high else f"× {low} to {high}"

    @property
    def size(self) -> str:
        """`24 numbers of am62xx_sk-fs`."""
        numbers = f"{self.count} number{'s' * (self.count != 1)}"
        if not self.boards:
            return numbers
        boards = ", ".join(self.boards) if len(self.boards) <= _MOST_BOARDS else f"{len(self.boards)} boards"
        return f"{numbers} of {boards}"

    @property
    def text(self) -> str:
        """All but the factor, on one line."""
        return f"{self.what}: {self.size}" + (f"; {self.why}" if self.why else "")


def find_causes(comparison: Comparison) -> list[Cause]:
    """The causes, the bad ones first."""
    loud = [change for change in comparison.changes if change.verdict not in _QUIET]
    every = [*_rule_causes(comparison, loud), *_move_causes(comparison, loud), *_other_causes(loud)]
    order = list(Kind)
    return sorted(every, key=lambda cause: (order.index(cause.kind), -_weight(cause)))


def quiet_changes(comparison: Comparison) -> list[Change]:
    """The changes within noise."""
    return [change for change in comparison.changes if change.verdict in _QUIET]


def heading(kind: Kind, names: tuple[str, str]) -> str:
    """Heading above the causes of a kind."""
    return f"{kind}, new since {names[0]}" if kind is Kind.WRONG else str(kind)


def verdict_line(comparison: Comparison) -> str:
    """Summarise a comparison: `2 worse, 12 not measured, 5 better, 96 noise`."""
    verdicts = [change.verdict for change in comparison.changes]
    counts = {
        "worse": verdicts.count(Verdict.REGRESSION),
        "not measured": len(comparison.only_old),
        "better": verdicts.count(Verdict.IMPROVEMENT),
        "suspect": verdicts.count(Verdict.SUSPECT),
        "broken": verdicts.count(Verdict.BROKEN_RUN),
        "under other conditions": verdicts.count(Verdict.CONDITIONS_CHANGED),
        "of another definition": verdicts.count(Verdict.DEFINITION_CHANGED),
        "not comparable": verdicts.count(Verdict.NOT_COMPARABLE),
        "noise": sum(verdict in _QUIET for verdict in verdicts),
        "new": len(comparison.only_new),
    }
    if not verdicts:
        return f"nothing in common, {len(comparison.only_old)} not measured, {len(comparison.only_new)} new"
    return ", ".join(
        f"{count} {what}" for what, count in counts.items() if count or what in {"worse", "better", "noise"}
    )


def _weight(cause: Cause) -> float:
    sizes = [abs(math.log(c.ratio)) if c.ratio and c.ratio > 0 else _MOST for c in cause.changes]
    return sum(min(size, _MOST) for size in sizes) + cause.count / 1000


def _rule_causes(comparison: Comparison, loud: Sequence[Change]) -> Iterator[Cause]:
    """Causes by rule and kind: findings, and changes that they decided."""
    changes: dict[tuple[Kind, str], list[Change]] = {}
    kinds: dict[tuple[str, _RowKey], Kind] = {}  # a finding belongs to the change that it decided
    for change in loud:
        if change.decision is not None:
            kind, rule = _kind_by_decision(change), change.decision.rule.id
            changes.setdefault((kind, rule), []).append(change)
            if change.verdict is Verdict.SUSPECT:
                kinds[rule, _row_key(change)] = kind
    faults: dict[tuple[Kind, str], list[GuideFinding]] = {}
    for fault in comparison.faults:
        kind = kinds.get((fault.rule.id, _row_key(fault)), _kind_of(fault))
        faults.setdefault((kind, fault.rule.id), []).append(fault)
    for key in dict.fromkeys([*faults, *changes]):
        yield _rule_cause(*key, faults.get(key, ()), changes.get(key, ()), comparison.names)


def _kind_of(fault: GuideFinding) -> Kind:
    if fault.is_known or fault.severity is Severity.WARNING or fault.rule.effect in _RIGHT:
        return Kind.KNOWN
    return Kind.WRONG if fault.severity is Severity.ERROR else Kind.SUSPECT


def _row_key(row: GuideFinding | Change) -> _RowKey:
    return row.board, row.metric, tuple(sorted(row.params.items()))


def _kind_by_decision(change: Change) -> Kind:
    """Kind of a change that a rule decided.

    A suspicion never hides a change: a number that moved is always listed.
    """
    decision = change.decision
    if change.verdict is Verdict.SUSPECT:
        is_new_error = (
            decision is not None and decision.new and not decision.is_known and decision.severity is Severity.ERROR
        )
        return Kind.WRONG if is_new_error else Kind.SUSPECT
    if decision is None or not decision.new:
        return Kind.INCOMPARABLE
    if decision.is_known:
        return Kind.KNOWN
    return Kind.WRONG if decision.severity is Severity.ERROR else Kind.SUSPECT


def _rule_cause(
    kind: Kind, rule: str, faults: Sequence[GuideFinding], changes: Sequence[Change], names: tuple[str, str]
) -> Cause:
    title = next(
        (change.decision.rule.title for change in changes if change.decision is not None),
        faults[0].rule.title if faults else rule,
    )
    rows = [(f.metric, f.params, f.board) for f in faults] or [(c.metric, c.params, c.board) for c in changes]
    labels = row_labels((metric, params) for metric, params, _ in rows if metric)
    if kind is Kind.KNOWN:
        in_both = sum(fault.is_known for fault in faults)
        why = "in both guides" if in_both == len(faults) else f"{in_both} of them in both guides"
        why = why if in_both else f"only in {names[1]}"
    elif kind is Kind.INCOMPARABLE:
        why = f"{names[0]} has no sound number there"
    elif faults:
        why = "; ".join([f"{names[1]}, line {faults[0].line}: {faults[0].message}", *_suspect_moves(changes)])
    else:
        why = "; ".join([changes[0].reason, *_suspect_moves(changes)])
    return Cause(
        kind=kind,
        what=(f"{labels}: " if labels else "") + f"{title[0].lower()}{title[1:]}",
        why=why,
        boards=_board_names(board for _, _, board in rows),
        count=len(rows),
        rule=rule,
        changes=tuple(changes),
    )


def _suspect_moves(changes: Sequence[Change]) -> Iterator[str]:
    """Describe how far suspect numbers moved, and which guides are suspect."""
    suspects = [change for change in changes if change.verdict is Verdict.SUSPECT]
    if not suspects:
        return
    ratios = sorted(change.ratio for change in suspects if change.ratio is not None)
    factor = f", × {ratios[0]:.2f}" + (f" to {ratios[-1]:.2f}" if len(ratios) > 1 else "") if ratios else ""
    yield f"{len(suspects)} moved{factor}"
    decisions = [change.decision for change in suspects if change.decision is not None]
    if all(decision.is_known for decision in decisions):
        yield "suspect in both guides"
    elif not any(decision.new for decision in decisions):
        yield "suspect in the older guide only"


def _board_names(names: Iterable[str | None]) -> tuple[str, ...]:
    """The boards, each once, by name."""
    return tuple(sorted({name for name in names if name}))


def _other_causes(loud: Iterable[Change]) -> Iterator[Cause]:
    """Other conditions, definitions and work: one cause for each reason."""
    groups: dict[tuple[Kind, str], list[Change]] = {}
    for change in loud:
        if change.verdict.moved or change.decision is not None:
            continue
        groups.setdefault(_reason(change), []).append(change)
    for (kind, why), members in groups.items():
        clocks = members[0].clocks if kind is Kind.CONDITIONS else None
        yield Cause(
            kind=kind,
            what=row_labels((change.metric, change.params) for change in members),
            why=why,
            boards=_board_names(change.board for change in members),
            count=len(members),
            factors=(clocks[1] / clocks[0],) * 2 if clocks else None,
            changes=tuple(members),
        )


def _reason(change: Change) -> tuple[Kind, str]:
    match change.rule:
        case "clock":
            old, new = change.clocks or (change.old, change.new)
            return Kind.CONDITIONS, f"the CPU ran at {new:g} instead of {old:g} MHz"
        case "like_peers":
            mhz = f"{change.clocks[1]:g} MHz" if change.clocks else "its clock"
            return Kind.CONDITIONS, f"the board is as fast as the others with {mhz} now, which it was not before"
        case "conditions" | "background":
            return Kind.CONDITIONS, change.reason
        case "definition" | "versions":
            return Kind.INCOMPARABLE, change.reason.partition("; in ")[0]
        case "other_work":
            return Kind.INCOMPARABLE, "a load says something only beside the same work, and the work was another"
        case _:
            return Kind.INCOMPARABLE, change.reason


def _move_causes(comparison: Comparison, loud: Sequence[Change]) -> Iterator[Cause]:
    """The causes of moved numbers, in any order."""
    for verdict, kind in ((Verdict.REGRESSION, Kind.WORSE), (Verdict.IMPROVEMENT, Kind.BETTER)):
        for since in dict.fromkeys(change.crept_from for change in loud if change.verdict.moved):
            moves = [c for c in loud if c.verdict is verdict and c.crept_from == since]
            for members in _together(moves):
                yield Cause(
                    kind=kind,
                    what=row_labels(((change.metric, change.params) for change in members), exact=True),
                    why="; ".join(filter(None, _explain_move(comparison, members))),
                    boards=_board_names(change.board for change in members),
                    count=len(members),
                    factors=_factors(members),
                    changes=tuple(members),
                )


def _together(changes: Sequence[Change]) -> list[list[Change]]:
    """Group changes by metric group, and split them at gaps between factors.

    Rows that the same change of clock slowed down are joined.
    """
    rows: dict[object, list[Change]] = {}
    for change in changes:
        key = (change.metric, tuple(sorted(change.params.items())), _speed(change) is None)
        rows.setdefault(key, []).append(change)
    by_group: dict[tuple[str, float, bool, frozenset[object]], list[list[Change]]] = {}
    for row in rows.values():
        group = group_of(row[0].metric, row[0].params)
        is_zero = _speed(row[0]) is None
        for part in _split([[change] for change in row], group.gap) if group.alone else (row,):
            clocks = frozenset(change.clocks for change in part) if group.alone else frozenset()
            by_group.setdefault((group.name, group.gap, is_zero, clocks), []).append(part)
    return _join_by_clock([part for (_, gap, _, _), parts in by_group.items() for part in _split(parts, gap)])


def _split(rows: list[list[Change]], gap: float) -> Iterator[list[Change]]:
    """Rows whose factors follow each other without a gap."""
    middle = {id(row): statistics.fmean(map(_speed_per_clock, row)) for row in rows}
    rows.sort(key=lambda row: middle[id(row)])
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or middle[id(rows[end])] - middle[id(rows[end - 1])] > gap:
            yield [change for row in rows[start:end] for change in row]
            start = end


def _join_by_clock(clusters: list[list[Change]]) -> list[list[Change]]:
    """Join the groups that moved with the processor's rows.

    They follow the clock and moved by the same factor on the same boards, and on no others.
    """
    for processor in clusters:
        if not _is_processor(processor) or len(_benchmarks(processor)) < _ENOUGH:
            continue
        factors = [_speed_per_clock(change) for change in processor]
        one_clock = noise.load().clock.together
        low, high = min(factors) - one_clock, max(factors) + one_clock
        own = {change.board for change in processor}
        for other in clusters:
            if other is processor or _is_processor(other) or not own.issuperset(change.board for change in other):
                continue
            joined = [c for c in other if c.follows_clock and low <= _speed_per_clock(c) <= high]
            processor.extend(joined)
            other[:] = [change for change in other if change not in joined]
    return [cluster for cluster in clusters if cluster]


def _is_processor(cluster: Sequence[Change]) -> bool:
    return all(group_of(change.metric, change.params).alone for change in cluster) and bool(cluster)


def _benchmarks(changes: Iterable[Change]) -> set[str]:
    return {group_of(change.metric, change.params).label for change in changes}


def _speed(change: Change) -> float | None:
    """Logarithm of the speed ratio, new over old; below 0 is worse.

    None: there is no ratio.
    """
    if change.ratio is None or change.ratio <= 0:
        return None
    return math.log(change.ratio) * (1 if by_name(change.metric).better == "higher" else -1)


def _speed_per_clock(change: Change) -> float:
    """Logarithm of the speed ratio per clock cycle."""
    old, new = change.clocks or (1.0, 1.0)
    return (_speed(change) or 0.0) - math.log(new / old)


def _factors(members: Sequence[Change]) -> tuple[float, float] | None:
    """As printed; of times and rates together: of the speed."""
    logs = [log for log in map(_speed, members) if log is not None]
    if not logs:
        return None
    is_mixed = len({by_name(change.metric).better == "higher" for change in members}) > 1
    ratios = [math.exp(log) for log in logs] if is_mixed else [change.ratio for change in members if change.ratio]
    return min(ratios), max(ratios)


def _explain_move(comparison: Comparison, members: Sequence[Change]) -> Iterator[str]:
    if since := members[0].crept_from:
        yield f"the last of small steps since {since}, none of which is more than noise"
        return
    yield _clock_part(comparison, members)
    yield _unit_part(members)
    rows = {_row_key(change) for change in members}
    exchanged = (f for f in comparison.faults if f.rule.id == boards_exchanged.id and _row_key(f) in rows)
    yield from (fault.message for fault in itertools.islice(exchanged, 1))
    again = [change.returns_to for change in members if change.returns_to]
    if again:
        level = max(dict.fromkeys(again), key=again.count)
        if again.count(level) == len(members):
            yield f"only returns to the level of {level}"
        else:
            yield f"{again.count(level)} of them only return to the level of {level}"
    if len(members) == 1:
        yield members[0].reason.partition("a note on ")[2]


def _clock_part(comparison: Comparison, members: Sequence[Change]) -> str:
    """Describe the part of the clock in a change.

    The clock changed too, or the factor looks like that of another clock.
    """
    if not all(change.follows_clock for change in members):
        return ""
    changed = {change.clocks for change in members}
    if changed != {None}:
        if None in changed or len(changed) > 1:
            return ""
        old, new = next(iter(changed)) or (1.0, 1.0)
        per_clock = math.exp(statistics.median(map(_speed_per_clock, members)))
        return f"{per_clock:.2f} times per clock, which is {new:g} instead of {old:g} MHz"
    processor = [change for change in members if _is_processor([change])]
    return _apparent_clock(comparison.clocks, processor) if len(_benchmarks(processor)) >= _ENOUGH else ""


def _unit_part(members: Sequence[Change]) -> str:
    """Name the factor between two units that some rows moved by; empty: none."""
    steps = [abs(math.log(change.ratio)) if change.ratio else 0.0 for change in members]
    middle = statistics.median(steps)
    factor = min(_UNIT_FACTORS, key=lambda factor: abs(math.log(factor) - middle))
    is_unit = len(members) >= _ENOUGH_ROWS and all(abs(step - math.log(factor)) <= _ALIKE for step in steps)
    return f"as if one of the guides printed them in another unit, {factor} times the other" if is_unit else ""


def _apparent_clock(clocks_mhz: Mapping[str | None, float], processor: Sequence[Change]) -> str:
    """Name the clock that would explain the processor's rows; empty: none."""
    speeds = [_speed(change) or 0.0 for change in processor]
    middle = statistics.median(speeds)
    clocks = {clocks_mhz.get(change.board) for change in processor}
    clock_mhz = next(iter(clocks))
    if len(clocks) > 1 or not clock_mhz or max(abs(speed - middle) for speed in speeds) > _ALIKE:
        return ""
    # no CPU runs above the clock that both state: the slower release is the odd one
    apparent_mhz = math.exp(-abs(middle)) * clock_mhz
    if min(abs(step / apparent_mhz - 1) for step in CLOCKS_MHZ) > _EXACT:
        return ""
    when = " in the older release" if middle > 0 else ""
    return f"as if the CPU ran at {apparent_mhz:.0f} MHz{when}, though both clock rows say {clock_mhz:g}"
