"""What changed between two guides, one cause a line: what moved together by one factor, and what our own rules say.

A reader wants to know why, and not which of 800 cells. Every change that is more than noise belongs to exactly one cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from lab.guide import together
from lab.guide.compare import Change, Comparison
from lab.guide.faults import Fault
from lab.guide.grouped import Cause, Kind, boards, labels
from lab.guide.rulebook import Effect, Severity
from lab.judge.verdicts import Verdict

_QUIET = {Verdict.NOISE, Verdict.BELOW_RESOLUTION}
_RIGHT = {Effect.RECOVERED, Effect.HARMLESS}
_What: TypeAlias = tuple[str | None, str, tuple[tuple[str, str], ...]]  # board, metric and parameters
_MOST = math.log(10)  # a number that fell to a hundredth is not worth more than ten of them


def causes(found: Comparison) -> list[Cause]:
    """The causes, what needs a person first."""
    loud = [change for change in found.changes if change.verdict not in _QUIET]
    every = [
        *_blamed(found, loud),
        *together.moved(found, [change for change in loud if change.verdict.moved]),
        *_other(loud),
    ]
    order = list(Kind)
    return sorted(every, key=lambda cause: (order.index(cause.kind), -_weight(cause)))


def quiet(found: Comparison) -> list[Change]:
    """The changes that say nothing."""
    return [change for change in found.changes if change.verdict in _QUIET]


def heading(kind: Kind, names: tuple[str, str]) -> str:
    """What stands above the causes of a kind."""
    return f"{kind}, new since {names[0]}" if kind is Kind.WRONG else str(kind)


def verdict_line(found: Comparison) -> str:
    """`2 worse, 5 better, 96 noise, 12 not measured`: how many numbers, in one sentence."""
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


# --- what our own rules say ------------------------------------------------------------------------------------------------


def _blamed(found: Comparison, loud: Sequence[Change]) -> Iterator[Cause]:
    """One cause for each rule and kind: its findings in the newer guide, and the changes that it decided."""
    changes: dict[tuple[Kind, str], list[Change]] = {}
    kinds: dict[tuple[str, _What], Kind] = {}  # a finding belongs to the change that it decided
    for change in loud:
        if change.blame is not None:
            kind, rule = _kind_of_blamed(change), change.blame.rule.id
            changes.setdefault((kind, rule), []).append(change)
            if change.verdict is Verdict.SUSPECT:
                kinds[rule, _what(change)] = kind
    faults: dict[tuple[Kind, str], list[Fault]] = {}
    for fault in found.faults:
        kind = kinds.get((fault.rule.id, _what(fault)), _kind_of(fault))
        faults.setdefault((kind, fault.rule.id), []).append(fault)
    for key in dict.fromkeys([*faults, *changes]):
        kind, rule = key
        yield _of_rule(kind, rule, faults.get(key, ()), changes.get(key, ()), found.names)


def _kind_of(fault: Fault) -> Kind:
    if fault.is_known or fault.severity is Severity.WARNING or fault.rule.effect in _RIGHT:
        return Kind.KNOWN
    return Kind.WRONG if fault.severity is Severity.ERROR else Kind.SUSPECT


def _what(one: Fault | Change) -> _What:
    return one.board, one.metric, tuple(sorted(one.params.items()))


def _kind_of_blamed(change: Change) -> Kind:
    """A number that moved is told, whatever is suspected of it and however long: nobody would ever see a regression behind a suspicion."""
    blame = change.blame
    if change.verdict is Verdict.SUSPECT:
        is_new_error = blame is not None and blame.new and not blame.is_known and blame.severity is Severity.ERROR
        return Kind.WRONG if is_new_error else Kind.SUSPECT
    if blame is None or not blame.new:
        return Kind.INCOMPARABLE
    if blame.is_known:
        return Kind.KNOWN
    return Kind.WRONG if blame.severity is Severity.ERROR else Kind.SUSPECT


def _of_rule(
    kind: Kind, rule: str, faults: Sequence[Fault], changes: Sequence[Change], names: tuple[str, str]
) -> Cause:
    first = next(
        (b.rule.title for b in (c.blame for c in changes) if b is not None), faults[0].rule.title if faults else rule
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
    """How far suspect numbers moved, and whether only the older guide's are suspect, or both."""
    suspects = [change for change in changes if change.verdict is Verdict.SUSPECT]
    if not suspects:
        return
    ratios = sorted(change.ratio for change in suspects if change.ratio is not None)
    factor = f", × {ratios[0]:.2f}" + (f" to {ratios[-1]:.2f}" if len(ratios) > 1 else "") if ratios else ""
    yield f"{len(suspects)} moved{factor}"
    blames = [change.blame for change in suspects if change.blame is not None]
    if all(blame.is_known for blame in blames):
        yield "suspect in both guides"
    elif not any(blame.new for blame in blames):
        yield "suspect in the older guide only"


# --- what cannot be compared ------------------------------------------------------------------------------------------------


def _other(loud: Iterable[Change]) -> Iterator[Cause]:
    """Other conditions, definitions and work: one cause for each reason."""
    groups: dict[tuple[Kind, str], list[Change]] = {}
    for change in loud:
        if change.verdict.moved or change.blame is not None:
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
