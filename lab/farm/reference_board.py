"""The lab's health rules and its reference board."""

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
from lab.health.store import HealthBook
from lab.host.clock import utc_now
from lab.results.store import Store

NIGHT: Final = dt.timedelta(hours=26)  # maximal age of the reference board's check, which may begin two hours late
_log = logging.getLogger(__name__)


def config(path: Path | None = None) -> HealthConfig:
    """Health rules of `path` or this host's farm.yaml, else the defaults."""
    try:
        farm = services.host_file(path).farm
    except ConfigurationError as error:
        _log.warning("boards' health is judged by the default rules: %s", error)
        farm = None
    return HealthConfig() if farm is None else farm.health


def rule(path: Path | None = None) -> QuarantineRule:
    """Quarantine rule of this host's boards; `path` as for `config`."""
    return config(path).rule


def environment(farm: Farm, board: str) -> str:
    """Environment of a board in farm.yaml; empty: it names none."""
    return farm.environments.get(board, "")


def host(farm: Farm) -> str:
    """Host of the reference board."""
    board_entry = next((board for board in farm.boards if board.name == farm.health.reference), None)
    return farm.host_of(board_entry) if board_entry is not None else (farm.hosts[0].name if farm.hosts else HERE)


def unsound(store: Store, health: HealthConfig, now: Callable[[], dt.datetime] = utc_now) -> str:
    """Reason not to judge this night's numbers; empty: none."""
    if not health.reference:
        return ""
    last = next(iter(HealthBook(store, health.rule, now).checks(health.reference, 1)), None)
    if last is None or now() - last.at > NIGHT:
        when = f"since {last.at:%Y-%m-%d %H:%M} UTC" if last is not None else "yet"
        return (
            f"not judged: the reference board {health.reference} was not checked {when}, and nothing says that the "
            f"lab works. Check it: lab health {health.reference} --check, and then: lab judge run RUN"
        )
    if last.passed:
        return ""
    part = last.fault or next(iter(last.failed), None)
    reason = f"{part.name}: {part.message} ({part.failure})" if part is not None else "nothing could be tried"
    where = f" on {last.host}" if last.host else ", before its host was reached"
    whose = "on the lab's account" if last.fault is not None else "and nothing says that the lab works"
    return (
        f"not judged: the reference board {health.reference} failed its check at {last.at:%Y-%m-%d %H:%M} UTC{where}, "
        f"{whose} "
        f"({reason}). Repair that, then: lab health {health.reference} --check, and lab judge run RUN"
    )
