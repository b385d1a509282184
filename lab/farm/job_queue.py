"""This process's jobs of a store, by this host's farm.yaml."""

from __future__ import annotations

from lab.farm import reference_board
from lab.health import QuarantineRule
from lab.host import process
from lab.jobs.queue import PERSONS, JobQueue
from lab.jobs.records import BY_LAB_RUN
from lab.results.store import Store


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
        program: of lab.jobs.records. person: their owner; None: the user of this process.
        ignores: a board that this person has reserved is taken. priority: of lab.jobs.queue.
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
        rule=reference_board.rule() if rule is None else rule,
        request=request,
    )
