"""Tests that measure where nothing can be measured: the session is refused, in a worker of pytest-xdist each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

# fixture -> the kind of run that it measures for
MEASURERS: Final[Mapping[str, str]] = {
    "boot_measurer": "boot",
    "low_power_measurer": "low_power",
    "section_measurer": "sections",
}
_REFUSED_KEY = pytest.StashKey[str]()


def measures(item: pytest.Item) -> str:
    """The kind of run that a test measures for; empty: it measures nothing."""
    return next((kind for fixture, kind in MEASURERS.items() if fixture in getattr(item, "fixturenames", ())), "")


def refuse(config: pytest.Config, items: list[pytest.Item], why: str) -> None:
    """Refuse the tests that measure; the others are none of our business.

    Raises:
        pytest.UsageError: there is one, named with why. A worker that raises it dies, and xdist with an internal error.
    """
    needing = next((item for item in items if measures(item)), None)
    if needing is None:
        return
    message = f"{needing.nodeid} measures a board{why}"
    if not hasattr(config, "workerinput"):
        raise pytest.UsageError(message)
    config.stash[_REFUSED_KEY] = message


def fail_if_refused(item: pytest.Item) -> None:
    """At a test's set-up: fail it where a worker has refused it."""
    message = item.config.stash.get(_REFUSED_KEY, "")
    if message and measures(item):
        pytest.fail(message, pytrace=False)
