"""The results as Prometheus sees them."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from attrs import evolve
from support import recorded_run
from support.atlength import either
from support.farm_store import fill
from support.scraped import Scrape, scrape

from exporters.measurements import label_name
from exporters.results import ExportLimits, ExportView, ResultsReader
from exporters.server import ResultsSource
from lab.errors import LabTransientError
from lab.failures import CATALOGUE
from lab.judge.known_failures import KnownFailure
from lab.judge.store import review
from lab.metrics import Flag, summarise
from lab.metrics.limits import Limit
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.results.records import LIMITS
from lab.results.snapshot import watch

BOARDS = either(150, 1000)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.delenv("LAB_ARTIFACTS", raising=False)
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


@pytest.fixture
def source(store: Store) -> ResultsSource:
    return ResultsSource(ResultsReader(watch(store.url)))


def seen(source: ResultsSource) -> Scrape:
    return scrape(b"".join(source.read().pieces()).decode())


def one_attempt(
    store: Store,
    run_id: int,
    outcome: str,
    *,
    cycle: int = 1,
    value: float = 2.5,
    init: str = "",
    limits: Sequence[Limit] = (),
) -> None:
    ok = outcome == "ok"
    params = {"medium": "sd"} | ({"init": init} if init else {})
    store.record_attempt(
        run_id,
        AttemptRecord(
            cycle=cycle,
            number=1,
            params=params,
            outcome=outcome,
            fault=None if ok else "board",
            transient=None if ok else True,
            message="",
            started_at=recorded_run.START,
            duration_s=1.0,
            samples=(SampleRecord("boot.time", params, value, 0.001),) if ok else (),
            details={LIMITS: {"boot.time": [limit.document() for limit in limits]}} if limits else {},
        ),
    )


def begin(store: Store, board: str = "b1", release: str = "11.01", kind: str = "boot") -> int:
    return store.begin_run(kind, "am62xx_sk", board, release, plan={}, provenance={}).id


def test_a_run_with_another_init_stands_beside_the_usual_one_and_is_replaced_by_the_next_such_run(
    store: Store, source: ResultsSource
) -> None:
    for value, init in ((9.0, ""), (2.5, "/bin/ash"), (1.5, "/bin/sh")):
        run = begin(store)
        one_attempt(store, run, "ok", value=value, init=init)
        store.finish_run(run, "completed")
    found = seen(source)
    values = found.all("boardlab_boot_duration_seconds", medium="sd", stat="avg")
    assert {dict(labels).get("init", ""): value for labels, value in values.items()} == {"": 9.0, "/bin/sh": 1.5}
    assert found.one("boardlab_boot_duration_samples", init="/bin/sh") == 1
    assert found.one("boardlab_boot_cycle_duration_seconds_sum") == 9.0, "the histogram is of the board's own boots"


def test_the_statistics_of_the_latest_run_are_those_of_its_samples(store: Store, source: ResultsSource) -> None:
    run = recorded_run.record(store)
    found = seen(source)
    boot = next(m for m in store.measurements(run.id) if m.metric.name == "boot.time" and m.params["medium"] == "emmc")
    summary = summarise(boot.samples)
    labels = {"board": "qemu-1", "board_type": "qemu-virt", "medium": "emmc", "release": "11.01"}
    stats = {"min": summary.min, "avg": summary.mean, "median": summary.median, "p95": summary.p95, "max": summary.max}
    for stat, value in stats.items():
        assert found.one("boardlab_boot_duration_seconds", stat=stat, **labels) == value
    assert found.one("boardlab_boot_duration_uncertainty_seconds", **labels) == summary.uncertainty
    assert found.one("boardlab_boot_duration_samples", **labels) == 20
    assert found.one("boardlab_boot_stage_duration_seconds", stage="Kernel", **labels) > 1.0
    assert found.one("boardlab_flagged_samples", metric="boot.time", flag="simulated", **labels) == 20
    finished = store.run(run.id).finished_at
    assert finished is not None
    assert found.one("boardlab_last_success_timestamp_seconds", board="qemu-1") == pytest.approx(finished.timestamp())


def test_failed_attempts_are_counted_by_class_and_never_become_samples(store: Store, source: ResultsSource) -> None:
    recorded_run.record(store)
    found = seen(source)
    assert found.one("boardlab_attempts_total", medium="sd", outcome="hang_kernel", fault="board") == 2
    assert found.one("boardlab_attempts_total", medium="emmc", outcome="wrong_medium", fault="lab") == 1
    assert found.one("boardlab_attempts_total", medium="sd", outcome="ok") == 20
    assert found.one("boardlab_moments_total", board="qemu-1") == 3 * 20 * 7


def test_a_failure_rate_has_its_interval_and_the_retried_success_counts(store: Store, source: ResultsSource) -> None:
    recorded_run.record(
        store
    )  # of 20 boots from SD two more hung first; of eMMC one was silent, one from another medium
    found = seen(source)
    name = "boardlab_boot_failure_rate_ratio"
    assert found.one(name, medium="sd", stat="avg") == pytest.approx(2 / 22)
    low, high = (found.one(name, medium="sd", stat=stat) for stat in ("low", "high"))
    assert (low, high) == pytest.approx((0.0253, 0.2781), abs=1e-4)
    assert found.one("boardlab_boot_failure_rate_samples", medium="sd") == 22
    assert found.one(name, medium="emmc", stat="avg") == pytest.approx(1 / 21)
    assert found.one(name, medium="ospi", stat="avg") == 0


def test_limits_are_exported_with_their_outcome_the_tightest_of_one_statistic(
    store: Store, source: ResultsSource
) -> None:
    limits = (Limit(min=1.0, max=2.4), Limit(max=3.0), Limit("sample", expected=2.5, percent=20))
    run = begin(store)
    one_attempt(store, run, "ok", value=9.0, limits=[Limit(max=1.0)])  # as metrics.toml was then
    one_attempt(store, run, "ok", cycle=2, value=2.5, limits=limits)
    store.finish_run(run, "completed")
    later = begin(store)
    one_attempt(store, later, "ok", value=2.41, limits=limits)
    one_attempt(store, later, "ok", cycle=2, value=2.59, limits=limits)
    store.finish_run(later, "completed")
    found = seen(source)
    own = {"board": "b1", "medium": "sd", "metric": "boot.time"}
    assert found.one("boardlab_limit", of="mean", bound="max", **own) == 2.4
    assert found.one("boardlab_limit", of="mean", bound="min", **own) == 1.0
    assert found.one("boardlab_limit", of="sample", bound="max", **own) == 3.0
    assert found.one("boardlab_limit_outcome", of="mean", **own) == 2, "2.5 s is beyond 2.4 s"
    assert found.one("boardlab_limit_outcome", of="sample", **own) == 0


def test_the_histogram_holds_every_cycle_of_every_run(store: Store, source: ResultsSource) -> None:
    first, second = begin(store), begin(store)
    for cycle, value in enumerate((0.4, 2.2, 2.4, 500.0), start=1):
        one_attempt(store, first, "ok", cycle=cycle, value=value)
    store.finish_run(first, "completed")
    one_attempt(store, second, "ok", value=2.3)  # still running
    found = seen(source)
    name = "boardlab_boot_cycle_duration_seconds"
    counts = {le: found.one(f"{name}_bucket", le=le) for le in ("0.5", "2.0", "2.5", "120.0", "+Inf")}
    assert counts == {"0.5": 1, "2.0": 1, "2.5": 4, "120.0": 4, "+Inf": 5}
    assert found.one(f"{name}_count") == 5
    assert found.one(f"{name}_sum") == pytest.approx(507.3)


def test_a_run_that_goes_on_does_not_replace_the_last_completed_one(store: Store, source: ResultsSource) -> None:
    done = begin(store)
    one_attempt(store, done, "ok", value=2.5)
    store.finish_run(done, "completed")
    assert seen(source).one("boardlab_boot_duration_seconds", stat="avg") == 2.5
    running = begin(store)
    one_attempt(store, running, "ok", value=9.0)
    assert seen(source).one("boardlab_boot_duration_seconds", stat="avg") == 2.5
    store.finish_run(running, "failed")
    found = seen(source)
    assert found.one("boardlab_boot_duration_seconds", stat="avg") == 2.5
    assert found["boardlab_last_completion_timestamp_seconds"] > found["boardlab_last_success_timestamp_seconds"]
    store.reopen_run(running)
    store.finish_run(running, "completed")
    assert seen(source).one("boardlab_boot_duration_seconds", stat="avg") == 9.0


def test_counters_do_not_fall_when_runs_are_deleted(store: Store, source: ResultsSource) -> None:
    kept, deleted = begin(store), begin(store)
    for run in (kept, deleted):
        one_attempt(store, run, "ok")
        one_attempt(store, run, "silent", cycle=2)
        store.finish_run(run, "completed")
    before = seen(source)
    with sqlite3.connect(store.url) as connection:
        for statement in (
            "DELETE FROM samples WHERE attempt_id IN (SELECT id FROM attempts WHERE run_id = ?)",
            "DELETE FROM attempts WHERE run_id = ?",
            "DELETE FROM measurements WHERE run_id = ?",
            "DELETE FROM runs WHERE id = ?",
        ):
            connection.execute(statement, (deleted,))
    after = seen(source)
    name = "boardlab_boot_cycle_duration_seconds_count"
    assert before.one("boardlab_attempts_total", outcome="silent") == 2
    assert after.one("boardlab_attempts_total", outcome="silent") == 2
    assert (before[name], after[name]) == (2, 2)


def test_numbers_are_in_base_units(store: Store, source: ResultsSource) -> None:
    run = begin(store, kind="suite")
    samples = (
        SampleRecord("power.rail", {"mode": "deep_sleep", "rail": "VDD_CORE"}, 12.0, 1.0),
        SampleRecord("power.resume_latency", {"mode": "mcu_only"}, 140.0, 1.0),
        SampleRecord("lmbench.bw_mem", {"size": "8m", "board": "x"}, 2000.0, 0.0),
        SampleRecord("lmbench.bw_mem", {"a b": "1", "a_b": "2", "version": "v1"}, 1000.0, 0.0),
        SampleRecord("ethernet.tcp.throughput", {}, 800.0, 0.0),
    )
    record = AttemptRecord(1, 1, {}, "ok", None, None, "", recorded_run.START, 1.0, samples)
    store.record_attempt(run, record)
    store.finish_run(run, "completed")
    found = seen(source)
    labels = {label_name("a b"): "1", "a_b": "2", "param_version": "v1"}
    assert found.one("boardlab_lmbench_bw_mem_bytes_per_second", **labels) == 1e9
    assert found.one("boardlab_rail_power_watts", rail="VDD_CORE", mode="deep_sleep") == pytest.approx(0.012)
    assert (
        found.one("boardlab_resume_latency_seconds", mode="mcu_only", stat="p95", definition="kernel", version="1")
        == 0.14
    )
    assert found.one("boardlab_lmbench_bw_mem_bytes_per_second", size="8m", param_board="x") == 2e9
    assert found.one("boardlab_ethernet_tcp_throughput_bytes_per_second") == 1e8
    assert found.one("boardlab_resume_cycle_latency_seconds_bucket", mode="mcu_only", le="0.15") == 1


def test_what_a_console_wrote_cannot_break_the_exposition(store: Store, source: ResultsSource) -> None:
    run = begin(store, board='evil"\n\x1b]0;owned\x07}' + "x" * 300)
    one_attempt(store, run, "ok")
    store.finish_run(run, "completed")
    ((labels, _),) = seen(source).all("boardlab_boot_duration_samples").items()
    board = dict(labels)["board"]
    assert board.startswith('evil"??]0;owned?}xxx')
    assert len(board) == 100


def test_the_vendors_published_numbers_are_not_ours(store: Store, source: ResultsSource) -> None:
    run = begin(store, kind="published")
    one_attempt(store, run, "ok")
    store.finish_run(run, "completed")
    assert "boardlab_boot_duration_seconds" not in seen(source).names


def test_bounds_keep_the_newest_and_say_what_they_left_out(store: Store) -> None:
    for board, release in (("old", "1"), ("b1", "1"), ("b1", "2"), ("b1", "3"), ("b2", "1")):
        run = begin(store, board=board, release=release)
        for cycle, outcome in enumerate(("ok", "silent", "reset", "garbled"), start=1):
            one_attempt(store, run, outcome, cycle=cycle)
        store.finish_run(run, "completed")
    limits = ExportLimits(boards=2, releases_per_board=2, figures_per_group=1, outcomes_per_board=2)
    found = seen(ResultsSource(ResultsReader(watch(store.url), limits)))
    groups = {
        (dict(labels)["board"], dict(labels)["release"]) for labels in found.all("boardlab_boot_duration_samples")
    }
    assert groups == {("b1", "2"), ("b1", "3"), ("b2", "1")}
    assert found.one("boardlab_results_left_out", what="boards") == 1
    assert found.one("boardlab_results_left_out", what="releases") == 1
    outcomes = {dict(labels)["outcome"] for labels in found.all("boardlab_attempts_total", board="b1")}
    assert outcomes == {"ok", "garbled", "other"}


@pytest.mark.longer
def test_many_boards_have_a_bounded_number_of_series(tmp_path: Path) -> None:
    url = fill(tmp_path / "farm.db", boards=BOARDS, metrics=2, samples=1)
    source = ResultsSource(ResultsReader(watch(url)))
    page = source.read()
    series = [line for line in b"".join(page.pieces()).splitlines() if not line.startswith(b"#")]
    boot, other, flagged = 5 + 1 + 1, 1 + 1 + 1, 2  # statistics, ±, samples
    duration, last_runs, attempts, histogram, rate = 1, 2, 1, 20 + 2, 3 + 1 + 1
    outcomes = len(CATALOGUE) + 1
    per_board = boot + other + flagged + duration + last_runs + attempts + histogram + outcomes + rate
    assert len(series) == BOARDS * per_board + 3, "and what was left out"
    assert len({line.rpartition(b" ")[0] for line in series}) == len(series)
    assert source.read() is page, "a store at rest is not rendered again"


def test_the_store_may_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    source = ResultsSource(ResultsReader(watch(str(path), timeout_s=0.05)))
    with pytest.raises(LabTransientError, match="does not exist"):
        source.read()
    assert not path.exists()
    with open_store(str(path)) as store:
        run = begin(store)
        one_attempt(store, run, "ok")
        store.finish_run(run, "completed")
    seen(source)
    locker = sqlite3.connect(path, isolation_level=None)
    locker.execute("PRAGMA locking_mode=EXCLUSIVE")
    locker.execute("BEGIN EXCLUSIVE")
    locker.execute("COMMIT")
    with pytest.raises(LabTransientError, match="locked"):
        source.read()
    locker.close()
    assert seen(source).one("boardlab_boot_duration_seconds", stat="avg") == 2.5
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE boardlab_schema SET version_num = '0001'")
    with pytest.raises(LabTransientError, match="has schema 0001"):
        source.read()


def measured(store: Store, release: str, values: tuple[float, ...], board: str = "b1") -> None:
    run = begin(store, board=board, release=release)
    for cycle, value in enumerate(values, start=1):
        one_attempt(store, run, "ok", cycle=cycle, value=value)
    store.finish_run(run, "completed")


@pytest.mark.parametrize(
    ("old", "new", "regression"),
    [
        ((2.50, 2.51, 2.49), (2.70, 2.71, 2.69), 1),
        ((2.50, 2.51, 2.49), (2.30, 2.31, 2.29), 0),  # better
        ((2.50, 2.51, 2.49), (2.53, 2.54, 2.52), 0),  # sure, but small
        ((2.50, 3.10, 2.00), (2.70, 3.30, 2.20), 0),  # large, but not sure
    ],
)
def test_a_regression_is_worse_than_chance_and_than_equal_runs_differ(
    store: Store, source: ResultsSource, old: tuple[float, ...], new: tuple[float, ...], regression: int
) -> None:
    measured(store, "9.02", (9.0, 9.0))
    measured(store, "11.01", new)
    measured(store, "10.00", old)  # measured last, but the older release
    measured(store, "11.01", new, board="alone")
    found = seen(source)
    where = {"metric": "boot.time", "board": "b1", "release": "11.01"}
    assert found.one("boardlab_release_regression", **where) == regression
    change = (sum(new) - sum(old)) / sum(old)
    assert found.one("boardlab_release_change_ratio", against="10.00", **where) == pytest.approx(change)
    assert len(found.all("boardlab_release_regression")) == 1


def test_boards_that_the_newest_release_lacks_are_listed(store: Store, source: ResultsSource) -> None:
    for board, release in (("b1", "10.00"), ("b2", "11.00"), ("b3", "11.00"), ("b3", "11.01"), ("b2", "main-7")):
        measured(store, release, (2.5,), board=board)
    store.finish_run(begin(store, "b2", "11.01"), "failed")
    labels = {"board": "b2", "board_type": "am62xx_sk", "kind": "boot", "release": "11.01", "against": "11.00"}
    assert [dict(each) for each in seen(source).all("boardlab_release_not_measured")] == [labels]
    measured(store, "11.01", (2.5,), board="b2")
    assert not seen(source).all("boardlab_release_not_measured")


def test_a_regression_that_is_a_known_failure_carries_its_state(store: Store) -> None:
    measured(store, "10.00", (2.50, 2.51, 2.49))
    measured(store, "11.01", (2.70, 2.71, 2.69))
    known = [KnownFailure("https://tracker/1", metric="boot.time", direction="higher", fixed_in="11.02")]
    for signatures, state in ((known, "open"), ([evolve(known[0], direction="lower")], "")):
        found = seen(ResultsSource(ResultsReader(watch(store.url), known_failures=signatures)))
        (labels,) = found.all("boardlab_release_regression", metric="boot.time")
        assert dict(labels).get("known", "") == state


def ordered(view: ExportView) -> list[object]:
    """A view without the order of its parts."""
    parts = (view.groups, view.changes, view.unmeasured, view.builds, view.last_runs)
    return [*(sorted(map(repr, part)) for part in parts), view.left_out]


@pytest.mark.parametrize("seed", range(2))
def test_a_reader_that_follows_the_store_sees_what_a_fresh_one_sees(store: Store, seed: int) -> None:
    limits, dice = ExportLimits(boards=2, releases_per_board=2), random.Random(seed)
    following, ended = ResultsReader(watch(store.url), limits), list[int]()
    for _ in range(24):
        act = dice.choice(("measure", "measure", "measure", "resume", "review", "attempt"))
        if act in {"resume", "review"} and ended:
            run = dice.choice(ended)
            if act == "review":
                review(store, run, dice.choice(("accepted", "rejected")), "lena", "as expected")
            elif store.run(run).status != "completed":
                store.reopen_run(run)
                store.finish_run(run, dice.choice(("completed", "failed")))
        else:
            run = begin(
                store, dice.choice(("b1", "b1", "b2", "b3")), dice.choice(("10.00", "11.00", "11.01", "12.00"))
            )
            one_attempt(store, run, dice.choice(("ok", "ok", "silent")), value=dice.uniform(2, 3))
            if act != "attempt":
                store.finish_run(run, dice.choice(("completed", "completed", "failed")))
                ended.append(run)
        view, fresh = following.read(), ResultsReader(watch(store.url), limits).read()
        assert ordered(view) == ordered(fresh)
        assert view.outcomes == fresh.outcomes
        assert view.tallies == fresh.tallies


def test_every_flag_fits_a_label() -> None:
    assert all(str(flag).isidentifier() for flag in Flag)


def test_every_class_of_failure_is_there_at_zero_before_it_first_happens(store: Store, source: ResultsSource) -> None:
    run = begin(store)
    found = seen(source).all("boardlab_outcomes_total", board="b1")
    assert {dict(labels)["outcome"]: value for labels, value in found.items()} == dict.fromkeys(
        {"ok", *CATALOGUE}, 0.0
    )
    for cycle, outcome in enumerate(("hang_kernel", "ok", "a_class_of_my_own"), start=1):
        one_attempt(store, run, outcome, cycle=cycle)
    after = seen(source)
    counts = {outcome: after.one("boardlab_outcomes_total", outcome=outcome) for outcome in ("hang_kernel", "other")}
    assert counts == {"hang_kernel": 1.0, "other": 1.0}


def test_the_outcomes_of_a_board_never_fall_when_a_release_is_left_out(store: Store) -> None:
    source = ResultsSource(ResultsReader(watch(store.url), ExportLimits(releases_per_board=1)))
    for release in ("10.00", "11.00", "11.01"):
        run = begin(store, release=release)
        one_attempt(store, run, "silent")
        store.finish_run(run, "completed")
        seen(source)
    assert seen(source).one("boardlab_outcomes_total", outcome="silent") == 3
    fresh = ResultsSource(ResultsReader(watch(store.url), ExportLimits(releases_per_board=1)))
    assert seen(fresh).one("boardlab_outcomes_total", outcome="silent") == 3, "nor when the exporter starts again"
