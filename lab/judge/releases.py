"""A number of a release against the release before, and against those before that.

What the earlier releases say, they say of numbers of the same definition and conditions only: how much the number moves by
itself, whether a change only goes back to where it was, and whether small changes of one direction have added up.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from lab.judge.compare import comparable, compare
from lab.judge.noise import Noise, NoiseModel
from lab.judge.number import Number
from lab.judge.verdicts import Judgement, Verdict

_SAME = {Verdict.NOISE, Verdict.BELOW_RESOLUTION}


def judge_release(earlier: Sequence[Number], old: Number, new: Number, model: NoiseModel) -> Judgement:
    """Whether a number moved since the last release, with a word on the ones before.

    Args:
        earlier: of the releases before `old`, the oldest first; may be empty.
    """
    like = [number for number in earlier if comparable(number, new)]
    noise = model.of(new.metric.name if new.metric else "", new.params)
    noise = model.of_releases(noise, [number.value or 0.0 for number in (*like, old)] if comparable(old, new) else [])
    said = compare(old, new, noise)
    if said.verdict.moved or said.verdict is Verdict.SUSPECT:
        return _returned(like, new, noise, said)
    return _crept(like, old, new, noise, said) if said.verdict is Verdict.NOISE else said


def _returned(like: Sequence[Number], new: Number, noise: Noise, said: Judgement) -> Judgement:
    for number in reversed(like):
        if compare(number, new, noise).verdict in _SAME:
            level = f"{number.value:g} {new.metric.unit if new.metric else ''}".strip()
            reason = f"{said.reason}; this only returns to the level of {number.source}, {level}"
            return evolve(said, reason=reason, returns_to=number.source)
    return said


def _crept(like: Sequence[Number], old: Number, new: Number, noise: Noise, said: Judgement) -> Judgement:
    values = [number.value or 0.0 for number in (*like, old, new)]
    if not like or values not in (sorted(values), sorted(values, reverse=True)):
        return said
    first = compare(like[0], new, noise)
    if not first.verdict.moved or first.effect is None:
        return said
    way = f"{1 + first.effect:.2f} times {like[0].source}, beyond noise, in steps that are none alone"
    return evolve(said, reason=f"{said.reason}; {way}")
