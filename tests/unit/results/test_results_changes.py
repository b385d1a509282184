"""A waiting job's questions scan no table, and a change at its board is told at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import event
from support.jobbook import ORDER

from lab.health.reservations import ReservationBook
from lab.host import process
from lab.jobs.listing import active_jobs, count_active, has_changed, jobs_since, measuring, obstacle, running
from lab.jobs.listing import jobs as listed
from lab.jobs.queue import TIMERS, JobQueue, Prospect, wait_on
from lab.jobs.records import BOARDS
from lab.jobs.waiting import watching
from lab.results import Store, open_store

BOUNDED = ("ix_reservations_open", "ix_reservations_standing", "ix_jobs_board_running")  # of rows that are not ended
TABLES = ("jobs", "runs", "attempts", "reservations", "health_checks")


def queue(store: Store) -> JobQueue:
    return JobQueue(store, process.identity(), process.has_died, person="lena", priority=TIMERS)


def look(store: Store, book: JobQueue, job_id: int) -> None:
    """Ask all that is asked again and again while a job waits or measures."""
    assert book.start(job_id) is None
    assert book.prospect(book.job(job_id), ["b1"]) is Prospect.NEXT
    wait_on(book, job_id)
    book.free(["b1", "b2"])
    book.watches(job_id)
    book.refusing("b1")
    obstacle(book, "b1")
    measuring(book, "lab-1")
    has_changed(book, "lab-1", book.now())
    running(book)
    count_active(book, "lena")
    listed(store, 0, book.now())
    with store.snapshot() as snapshot:
        active_jobs(snapshot)
        jobs_since(snapshot, book.now())


def test_a_look_of_a_waiting_job_reads_no_table_from_its_beginning(store: Store) -> None:
    book = queue(store)
    first = book.enqueue(ORDER)
    assert book.start(first.id) is not None
    book.next_suite(first.id)
    waiting = book.enqueue(evolve(ORDER, options={BOARDS: ["b1", "b2"]}))
    asked: list[tuple[str, Any]] = []
    event.listen(
        store._engine,
        "before_cursor_execute",
        lambda _connection, _cursor, text, values, _context, _many: asked.append((text, values)),
    )
    look(store, book, waiting.id)
    questions = [each for each in asked if each[0].startswith(("SELECT", "UPDATE")) and "LIMIT" not in each[0]]
    with store._engine.connect() as connection:
        is_server = connection.dialect.name == "postgresql"
        if is_server:
            connection.exec_driver_sql("SET enable_seqscan = off")  # tables of a few rows are read whole
        explain = "EXPLAIN" if is_server else "EXPLAIN QUERY PLAN"
        scans = [
            (text, plan)
            for text, values in questions
            for plan in (row[-1] for row in connection.exec_driver_sql(f"{explain} {text}", values))
            for table in TABLES
            if f"Seq Scan on {table}" in plan or (f"SCAN {table}" in plan and not plan.endswith(BOUNDED))
        ]
    assert questions
    assert not scans


# --- Changes ---


def cancelled(store: Store, job_id: int) -> None:
    queue(store).cancel(job_id, "ann")


def ended(store: Store, job_id: int) -> None:
    queue(store).finish(job_id, "completed")


def reserved(store: Store, _job_id: int) -> None:
    ReservationBook(store).reserve("b1", "ann", "a new PMIC", 1.0)


@pytest.mark.parametrize("happens", [cancelled, ended, reserved])
def test_a_change_at_its_board_is_told(store: Store, database: str, happens: Callable[[Store, int], None]) -> None:
    book = queue(store)
    job = book.enqueue(ORDER)
    assert book.start(job.id) is not None
    with watching(store, ("b1",), lambda _seconds: None) as changes, open_store(database) as other:
        assert not changes.wait(0.0)
        happens(other, job.id)
        assert changes.wait(10.0)


def test_a_sign_of_life_and_what_happens_at_other_boards_is_no_change(store: Store, database: str) -> None:
    book = queue(store)
    job = book.enqueue(ORDER)
    assert book.start(job.id) is not None
    with watching(store, ("b1",), lambda _seconds: None) as changes, open_store(database) as other:
        queue(other).beat(job.id)
        queue(other).enqueue(evolve(ORDER, board="b2"))
        assert not changes.wait(0.5)
        assert not changes.wait(0.0)


def test_a_database_that_is_away_is_a_plain_wait_and_back_it_may_have_changed(store: Store) -> None:
    pauses: list[float] = []
    with watching(store, ("b1",), pauses.append) as changes:
        changes.close()
        assert changes.wait(3.0)
    assert pauses == [0.0, 3.0]
