"""Packages by entry points: sections, rail backends, writers, guide rules.

A package declares what it adds in its pyproject.toml, e.g. `[project.entry-points."boardlab.sections"]`; examples/ has
one.
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from lab.errors import ConfigurationError

SECTIONS: Final = "boardlab.sections"
RAILS: Final = "boardlab.rails"
WRITERS: Final = "boardlab.writers"
GUIDE_RULES: Final = "boardlab.guide_rules"


def names(group: str) -> tuple[str, ...]:
    """The names of a group's entry points, sorted; nothing is imported."""
    return tuple(sorted(_points(group)))


@functools.cache
def load(group: str) -> dict[str, Any]:
    """The objects of a group's entry points, by their names.

    Raises:
        ConfigurationError: one cannot be imported, or two packages have the same name.
    """
    return {name: load_one(group, name) for name in names(group)}


def load_one(group: str, name: str) -> Any:
    """The object of one entry point.

    Raises:
        ConfigurationError: there is none, it cannot be imported, or two packages have it.
    """
    points = _points(group).get(name, [])
    if not points:
        raise ConfigurationError(f"{group}: no installed package has {name!r}; install the one that has it")
    if len(points) > 1:
        owners = ", ".join(_package(point) for point in points)
        raise ConfigurationError(f"{group}: {owners} each have {name!r}; uninstall all but one")
    (point,) = points
    try:
        return point.load()
    except Exception as error:
        raise ConfigurationError(
            f"{group}: {name} = {point.value} of {_package(point)} cannot be imported: {type(error).__name__}: "
            f"{error}. Mend or uninstall that package"
        ) from error


def wrong(group: str, name: str, wanted: str, found: object) -> ConfigurationError:
    """The error for an entry point that names something else than its group takes."""
    owner = ", ".join(_package(point) for point in _points(group).get(name, []))
    return ConfigurationError(f"{group}: {name} of {owner} is {type(found).__name__}, and has to be {wanted}")


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else "a package"


def _points(group: str) -> dict[str, list[EntryPoint]]:
    points: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        same = points.setdefault(point.name, [])
        if _package(point) not in map(_package, same):  # a folder may stand twice on sys.path
            same.append(point)
    return points
