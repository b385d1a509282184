"""What became of a schedule: only a job that ended with every planned sample is a success."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from attrs import evolve
from sqlalchemy import create_engine, update
from support import recorded_run

from exporters.farm.schedules import ScheduledRun, Schedules
from lab.farm.config import Schedule
from lab.jobs.queue import JobQueue, JobState, Order
from lab.jobs.records import LEASE_S, Job
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.results.models import RunRow
from lab.results.snapshot import watch

START = dt.datetime(2026, 3, 2, 2, 0, tzinfo=dt.UTC)
MEDIA = ("sd", "emmc", "ospi")
DAY_S = 86_400.0
PLANNED, PRESENT = "boardlab_schedule_planned_samples", "boardlab_schedule_present_samples"
SUCCESS, FAILURE = (f"boardlab_schedule_last_{what}_timestamp_seconds" for what in ("success", "failure"))
MISSING = "boardlab_schedule_missing_metric"


class Farm:
    """A store, a wall clock that turns, and the jobs of one schedule."""

    def __init__(self, store: Store, suites: tuple[str, ...], kinds: tuple[str, ...]) -> None:
        self.store, self.suites, self.at = store, suites, START
        due = ScheduledRun("nightly", "b1", suites, kinds, "", DAY_S, lambda now: now)
        self.schedules = Schedules(watch(store.url), [due], lambda: self.at)
        self.queue = JobQueue(store, "one", lambda _who: None, lambda: self.at)

    def later(self, seconds: float) -> None:
        self.at += dt.timedelta(seconds=seconds)

    def begin(self) -> int:
        order = Order("am62xx_sk", "b1", self.suites, "e", "", None)
        job = self.queue.start(self.queue.enqueue(order).id)
        assert job is not None
        return job.id

    def run(
        self, kind: str, plan: Mapping[str, object], got: Mapping[str, Sequence[str]], status: str = "completed"
    ) -> int:
        """A run: `got`, by the plan's item, has the outcomes of its cycles."""
        run = self.store.begin_run(kind, "am62xx_sk", "b1", "11.01", plan=plan, provenance={}).id
        parameter = {"boot": "medium", "low_power": "mode", "sections": "section"}[kind]
        metric = {"boot": "boot.time", "low_power": "power.total", "sections": "lmbench.bw_mem"}[kind]
        for item, outcomes in got.items():
            for cycle, outcome in enumerate(outcomes, start=1):
                params, ok = {parameter: item}, outcome == "ok"
                name = item if "." in item else metric
                samples = (SampleRecord(name, params, 2.5, 0.001),) if ok else ()
                fault, transient = (None, None) if ok else ("board", True)
                self.store.record_attempt(
                    run,
                    AttemptRecord(cycle, 1, params, outcome, fault, transient, "", recorded_run.START, 1.0, samples),
                )
        if status != "running":
            self.store.finish_run(run, status)  # type: ignore[arg-type]
        engine = create_engine(f"sqlite:///{self.store.url}")
        with engine.begin() as connection:  # the store's own clock is the host's
            connection.execute(update(RunRow).where(RunRow.id == run).values(started_at=self.at))
        engine.dispose()
        return run

    def night(self, got: Mapping[str, Sequence[str]], state: JobState = "completed", cycles: int = 20) -> None:
        """A night's job with a run of boots; a day passes."""
        job = self.begin()
        status = "completed" if state == "completed" else "failed"
        self.run("boot", {"cycles": cycles, "media": list(got)}, got, status)
        self.queue.finish(job, state)
        self.later(DAY_S)

    def seen(self) -> dict[str, dict[str, float]]:
        """Family -> the last label's value -> value."""
        found: dict[str, dict[str, float]] = {}
        for family in self.schedules.read():
            for sample in family.samples:
                found.setdefault(family.name, {})[list(sample.labels.values())[-1]] = sample.value
        return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


@pytest.fixture
def farm(store: Store) -> Farm:
    return Farm(store, ("boot",), ("boot",))


GOOD = {medium: ["ok"] * 20 for medium in MEDIA}


def test_a_night_with_every_sample_is_a_success(farm: Farm) -> None:
    farm.night(GOOD)
    seen = farm.seen()
    assert seen[PLANNED] == seen[PRESENT] == dict.fromkeys(MEDIA, 20.0)
    assert seen[SUCCESS] == {"": START.timestamp()}
    assert FAILURE not in seen
    assert seen["boardlab_schedule_interval_seconds"] == {"": DAY_S}


def test_a_failed_night_is_no_success_and_says_what_is_missing(farm: Farm) -> None:
    farm.night(GOOD)
    farm.night({**GOOD, "ospi": ["silent"] * 3}, "failed")
    seen = farm.seen()
    assert seen[PRESENT] == {"sd": 20, "emmc": 20, "ospi": 0}
    assert seen[SUCCESS] == {"": START.timestamp()}
    assert seen[FAILURE] == {"": START.timestamp() + DAY_S}


def test_59_of_60_are_no_success_even_where_the_job_says_so(farm: Farm) -> None:
    farm.night({**GOOD, "emmc": ["ok"] * 19 + ["reset"]})
    seen = farm.seen()
    assert (seen[PLANNED]["emmc"], seen[PRESENT]["emmc"]) == (20, 19)
    assert SUCCESS not in seen
    assert seen[FAILURE] == {"": START.timestamp()}


def test_a_night_that_was_killed_is_a_failure_once_it_gives_no_sign_of_life(farm: Farm) -> None:
    farm.night(GOOD)
    farm.begin()
    farm.run("boot", {"cycles": 20, "media": list(MEDIA)}, {"sd": ["ok"] * 7}, "running")
    assert farm.seen()[PRESENT] == dict.fromkeys(MEDIA, 20.0), "it goes on: what counts is the night before"
    farm.later(LEASE_S + 1)
    seen = farm.seen()
    assert seen[PLANNED] == dict.fromkeys(MEDIA, 20.0)
    assert seen[PRESENT] == {"sd": 7, "emmc": 0, "ospi": 0}
    assert seen[FAILURE] == {"": START.timestamp() + DAY_S}


def test_a_job_that_found_the_board_busy_is_a_failure_and_changes_no_samples(farm: Farm) -> None:
    farm.night(GOOD)
    job = farm.queue.enqueue(Order("am62xx_sk", "b1", ("boot",), "e", "", None))
    farm.queue.finish(job.id, "refused")
    seen = farm.seen()
    assert seen[FAILURE] == {"": START.timestamp() + DAY_S}
    assert seen[PRESENT] == dict.fromkeys(MEDIA, 20.0)


def test_a_medium_that_is_planned_no_more_has_stopped_arriving(farm: Farm) -> None:
    farm.night(GOOD)
    farm.night({medium: GOOD[medium] for medium in ("sd", "emmc")})
    seen = farm.seen()
    assert (seen[PLANNED]["ospi"], seen[PRESENT]["ospi"]) == (20, 0)
    for _ in range(8):
        farm.night({medium: GOOD[medium] for medium in ("sd", "emmc")})
    assert set(farm.seen()[PLANNED]) == {"sd", "emmc"}, "after eight nights that is how it is"


def test_what_a_person_measures_between_two_nights_changes_nothing(farm: Farm) -> None:
    farm.night({**GOOD, "ospi": []}, "failed")
    farm.run("boot", {"cycles": 1, "media": ["sd"]}, {"sd": ["ok"]})
    seen = farm.seen()
    assert (seen[PLANNED]["ospi"], seen[PRESENT]["ospi"]) == (20, 0)
    assert SUCCESS not in seen


@pytest.mark.parametrize(
    ("cycles", "options", "program"),
    [(1, {}, "lab run"), (20, {"medium": ["sd"]}, "lab run"), (20, {}, "pytest")],
)
def test_a_job_that_measures_less_or_is_a_session_of_pytest_is_none_of_the_schedule(
    farm: Farm, cycles: int, options: dict[str, object], program: str
) -> None:
    due = ScheduledRun("nightly", "b1", ("boot",), ("boot",), "", DAY_S, lambda now: now, 20, {})
    farm.schedules.due = [due]
    queue = JobQueue(farm.store, "one", lambda _who: None, lambda: farm.at, program=program)
    job = queue.start(queue.enqueue(Order("am62xx_sk", "b1", ("boot",), "e", "", cycles, options)).id)
    assert job is not None
    queue.finish(job.id, "completed")
    assert SUCCESS not in farm.seen()
    job = farm.queue.start(farm.queue.enqueue(Order("am62xx_sk", "b1", ("boot",), "e", "", 20, {})).id)
    assert job is not None
    farm.queue.finish(job.id, "completed")
    assert SUCCESS in farm.seen()


def test_a_schedule_with_options_knows_the_jobs_with_them(farm: Farm) -> None:
    options = {"sections": ["sd-fio"], "destructive": True}
    farm.schedules.due = [
        ScheduledRun("fio", "b1", ("sections",), ("sections",), "", DAY_S, lambda now: now, 20, options)
    ]
    for given in ({}, options):
        assert SUCCESS not in farm.seen()
        job = farm.queue.start(farm.queue.enqueue(Order("am62xx_sk", "b1", ("sections",), "e", "", 20, given)).id)
        assert job is not None
        plan = {"sections": ["sd-fio"], "destructive": True, "repeats": {"sd-fio": 3}}
        farm.run("sections", plan, {"sd-fio": ["ok"] * 3})
        farm.queue.finish(job.id, "completed")
        farm.later(DAY_S)
    seen = farm.seen()
    assert SUCCESS in seen
    assert seen[PLANNED] == seen[PRESENT] == {"sd-fio": 3}


def test_a_night_that_is_resumed_later_has_its_samples_of_before_too(farm: Farm) -> None:
    job = farm.begin()
    run = farm.store.begin_run(
        "boot", "am62xx_sk", "b1", "11.01", plan={"cycles": 1, "media": ["sd"]}, provenance={}, job_id=job
    ).id
    farm.queue.finish(job, "interrupted")
    farm.later(DAY_S / 2)
    assert farm.queue.start(farm.queue.take_up(job).id) is not None
    sample = SampleRecord("boot.time", {"medium": "sd"}, 2.5, 0.001)
    attempt = AttemptRecord(1, 1, {"medium": "sd"}, "ok", None, None, "", recorded_run.START, 1.0, (sample,))
    farm.store.record_attempt(run, attempt)
    farm.store.finish_run(run, "completed")
    farm.queue.finish(job, "completed")
    seen = farm.seen()
    assert seen[PLANNED] == seen[PRESENT] == {"sd": 1}


def test_a_metric_that_a_complete_run_lacks_has_stopped_arriving(store: Store) -> None:
    farm = Farm(store, ("sections",), ("sections",))
    names = ["dhrystone.rate", "lmbench.bw_mem"]
    refused = ["stream.bandwidth"]  # by its preflight, from the first night on

    def night(measured: list[str]) -> dict[str, dict[str, float]]:
        job = farm.begin()
        farm.run("sections", {"sections": [*names, *refused]}, {name: ["ok"] for name in measured})
        farm.queue.finish(job, "completed")
        farm.later(DAY_S)
        return farm.seen()

    seen = night(names)
    assert seen[PLANNED] == seen[PRESENT] == dict.fromkeys(names, 1.0)
    assert MISSING not in seen
    seen = night(names[:1])
    assert seen[MISSING] == {"lmbench.bw_mem": 1.0}
    assert set(seen[PLANNED]) == set(names[:1])
    assert MISSING not in night(names)


def test_a_section_has_as_many_samples_as_its_plan_has_cycles_and_a_lost_row_is_one_that_is_missing(
    store: Store,
) -> None:
    farm = Farm(store, ("sections",), ("sections",))
    plan = {"sections": ["lmbench", "alsa"], "repeats": {"lmbench": 1, "alsa": 3}}

    def night(alsa: list[str], status: str) -> dict[str, dict[str, float]]:
        job = farm.begin()
        run = farm.run("sections", plan, {"lmbench": ["ok"], "alsa": alsa}, "running")
        for cycle, rate in itertools.product((1, 2, 3), ("8000", "44100")):
            record = AttemptRecord(
                cycle, 1, {"section": "alsa", "rate_hz": rate}, "ok", None, None, "", recorded_run.START, 1.0
            )
            store.record_attempt(run, record)
        store.finish_run(run, status)  # type: ignore[arg-type]
        farm.queue.finish(job, "completed" if status == "completed" else "failed")
        farm.later(DAY_S)
        return farm.seen()

    seen = night(["ok", "ok"], "failed")
    assert seen[PLANNED] == {"lmbench": 1.0, "alsa": 3.0}
    assert seen[PRESENT] == {"lmbench": 1.0, "alsa": 2.0}, "rows are no cycles"
    assert SUCCESS not in seen
    seen = night(["ok", "ok", "ok"], "completed")
    assert seen[PLANNED] == seen[PRESENT] == {"lmbench": 1.0, "alsa": 3.0}
    assert SUCCESS in seen


@pytest.mark.parametrize(
    ("every", "now", "due"),
    [
        ("day", "2026-03-04 02:00", "2026-03-04 02:00"),
        ("day", "2026-03-04 01:59", "2026-03-03 02:00"),
        ("week", "2026-03-04 12:00", "2026-03-01 02:00"),
        ("week", "2026-03-08 01:00", "2026-03-01 02:00"),
        ("week", "2026-03-08 02:00", "2026-03-08 02:00"),
    ],
)
def test_a_timer_comes_due_by_the_hosts_wall_clock(
    monkeypatch: pytest.MonkeyPatch, every: str, now: str, due: str
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        schedule = Schedule("n", "e", "b", every=every)
        found = schedule.last_start(dt.datetime.fromisoformat(now).astimezone())
        assert f"{found:%Y-%m-%d %H:%M}" == due
    finally:
        os.environ.pop("TZ")
        monkeypatch.undo()
        time.tzset()


def test_a_job_that_was_not_judged_measured_as_much(farm: Farm) -> None:
    judged, less = ({name: value} for name, value in (("judge", True), ("medium", ["sd"])))
    for options, counts in ((judged, True), (less, False)):
        farm.schedules.due = [evolve(due, options=options) for due in farm.schedules.due]
        farm.night(GOOD)
        assert (SUCCESS in farm.seen()) is counts


ORDERED = Job(
    "am62xx_sk",
    "b1",
    ("boot",),
    "e",
    "",
    20,
    id=1,
    done=1,
    state="completed",
    holder="",
    after_run=0,
    queued_at=START,
    heartbeat_at=START,
    started_at=START,
    finished_at=START,
    person="",
    program="lab run",
    cancelled_by="",
    priority=0,
    yields_to="",
    request="",
)


def test_a_schedule_that_provisions_the_newest_release_knows_its_jobs_whatever_their_label_is() -> None:
    options = {"provision": "newest in /srv/releases", "judge": True}
    due = ScheduledRun("nightly", "b1", ("boot",), ("boot",), "", DAY_S, lambda now: now, 20, options)

    def job(label: str, **given: object) -> Job:
        return evolve(ORDERED, release=label, options=given)

    assert due.matches(job("11.01", provision="/srv/releases/11.01.yaml"))
    assert due.matches(job("11.02", provision="/srv/releases/11.02.yaml"))
    assert not due.matches(job("11.02"))
    by_label = evolve(due, release="11.01", options={"judge": True})
    assert by_label.matches(job("11.01"))
    assert not by_label.matches(job("11.01", provision="/srv/releases/11.01.yaml"))
