"""Suites: what `lab run --suite` names, and the files of tests_perf that measure it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError

GUIDE: Final = ("boot", "low_power", "sections")  # in this order: the boots begin, since they need no settled board
SECTIONS: Final = "sections"
_RUNS_OF_THEIR_OWN: Final = ("boot", "low_power")  # each has a file and a kind of runs of its name
_OLD_NAMES: Final = {"power": "low_power"}  # of farm.yaml files and jobs of earlier releases


def expand(names: Iterable[str]) -> tuple[str, ...]:
    """The suites of an order, once each: `guide` stands for everything that a performance guide has."""
    found: dict[str, None] = {}
    for name in names:
        found.update(dict.fromkeys(GUIDE if name == "guide" else (current(name),)))
    return tuple(found)


def current(name: str) -> str:
    """What a suite is called today; `power`, the old name of `low_power`, works for one more release, with a warning."""
    if name in _OLD_NAMES:
        warnings.warn(  # a FutureWarning, since Python shows no DeprecationWarning to those who run a program
            f"the suite {name!r} is now called {_OLD_NAMES[name]!r}; write that name in farm.yaml and in --suite",
            FutureWarning,
            stacklevel=1,
        )
    return _OLD_NAMES.get(name, name)


def kind(name: str) -> str:
    """The kind of a suite's runs in the store."""
    return current(name) if current(name) in _RUNS_OF_THEIR_OWN else SECTIONS


def files(tests: Path, name: str) -> tuple[Path, ...]:
    """The files that measure a suite; `sections` are all of those that share a run.

    Raises:
        ConfigurationError: there is no such suite in the folder `tests`.
    """
    there = {path.stem.removeprefix("test_"): path for path in sorted(tests.glob("test_*.py"))}
    suites: dict[str, tuple[Path, ...]] = {
        suite: (there.pop(suite),) for suite in _RUNS_OF_THEIR_OWN if suite in there
    }
    suites |= {chapter: (path,) for chapter, path in there.items()}
    if there:
        suites[SECTIONS] = tuple(there.values())
    if current(name) in suites:
        return suites[current(name)]
    known = (
        f"there are: {', '.join(['guide', *sorted(suites)])}"
        if suites
        else f"{tests} has none; name their folder with --tests"
    )
    raise ConfigurationError(f"no suite {name!r}; {known}")
