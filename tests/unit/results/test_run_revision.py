"""The page of a run is made again when the runs before it, with which it is compared, are others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from lab.host.clock import utc_now
from lab.results import AttemptRecord, Store, open_store
from lab.results.revision import run_revision


def begun(store: Store, board: str, board_type: str = "am62xx_sk") -> int:
    return store.begin_run("boot", board_type, board, "11.01", plan={}, provenance={}).id


def tried(store: Store, run_id: int, number: int, outcome: str = "ok") -> None:
    fault, transient = (None, None) if outcome == "ok" else ("board", True)
    record = AttemptRecord(number, 1, {"medium": "sd"}, outcome, fault, transient, "", utc_now(), 1.0)
    store.record_attempt(run_id, record)


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    with open_store(database) as opened:
        yield opened


def resumed(store: Store, earlier: int, _going_on: int, _other: int) -> None:
    store.reopen_run(earlier)
    store.finish_run(earlier, "failed")


def measured(store: Store, _earlier: int, going_on: int, _other: int) -> None:
    tried(store, going_on, 2)


def failed(store: Store, _earlier: int, going_on: int, _other: int) -> None:
    tried(store, going_on, 2, "hang_kernel")


def measured_elsewhere(store: Store, _earlier: int, _going_on: int, other: int) -> None:
    tried(store, other, 2)


def later(store: Store, _earlier: int, _going_on: int, _other: int) -> None:
    store.finish_run(begun(store, "d"), "completed")


@pytest.mark.parametrize(
    ("happens", "other_page"),
    [(resumed, True), (measured, True), (failed, False), (measured_elsewhere, False), (later, False)],
)
def test_what_happens_to_earlier_runs_of_other_boards_between_two_looks(
    store: Store, happens: Callable[[Store, int, int, int], None], other_page: bool
) -> None:
    earlier, going_on, other = begun(store, "a"), begun(store, "b"), begun(store, "c", "bpim2u")
    for run_id in (earlier, going_on, other):
        tried(store, run_id, 1)
    store.finish_run(earlier, "failed")
    its = begun(store, "e")
    store.finish_run(its, "completed")
    before = run_revision(store, its)
    happens(store, earlier, going_on, other)
    assert (run_revision(store, its) != before) is other_page


def test_a_look_reads_no_table_from_its_beginning(tmp_path: Path) -> None:
    with open_store(f"{tmp_path}/results.db") as store:
        going_on, its = begun(store, "a"), begun(store, "b")
        tried(store, going_on, 1)
        asked: list[tuple[str, tuple[object, ...]]] = []
        event.listen(
            store._engine,
            "before_cursor_execute",
            lambda _connection, _cursor, text, values, _context, _many: asked.append((text, values)),
        )
        run_revision(store, its)
        wanted = [each for each in asked if each[0].startswith("SELECT")]
        with store._engine.connect() as connection:
            plans = [
                row[3]
                for text, values in wanted
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)
            ]
    assert any("COVERING INDEX ix_runs_finished_at" in plan for plan in plans), plans
    assert not [plan for plan in plans if "SCAN" in plan and "INDEX" not in plan], plans
    assert not [plan for plan in plans if "TEMP B-TREE" in plan or "rowid<" in plan], plans
