"""Changes between two guides, grouped by cause, one cause a line.

A cause is a finding of the rules, or numbers that moved by one factor. Every change beyond noise belongs to exactly
one cause.
"""

from __future__ import annotations

import enum
import fnmatch
import functools
import math
import re
import statistics
import string
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import TypeAlias

from attrs import field, frozen

from lab.guide.check.annotations import GuideFinding
from lab.guide.check.rules.clocks import CLOCKS_MHZ
from lab.guide.compare.comparison import Change, Comparison
from lab.guide.rulebook import Effect, Severity
from lab.judge import noise
from lab.judge.verdicts import Verdict
from lab.metrics import by_name

_QUIET = {Verdict.NOISE, Verdict.BELOW_RESOLUTION}
_RIGHT = {Effect.RECOVERED, Effect.HARMLESS}
_RowKey: TypeAlias = tuple[str | None, str, tuple[tuple[str, str], ...]]  # board, metric and parameters
_MOST = math.log(10)  # a number that fell to a hundredth is not worth more than ten of them


def causes(found: Comparison) -> list[Cause]:
    """The causes, the bad ones first."""
    loud = [change for change in found.changes if change.verdict not in _QUIET]
    every = [
        *_of_rules(found, loud),
        *moved(found, [change for change in loud if change.verdict.moved]),
        *_other(loud),
    ]
    order = list(Kind)
    return sorted(every, key=lambda cause: (order.index(cause.kind), -_weight(cause)))


def quiet(found: Comparison) -> list[Change]:
    """The changes within noise."""
    return [change for change in found.changes if change.verdict in _QUIET]


def heading(kind: Kind, names: tuple[str, str]) -> str:
    """Heading above the causes of a kind."""
    return f"{kind}, new since {names[0]}" if kind is Kind.WRONG else str(kind)


def verdict_line(found: Comparison) -> str:
    """Summarise a comparison: `2 worse, 5 better, 96 noise, 12 not measured`."""
    of = [change.verdict for change in found.changes]
    quiet = sum(verdict in _QUIET for verdict in of)
    counts = {
        "worse": of.count(Verdict.REGRESSION),
        "better": of.count(Verdict.IMPROVEMENT),
        "suspect": of.count(Verdict.SUSPECT),
        "broken": of.count(Verdict.BROKEN_RUN),
        "under other conditions": of.count(Verdict.CONDITIONS_CHANGED),
        "of another definition": of.count(Verdict.DEFINITION_CHANGED),
        "not comparable": of.count(Verdict.NOT_COMPARABLE),
        "noise": quiet,
        "not measured": len(found.only_old),
        "new": len(found.only_new),
    }
    if not of:
        return f"nothing in common, {len(found.only_old)} not measured, {len(found.only_new)} new"
    return ", ".join(
        f"{count} {what}" for what, count in counts.items() if count or what in {"worse", "better", "noise"}
    )


def _weight(cause: Cause) -> float:
    sizes = [abs(math.log(c.ratio)) if c.ratio and c.ratio > 0 else _MOST for c in cause.changes]
    return sum(min(size, _MOST) for size in sizes) + cause.count / 1000


def _of_rules(found: Comparison, loud: Sequence[Change]) -> Iterator[Cause]:
    """Causes by rule and kind: findings, and changes that they decided."""
    changes: dict[tuple[Kind, str], list[Change]] = {}
    kinds: dict[tuple[str, _RowKey], Kind] = {}  # a finding belongs to the change that it decided
    for change in loud:
        if change.decision is not None:
            kind, rule = _kind_of_decided(change), change.decision.rule.id
            changes.setdefault((kind, rule), []).append(change)
            if change.verdict is Verdict.SUSPECT:
                kinds[rule, _row_key(change)] = kind
    faults: dict[tuple[Kind, str], list[GuideFinding]] = {}
    for fault in found.faults:
        kind = kinds.get((fault.rule.id, _row_key(fault)), _kind_of(fault))
        faults.setdefault((kind, fault.rule.id), []).append(fault)
    for key in dict.fromkeys([*faults, *changes]):
        kind, rule = key
        yield _of_rule(kind, rule, faults.get(key, ()), changes.get(key, ()), found.names)


def _kind_of(fault: GuideFinding) -> Kind:
    if fault.is_known or fault.severity is Severity.WARNING or fault.rule.effect in _RIGHT:
        return Kind.KNOWN
    return Kind.WRONG if fault.severity is Severity.ERROR else Kind.SUSPECT


def _row_key(one: GuideFinding | Change) -> _RowKey:
    return one.board, one.metric, tuple(sorted(one.params.items()))


def _kind_of_decided(change: Change) -> Kind:
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


def _of_rule(
    kind: Kind, rule: str, faults: Sequence[GuideFinding], changes: Sequence[Change], names: tuple[str, str]
) -> Cause:
    first = next(
        (b.rule.title for b in (c.decision for c in changes) if b is not None),
        faults[0].rule.title if faults else rule,
    )
    rows = [(f.metric, f.params, f.board) for f in faults] or [(c.metric, c.params, c.board) for c in changes]
    named = labels((metric, params) for metric, params, _ in rows if metric)
    if kind is Kind.KNOWN:
        known = sum(fault.is_known for fault in faults)
        why = "in both guides" if known == len(faults) else f"{known} of them in both guides"
        why = why if known else f"only in {names[1]}"
    elif kind is Kind.INCOMPARABLE:
        why = f"{names[0]} has no sound number there"
    elif faults:
        why = "; ".join([f"{names[1]}, line {faults[0].line}: {faults[0].message}", *_moved(changes)])
    else:
        why = "; ".join([changes[0].reason, *_moved(changes)])
    return Cause(
        kind=kind,
        what=(f"{named}: " if named else "") + f"{first[0].lower()}{first[1:]}",
        why=why,
        boards=boards(board for _, _, board in rows),
        count=len(rows),
        rule=rule,
        changes=tuple(changes),
    )


def _moved(changes: Sequence[Change]) -> Iterator[str]:
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


def _other(loud: Iterable[Change]) -> Iterator[Cause]:
    """Other conditions, definitions and work: one cause for each reason."""
    groups: dict[tuple[Kind, str], list[Change]] = {}
    for change in loud:
        if change.verdict.moved or change.decision is not None:
            continue
        groups.setdefault(_why(change), []).append(change)
    for (kind, why), members in groups.items():
        yield Cause(
            kind=kind,
            what=labels((change.metric, change.params) for change in members),
            why=why,
            boards=boards(change.board for change in members),
            count=len(members),
            factors=_factors_of_clock(members) if kind is Kind.CONDITIONS else None,
            changes=tuple(members),
        )


def _factors_of_clock(members: Sequence[Change]) -> tuple[float, float] | None:
    clocks = members[0].clocks
    return (clocks[1] / clocks[0],) * 2 if clocks else None


def _why(change: Change) -> tuple[Kind, str]:
    match change.rule:
        case "clock":
            old, new = change.clocks or (change.old, change.new)
            return Kind.CONDITIONS, f"the CPU ran at {new:g} instead of {old:g} MHz"
        case "conditions":
            return Kind.CONDITIONS, change.reason
        case "definition" | "versions":
            return Kind.INCOMPARABLE, change.reason.partition("; in ")[0]
        case "other_work":
            return Kind.INCOMPARABLE, "a load says something only beside the same work, and the work was another"
        case _:
            return Kind.INCOMPARABLE, change.reason


# --- The record of a cause and its text ---


_MOST_NAMES = 5
_MOST_BOARDS = 3


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
        what: the rows, in a few words. why: the explanation; may be empty.
        factors: the smallest and the largest new number over its old one, None where the ratio means nothing.
        boards: by name. count: numbers that it is about.
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
        return f"{numbers} of {', '.join(self.boards) if len(self.boards) <= _MOST_BOARDS else f'{len(self.boards)} boards'}"

    @property
    def text(self) -> str:
        """All but the factor, on one line."""
        return f"{self.what}: {self.size}" + (f"; {self.why}" if self.why else "")


def labels(rows: Iterable[tuple[str, Mapping[str, str]]], *, exact: bool = False) -> str:
    """Names of some rows, the most frequent first.

    Args:
        exact: a name that stands for one row alone includes its parameters.
    """
    found: dict[str, list[tuple[str, ...]]] = {}
    for metric, params in rows:
        found.setdefault(of(metric, params).label, []).append(tuple(params.values()))
    names = [_named(name, found[name] if exact else []) for name in sorted(found, key=lambda name: -len(found[name]))]
    return ", ".join(names[:_MOST_NAMES]) + (
        f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    )


def _named(label: str, rows: list[tuple[str, ...]]) -> str:
    values = rows[0] if rows and len(set(rows)) == 1 else ()
    return " ".join([label, *(value for value in values if value not in label)])


def boards(named: Iterable[str | None]) -> tuple[str, ...]:
    """The boards, each once, by name."""
    return tuple(sorted({board for board in named if board}))


# --- Rows that moved by one factor ---


_ALIKE = 0.03  # logarithm: rows of one clock differ by no more
_EXACT = 0.015  # of a clock that a core has
_ENOUGH = 2  # benchmarks of the processor that show its clock


def moved(found: Comparison, changes: Iterable[Change]) -> Iterator[Cause]:
    """The causes of moved numbers, in any order."""
    every = list(changes)
    for verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT):
        kind = Kind.WORSE if verdict is Verdict.REGRESSION else Kind.BETTER
        for since in dict.fromkeys(change.crept_from for change in every):
            for members in _together([c for c in every if c.verdict is verdict and c.crept_from == since]):
                yield _of_moved(found, kind, members)


def _together(changes: Sequence[Change]) -> list[list[Change]]:
    """Group changes by metric group, and split them at gaps between factors.

    Rows that the same change of clock slowed down are joined.
    """
    rows: dict[object, list[Change]] = {}
    for change in changes:
        key = (change.metric, tuple(sorted(change.params.items())), speed(change) is None)
        rows.setdefault(key, []).append(change)
    by_group: dict[tuple[str, float, bool, frozenset[object]], list[list[Change]]] = {}
    for row in rows.values():
        group = of(row[0].metric, row[0].params)
        is_zero = speed(row[0]) is None
        for part in _split([[change] for change in row], group.gap) if group.alone else (row,):
            clocks = frozenset(change.clocks for change in part) if group.alone else frozenset()
            by_group.setdefault((group.name, group.gap, is_zero, clocks), []).append(part)
    return _by_clock([part for (_, gap, _, _), found in by_group.items() for part in _split(found, gap)])


def _split(rows: list[list[Change]], gap: float) -> Iterator[list[Change]]:
    """Rows whose factors follow each other without a gap."""
    middle = {id(row): statistics.fmean(map(_per_clock, row)) for row in rows}
    rows.sort(key=lambda row: middle[id(row)])
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or middle[id(rows[end])] - middle[id(rows[end - 1])] > gap:
            yield [change for row in rows[start:end] for change in row]
            start = end


def _by_clock(clusters: list[list[Change]]) -> list[list[Change]]:
    """Join the groups that moved with the processor's rows.

    They follow the clock and moved by the same factor on the same boards.
    """
    for processor in clusters:
        if not _is_processor(processor) or len(_benchmarks(processor)) < _ENOUGH:
            continue
        factors = [_per_clock(change) for change in processor]
        one_clock = noise.load().clock.together
        low, high = min(factors) - one_clock, max(factors) + one_clock
        own = {change.board for change in processor}
        for other in clusters:
            if other is processor or _is_processor(other):
                continue
            taken = [c for c in other if c.follows_clock and c.board in own and low <= _per_clock(c) <= high]
            processor.extend(taken)
            other[:] = [change for change in other if change not in taken]
    return [cluster for cluster in clusters if cluster]


def _is_processor(cluster: Sequence[Change]) -> bool:
    return all(of(change.metric, change.params).alone for change in cluster) and bool(cluster)


def _benchmarks(changes: Iterable[Change]) -> set[str]:
    return {of(change.metric, change.params).label for change in changes}


def speed(change: Change) -> float | None:
    """Logarithm of the speed ratio, new over old; below 0 is worse.

    None: there is no ratio.
    """
    if change.ratio is None or change.ratio <= 0:
        return None
    return math.log(change.ratio) * (1 if _higher_is_better(change) else -1)


def _per_clock(change: Change) -> float:
    """Logarithm of the speed ratio per clock cycle."""
    old, new = change.clocks or (1.0, 1.0)
    return (speed(change) or 0.0) - math.log(new / old)


def _higher_is_better(change: Change) -> bool:
    return by_name(change.metric).better == "higher"


def _of_moved(found: Comparison, kind: Kind, members: Sequence[Change]) -> Cause:
    return Cause(
        kind=kind,
        what=labels(((change.metric, change.params) for change in members), exact=True),
        why="; ".join(part for part in _whys(found, members) if part),
        boards=boards(change.board for change in members),
        count=len(members),
        factors=_factors(members),
        changes=tuple(members),
    )


def _whys(found: Comparison, members: Sequence[Change]) -> Iterator[str]:
    if since := members[0].crept_from:
        yield f"the last of small steps since {since}, none of which is more than noise"
        return
    yield from (_clock(found, members), _returns(members), _noted(members))


def _factors(members: Sequence[Change]) -> tuple[float, float] | None:
    """As printed; of times and rates together: of the speed."""
    logs = [log for log in map(speed, members) if log is not None]
    if not logs:
        return None
    mixed = len({_higher_is_better(change) for change in members}) > 1
    ratios = [math.exp(log) for log in logs] if mixed else [change.ratio for change in members if change.ratio]
    return min(ratios), max(ratios)


def _clock(found: Comparison, members: Sequence[Change]) -> str:
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
        per_clock = math.exp(statistics.median(map(_per_clock, members)))
        return f"{per_clock:.2f} times per clock, which is {new:g} instead of {old:g} MHz"
    processor = [change for change in members if _is_processor([change])]
    return _as_if(found, processor) if len(_benchmarks(processor)) >= _ENOUGH else ""


def _as_if(found: Comparison, processor: Sequence[Change]) -> str:
    """Name the clock that would explain the processor's rows; empty: none."""
    speeds = [speed(change) or 0.0 for change in processor]
    middle = statistics.median(speeds)
    clocks = {found.clocks.get(change.board) for change in processor}
    clock = next(iter(clocks))
    if len(clocks) > 1 or not clock or max(abs(each - middle) for each in speeds) > _ALIKE:
        return ""
    real = (
        math.exp(-abs(middle)) * clock
    )  # no CPU runs above the clock that both state: the slower release is the odd one
    if min(abs(step / real - 1) for step in CLOCKS_MHZ) > _EXACT:
        return ""
    when = " in the older release" if middle > 0 else ""
    return f"as if the CPU ran at {real:.0f} MHz{when}, though both clock rows say {clock:g}"


def _returns(members: Sequence[Change]) -> str:
    again = [change.returns_to for change in members if change.returns_to]
    if not again:
        return ""
    to = max(dict.fromkeys(again), key=again.count)
    if again.count(to) == len(members):
        return f"only returns to the level of {to}"
    return f"{again.count(to)} of them only return to the level of {to}"


def _noted(members: Sequence[Change]) -> str:
    """Note on a number that stands alone."""
    return members[0].reason.partition("a note on ")[2] if len(members) == 1 else ""


@frozen
class MetricGroup:
    """A group of results that can move together.

    Attributes:
        label: the row's name in a line. name: the group's name, which several benchmarks may share.
        gap: difference of the logarithms of two factors from which two causes are more likely than one.
        alone: each board moves for itself.
    """

    label: str
    name: str
    gap: float
    alone: bool


@frozen
class _Entry:
    metric: re.Pattern[str]
    label: str
    group: str
    gap: float
    alone: bool


@functools.cache
def _load() -> tuple[_Entry, ...]:
    data = tomllib.loads((resources.files("lab.guide.compare") / "metric_groups.toml").read_text(encoding="utf-8"))
    usual = {"metric": "*", "label": "{name}", "gap": data["gap"]}
    return tuple(
        _Entry(
            re.compile(fnmatch.translate(row["metric"])),
            row["label"],
            row.get("group", row["label"]),
            row.get("gap", data["gap"]) / 100,
            row.get("alone", False),
        )
        for row in [*data["row"], usual]
    )


def of(metric: str, params: Mapping[str, str]) -> MetricGroup:
    """Return the metric group of a result."""
    entry = next(entry for entry in _load() if entry.metric.fullmatch(metric))
    values = {"name": metric, "metric": metric.rpartition(".")[2], **params}
    return MetricGroup(_filled(entry.label, values), _filled(entry.group, values), entry.gap, entry.alone)


def _filled(text: str, values: Mapping[str, str]) -> str:
    """A text with its parameters; one that is not there leaves nothing."""
    names = {name: values.get(name, "") for _, name, _, _ in string.Formatter().parse(text) if name}
    return " ".join(text.format_map(names).split()).rstrip(", ")
