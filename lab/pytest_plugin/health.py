"""`--lab-health`: a due check of the board before the session."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.env.checkup import CheckUp, host_of, part_of
from lab.errors import BoardlabError, ConfigurationError, LabStableError
from lab.farm.job_queue import health_config
from lab.health import BoardCheck, CheckedPart
from lab.health.state import PROVISION_NEEDS, counts
from lab.health.store import HealthBook
from lab.host import process
from lab.host.clock import utc_now
from lab.pytest_plugin.labgridboard import LabgridBoard
from lab.pytest_plugin.runs import JOB_KEY, STORE_KEY, STRATEGY_KEY, writer

_log = logging.getLogger(__name__)


def check_first(config: pytest.Config) -> None:
    """Check the board if a check is due.

    The release is tested only on working equipment.

    Raises:
        LabStableError: equipment of the lab fails; before `--lab-provision`, equipment that a write needs.
    """
    if not config.option.lab_health:
        return
    strategy, say = config.stash[STRATEGY_KEY], writer(config)
    if isinstance(strategy, LabgridBoard):
        raise ConfigurationError("--lab-health: a check switches and boots the board by a BoardStrategy; leave it out")
    log = HealthBook(config.stash[STORE_KEY], health_config().rule)
    why = log.due(strategy.board)
    if not why:
        return
    say(f"checking {strategy.board} first: {why}")
    began = time.monotonic()
    check = log.record(_check(config, CheckUp(strategy, say).run(), time.monotonic() - began))
    part = check.fault_in(PROVISION_NEEDS) if config.option.lab_provision else check.fault
    if part is not None:
        raise LabStableError(
            f"{strategy.board} cannot take runs: {part.name}: {part.message}. Mend it, then: lab health "
            f"{strategy.board} --check",
            failure=part.failure,
        )
    if not check.passed:
        failed = ", ".join(f"{part.name}: {part.failure}" for part in check.failed) or "nothing could be shown"
        say(
            f"the check of {strategy.board} did not pass ({failed}), but not by the lab's equipment: the run goes on "
            "and records it"
        )


@contextmanager
def record_failures(config: pytest.Config) -> Iterator[None]:
    """Record a failure of the lab's equipment as a failed check.

    No run has begun that could record it.
    """
    try:
        yield
    except BoardlabError as error:
        if counts(error.fault, error.failure):
            part = CheckedPart(part_of(error.failure), "failed", error.failure, error.fault, str(error))
            try:
                HealthBook(config.stash[STORE_KEY], health_config().rule).record(_check(config, (part,), 0.0))
            except BoardlabError as second:
                _log.warning("that could not be noted in the store: %s", second)
        raise


def _check(config: pytest.Config, parts: tuple[CheckedPart, ...], duration_s: float) -> BoardCheck:
    strategy = config.stash[STRATEGY_KEY]
    return BoardCheck(
        board=strategy.board,
        board_type=strategy.type.name,
        host=host_of(strategy),
        at=utc_now(),
        parts=parts,
        duration_s=round(duration_s, 1),
        env=str(config.option.lg_env),
        person=process.person(),
        job_id=config.stash.get(JOB_KEY, None),
    )
