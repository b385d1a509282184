"""All faults by name, plans of faults, and scenarios of boards.

A plan is written as words, the same on the command line, in a scenario and in a board's configuration: `fault` names
it; `cycles` are the power-ons that it may strike ("3", "2-4", "1,5-7", "all"); `probability` is its chance in each of
them; `seed` makes its chance its own; all others are the fault's parameters.

A scenario is a YAML file with the faults of each board:

    seed: 7
    boards:
      am62xx_sk-1:
        - {fault: hang_kernel, cycles: 2}
      '*':                                  # every board; also am62xx_sk-*
        - {fault: garbled, probability: 0.1, share: 0.01}
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import field, frozen

from lab import yamlfile
from lab.errors import ConfigurationError
from lab.virtual.sim.faults import (
    boot,
    crashes,
    line,
    lookalike,
    media,
    power,
    quirks,
    resets,
    session,
    suspend,
    warnings,
)
from lab.virtual.sim.faults.base import Fault, make, share
from lab.virtual.sim.timing import dice

_MODULES: Final = (
    power,
    boot,
    crashes,
    resets,
    media,
    warnings,
    lookalike,
    quirks,
    line,
    session,
    suspend,
)
# Every public fault of these modules, in their order; a fault needs no entry here.
FAULTS: Final[Mapping[str, type[Fault]]] = {
    kind.name: kind
    for module in _MODULES
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Fault) and kind.__module__ == module.__name__ and name[0] != "_"
}


def find(name: str) -> type[Fault]:
    """The fault of that name.

    Raises:
        ConfigurationError: there is none.
    """
    if name not in FAULTS:
        close = difflib.get_close_matches(name, FAULTS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ConfigurationError(f"no fault {name!r}{hint}; there are: {', '.join(FAULTS)}")
    return FAULTS[name]


# --- When which fault strikes ---


ALL = "all"


@frozen
class Planned:
    """A fault that may strike.

    Attributes:
        cycles: the power-ons that it may strike, from 1; none: every one.
    """

    kind: type[Fault]
    cycles: frozenset[int] | None
    probability: float = field(validator=share)
    seed: int
    parameters: Mapping[str, str]

    def strikes(self, cycle: int) -> bool:
        """Return whether it strikes at this power-on."""
        if self.cycles is not None and cycle not in self.cycles:
            return False
        return dice(self.seed, "strikes", self.kind.name, cycle).random() < self.probability

    def fault(self, cycle: int) -> Fault:
        """The fault for this power-on."""
        return make(self.kind, dict(self.parameters), dice(self.seed, self.kind.name, cycle))

    def words(self) -> dict[str, str]:
        """The plan as it is written."""
        cycles = ALL if self.cycles is None else ",".join(str(cycle) for cycle in sorted(self.cycles))
        chance = {"probability": f"{self.probability:g}", "seed": str(self.seed)}
        return {"fault": self.kind.name, "cycles": cycles, **chance, **self.parameters}


def read_plan(words: Mapping[str, object], seed: int = 0) -> Planned:
    """Parse a plan from its words; `seed` is the default.

    Raises:
        ConfigurationError: no such fault or parameter, or a wrong value.
    """
    given = {str(name): str(value) for name, value in words.items()}
    if "fault" not in given:
        raise ConfigurationError(f"expected a `fault`, got {', '.join(given) or 'nothing'}")
    kind = find(given.pop("fault"))
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


# --- Scenarios ---


@frozen
class Scenario:
    """Content of a scenario file.

    Attributes:
        seed: of all chance.
        faults: (pattern of board names, plan), in the file's order.
    """

    seed: int
    faults: tuple[tuple[str, Planned], ...]

    def of(self, name: str) -> tuple[dict[str, str], ...]:
        """The plans of the board of that name, as words."""
        return tuple(planned.words() for pattern, planned in self.faults if fnmatch.fnmatchcase(name, pattern))


def read_scenario(path: Path) -> Scenario:
    """The scenario of a file.

    Raises:
        ConfigurationError: it cannot be read, or says what nobody understands; the message names the place.
    """
    data = yamlfile.load(path, unique=True)
    if not isinstance(data, dict) or not isinstance(data.get("boards"), dict) or set(data) - {"seed", "boards"}:
        raise ConfigurationError(f"{path}: expected `boards:` and at most `seed:` beside it")
    seed = data.get("seed", 0)
    if type(seed) is not int:
        raise ConfigurationError(f"{path}: seed: expected a whole number, got {seed!r}")
    found: list[tuple[str, Planned]] = []
    for pattern, entries in data["boards"].items():
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ConfigurationError(f"{path}: boards.{pattern}: expected a list of `- {{fault: NAME, ...}}`")
        for number, entry in enumerate(entries):
            try:
                found.append((str(pattern), read_plan(entry, seed + len(found))))
            except ConfigurationError as error:
                raise ConfigurationError(f"{path}: boards.{pattern}[{number}]: {error}") from error
    return Scenario(seed, tuple(found))
