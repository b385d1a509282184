"""The comparison of two numbers, and its verdicts.

The rules are tried one after the other, and the first one with a result decides. Faults of a number and unequal
conditions come before the difference. Differences are those of logarithms, so that 1 % is 1 % everywhere.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable

from attrs import frozen

from lab.judge.noise import CPU_CLOCK, Noise, is_another_clock
from lab.judge.number import Number
from lab.metrics.uncertainty import UNCERTAIN_SHARE


class Verdict(enum.StrEnum):
    """The verdicts in the order of tables: those that need a person come first."""

    REGRESSION = "regression"
    SUSPECT = "suspect"
    BROKEN_RUN = "broken run"
    IMPROVEMENT = "improvement"
    CONDITIONS_CHANGED = "conditions changed"
    DEFINITION_CHANGED = "definition changed"
    NOT_COMPARABLE = "not comparable"
    BELOW_RESOLUTION = "below resolution"
    NOISE = "noise"
    NO_HISTORY = "no history"
    NO_SAMPLES = "no samples"

    @property
    def moved(self) -> bool:
        """True if the number itself got better or worse."""
        return self in {Verdict.REGRESSION, Verdict.IMPROVEMENT}


@frozen
class Judgement:
    """A verdict on a change, with its reason.

    Attributes:
        reason: one sentence.
        effect: relative change; 0.02: the number is 2 % higher; None: undefined, e.g. from zero.
        low, high: 95 % interval of the effect, with the noise between runs and both ±.
        rule: name of the deciding rule, e.g. "clock". "moved": no rule explains the difference; "crept": it is one of
            many small steps; "flow": only boots of another flow could be compared.
        returns_to: earlier release with the same level; empty: there is none.
        crept_from: earlier release since which steps of one direction have added up, each within the noise; empty: the
            number moved at once, or not at all. The effect is still that against the last release.
    """

    verdict: Verdict
    reason: str
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    rule: str = "moved"
    returns_to: str = ""
    crept_from: str = ""


def compare(old: Number, new: Number, noise: Noise) -> Judgement:
    """Judge the change from one number to another: its verdict, size and 95 % interval.

    Args:
        noise: difference between equal runs of this metric (`lab.judge.noise`).
    """
    pair = _Pair(old, new, noise)
    for rule in _RULES:
        result = rule(pair)
        if result is not None:
            return Judgement(*result, *pair.effect, rule=rule.__name__.strip("_"))
    return Judgement(*_judge_move(pair), *pair.effect)


def is_history(earlier: Number, new: Number, noise: Noise) -> bool:
    """Return True if an earlier number may show how a new one moves by itself.

    It has a value, is sound and not suspect, and has the same definition, conditions and clock.
    """
    pair = _Pair(earlier, new, noise)
    if earlier.evidence.suspicions or (noise.follows_clock and pair.clocks):
        return False
    return not any(
        rule(pair) for rule in (_incomparable, _broken, _empty, _versions, _definition, _conditions, _background)
    )


_Ruling = tuple[Verdict, str]  # verdict and reason
_ROUNDED = 1 + 1e-9  # in floating point 0.14 - 0.13 is not quite 0.01


@frozen
class _Pair:
    """Two numbers that are compared, with the noise between equal runs."""

    old: Number
    new: Number
    noise: Noise

    @property
    def values(self) -> tuple[float, float]:
        """Both values; a missing one is 0."""
        return self.old.value or 0.0, self.new.value or 0.0

    @property
    def difference(self) -> float:
        """The absolute difference, in the unit of the metric."""
        old, new = self.values
        return abs(new - old)

    @property
    def ratio(self) -> float | None:
        """The new value over the old one; None: undefined."""
        old, new = self.values
        return new / old if old and self.old.is_known and self.new.is_known else None

    @property
    def unit(self) -> str:
        return self.new.metric.unit if self.new.metric else ""

    @property
    def half(self) -> float:
        """Half of the effect's interval, in logarithms: the noise between runs, and both ±."""
        between_runs = math.log1p(self.noise.relative)
        return math.hypot(between_runs, self.old.relative_uncertainty, self.new.relative_uncertainty)

    @property
    def effect(self) -> tuple[float | None, float | None, float | None]:
        """The relative change, and its 95 % interval."""
        if self.ratio is None or not math.isfinite(self.ratio):
            return None, None, None
        if self.ratio <= 0:
            return self.ratio - 1, None, None
        middle = math.log(self.ratio)
        return self.ratio - 1, math.expm1(middle - self.half), math.expm1(middle + self.half)

    @property
    def is_within(self) -> bool:
        """True if the difference is within the noise and both ±."""
        if self.ratio and self.ratio > 0:
            return abs(math.log(self.ratio)) <= self.half
        # Nothing is relative to zero: then only the ± count, in the unit of the metric.
        return self.difference <= math.hypot(self.old.uncertainty or 0.0, self.new.uncertainty or 0.0)

    @property
    def higher_is_better(self) -> bool:
        return self.new.metric is None or self.new.metric.better == "higher"

    @property
    def clocks(self) -> tuple[float, float] | None:
        """The processor's clocks in MHz; None: they are equal or unknown."""
        old, new = self.old.evidence.clock_mhz, self.new.evidence.clock_mhz
        return (old, new) if old and new and is_another_clock(old, new) else None

    @property
    def per_clock(self) -> float | None:
        """The ratio without the share of the clock; None: the clocks are equal, or do not matter."""
        if self.clocks is None or not self.noise.follows_clock or self.ratio is None:
            return None
        return self.ratio / self.of_clock

    @property
    def of_clock(self) -> float:
        """The ratio that the clocks alone would explain."""
        old, new = self.clocks or (1.0, 1.0)
        return new / old if self.higher_is_better else old / new


def _incomparable(pair: _Pair) -> _Ruling | None:
    """Refuse a number that must not be compared."""
    wrong = [
        f"{side.source}: {side.evidence.incomparable}" for side in (pair.old, pair.new) if side.evidence.incomparable
    ]
    return (Verdict.NOT_COMPARABLE, "; ".join(wrong)) if wrong else None


def _broken(pair: _Pair) -> _Ruling | None:
    """Refuse a number of an invalid run."""
    wrong = [f"{side.source}: {side.evidence.broken}" for side in (pair.new, pair.old) if side.evidence.broken]
    return (Verdict.BROKEN_RUN, wrong[0]) if wrong else None


def _empty(pair: _Pair) -> _Ruling | None:
    """Refuse a comparison without one of the values."""
    if not pair.new.is_known:
        return Verdict.NO_SAMPLES, f"{pair.new.source} has no number: every cycle failed, or none was run"
    if not pair.old.is_known:
        return Verdict.NO_HISTORY, f"there is no number to compare with in {pair.old.source}"
    return None


def _unknown(pair: _Pair) -> _Ruling | None:
    """Refuse to judge a change of an unknown metric."""
    if pair.new.metric is not None or pair.is_within:
        return None
    return Verdict.NOT_COMPARABLE, "boardlab does not know what this row measures, nor which direction is better"


def _definition(pair: _Pair) -> _Ruling | None:
    """Refuse to compare numbers of two definitions."""
    old, new = pair.old.evidence, pair.new.evidence
    if not old.definition or not new.definition or old.definition == new.definition:
        return None
    text = f"{pair.old.source} {old.definition_text}, {pair.new.source} {new.definition_text}"
    if old.work and new.work:
        before, after = old.work.amount, new.work.amount
        share = f" ({after / before:.2f} times)" if before else ""
        text += f"; in {new.work.name} it is {before:.1f} to {after:.1f} {new.work.unit}{share}"
    return Verdict.DEFINITION_CHANGED, text


def _versions(pair: _Pair) -> _Ruling | None:
    """Refuse to compare numbers of two metrics, or of two versions of one."""
    old, new = pair.old.metric, pair.new.metric
    if old is None or new is None or (old.name, old.version) == (new.name, new.version):
        return None
    return (
        Verdict.DEFINITION_CHANGED,
        f"{pair.old.source} has {old.name}, version {old.version}, {pair.new.source} {new.name}, version {new.version}",
    )


def _conditions(pair: _Pair) -> _Ruling | None:
    """Refuse to compare numbers of two conditions, e.g. two SD cards."""
    before, after = set(pair.old.evidence.conditions), set(pair.new.evidence.conditions)
    only_before, only_after = sorted(before - after), sorted(after - before)
    if not only_before or not only_after:  # a number that does not name its condition may have the same one
        return None
    return (
        Verdict.CONDITIONS_CHANGED,
        f"another medium: {only_before[0]!r} in {pair.old.source}, {only_after[0]!r} in {pair.new.source}",
    )


def _background(pair: _Pair) -> _Ruling | None:
    """Refuse to compare loads with two backgrounds."""
    old, new = pair.old.evidence.background, pair.new.evidence.background
    if not old or not new or old == new:
        return None
    return Verdict.CONDITIONS_CHANGED, f"{old} in {pair.old.source}, {new} in {pair.new.source}"


def _unchanged(pair: _Pair) -> _Ruling | None:
    """Recognise equal values."""
    return (Verdict.NOISE, "unchanged") if not pair.difference else None


def _resolution(pair: _Pair) -> _Ruling | None:
    """Recognise a difference within the resolution of a number."""
    evidence = max((side.evidence for side in (pair.old, pair.new)), key=lambda e: e.resolution or 0.0)
    if evidence.resolution is None or pair.difference > evidence.resolution * _ROUNDED:
        return None
    text = f"{pair.difference:.4g} {pair.unit} of difference are within the resolution, {evidence.resolution:.4g}"
    return Verdict.BELOW_RESOLUTION, f"{text}: {evidence.resolution_note}"


def _slack(pair: _Pair) -> _Ruling | None:
    """Recognise a difference that is too small to mean anything for this metric."""
    if not pair.noise.slack or pair.difference > pair.noise.slack * _ROUNDED:
        return None
    return (
        Verdict.NOISE,
        f"the difference of {pair.difference:.3g} {pair.unit} is within {pair.noise.slack:g}, which says nothing here",
    )


def _other_work(pair: _Pair) -> _Ruling | None:
    """Refuse to compare loads with different amounts of work."""
    old, new = pair.old.evidence.work, pair.new.evidence.work
    if not pair.noise.is_load or old is None or new is None or old.amount <= 0 or new.amount <= 0:
        return None
    if abs(math.log(new.amount / old.amount)) <= math.log1p(new.noise):
        return None
    return (
        Verdict.NOT_COMPARABLE,
        f"the load belongs to {new.amount / old.amount:.2f} times the work (see {new.name})",
    )


def _uncertain(pair: _Pair) -> _Ruling | None:
    """Refuse to take a number with a large ±, after one with a small ±, for unchanged."""
    share, before = pair.new.relative_uncertainty, pair.old.relative_uncertainty
    if share <= UNCERTAIN_SHARE or not 0 < before <= UNCERTAIN_SHARE or not pair.is_within:
        return None
    return Verdict.NOT_COMPARABLE, f"its ± is {100 * share:.0f} % of it, too large to show whether it has moved"


def _noise(pair: _Pair) -> _Ruling | None:
    """Recognise a difference within the noise, or printed ranges that overlap."""
    if ranges := _overlap(pair):
        return Verdict.NOISE, ranges
    if not pair.is_within:
        return None
    return Verdict.NOISE, f"within {_usual(pair)}" + (f": {pair.noise.reason}" if pair.noise.reason else "")


def _clock(pair: _Pair) -> _Ruling | None:
    """Explain a difference by another clock of the processor."""
    if pair.clocks is None or pair.new.metric is None:
        return None
    old, new = pair.clocks
    text = f"the CPU clock is {new:g} MHz instead of {old:g}"
    if pair.new.metric.name == CPU_CLOCK:
        return Verdict.CONDITIONS_CHANGED, text
    per_clock = pair.per_clock
    if per_clock is None or per_clock <= 0:
        return None
    step = max(side.evidence.resolution or 0.0 for side in (pair.old, pair.new))
    is_one_step = abs(pair.values[1] - pair.values[0] * pair.of_clock) <= step
    if abs(math.log(per_clock)) > pair.half and not is_one_step:
        return None
    remainder = "one step of the method" if is_one_step else "noise"
    return Verdict.CONDITIONS_CHANGED, f"{text}; per clock it is {per_clock:.2f} times, which is {remainder}"


def _like_peers(pair: _Pair) -> _Ruling | None:
    """Explain a move to the level of the other boards with the new clock.

    With its old clock the board was not at the level of the boards with that clock.
    """
    per_clock, sides = pair.per_clock, (pair.old, pair.new)
    ratios = [side.value / side.evidence.beside for side in sides if side.value and side.evidence.beside]
    if pair.clocks is None or not per_clock or len(ratios) < len(sides) or min(per_clock, *ratios) <= 0:
        return None
    before, after = map(math.log, ratios)
    usual = math.log1p(pair.noise.relative)
    if abs(before) <= usual or abs(after) > usual or abs(math.log(per_clock) + before) > pair.half:
        return None
    (old_mhz, new_mhz), source = pair.clocks, pair.old.source
    return Verdict.CONDITIONS_CHANGED, (
        f"the CPU clock is {new_mhz:g} MHz instead of {old_mhz:g}, and the number is that of the boards with this "
        f"clock; in {source} it was {math.exp(before):.2f} times theirs: another unit, or another clock than printed"
    )


def _suspect(pair: _Pair) -> _Ruling | None:
    """Refuse to call the change of a suspect number better or worse."""
    reasons = [f"suspect in {side.source}: {why}" for side in (pair.new, pair.old) for why in side.evidence.suspicions]
    change = f"{_ratio(pair.ratio)} times" if pair.ratio is not None else "from zero"
    return (Verdict.SUSPECT, "; ".join([change, *reasons])) if reasons else None


def _judge_move(pair: _Pair) -> _Ruling:
    """Judge a difference that no rule explains: the number got better or worse."""
    old, new = pair.values
    is_better = (new > old) == pair.higher_is_better
    change = f"{_ratio(pair.ratio)} times" if pair.ratio is not None else f"from zero to {new:g} {pair.unit}"
    notes = [f"{change}, beyond {_usual(pair)}"]
    if any(side.evidence.recovered for side in (pair.old, pair.new)):
        notes.append("own values, recovered from the printed averages")
    if pair.per_clock is not None:
        notes.append(f"{pair.per_clock:.2f} times per clock, which changed too")
    for side in (pair.old, pair.new):
        notes += [f"a note on {side.source}: {note}" for note in side.evidence.notes]
    return Verdict.IMPROVEMENT if is_better else Verdict.REGRESSION, "; ".join(notes)


def _ratio(ratio: float) -> str:
    """Return a ratio with two decimals, or with four if it is close to 1."""
    return f"{ratio:.2f}" if abs(ratio - 1) >= 0.01 else f"{ratio:.4f}"


def _usual(pair: _Pair) -> str:
    """Return the usual difference as text, e.g. "the 2.1 % by which equal runs differ"."""
    percent = 100 * math.expm1(pair.half)
    runs = f"the last {pair.noise.runs} {pair.noise.of}" if pair.noise.runs else "equal runs"
    included = ", both ± included" if pair.half > math.log1p(pair.noise.relative) else ""
    return f"the {percent:.3g} % by which {runs} differ{included}" if all(pair.values) else "both ±"


def _overlap(pair: _Pair) -> str:
    """Return the sentence on printed ranges that overlap; empty: they do not, or there are none.

    A single value is a range of its own.
    """
    (old_low, old_high), (new_low, new_high) = _range(pair.old), _range(pair.new)
    if (old_low, new_low) == (old_high, new_high) or old_low > new_high or new_low > old_high:
        return ""
    if new_low == new_high:
        return f"{new_low:g} lies inside the range of {pair.old.source}, {old_low:g} to {old_high:g}"
    if old_low == old_high:
        return f"{old_low:g} lies inside the range of {pair.new.source}, {new_low:g} to {new_high:g}"
    return f"the ranges overlap: {old_low:g} to {old_high:g} and {new_low:g} to {new_high:g}"


def _range(side: Number) -> tuple[float, float]:
    """Return the printed range of a number; a recovered or single value is its own range."""
    evidence, value = side.evidence, side.value or 0.0
    if evidence.recovered or evidence.low is None or evidence.high is None:
        return value, value
    return min(evidence.low, evidence.high), max(evidence.low, evidence.high)


_RULES: tuple[Callable[[_Pair], _Ruling | None], ...] = (
    _incomparable,
    _broken,
    _empty,
    _unknown,
    _versions,
    _definition,
    _conditions,
    _background,
    _unchanged,
    _resolution,
    _slack,
    _other_work,
    _uncertain,
    _noise,
    _clock,
    _like_peers,
    _suspect,
)
