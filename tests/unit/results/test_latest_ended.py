"""What was last at each board, as somebody who looks each second is told it."""

from __future__ import annotations

from lab.host.clock import utc_now
from lab.results import AttemptRecord, SampleRecord, Store
from lab.results.listing import LatestEnded


def begin(store: Store, board: str) -> int:
    return store.begin_run("boot", "am62xx_sk", board, "11.01", plan={}, provenance={}).id


def boot(store: Store, run: int, cycle: int) -> None:
    sample, params = SampleRecord("boot.time", {"medium": "sd"}, 2.0, 0.001), {"medium": "sd"}
    store.record_attempt(run, AttemptRecord(cycle, 1, params, "ok", None, None, "", utc_now(), 6.0, (sample,)))


def test_a_run_is_there_as_soon_as_it_ended_and_as_long_as_no_later_one_did(store: Store) -> None:
    ended = LatestEnded()

    def shown() -> list[tuple[int, str, int]]:
        return [(each.run.id, each.run.status, each.good) for each in ended.of(store)]

    assert shown() == []
    first = begin(store, "board-1")
    boot(store, first, 1)
    assert shown() == []
    store.finish_run(first, "completed")
    assert shown() == [(first, "completed", 1)]
    later, other = begin(store, "board-1"), begin(store, "board-0")
    assert shown() == [(first, "completed", 1)]
    boot(store, later, 1)
    store.finish_run(later, "interrupted")
    assert shown() == [(later, "interrupted", 1)]
    store.reopen_run(later)
    assert shown() == [(first, "completed", 1)]
    boot(store, later, 2)
    store.finish_run(later, "failed")
    store.finish_run(other, "completed")
    assert shown() == [(other, "completed", 0), (later, "failed", 2)]


def test_an_attempt_is_no_reason_to_read_the_ended_runs_again(store: Store) -> None:
    ended, run = LatestEnded(), begin(store, "board-1")
    store.finish_run(begin(store, "board-2"), "completed")
    before = ended.of(store)
    boot(store, run, 1)
    assert ended.of(store) is before
