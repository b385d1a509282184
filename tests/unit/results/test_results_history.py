"""The cost of a repeated look does not grow with history: a table that a later look is added to (support/periodic.py)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import event
from sqlalchemy.pool import Pool
from support.jobbook import ORDER
from support.periodic import LOOKS, PeriodicLook, aged, book

from lab.results import open_store

YOUNG, OLD = 800, 8000  # runs and jobs; a comparison chooses from 360 of a board
GROWTH = 1.2
_STEP = 10  # instructions of SQLite's machine, after which it tells


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    folder: Path = tmp_path_factory.mktemp("history")
    return {runs: aged(folder / f"{runs}.db", runs) for runs in (YOUNG, OLD)}


@contextmanager
def counted() -> Iterator[list[int]]:
    """The steps of SQLite's machine on connections that are opened within it, as one number."""
    steps = [0]

    def count() -> int:
        steps[0] += 1
        return 0

    def connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.set_progress_handler(count, _STEP)

    event.listen(Pool, "connect", connect)
    try:
        yield steps
    finally:
        event.remove(Pool, "connect", connect)


def steps_of(look: PeriodicLook, url: str) -> int:
    """Steps of the second look."""
    with counted() as steps, open_store(url) as store:
        queue, order = book(store), evolve(ORDER, board="board-0000")
        running, waiting = queue.enqueue(order), queue.enqueue(order)
        assert queue.start(running.id) is not None
        again = look.of(store, running.id, waiting.id)
        again()
        before = steps[0]
        again()
        taken = steps[0] - before
        for job in (waiting, running):
            queue.finish(job.id, "interrupted")
        return taken


@pytest.mark.parametrize("look", [look for look in LOOKS if not look.grows], ids=lambda look: look.name)
def test_a_look_at_ten_times_the_history_costs_the_same(look: PeriodicLook, stores: dict[int, str]) -> None:
    young, old = (steps_of(look, stores[runs]) for runs in (YOUNG, OLD))
    assert old <= GROWTH * young + _STEP
