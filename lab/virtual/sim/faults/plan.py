"""When which fault strikes.

A plan is written as words, the same on the command line, in a scenario and in a board's configuration: `fault` names it;
`cycles` are the power-ons that it may strike ("3", "2-4", "1,5-7", "all"); `probability` is its chance in each of them;
`seed` makes its chance its own; all others are the fault's parameters.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from lab.errors import ConfigurationError
from lab.virtual.sim.dice import dice
from lab.virtual.sim.faults import base, catalogue

ALL = "all"


@frozen
class Planned:
    """A fault that may strike.

    Attributes:
        cycles: the power-ons that it may strike, from 1; none: every one.
    """

    kind: type[base.Fault]
    cycles: frozenset[int] | None
    probability: float = field(validator=base.share)
    seed: int
    parameters: Mapping[str, str]

    def strikes(self, cycle: int) -> bool:
        """Whether it strikes at this power-on."""
        if self.cycles is not None and cycle not in self.cycles:
            return False
        return dice(self.seed, "strikes", self.kind.name, cycle).random() < self.probability

    def fault(self, cycle: int) -> base.Fault:
        """The fault for this power-on."""
        return base.make(self.kind, dict(self.parameters), dice(self.seed, self.kind.name, cycle))

    def words(self) -> dict[str, str]:
        """The plan as it is written."""
        cycles = ALL if self.cycles is None else ",".join(str(cycle) for cycle in sorted(self.cycles))
        chance = {"probability": f"{self.probability:g}", "seed": str(self.seed)}
        return {"fault": self.kind.name, "cycles": cycles, **chance, **self.parameters}


def read(words: Mapping[str, object], seed: int = 0) -> Planned:
    """A plan from its words; `seed` is what it has unless they say.

    Raises:
        ConfigurationError: no such fault or parameter, or a wrong value.
    """
    given = {str(name): str(value) for name, value in words.items()}
    if "fault" not in given:
        raise ConfigurationError(f"expected a `fault`, got {', '.join(given) or 'nothing'}")
    kind = catalogue.find(given.pop("fault"))
    cycles = _cycles(given.pop("cycles", ALL))
    try:
        probability, own_seed = float(given.pop("probability", "1")), int(given.pop("seed", seed))
        planned = Planned(kind, cycles, probability, own_seed, given)
    except ValueError as error:
        raise ConfigurationError(f"fault {kind.name!r}: probability or seed: {error}") from error
    planned.fault(0)  # wrong parameters are named now, not when it strikes
    return planned


def _cycles(text: str) -> frozenset[int] | None:
    if text == ALL:
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ConfigurationError(f"cycles {text!r}: expected power-ons such as 3, 2-4, 1,5-7 or all")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)
