"""The kinds of mutations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from lab.run.torture import damage, disorder, slowness
from lab.run.torture.boot import GoodBoot, Mutated

DamageKind = Callable[[GoodBoot, Random], Mutated]

KINDS: Final[Mapping[str, DamageKind]] = {
    "drop": damage.drop,
    "repeat": damage.repeat,
    "delay": slowness.delay,
    "insert": disorder.insert,
    "splice": disorder.splice,
    "line_ends": damage.line_ends,
    "garble": damage.garble,
    "cut": damage.cut,
    "reorder": disorder.reorder,
    "stall": slowness.stall,
}


def mutate(boot: GoodBoot, kind: str, seed: int) -> Mutated:
    """The case of a kind with this seed; always the same one."""
    return KINDS[kind](boot, Random(f"{kind}:{seed}"))  # noqa: S311  (chance needs no secrecy here)
