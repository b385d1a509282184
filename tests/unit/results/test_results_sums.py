"""The sums that a completed run keeps: what is read from them is what its samples say, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event, text
from support import recorded_run

from exporters.results import ResultsReader
from exporters.server import ResultsSource
from lab.judge.baseline import judge_run
from lab.metrics import Flag
from lab.metrics.limits import Limit
from lab.results import AttemptRecord, SampleRecord, Store
from lab.results.records import LIMITS
from lab.results.snapshot import StoreSnapshot, watch
from lab.results.store import WholeRun, record_runs

LIMIT = Limit(max=2.0, of="sample")


def scraped(store: Store) -> list[str]:
    """The whole scrape of an exporter that has just started."""
    url = store.location.url.render_as_string(hide_password=False).replace("+psycopg", "")
    return b"".join(ResultsSource(ResultsReader(watch(url))).read().pieces()).decode().splitlines()


def forget(store: Store) -> None:
    """As an older boardlab left the runs."""
    with store._engine.begin() as connection:
        connection.execute(text("UPDATE runs SET sums = NULL"))
        connection.execute(text("UPDATE measurements SET sums = NULL, summary = NULL"))


def with_sums(store: Store) -> list[int]:
    with store._engine.connect() as connection:
        return list(connection.execute(text("SELECT id FROM runs WHERE sums IS NOT NULL ORDER BY id")).scalars())


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """The statements that are executed meanwhile on any connection of this process."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(statement)

    event.listen(type(store._engine), "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(type(store._engine), "before_cursor_execute", note)


def good(cycle: int, value: float, flags: frozenset[Flag] = frozenset(), init: str = "") -> AttemptRecord:
    params = {"medium": "sd"} | ({"init": init} if init else {})
    samples = (SampleRecord("boot.time", params, value / 3, 0.1 / 3, flags),)
    limits = {LIMITS: {"boot.time": [LIMIT.document()]}} if cycle == 1 else {}
    return AttemptRecord(
        cycle, 1, params, "ok", None, None, "", recorded_run.START, 1.0, tuple(samples), details=limits
    )


def fill(store: Store) -> None:
    """Runs with failures, flags, uncertain samples, another init, limits, an interrupted one and several boards."""
    for seed, release in enumerate(("11.00", "11.00", "11.01", "11.01")):
        recorded_run.record(store, release=release, seed=seed, cycles=4, busy_from=3)
    for board in ("b1", "b2"):
        for release in ("11.00", "11.01"):
            run = store.begin_run("boot", "am62xx_sk", board, release, plan={}, provenance={})
            uncertain = frozenset({Flag.UNCERTAIN, Flag.SIMULATED})
            for cycle, value in enumerate((1.1, 7.3, 9.7, 2.9, 1.3), start=1):
                store.record_attempt(run.id, good(cycle, value, uncertain if cycle == 3 else frozenset()))
                store.record_attempt(run.id, good(cycle, value, init="/bin/sh"))
            store.finish_run(run.id, "completed")
    run = store.begin_run("boot", "am62xx_sk", "b2", "11.01", plan={}, provenance={})
    store.record_attempt(run.id, good(1, 4.2))
    store.finish_run(run.id, "interrupted")
    store.finish_run(store.begin_run("boot", "am62xx_sk", "b3", "11.01", plan={}, provenance={}).id, "completed")


def test_a_scrape_from_kept_sums_is_that_of_the_samples_byte_for_byte(store: Store) -> None:
    fill(store)
    assert with_sums(store) == [1, 2, 3, 4, 5, 6, 7, 8, 10]
    kept = scraped(store)
    judged = [judge_run(found, 8) for found in _snapshots(store)]
    forget(store)
    assert scraped(store) == kept
    assert [judge_run(found, 8) for found in _snapshots(store)] == judged
    assert store.keep_sums(3) == 3
    assert with_sums(store) == [7, 8, 10]
    assert scraped(store) == kept, "some with, some without"


def _snapshots(store: Store) -> Iterator[StoreSnapshot]:
    url = store.location.url.render_as_string(hide_password=False).replace("+psycopg", "")
    with watch(url).snapshot() as found:
        yield found


def test_the_first_read_of_completed_runs_touches_no_sample(store: Store) -> None:
    for seed in range(3):
        recorded_run.record(store, seed=seed, cycles=2)
    with statements(store) as seen:
        scraped(store)
    assert seen
    assert not [each for each in seen if "samples" in each or "moments" in each]
    forget(store)
    with statements(store) as seen:
        scraped(store)
    assert [each for each in seen if "samples" in each]


def test_the_comparisons_of_a_board_share_the_averages_of_its_runs(store: Store) -> None:
    for release in ("11.00", "11.00", "11.01"):
        recorded_run.record(store, cycles=2, release=release)
    with statements(store) as seen:
        assert any("boardlab_release_change_ratio{" in line for line in scraped(store))
    assert len([each for each in seen if "measurements.sums" in each.partition("FROM")[0]]) == 1


def test_a_run_that_goes_on_keeps_no_sums_until_it_is_completed(store: Store) -> None:
    run = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={})
    store.record_attempt(run.id, good(1, 1.0))
    store.finish_run(run.id, "interrupted")
    assert with_sums(store) == []
    store.reopen_run(run.id)
    store.record_attempt(run.id, good(2, 2.0))
    store.finish_run(run.id, "completed")
    assert with_sums(store) == [run.id]
    assert any("boardlab_boot_duration_samples" in line and line.endswith(" 2.0") for line in scraped(store))


def test_the_end_of_a_run_keeps_the_sums_of_older_ones_too_and_imported_runs_have_theirs(store: Store) -> None:
    whole = WholeRun("boot", "am62xx_sk", "b1", "11.01", {}, {}, (good(1, 1.0),))
    ids = record_runs(store, [whole] * 12)
    assert with_sums(store) == ids
    forget(store)
    recorded_run.record(store, cycles=1)
    assert with_sums(store) == [*ids[-7:], 13]


def test_a_run_that_cannot_be_read_ends_all_the_same_and_keeps_no_sums(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    run = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={})
    store.record_attempt(run.id, good(1, 1.0))
    with store._engine.begin() as connection:
        connection.execute(text("UPDATE samples SET flags = 'of_the_future'"))
    store.finish_run(run.id, "completed")
    assert store.run(run.id).status == "completed"
    assert with_sums(store) == []
    assert "of_the_future" in caplog.text
