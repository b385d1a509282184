"""Suites: what `lab run --suite` names, and the files of tests_perf that measure it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError

GUIDE: Final = ("boot", "low_power", "sections")  # in this order: the boots begin, since they need no settled board
SECTIONS: Final = "sections"
_RUNS_OF_THEIR_OWN: Final = ("boot", "low_power")  # each has a file and a kind of runs of its name


def expand(names: Iterable[str]) -> tuple[str, ...]:
    """The suites of an order, once each: `guide` stands for everything that a performance guide has."""
    found: dict[str, None] = {}
    for name in names:
        found.update(dict.fromkeys(GUIDE if name == "guide" else (name,)))
    return tuple(found)


def kind(name: str) -> str:
    """The kind of a suite's runs in the store."""
    return name if name in _RUNS_OF_THEIR_OWN else SECTIONS


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
    if name in suites:
        return suites[name]
    known = (
        f"there are: {', '.join(['guide', *sorted(suites)])}"
        if suites
        else f"{tests} has none; name their folder with --tests"
    )
    raise ConfigurationError(f"no suite {name!r}; {known}")
