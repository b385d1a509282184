"""What got worse or better together: rows of one nature by one factor, and what the clock of a processor does to others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from lab.guide import natures
from lab.guide.compare import Change, Comparison
from lab.guide.grouped import Cause, Kind, boards, labels
from lab.judge import noise
from lab.judge.verdicts import Verdict
from lab.metrics import by_name

_ENOUGH = 2  # benchmarks of the processor that show its clock


def moved(found: Comparison, changes: Iterable[Change]) -> Iterator[Cause]:
    """The causes of what moved, in any order."""
    every = list(changes)
    for verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT):
        kind = Kind.WORSE if verdict is Verdict.REGRESSION else Kind.BETTER
        for since in dict.fromkeys(change.crept_from for change in every):
            for members in _together([c for c in every if c.verdict is verdict and c.crept_from == since]):
                yield _of_moved(found, kind, members)


def _together(changes: Sequence[Change]) -> list[list[Change]]:
    """Those of one nature, split where their factors have a gap; then what else the clock of a processor slowed down."""
    rows: dict[object, list[Change]] = {}
    for change in changes:
        key = (change.metric, tuple(sorted(change.params.items())), speed(change) is None)
        rows.setdefault(key, []).append(change)
    by_nature: dict[tuple[str, float, bool, frozenset[object]], list[list[Change]]] = {}
    for row in rows.values():
        nature = natures.of(row[0].metric, row[0].params)
        is_zero = speed(row[0]) is None
        for part in _split([[change] for change in row], nature.gap) if nature.alone else (row,):
            clocks = frozenset(change.clocks for change in part) if nature.alone else frozenset()
            by_nature.setdefault((nature.name, nature.gap, is_zero, clocks), []).append(part)
    return _by_clock([part for (_, gap, _, _), found in by_nature.items() for part in _split(found, gap)])


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
    """What follows the clock and moved by the same factor as the processor's rows on those boards belongs to them."""
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
    return all(natures.of(change.metric, change.params).alone for change in cluster) and bool(cluster)


def _benchmarks(changes: Iterable[Change]) -> set[str]:
    return {natures.of(change.metric, change.params).label for change in changes}


def speed(change: Change) -> float | None:
    """Logarithm of new over old, of a time the other way round: below 0 is worse; None where there is none."""
    if change.ratio is None or change.ratio <= 0:
        return None
    return math.log(change.ratio) * (1 if _higher_is_better(change) else -1)


def _per_clock(change: Change) -> float:
    """The same, less what the clock gives where that is printed as another one."""
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
    """What the clock has to do with it: it changed too, or the factor looks like one of another clock."""
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
    if len(_benchmarks(processor)) < _ENOUGH:
        return ""
    factor = math.exp(statistics.median(speed(c) or 0.0 for c in members))
    clocks = {found.clocks.get(change.board) for change in members}
    clock = next(iter(clocks))
    if len(clocks) == 1 and clock:
        return f"as if the CPU ran at {factor * clock:.0f} MHz, though both clock rows say {clock:g}"
    return f"as if the CPU ran at {factor:.3f} times its clock, which no row states"


def _returns(members: Sequence[Change]) -> str:
    again = [change.returns_to for change in members if change.returns_to]
    if not again:
        return ""
    to = max(dict.fromkeys(again), key=again.count)
    if again.count(to) == len(members):
        return f"only returns to the level of {to}"
    return f"{again.count(to)} of them only return to the level of {to}"


def _noted(members: Sequence[Change]) -> str:
    """What the reader of one number should know."""
    return members[0].reason.partition("a note on ")[2] if len(members) == 1 else ""
