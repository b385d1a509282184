"""What boards fail with now: one cause for what belongs together, since its first run, until it is over."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from attrs import define, field
from sqlalchemy.orm import Session
from support.facts import missing_facts

from exporters.metrics import StandingMetrics
from lab.judge.known_failures import KnownFailure
from lab.judge.text import EvidenceLinks, failing_title
from lab.results import Store, open_store
from lab.results.models import RunRow
from lab.results.records import AttemptRecord
from lab.results.snapshot import SnapshotReader, watch
from lab.results.standing_failures import ExplainedItem, FailureReader, StandingFailure

FIRST = dt.datetime(2026, 11, 24, 2, 0, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
INIT = "[    3.204117] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b"
ROOT = "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(179,2)"
PANIC = "the board printed {!r}; the attempt's log has the lines before it (lab results show --log)"
MEDIA = ("sd", "emmc", "ospi")


@define
class Lab:
    """A store with a run a night, and its reader."""

    store: Store
    watcher: SnapshotReader
    reader: FailureReader = field(factory=FailureReader)
    nights: int = 0

    def night(
        self,
        *ends: tuple[str, str],
        board: str = "am62x-sk-1",
        release: str = "11.03",
        media: Sequence[str] = MEDIA,
        kind: str = "boot",
        fault: str = "board",
        status: str = "failed",
        name: str = "medium",
    ) -> int:
        """A run whose cycle of each medium ends so, try after try: outcome and message."""
        run = self.store.begin_run(kind, "am62xx_sk", board, release, plan={}, provenance={})
        at = FIRST + self.nights * DAY
        self.nights += 1
        for medium in media:
            for number, (outcome, message) in enumerate(ends, start=1):
                ok = outcome == "ok"
                record = AttemptRecord(
                    *(1, number, {name: medium}, outcome, None if ok else fault, None if ok else True, message),
                    *(at + dt.timedelta(minutes=self.nights, seconds=number), 20.0),
                )
                self.store.record_attempt(run.id, record)
        if status != "running":
            self.store.finish_run(run.id, "completed" if status == "completed" else "failed")
        with Session(self.store._engine) as session, session.begin():
            session.get_one(RunRow, run.id).started_at = at
        return run.id

    def found(self) -> tuple[list[StandingFailure], list[ExplainedItem]]:
        """What fails in the morning after the last night."""
        with self.watcher.snapshot() as snapshot:
            return self.reader.read(snapshot, FIRST + (self.nights - 1) * DAY + DAY / 4)

    def titles(self) -> list[str]:
        """In words."""
        return [failing_title(each) for each in self.found()[0]]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    url = f"sqlite:///{tmp_path}/results.db"
    with open_store(url) as store:
        yield Lab(store, watch(url))


def panics(line: str = INIT, count: int = 3) -> list[tuple[str, str]]:
    return [("kernel_panic", PANIC.format(line))] * count


GOOD = [("ok", "")]


def test_a_release_that_panics_in_each_boot_is_one_cause_with_release_line_count_run_and_time(lab: Lab) -> None:
    lab.night(*GOOD, release="11.02", status="completed")
    lab.night(*panics())
    (title,) = lab.titles()
    assert not missing_facts(title, "am62x-sk-1", "11.03", "does not boot", "'Attempted to kill init'", "9 of 9")
    assert not missing_facts(title, "9 of 9", "since run 2", "Wed 2026-11-25 02:00 UTC")


def test_a_week_of_panics_stays_one_cause_with_the_same_labels_however_its_numbers_differ(lab: Lab) -> None:
    labels = set()
    for night in range(7):
        lab.night(*panics(INIT.replace("0b", f"0{night}").replace("3.20", f"{night}.4")))
        failures = StandingMetrics(lab.watcher, EvidenceLinks(""), now=lambda: FIRST + lab.nights * DAY)
        (series,) = next(each for each in failures.failures() if each.name == "boardlab_failing").samples
        labels.add(tuple(sorted(series.labels.items())))
    (same,) = labels
    which = {"board": "am62x-sk-1", "board_type": "am62xx_sk", "release": "11.03", "outcome": "kernel_panic"}
    cause = "Kernel panic - not syncing: Attempted to kill init! exitcode=N"
    assert dict(same) == {**which, "cause": cause, "state": "dead", "known": ""}
    assert not missing_facts(lab.titles()[0], "63 of 63", "run 1", "2026-11-24 02:00 UTC")


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_one_good_run_ends_what_failed_always(lab: Lab, status: str) -> None:
    lab.night(*panics())
    lab.night(*GOOD, status=status)
    assert lab.found() == ([], [])


def test_what_failed_at_times_is_over_after_three_runs_without_it(lab: Lab) -> None:
    lab.night(("silent", "nothing"), *GOOD, media=["sd"])
    (first,) = lab.found()[0]
    assert (first.dead, first.failed, first.attempts, first.since.id) == (False, 1, 2, 1)
    lab.night(*GOOD, media=["sd"])
    lab.night(("silent", "nothing"), *GOOD, media=["sd"])
    (again,) = lab.found()[0]
    assert (again.failed, again.attempts, again.since.id) == (2, 5, 1), "it has not been over"
    for _ in range(2):
        lab.night(*GOOD, media=["sd"])
        assert len(lab.found()[0]) == 1
    lab.night(*GOOD, media=["sd"])
    assert lab.found() == ([], [])


def test_another_line_another_class_and_another_release_are_other_causes(lab: Lab) -> None:
    seen = []
    for line, release in ((INIT, "11.03"), (ROOT, "11.03"), (ROOT, "11.04")):
        lab.night(*panics(line), release=release)
        (found,) = lab.found()[0]
        seen.append((found.release, found.cause, found.since.id))
    lab.night(("silent", "nothing on the console"), release="11.04")
    (found,) = lab.found()[0]
    seen.append((found.release, found.cause, found.since.id))
    assert len({each[:2] for each in seen}) == 4
    assert [each[2] for each in seen] == [1, 2, 3, 4]


def test_the_kinds_of_runs_of_one_release_are_one_cause(lab: Lab) -> None:
    lab.night(*panics(), media=["sd"])
    lab.night(*panics(), media=["deep_sleep"], kind="low_power", name="mode")
    (found,) = lab.found()[0]
    assert (found.failed, found.attempts, found.since.id) == (6, 6, 1)


def test_a_dead_medium_beside_good_ones_is_named(lab: Lab) -> None:
    run = lab.night(*GOOD, media=["sd", "emmc"], status="running")
    record = AttemptRecord(1, 1, {"medium": "ospi"}, "silent", "board", True, "nothing", FIRST, 60.0)
    lab.store.record_attempt(run, record)
    lab.store.finish_run(run, "failed")
    found, explained = lab.found()
    assert not missing_facts(failing_title(found[0]), "am62x-sk-1", "11.03", "ospi", "silent", "1 of 1")
    assert explained == [ExplainedItem("am62x-sk-1", "boot", "ospi")]


@pytest.mark.parametrize(
    ("tries", "status", "items"),
    [
        ([*panics(count=1), *GOOD], "completed", []),
        (panics(), "completed", ["emmc", "ospi", "sd"]),
        (panics(), "failed", ["emmc", "ospi", "sd"]),
        (GOOD, "failed", []),
    ],
)
def test_missing_samples_are_explained_where_the_last_attempt_at_them_failed(
    lab: Lab, tries: Sequence[tuple[str, str]], status: str, items: Sequence[str]
) -> None:
    lab.night(*tries, status=status)
    assert [each.item for each in lab.found()[1]] == items


def test_a_fault_of_the_lab_is_not_told_of_the_release(lab: Lab) -> None:
    lab.night(("pdu_timeout", "the PDU does not answer"), fault="lab")
    (title,) = lab.titles()
    assert "boot" not in title
    assert not missing_facts(title, "lab", "pdu timeout", "3 of 3")


def test_a_run_that_still_goes_on_is_not_told_of(lab: Lab) -> None:
    lab.night(*panics(), status="running")
    assert lab.found() == ([], [])


def test_what_nobody_runs_any_more_is_over_after_eight_days(lab: Lab) -> None:
    lab.night(*panics())
    lab.nights += 7
    assert len(lab.found()[0]) == 1
    lab.nights += 2
    assert lab.found() == ([], [])


def test_links_lead_to_the_newest_run_of_the_cause_and_a_store_without_address_names_commands(lab: Lab) -> None:
    lab.night(*panics(), media=["sd"])
    lab.night(*panics(), media=["sd"])
    told: list[Mapping[str, str]] = []
    for address in ("https://lab.example.org/runs/{run}", ""):
        families = StandingMetrics(lab.watcher, EvidenceLinks(address), now=lambda: FIRST + 2 * DAY).failures()
        told.append(next(each for each in families if each.name == "boardlab_failing_info").samples[0].labels)
    assert told[0]["report"] == "https://lab.example.org/runs/2"
    assert told[0]["log"] == "https://lab.example.org/runs/2#cycles-sd"
    assert told[0]["said"] == f"kernel_panic: {INIT.partition('] ')[2]}"
    assert (told[1]["report"], told[1]["log"]) == ("lab report 2", "lab results show 2 --log")


@pytest.mark.parametrize(
    ("pattern", "fixed_in", "state", "title"),
    [
        ("", "", "open", "Known (https://tracker/1): am62x-sk-1: release 11.03"),
        ("mount root", "11.04", "open", "Known (https://tracker/1): am62x-sk-1"),
        ("mount root", "11.03", "returned", "Back after its fix in 11.03 (https://tracker/1): am62x-sk-1"),
        ("kill init", "", "", "am62x-sk-1: release 11.03"),
    ],
)
def test_a_known_failure_is_exported_with_its_state_and_its_ticket(
    lab: Lab, pattern: str, fixed_in: str, state: str, title: str
) -> None:
    lab.night(*[("kernel_panic", PANIC.format(ROOT))] * 3)
    known = KnownFailure("https://tracker/1", failure="kernel_panic", pattern=pattern, fixed_in=fixed_in)
    families = StandingMetrics(lab.watcher, EvidenceLinks(""), [known], now=lambda: FIRST + DAY / 4).failures()
    series = {each.name: each.samples[0].labels for each in families if each.samples}
    assert series["boardlab_failing"]["known"] == series["boardlab_failing_info"]["known"] == state
    assert series["boardlab_failing_info"]["title"].startswith(title)
