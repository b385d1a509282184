"""This host's job queue, and the rules of boards' health that it follows."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError
from lab.farm import services
from lab.farm.config import HealthConfig
from lab.health import QuarantineRule
from lab.health.store import HealthBook
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs.queue import PERSONS, JobQueue
from lab.jobs.records import BY_LAB_RUN
from lab.results.store import Store

NIGHT: Final = dt.timedelta(hours=26)  # maximal age of the reference board's check, which may begin two hours late
_log = logging.getLogger(__name__)


def health_config(path: Path | None = None) -> HealthConfig:
    """Health rules of `path` or this host's farm.yaml, else the defaults."""
    try:
        farm = services.host_file(path).farm
    except ConfigurationError as error:
        _log.warning("boards' health is judged by the default rules: %s", error)
        farm = None
    return HealthConfig() if farm is None else farm.health


def open_queue(
    store: Store,
    program: str = BY_LAB_RUN,
    *,
    person: str | None = None,
    ignores: bool = False,
    priority: int = PERSONS,
    rule: QuarantineRule | None = None,
    request: str = "",
) -> JobQueue:
    """Jobs of a store, requested by this process.

    Args:
        program: of lab.jobs.records.
        person: their owner; None: the user of this process.
        ignores: a board that this person has reserved is taken.
        priority: of lab.jobs.queue.
        rule: when a board is kept out; None: as this host's farm.yaml has it.
        request: of a queue, that the jobs belong to.
    """
    return JobQueue(
        store,
        process.identity(),
        process.has_died,
        person=process.person() if person is None else person,
        program=program,
        ignores=ignores,
        priority=priority,
        rule=health_config().rule if rule is None else rule,
        request=request,
    )


def why_not_judged(store: Store, health: HealthConfig, now: Callable[[], dt.datetime] = utc_now) -> str:
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
