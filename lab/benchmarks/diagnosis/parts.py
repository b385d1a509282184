"""The parts of a boot that was diagnosed, and what differs between two builds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

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
_PRIOR: Final = 4.0  # degrees of freedom of the parts' common deviation
_STEP_S: Final = 0.0005  # half of the last digit of systemd-analyze
_REST_SHARE: Final = 0.05  # deviation of a rest at least: of what is in it, nothing is known
_STAMP_S: Final = 0.0003  # deviation of a part that no boot moves: stamps, interrupts


@frozen
class BootPart:
    """A part of one boot.

    Attributes:
        section: of SECTIONS. start_s: on the section's own clock.
        length_s: with all parts inside it. own_s: without them.
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
        start_s, length_s: means. own_s: of each boot; 0 where it is missing.
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
        return uncertainty.of_mean(self.own_s, _STEP_S if self.section == UNITS else 0.0)


@frozen
class PartChange:
    """A part that takes longer or shorter.

    Attributes:
        section: where it is now; of one that is gone: where it was. moved_from: the section where it was, if another.
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


def summed(parts: Iterable[BootPart]) -> list[BootPart]:
    """Parts of one boot with one entry a name; short ones together.

    A device that is probed again after a deferral, or a module that is loaded twice, is one part.
    """
    named: dict[tuple[str, str], BootPart] = {}
    for part in parts:
        _add(named, part)
    found: dict[tuple[str, str], BootPart] = {}
    for part in named.values():
        if part.own_s >= LEAST_S or part.section == STAGES:
            _add(found, part)
        else:
            _add(found, evolve(part, name=SHORT, length_s=part.own_s))
    return sorted(found.values(), key=_place)


def _add(found: dict[tuple[str, str], BootPart], part: BootPart) -> None:
    key = (part.section, part.name)
    before = found.get(key)
    found[key] = (
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


def over(boots: Sequence[Sequence[BootPart]]) -> list[PartTime]:
    """The parts over several boots, in the order of their sections and starts."""
    found: dict[tuple[str, str], list[BootPart | None]] = {}
    for number, boot in enumerate(boots):
        for part in boot:
            found.setdefault((part.section, part.name), [None] * len(boots))[number] = part
    times = []
    for (section, name), its in found.items():
        there = [part for part in its if part is not None]
        times.append(
            PartTime(
                section,
                name,
                statistics.fmean(part.start_s for part in there),
                statistics.fmean(part.length_s for part in there),
                tuple(0.0 if part is None else part.own_s for part in its),
            )
        )
    return sorted(times, key=_place)


def of_runs(before: Sequence[Sequence[PartTime]], now: Sequence[Sequence[PartTime]]) -> list[PartChange]:
    """As `changes`, of several runs before and since.

    A run's own offset is in all its boots, so each run's mean counts as one boot, unless there is one run on each side.
    Without a run on either side nothing differs.
    """
    if not before or not now:
        return []
    if len(before) == len(now) == 1:
        return changes(before[0], now[0])
    return changes(*(over([[_mean(part) for part in run] for run in runs]) for runs in (before, now)))


def _mean(part: PartTime) -> BootPart:
    return BootPart(part.section, part.name, part.start_s, part.length_s, part.mean_s)


def changes(before: Sequence[PartTime], now: Sequence[PartTime]) -> list[PartChange]:
    """Parts that differ, the largest first, without stages.

    The parts of a stage explain it.

    Each part is compared by Student's t with a deviation that is drawn to the one of all parts (G. K. Smyth, Statistical Applications
    in Genetics and Molecular Biology 3, 2004), since three boots know their own badly; with Holm's correction for their number.
    """
    old = {(part.section, part.name): part for part in before if part.section != STAGES}
    new = {(part.section, part.name): part for part in now if part.section != STAGES}
    counts = [len(part.own_s) for part in (*before, *now)]
    if not counts or min(counts) < 1:
        return []
    was_n = max((len(part.own_s) for part in before), default=1)
    now_n = max((len(part.own_s) for part in now), default=1)
    relative = _relative([*old.values(), *new.values()])
    found = []
    for key in dict.fromkeys((*new, *old)):
        one = old[key].own_s if key in old else (0.0,) * was_n
        other = new[key].own_s if key in new else (0.0,) * now_n
        tested = _tested(one, other, None if key[1].startswith(REST) else relative)
        change = PartChange(
            *key,
            statistics.fmean(one) if key in old else None,
            statistics.fmean(other) if key in new else None,
            tested.uncertainty_s,
        )
        found.append((tested.probability, change))
    found.sort(key=lambda each: each[0])
    sure = []
    for number, (probability, change) in enumerate(found):
        if probability > _FAMILY_ERROR / (len(found) - number):
            break
        if abs(change.difference_s) >= _LEAST_CHANGE_S:
            sure.append(change)
    return sorted(_moved(sure), key=lambda change: -abs(change.difference_s))


def _moved(sure: Sequence[PartChange]) -> list[PartChange]:
    """Changes with a part that is gone here and new there as one."""
    gone = {_base(change.name): change for change in sure if change.now_s is None}
    found, used = [], set[str]()
    for change in sure:
        was = gone.get(_base(change.name))
        if was is None or change.before_s is not None or was.section == change.section:
            found.append(change)
            continue
        used.add(was.name)
        bound = uncertainty.combined((change.uncertainty_s, was.uncertainty_s))
        found.append(evolve(change, before_s=was.before_s, uncertainty_s=bound, moved_from=was.section))
    return [change for change in found if not (change.now_s is None and change.name in used)]


def _base(name: str) -> str:
    """A name without its module."""
    return name.partition(" [")[0]


@frozen
class _Tested:
    probability: float
    uncertainty_s: float


def _relative(parts: Sequence[PartTime]) -> float:
    """The median relative deviation of parts over the boots."""
    found = [
        statistics.stdev(part.own_s) / part.mean_s
        for part in parts
        if len(part.own_s) > 1 and part.mean_s >= 4 * LEAST_S and min(part.own_s) > 0
    ]
    return statistics.median(found) if found else 0.05


def _tested(one: Sequence[float], other: Sequence[float], relative: float | None) -> _Tested:
    """Two-sided probability of at least this difference between equal parts.

    Args:
        relative: the parts' common deviation; None: of a rest, which is of another kind.
    """
    freedom = len(one) + len(other) - 2
    level = max(statistics.fmean(one), statistics.fmean(other))
    prior = _STAMP_S**2 + ((_REST_SHARE if relative is None else relative) * level) ** 2
    squares = sum((value - statistics.fmean(values)) ** 2 for values in (one, other) for value in values)
    variance = max(squares / max(1, freedom), prior) if relative is None else 0.0
    variance = variance or (squares + _PRIOR * prior) / (freedom + _PRIOR)
    error = math.sqrt(variance * (1 / len(one) + 1 / len(other)))
    difference = abs(statistics.fmean(other) - statistics.fmean(one))
    degrees = freedom + _PRIOR
    return _Tested(_two_sided(difference / error, degrees), uncertainty.student_t95(int(degrees)) * error)


def _two_sided(t: float, degrees: float) -> float:
    """P(|T| >= t) of Student's t.

    It is the regularised incomplete beta function of degrees / (degrees + t²), Abramowitz & Stegun 26.7.1.
    """
    return _beta(degrees / 2, 0.5, degrees / (degrees + t * t))


def _beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Abramowitz & Stegun 26.5.8)."""
    if x >= 1.0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    value = 1.0
    for m in range(200, 0, -1):  # from the tail; 200 terms are enough for the degrees of some boots
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1))
        value = 1 + odd / (1 + even / value)
    return front / value


def documents(parts: Iterable[BootPart]) -> list[list[object]]:
    """The parts for an attempt's details."""
    return [[p.section, p.name, round(p.start_s, 6), round(p.length_s, 6), round(p.own_s, 6)] for p in parts]


def from_documents(documents: Any) -> list[BootPart]:
    """The parts from an attempt's details; what is no part is left out."""
    found = []
    for each in documents if isinstance(documents, list) else ():
        match each:
            case [
                str(section),
                str(name),
                float() | int() as start,
                float() | int() as length,
                float() | int() as own,
            ]:
                if section in SECTIONS:
                    found.append(BootPart(section, name, float(start), float(length), float(own)))
    return found
