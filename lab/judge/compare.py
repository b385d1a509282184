"""The one comparison of two numbers, and its verdicts.

The first rule with a result decides. Faults of a number, and unequal conditions of both, come before their
difference. All differences are of logarithms, so that 1 % is 1 % everywhere.
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
    """Verdicts in a table's order: those that need a person first."""

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
    """A verdict and why, in one sentence.

    Attributes:
        effect: the relative change, e.g. 0.02: the number is 2 % higher; None: undefined, e.g. from zero.
        low, high: of the effect, at 95 %, with the noise between runs and both ±.
        rule: the deciding one, e.g. "clock"; "moved": no rule explained the difference; "crept":
            one of many small steps; "flow": only boots of another flow could be compared.
        returns_to: the earlier release with the same level; empty: none.
        crept_from: the earlier release since which steps of one direction have added up, none of them more than noise;
            empty where it moved at once, or not at all. The effect stays that against the last release.
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
    """Judge a change: its verdict, size and 95 % interval.

    Args:
        noise: the difference of equal runs of this metric, from `lab.judge.noise`.
    """
    pair = _Pair(old, new, noise)
    for ask in _RULES:
        result = ask(pair)
        if result is not None:
            return Judgement(*result, *pair.effect, rule=ask.__name__.strip("_"))
    return Judgement(*_judge_move(pair), *pair.effect)


def is_history(earlier: Number, new: Number, noise: Noise) -> bool:
    """True if an earlier number is history of a new one.

    It is known, sound and unsuspected, of the same definition, conditions and clock.
    """
    pair = _Pair(earlier, new, noise)
    if earlier.evidence.suspicions or (noise.follows_clock and pair.clocks):
        return False
    return not any(
        ask(pair) for ask in (_incomparable, _broken, _empty, _versions, _definition, _conditions, _background)
    )


_Ruling = tuple[Verdict, str]
_ROUNDED = 1 + 1e-9  # 0.14 - 0.13 is not quite 0.01


@frozen
class _Pair:
    old: Number
    new: Number
    noise: Noise

    @property
    def values(self) -> tuple[float, float]:
        return self.old.value or 0.0, self.new.value or 0.0

    @property
    def difference(self) -> float:
        old, new = self.values
        return abs(new - old)

    @property
    def ratio(self) -> float | None:
        old, new = self.values
        return new / old if old and self.old.is_known and self.new.is_known else None

    @property
    def unit(self) -> str:
        return self.new.metric.unit if self.new.metric else ""

    @property
    def half(self) -> float:
        """Half the interval in logarithms: noise between runs, and both ±."""
        own = math.log1p(self.noise.relative)
        return math.hypot(own, self.old.relative_uncertainty, self.new.relative_uncertainty)

    @property
    def effect(self) -> tuple[float | None, float | None, float | None]:
        if self.ratio is None or not math.isfinite(self.ratio):
            return None, None, None
        if self.ratio <= 0:
            return self.ratio - 1, None, None
        middle = math.log(self.ratio)
        return self.ratio - 1, math.expm1(middle - self.half), math.expm1(middle + self.half)

    @property
    def is_within(self) -> bool:
        stated = math.hypot(self.old.uncertainty or 0.0, self.new.uncertainty or 0.0)  # nothing is relative to zero
        return abs(math.log(self.ratio)) <= self.half if self.ratio and self.ratio > 0 else self.difference <= stated

    @property
    def higher_is_better(self) -> bool:
        return self.new.metric is None or self.new.metric.better == "higher"

    @property
    def clocks(self) -> tuple[float, float] | None:
        """The clocks of the board, if they differ."""
        old, new = self.old.evidence.clock_mhz, self.new.evidence.clock_mhz
        return (old, new) if old and new and is_another_clock(old, new) else None

    @property
    def per_clock(self) -> float | None:
        """The ratio without the clock's share; None: equal or irrelevant clock."""
        if self.clocks is None or not self.noise.follows_clock or self.ratio is None:
            return None
        return self.ratio / self.of_clock

    @property
    def of_clock(self) -> float:
        old, new = self.clocks or (1.0, 1.0)
        return new / old if self.higher_is_better else old / new


def _incomparable(pair: _Pair) -> _Ruling | None:
    wrong = [
        f"{side.source}: {side.evidence.incomparable}" for side in (pair.old, pair.new) if side.evidence.incomparable
    ]
    return (Verdict.NOT_COMPARABLE, "; ".join(wrong)) if wrong else None


def _broken(pair: _Pair) -> _Ruling | None:
    wrong = [f"{side.source}: {side.evidence.broken}" for side in (pair.new, pair.old) if side.evidence.broken]
    return (Verdict.BROKEN_RUN, wrong[0]) if wrong else None


def _empty(pair: _Pair) -> _Ruling | None:
    if not pair.new.is_known:
        return Verdict.NO_SAMPLES, f"{pair.new.source} has no number: every cycle failed, or none was run"
    if not pair.old.is_known:
        return Verdict.NO_HISTORY, f"there is no number to compare with in {pair.old.source}"
    return None


def _unknown(pair: _Pair) -> _Ruling | None:
    if pair.new.metric is not None or pair.is_within:
        return None
    return Verdict.NOT_COMPARABLE, "boardlab does not know what this row measures, nor which direction is better"


def _definition(pair: _Pair) -> _Ruling | None:
    old, new = pair.old.evidence, pair.new.evidence
    if not old.definition or not new.definition or old.definition == new.definition:
        return None
    text = f"{pair.old.source} {old.definition_text}, {pair.new.source} {new.definition_text}"
    if old.work and new.work:
        did, does = old.work.amount, new.work.amount
        share = f" ({does / did:.2f} times)" if did else ""
        text += f"; in {new.work.name} it is {did:.1f} to {does:.1f} {new.work.unit}{share}"
    return Verdict.DEFINITION_CHANGED, text


def _versions(pair: _Pair) -> _Ruling | None:
    old, new = pair.old.metric, pair.new.metric
    if old is None or new is None or (old.name, old.version) == (new.name, new.version):
        return None
    return (
        Verdict.DEFINITION_CHANGED,
        f"{pair.old.source} has {old.name}, version {old.version}, {pair.new.source} {new.name}, version {new.version}",
    )


def _conditions(pair: _Pair) -> _Ruling | None:
    before, after = set(pair.old.evidence.conditions), set(pair.new.evidence.conditions)
    gone, come = sorted(before - after), sorted(after - before)
    if not gone or not come:  # one that does not say is no other one
        return None
    return (
        Verdict.CONDITIONS_CHANGED,
        f"another medium: {gone[0]!r} in {pair.old.source}, {come[0]!r} in {pair.new.source}",
    )


def _background(pair: _Pair) -> _Ruling | None:
    old, new = pair.old.evidence.background, pair.new.evidence.background
    if not old or not new or old == new:
        return None
    return Verdict.CONDITIONS_CHANGED, f"{old} in {pair.old.source}, {new} in {pair.new.source}"


def _unchanged(pair: _Pair) -> _Ruling | None:
    return (Verdict.NOISE, "unchanged") if not pair.difference else None


def _resolution(pair: _Pair) -> _Ruling | None:
    evidence = max((side.evidence for side in (pair.old, pair.new)), key=lambda e: e.resolution or 0.0)
    if evidence.resolution is None or pair.difference > evidence.resolution * _ROUNDED:
        return None
    text = f"{pair.difference:.4g} {pair.unit} of difference are within the resolution, {evidence.resolution:.4g}"
    return Verdict.BELOW_RESOLUTION, f"{text}: {evidence.resolution_note}"


def _slack(pair: _Pair) -> _Ruling | None:
    if not pair.noise.slack or pair.difference > pair.noise.slack * _ROUNDED:
        return None
    return (
        Verdict.NOISE,
        f"the difference of {pair.difference:.3g} {pair.unit} is within {pair.noise.slack:g}, which says nothing here",
    )


def _other_work(pair: _Pair) -> _Ruling | None:
    """A load is comparable only for the same work."""
    did, does = pair.old.evidence.work, pair.new.evidence.work
    if not pair.noise.is_load or did is None or does is None or did.amount <= 0 or does.amount <= 0:
        return None
    if abs(math.log(does.amount / did.amount)) <= math.log1p(does.noise):
        return None
    return (
        Verdict.NOT_COMPARABLE,
        f"the load belongs to {does.amount / did.amount:.2f} times the work (see {does.name})",
    )


def _uncertain(pair: _Pair) -> _Ruling | None:
    """A large ± after a small one does not show that nothing moved."""
    share, before = pair.new.relative_uncertainty, pair.old.relative_uncertainty
    if share <= UNCERTAIN_SHARE or not 0 < before <= UNCERTAIN_SHARE or not pair.is_within:
        return None
    return Verdict.NOT_COMPARABLE, f"its ± is {100 * share:.0f} % of it: it may have moved, and does not show it"


def _noise(pair: _Pair) -> _Ruling | None:
    if ranges := _overlap(pair):
        return Verdict.NOISE, ranges
    if not pair.is_within:
        return None
    return Verdict.NOISE, f"within {_usual(pair)}" + (f": {pair.noise.reason}" if pair.noise.reason else "")


def _clock(pair: _Pair) -> _Ruling | None:
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
    what = "one step of the method" if is_one_step else "noise"
    return Verdict.CONDITIONS_CHANGED, f"{text}; per clock it is {per_clock:.2f} times, which is {what}"


def _like_peers(pair: _Pair) -> _Ruling | None:
    """Explain a move to the level of the boards with the new clock.

    The board was away from that level under its old clock.
    """
    per_clock, sides = pair.per_clock, (pair.old, pair.new)
    apart = [side.value / side.evidence.beside for side in sides if side.value and side.evidence.beside]
    if pair.clocks is None or not per_clock or len(apart) < len(sides) or min(per_clock, *apart) <= 0:
        return None
    was, now = map(math.log, apart)
    usual = math.log1p(pair.noise.relative)
    if abs(was) <= usual or abs(now) > usual or abs(math.log(per_clock) + was) > pair.half:
        return None
    (old_mhz, new_mhz), source = pair.clocks, pair.old.source
    return Verdict.CONDITIONS_CHANGED, (
        f"the CPU clock is {new_mhz:g} MHz instead of {old_mhz:g}, and the number is that of the boards with this "
        f"clock; in {source} it was {math.exp(was):.2f} times theirs: another unit, or another clock than printed"
    )


def _suspect(pair: _Pair) -> _Ruling | None:
    """A suspect number gets neither worse nor better."""
    reasons = [f"suspect in {side.source}: {why}" for side in (pair.new, pair.old) for why in side.evidence.suspicions]
    change = f"{_ratio(pair.ratio)} times" if pair.ratio is not None else "from zero"
    return (Verdict.SUSPECT, "; ".join([change, *reasons])) if reasons else None


def _judge_move(pair: _Pair) -> _Ruling:
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
    """Of two decimals, or as many as tell it from 1."""
    return f"{ratio:.2f}" if abs(ratio - 1) >= 0.01 else f"{ratio:.4f}"


def _usual(pair: _Pair) -> str:
    percent = 100 * math.expm1(pair.half)
    who = f"the last {pair.noise.runs} {pair.noise.of}" if pair.noise.runs else "equal runs"
    included = ", both ± included" if pair.half > math.log1p(pair.noise.relative) else ""
    return f"the {percent:.3g} % by which {who} differ{included}" if all(pair.values) else "both ±"


def _overlap(pair: _Pair) -> str:
    """The reason why overlapping printed ranges mean no change; empty: none.

    A single value is its own range.
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
    """The printed range; of a recovered or single number itself."""
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
