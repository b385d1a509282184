"""A number of a release against the release before, and against those before that.

What the earlier releases say, they say of numbers of the same definition, conditions and clock only, and of none that is suspect: how
much the number moves by itself, whether a change only goes back to where it was, and whether small changes of one direction have
added up.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from lab.judge.compare import compare, is_history
from lab.judge.noise import Noise, NoiseModel
from lab.judge.number import Number
from lab.judge.verdicts import Judgement, Verdict

_SAME = {Verdict.NOISE, Verdict.BELOW_RESOLUTION}


def judge_release(earlier: Sequence[Number], old: Number, new: Number, model: NoiseModel) -> Judgement:
    """Whether a number moved since the last release, with a word on the ones before.

    Args:
        earlier: of the releases before `old`, the oldest first; may be empty.
    """
    usual = model.of(new.metric.name if new.metric else "", new.params)
    *like, last = [number if is_history(number, new, usual) else None for number in (*earlier, old)]
    known = [number for number in like if number is not None]
    noise = model.of_releases(usual, [number.value or 0.0 for number in (*known, *([last] if last else []))])
    said = compare(old, new, noise)
    if said.verdict.moved or said.verdict is Verdict.SUSPECT:
        return _returned(known, new, noise, said)
    return _crept([*known, old], new, noise, said) if last and said.verdict is Verdict.NOISE else said


def _returned(like: Sequence[Number], new: Number, noise: Noise, said: Judgement) -> Judgement:
    for number in reversed(like):
        if compare(number, new, noise).verdict in _SAME:
            level = f"{number.value:g} {new.metric.unit if new.metric else ''}".strip()
            reason = f"{said.reason}; this only returns to the level of {number.source}, {level}"
            return evolve(said, reason=reason, returns_to=number.source)
    return said


def _crept(before: Sequence[Number], new: Number, noise: Noise, said: Judgement) -> Judgement:
    """Whether the number only rose, or only fell, in steps that are none alone, and is by now beyond noise."""
    if len(before) < 2:
        return said
    steps = [new]
    way = _difference(before[-1], new)
    for number in reversed(before):
        turns = not way or _difference(number, steps[0]) * way < 0
        if turns or compare(number, steps[0], noise).verdict.moved:
            break
        steps.insert(0, number)
    first = compare(steps[0], new, noise)
    if not first.verdict.moved or first.effect is None:
        return said
    change = f"{1 + first.effect:.2f} times {steps[0].source}, beyond noise, in steps that are none alone"
    reason = f"{said.reason}; {change}"
    return evolve(said, verdict=first.verdict, reason=reason, rule="crept", crept_from=steps[0].source)


def _difference(one: Number, other: Number) -> float:
    return (other.value or 0.0) - (one.value or 0.0)
