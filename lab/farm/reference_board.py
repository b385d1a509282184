"""The lab's own rules for boards' health, and its reference board: what fails on that one, too, is no release's fault."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError
from lab.farm import services
from lab.farm.config import HERE, Farm, HealthConfig
from lab.health import QuarantineRule
from lab.health.book import HealthBook
from lab.host.clock import utc_now
from lab.results.store import Store

NIGHT: Final = dt.timedelta(
    hours=26
)  # a check of the reference board that is older says nothing of this night: it may begin two hours late
_log = logging.getLogger(__name__)


def config(path: Path | None = None) -> HealthConfig:
    """What farm.yaml says (`path`: this one; None: this host's); the defaults where there is none, or it is wrong."""
    try:
        farm = services.host_file(path).farm
    except ConfigurationError as error:
        _log.warning("boards' health is judged by the default rules: %s", error)
        farm = None
    return HealthConfig() if farm is None else farm.health


def rule(path: Path | None = None) -> QuarantineRule:
    """When a board of this host is kept out, and when it is checked; `path`: as for `config`."""
    return config(path).rule


def environment(farm: Farm, board: str) -> str:
    """The environment of a board that farm.yaml names; empty: it names none."""
    return farm.environments.get(board, "")


def host(farm: Farm) -> str:
    """Where the reference board is plugged in."""
    its = next((board for board in farm.boards if board.name == farm.health.reference), None)
    return farm.host_of(its) if its is not None else (farm.hosts[0].name if farm.hosts else HERE)


def unsound(store: Store, known: HealthConfig, now: Callable[[], dt.datetime] = utc_now) -> str:
    """Why this night's numbers are not to be judged: the reference board failed on the lab's account, or was not checked; empty: they are."""
    if not known.reference:
        return ""
    last = next(iter(HealthBook(store, known.rule, now).checks(known.reference, 1)), None)
    if last is None or now() - last.at > NIGHT:
        when = f"since {last.at:%Y-%m-%d %H:%M} UTC" if last is not None else "yet"
        return (
            f"not judged: the reference board {known.reference} was not checked {when}, and nothing says that the lab works. "
            f"Check it: lab health {known.reference} --check, and then: lab judge run RUN"
        )
    if last.passed:
        return ""
    part = last.fault or next(iter(last.failed), None)
    found = f"{part.name}: {part.message} ({part.failure})" if part is not None else "nothing could be tried"
    where = f" on {last.host}" if last.host else ", before its host was reached"
    whose = "on the lab's account" if last.fault is not None else "and nothing says that the lab works"
    return (
        f"not judged: the reference board {known.reference} failed its check at {last.at:%Y-%m-%d %H:%M} UTC{where}, {whose} "
        f"({found}). Mend that, then: lab health {known.reference} --check, and lab judge run RUN"
    )
