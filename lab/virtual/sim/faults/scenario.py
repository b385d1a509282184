"""Scenarios: a YAML file that says which board misbehaves how, and when.

seed: 7
boards:
  am62xx_sk-1:
    - {fault: hang_kernel, cycles: 2}
  '*':                                  # every board; also am62xx_sk-*
    - {fault: garbled, probability: 0.1, share: 0.01}
"""

from __future__ import annotations

import fnmatch
from pathlib import Path

from attrs import frozen

from lab import yamlfile
from lab.errors import ConfigurationError
from lab.virtual.sim.faults import plan


@frozen
class Scenario:
    """What a file says.

    Attributes:
        seed: of all chance.
        faults: (pattern of board names, plan), in the file's order.
    """

    seed: int
    faults: tuple[tuple[str, plan.Planned], ...]

    def of(self, name: str) -> tuple[dict[str, str], ...]:
        """The plans of the board of that name, as words."""
        return tuple(planned.words() for pattern, planned in self.faults if fnmatch.fnmatchcase(name, pattern))


def read(path: Path) -> Scenario:
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
    found: list[tuple[str, plan.Planned]] = []
    for pattern, entries in data["boards"].items():
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ConfigurationError(f"{path}: boards.{pattern}: expected a list of `- {{fault: NAME, ...}}`")
        for number, entry in enumerate(entries):
            try:
                found.append((str(pattern), plan.read(entry, seed + len(found))))
            except ConfigurationError as error:
                raise ConfigurationError(f"{path}: boards.{pattern}[{number}]: {error}") from error
    return Scenario(seed, tuple(found))
