"""Tests that measure where nothing can be measured: the session is refused, in a worker of pytest-xdist each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest

from lab.errors import BoardlabError, ConfigurationError, LabError
from lab.jobs.records import JOB_VARIABLE
from lab.shown import plain_text

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


def ending(error: BoardlabError, message: str) -> Exception:
    """What ends a session that has measured nothing yet. To the `lab run` that began it, a fault of the lab is no wrong order."""
    if (code := exit_code(error)) == pytest.ExitCode.USAGE_ERROR:
        return pytest.UsageError(plain_text(message))
    return pytest.exit.Exception(plain_text(f"[{error.failure}, fault: {error.fault}] {message}"), code)


@contextmanager
def ending_off(strategy: Any) -> Iterator[None]:
    """A failure in here switches the board off and ends the session, which has measured nothing yet.

    Raises:
        ConfigurationError: as it was raised.
        pytest.exit.Exception: of any other error of ours, with exit code 1.
    """
    try:
        yield
    except ConfigurationError:
        raise
    except BaseException as error:
        with suppress(BoardlabError):
            strategy.transition("off")
        if not isinstance(error, BoardlabError):
            raise
        pytest.exit(plain_text(f"[{error.failure}, fault: {error.fault}] {error}"), returncode=1)


def exit_code(error: BoardlabError) -> int:
    """Of a session that an error ends before it measures."""
    if not (isinstance(error, LabError) and JOB_VARIABLE in os.environ):
        return pytest.ExitCode.USAGE_ERROR
    from lab.farm.runner import BROKEN, BUSY  # noqa: PLC0415 - sessions that begin have no use for it

    return BUSY if error.transient else BROKEN


def fail_if_refused(item: pytest.Item) -> None:
    """At a test's set-up: fail it where a worker has refused it."""
    message = item.config.stash.get(_REFUSED_KEY, "")
    if message and measures(item):
        pytest.fail(message, pytrace=False)
