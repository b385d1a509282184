"""The parts of a boot that was diagnosed, and what differs between two builds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import evolve, frozen

from lab.metrics import uncertainty

LEAST_S: Final = 0.0005  # shorter parts are summed up: their stamps have microseconds, their number is in the hundreds
STAGES, BOOTSTAGE, INITCALLS, MODULES, UNITS = "stages", "bootstage", "initcalls", "modules", "units"
SECTIONS: Final[Mapping[str, str]] = {
    STAGES: "Stages, by the console",
    BOOTSTAGE: "U-Boot, by bootstage",
    INITCALLS: "Kernel, by initcall_debug",
    MODULES: "Modules, by initcall_debug",
    UNITS: "Units, by systemd-analyze; they run in parallel",
}
REST: Final = "("  # begins the name of a rest
SHORT: Final = "(shorter than 0.5 ms each)"
_FAMILY_ERROR: Final = 0.05  # of one wrong part among all
_LEAST_CHANGE_S: Final = 0.001
# A hand-over to another thread may take a tick of the kernel, or not, in all boots of a session: 4 ms at HZ=250.
_TICK_S: Final = 0.005
_PRIOR: Final = 4.0  # degrees of freedom of the parts' common deviation
_STEP_S: Final = 0.0005  # half of the last digit of systemd-analyze
_REST_SHARE: Final = 0.05  # deviation of a rest at least: of what is in it, nothing is known
_SHARE: Final = 0.05  # the same of a part, where the boots do not tell
_MANY: Final = 20  # parts, from which on their median says what all have in common
# Deviation of the parts' logarithms, up to which the fewest boots find what takes six times as long.
_NOISY: Final = 0.15
_STAMP_S: Final = 0.0003  # deviation of a part that no boot moves: stamps, interrupts


@frozen
class BootPart:
    """A part of one boot.

    Attributes:
        section: of SECTIONS.
        start_s: on the section's own clock.
        length_s: with all parts inside it.
        own_s: without them.
    """

    section: str
    name: str
    start_s: float
    length_s: float
    own_s: float


@frozen
class PartTime:
    """A part over several boots.

    Attributes:
        start_s, length_s: means.
        own_s: of each boot; 0 where it is missing.
    """

    section: str
    name: str
    start_s: float
    length_s: float
    own_s: tuple[float, ...]

    @property
    def mean_s(self) -> float:
        """Mean of the own time."""
        return statistics.fmean(self.own_s)

    @property
    def uncertainty_s(self) -> float:
        """± of the mean at 95 %."""
        return uncertainty.of_mean(self.own_s, [_STEP_S if self.section == UNITS else 0.0])


@frozen
class PartChange:
    """A part that takes longer or shorter.

    Attributes:
        section: where it is now; of one that is gone: where it was.
        moved_from: the section where it was, if another.
        before_s, now_s: its own time; None: it is gone, or below `LEAST_S`.
        uncertainty_s: of the difference, at 95 %.
    """

    section: str
    name: str
    before_s: float | None
    now_s: float | None
    uncertainty_s: float
    moved_from: str = ""

    @property
    def difference_s(self) -> float:
        """Now less before."""
        return (self.now_s or 0.0) - (self.before_s or 0.0)


def sum_parts(parts: Iterable[BootPart]) -> list[BootPart]:
    """Parts of one boot with one entry a name; short ones together.

    A device that is probed again after a deferral, or a module that is loaded twice, is one part.
    """
    named: dict[tuple[str, str], BootPart] = {}
    for part in parts:
        _add(named, part)
    entries: dict[tuple[str, str], BootPart] = {}
    for part in named.values():
        if part.own_s >= LEAST_S or part.section == STAGES:
            _add(entries, part)
        else:
            _add(entries, evolve(part, name=SHORT, length_s=part.own_s))
    return sorted(entries.values(), key=_place)


def _add(entries: dict[tuple[str, str], BootPart], part: BootPart) -> None:
    key = (part.section, part.name)
    before = entries.get(key)
    entries[key] = (
        part
        if before is None
        else BootPart(
            *key,
            min(before.start_s, part.start_s),
            before.length_s + part.length_s,
            before.own_s + part.own_s,
        )
    )


def _place(part: BootPart | PartTime) -> tuple[int, float, str]:
    return list(SECTIONS).index(part.section), part.start_s, part.name


def over_boots(boots: Sequence[Sequence[BootPart]]) -> list[PartTime]:
    """The parts over several boots, by section and start."""
    parts: dict[tuple[str, str], list[BootPart | None]] = {}
    for number, boot in enumerate(boots):
        for part in boot:
            parts.setdefault((part.section, part.name), [None] * len(boots))[number] = part
    times = []
    for (section, name), of_boots in parts.items():
        there = [part for part in of_boots if part is not None]
        times.append(
            PartTime(
                section,
                name,
                statistics.fmean(part.start_s for part in there),
                statistics.fmean(part.length_s for part in there),
                tuple(0.0 if part is None else part.own_s for part in of_boots),
            )
        )
    return sorted(times, key=_place)


def boots_needed(boots: Sequence[Sequence[BootPart]], fewest: int) -> int:
    """Number of boots that tell a differing part from noise.

    It is one to three times the fewest, by the parts' variation.
    """
    # the median deviation of a part's logarithm over the boots
    deviations = [
        statistics.stdev(_logs(part.own_s))
        for part in over_boots(boots)
        if len(part.own_s) > 1
        and part.section != STAGES
        and not part.name.startswith(REST)
        and part.mean_s >= 4 * LEAST_S
    ]
    return fewest * min(3, max(1, math.ceil((statistics.median(deviations) if deviations else 0.0) / _NOISY)))


def changes_of_runs(before: Sequence[Sequence[PartTime]], now: Sequence[Sequence[PartTime]]) -> list[PartChange]:
    """As `changes`, of several runs before and since.

    A run's own offset is in all its boots, so each run's mean counts as one boot, unless there is one run on each
    side. Without a run on either side nothing differs.
    """
    if not before or not now:
        return []
    if len(before) == len(now) == 1:
        return changes(before[0], now[0])
    means = (
        [[BootPart(part.section, part.name, part.start_s, part.length_s, part.mean_s) for part in run] for run in runs]
        for runs in (before, now)
    )
    return changes(*map(over_boots, means))


def changes(before: Sequence[PartTime], now: Sequence[PartTime]) -> list[PartChange]:
    """Parts that differ, the largest first, without stages.

    The parts of a stage explain it.

    Each part is compared by Student's t of the logarithms with a variance that is drawn to the one of all parts (G. K.
    Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004), since three boots know their own badly;
    with Holm's correction for their number. What most parts have in common, e.g. another clock of the processor, is no
    difference of a part.
    """
    candidates = _compare(before, now)
    sure = []
    for number, (probability, change) in enumerate(candidates):
        if probability > _FAMILY_ERROR / (len(candidates) - number):
            break
        if abs(change.difference_s) >= _least_s(change):
            sure.append(change)
    return sorted(_join_moved(sure), key=lambda change: -abs(change.difference_s))


def likeliest(before: Sequence[PartTime], now: Sequence[PartTime]) -> PartChange | None:
    """The part that differs most beyond its noise."""
    candidates = (change for _, change in _compare(before, now))
    return next((change for change in candidates if abs(change.difference_s) >= _least_s(change)), None)


def _least_s(change: PartChange) -> float:
    return _TICK_S if change.section in {INITCALLS, MODULES} else _LEAST_CHANGE_S


def common_ratio(before: Sequence[PartTime], now: Sequence[PartTime]) -> float:
    """The ratio by which most parts take longer; 1.0: too few parts to say."""
    old = {(part.section, part.name): part for part in before if part.section != STAGES}
    ratios = [
        _log(part.own_s) - _log(old[key].own_s)
        for part in now
        if (key := (part.section, part.name)) in old and min(*part.own_s, *old[key].own_s) >= 2 * LEAST_S
    ]
    return math.exp(statistics.median(ratios)) if len(ratios) >= _MANY else 1.0


def _compare(before: Sequence[PartTime], now: Sequence[PartTime]) -> list[tuple[float, PartChange]]:
    """Each part's probability of such a difference by chance, the smallest first."""
    old = {(part.section, part.name): part for part in before if part.section != STAGES}
    new = {(part.section, part.name): part for part in now if part.section != STAGES}
    counts = [len(part.own_s) for part in (*before, *now)]
    if not counts or min(counts) < 1:
        return []
    was_n = max((len(part.own_s) for part in before), default=1)
    now_n = max((len(part.own_s) for part in now), default=1)
    pairs = {
        key: (old[key].own_s if key in old else (0.0,) * was_n, new[key].own_s if key in new else (0.0,) * now_n)
        for key in dict.fromkeys((*new, *old))
    }
    ratio, share = math.log(common_ratio(before, now)), _common_share(pairs)
    rows = []
    for key, (own_before, own_now) in pairs.items():
        tested = _test(own_before, own_now, None if key[1].startswith(REST) else share, ratio)
        change = PartChange(
            *key,
            statistics.fmean(own_before) if key in old else None,
            statistics.fmean(own_now) if key in new else None,
            tested.uncertainty_s,
        )
        rows.append((tested.probability, change))
    return sorted(rows, key=lambda row: row[0])


def _join_moved(sure: Sequence[PartChange]) -> list[PartChange]:
    """Changes; a part gone here and new there is one."""
    gone = {_base(change.name): change for change in sure if change.now_s is None}
    kept_changes, used = [], set[str]()
    for change in sure:
        was = gone.get(_base(change.name))
        if was is None or change.before_s is not None or was.section == change.section:
            kept_changes.append(change)
            continue
        used.add(was.name)
        bound = uncertainty.combine((change.uncertainty_s, was.uncertainty_s))
        kept_changes.append(evolve(change, before_s=was.before_s, uncertainty_s=bound, moved_from=was.section))
    return [change for change in kept_changes if not (change.now_s is None and change.name in used)]


def _base(name: str) -> str:
    """A name without its module."""
    return name.partition(" [")[0]


@frozen
class _TestResult:
    probability: float
    uncertainty_s: float


_Pair: TypeAlias = tuple[Sequence[float], Sequence[float]]  # own times before and now


def _logs(own_s: Sequence[float]) -> list[float]:
    return [math.log(max(value, LEAST_S / 2)) for value in own_s]


def _log(own_s: Sequence[float]) -> float:
    return statistics.fmean(_logs(own_s))


def _squares(pair: _Pair) -> float:
    return sum((value - statistics.fmean(logs)) ** 2 for logs in map(_logs, pair) for value in logs)


def _common_share(pairs: Mapping[tuple[str, str], _Pair]) -> float:
    """The median deviation of a part's logarithm over the boots."""
    freedom = max(1, sum(len(side) for side in next(iter(pairs.values()), ())) - 2)
    deviations = [
        math.sqrt(_squares(pair) / freedom)
        for key, pair in pairs.items()
        if not key[1].startswith(REST) and max(map(statistics.fmean, pair)) >= 4 * LEAST_S
    ]
    return (statistics.median(deviations) if deviations else 0.0) or _SHARE


def _test(before: Sequence[float], now: Sequence[float], share: float | None, ratio: float) -> _TestResult:
    """Two-sided probability of at least this difference between equal parts.

    Args:
        share: the parts' common deviation; None: of a rest, which is of another kind.
        ratio: of all parts, its logarithm.
    """
    freedom = len(before) + len(now) - 2
    level = max(statistics.fmean(before), statistics.fmean(now), LEAST_S / 2)
    prior = (_STAMP_S / level) ** 2 + (_REST_SHARE if share is None else share) ** 2
    squares = _squares((before, now))
    variance = (
        max(squares / max(1, freedom), prior) if share is None else (squares + _PRIOR * prior) / (freedom + _PRIOR)
    )
    degrees = freedom + _PRIOR
    error = math.sqrt(variance * (1 / len(before) + 1 / len(now)))
    difference = _log(now) - _log(before)
    # A part that waits for something takes as long as before.
    probability = _two_sided(min(abs(difference), abs(difference - ratio)) / error, degrees)
    # The ± is of the times, by their own deviation where the boots have one.
    own = sum((value - statistics.fmean(values)) ** 2 for values in (before, now) for value in values)
    spread = own / freedom + _STAMP_S**2 if freedom > 1 else prior * level**2
    error_s = math.sqrt(spread * (1 / len(before) + 1 / len(now)))
    return _TestResult(probability, uncertainty.student_t95(int(freedom if freedom > 1 else degrees)) * error_s)


def _two_sided(t: float, degrees: float) -> float:
    """P(|T| >= t) of Student's t, by Wallace's normal deviate.

    D. L. Wallace, Annals of Mathematical Statistics 30, 1959.
    """
    deviate = (8 * degrees + 1) / (8 * degrees + 3) * math.sqrt(degrees * math.log1p(t * t / degrees))
    return 2 * statistics.NormalDist().cdf(-deviate)


def documents(parts: Iterable[BootPart]) -> list[list[object]]:
    """The parts for an attempt's details."""
    return [[p.section, p.name, round(p.start_s, 6), round(p.length_s, 6), round(p.own_s, 6)] for p in parts]


def from_documents(documents: Any) -> list[BootPart]:
    """The parts from an attempt's details; other things are left out."""
    parts = []
    for document in documents if isinstance(documents, list) else ():
        match document:
            case [
                str(section),
                str(name),
                float() | int() as start,
                float() | int() as length,
                float() | int() as own,
            ]:
                if section in SECTIONS:
                    parts.append(BootPart(section, name, float(start), float(length), float(own)))
    return parts
