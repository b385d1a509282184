"""Parts of the boot behind a change: diagnosed runs before and since it, and the mail that names them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.recorded_run import START

from exporters.metrics import StandingMetrics
from lab.benchmarks.diagnosis.parts import INITCALLS, BootPart, documents
from lab.judge.boot_breakdown import OF, explain
from lab.judge.records import NewVerdict
from lab.judge.store import write_verdicts
from lab.judge.text import EvidenceLinks
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.results.records import DIAGNOSIS
from lab.results.snapshot import watch

USUAL = {f"part_{number}": 0.01 for number in range(30)}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/results.db") as store:
        yield store


def diagnosed(store: Store, dice: random.Random, parts_s: Mapping[str, float], release: str = "11.01") -> int:
    """A run with three diagnostic boots, whose parts have an offset of the run."""
    run = store.begin_run("boot", "am62xx_sk", "b1", release, plan={}, provenance={})
    sample = SampleRecord("boot.time", {"medium": "sd"}, 4.0, 0.001)
    store.record_attempt(run.id, AttemptRecord(1, 1, {"medium": "sd"}, "ok", None, None, "", START, 20.0, (sample,)))
    store.finish_run(run.id, "completed")
    its = store.begin_run(
        DIAGNOSIS, "am62xx_sk", "b1", release, plan={"cycles": 3, "media": ["sd"]}, provenance={OF: run.id}
    )
    offsets = {name: dice.gauss(1.0, 0.05) for name in parts_s}
    for cycle in range(1, 4):
        times = {name: length * offsets[name] * dice.gauss(1.0, 0.01) for name, length in parts_s.items()}
        parts = [BootPart(INITCALLS, name, 0.0, length, length) for name, length in times.items()]
        details = {DIAGNOSIS: {"boot_s": 4.0, "parts": documents(parts), "problems": []}}
        record = AttemptRecord(cycle, 1, {"medium": "sd"}, "ok", None, None, "", START, 20.0, details=details)
        store.record_attempt(its.id, record)
    store.finish_run(its.id, "completed")
    return run.id


def test_all_diagnosed_runs_before_and_since_a_change_are_compared(store: Store) -> None:
    dice = random.Random(1)
    for _ in range(4):
        diagnosed(store, dice, USUAL)
    since = diagnosed(store, dice, USUAL | {"part_7": 0.06})
    last = diagnosed(store, dice, USUAL | {"part_7": 0.06})
    (line,) = explain(store, last, since, {"sd"})
    assert line.startswith("sd: +")
    assert "part_7, was" in line
    assert explain(store, last, since, {"emmc"}) == []
    assert explain(store, last, last + 100, {"sd"}) == [], "none since the change"


def test_runs_of_another_line_of_builds_do_not_count_beside_those_of_the_own(store: Store) -> None:
    dice = random.Random(1)
    for _ in range(2):
        diagnosed(store, dice, USUAL)
        diagnosed(store, dice, USUAL | {"part_3": 0.5}, "main-0412")
    since = diagnosed(store, dice, USUAL | {"part_7": 0.06})
    assert [line.split()[6] for line in explain(store, since, since, {"sd"})] == ["part_7,"]


def test_the_mail_of_a_regression_names_the_part(store: Store) -> None:
    dice = random.Random(1)
    before = diagnosed(store, dice, USUAL)
    since = diagnosed(store, dice, USUAL | {"part_7": 0.06})
    verdict = NewVerdict("boot.time", 1, {"medium": "sd"}, "regression", 1, since, 20, 0.012, 0.01, 0.014)
    write_verdicts(store, since, [verdict])
    mails = StandingMetrics(watch(store.url), EvidenceLinks(""))
    for _ in range(2):  # the second look has it from the first
        families = {family.name: family for family in mails.verdicts()}
        (words,) = (sample.labels for sample in families["boardlab_verdict_change_info"].samples)
        assert words["moved"].splitlines()[0].startswith("boot.time (sd): +1.20 %")
        assert "part_7, was" in words["moved"].splitlines()[1]
    assert before < since
