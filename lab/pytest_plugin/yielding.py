"""A session that a timer's `lab run` began ends between two cycles where somebody wants its board."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from lab.errors import BoardlabError
from lab.jobs import listing
from lab.jobs.queue import GAVE_WAY, wanted
from lab.pytest_plugin.runs import JOB_KEY, STORE_KEY
from lab.shown import plain_text

_log = logging.getLogger(__name__)


def heed(config: pytest.Config, run_id: int) -> Callable[[], None]:
    """What a run calls before each cycle: it ends the session, and the run can be resumed, where the board is somebody's."""
    store, job = config.stash[STORE_KEY], config.stash.get(JOB_KEY, None)

    def look() -> None:
        if job is None:
            return
        try:
            who = wanted(store, job)
            if who:
                listing.pause(store, run_id, f"gave way: {who}")
        except BoardlabError as error:
            _log.warning("whether somebody wants the board cannot be looked up: %s", error)
            return
        if who:
            pytest.exit(plain_text(f"run {run_id} gives way: {who}; it goes on afterwards"), returncode=GAVE_WAY)

    return look
