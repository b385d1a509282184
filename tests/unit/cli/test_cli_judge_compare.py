"""`lab judge compare`: what a person and a program read of it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab.cli import main
from lab.judge.store import read_verdicts, review
from lab.results import AttemptRecord, SampleRecord, Store, open_store

START = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        for release, sd, emmc in (("11.00", 2.5, 1.5), ("11.00", 2.5, 1.5), ("11.01", 2.75, 1.5)):
            run = store.begin_run("boot", "am62xx_sk", "b1", release, plan={}, provenance={}).id
            for medium, value in (("sd", sd), ("emmc", emmc)):
                params = {"medium": medium}
                samples = (SampleRecord("boot.time", params, value, 0.001),)
                store.record_attempt(run, AttemptRecord(1, 1, params, "ok", None, None, "", START, 1.0, samples))
            store.finish_run(run, "completed")
        yield store


def test_what_is_worse_is_shown_with_its_interval_and_ends_with_1(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", "compare", "latest", "--db", store.url]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert not missing_facts(shown, "release 11.01", "accepted runs")
    assert "+10.0 %" in shown
    assert "+6.8 to +13.3 %" in shown
    assert not missing_facts(shown, "regression", "1.10 times", "2 numbers", "1 regression", "1 noise")
    assert "emmc" not in shown


def test_json_has_every_number_with_all_and_says_what_it_was_compared_with(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", "compare", "3", "--against", "11.0", "--json", "--all", "--db", store.url]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["run"], document["against"], document["notes"]) == (3, "release 11.0", [])
    worse, same = document["numbers"]
    assert (worse["params"], worse["verdict"], worse["was"], worse["runs"]) == (
        {"medium": "sd"},
        "regression",
        2.5,
        [1, 2],
    )
    assert worse["low"] < worse["effect"] < worse["high"]
    assert (same["verdict"], same["effect"]) == ("noise", 0.0)


def test_a_run_that_lacks_cycles_of_its_plan_says_so_and_ends_with_4(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {"media": ["sd"], "cycles": 20}
    run = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan=plan, provenance={}).id
    samples = (SampleRecord("boot.time", {"medium": "sd"}, 2.5, 0.001),)
    store.record_attempt(run, AttemptRecord(1, 1, {"medium": "sd"}, "ok", None, None, "", START, 1.0, samples))
    store.finish_run(run, "interrupted")
    assert main(["judge", "compare", str(run), "--db", store.url]) == 4
    assert not missing_facts(capsys.readouterr().out, "not complete: interrupted", "1 of 20 cycles")


def test_an_accepted_run_ends_with_0(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    review(store, 3, "accepted", "alice", "")
    assert main(["judge", "compare", "3", "--db", store.url]) == 0
    assert "1 regression" in capsys.readouterr().out


def test_a_first_run_and_an_unknown_release_are_plain_answers(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", "compare", "1", "--db", store.url]) == 4
    assert "2 numbers: 2 no history" in capsys.readouterr().out
    assert main(["judge", "compare", "1", "--against", "9.9", "--db", store.url]) == 2
    assert not missing_facts(capsys.readouterr().err, "boot", "'9.9'", "11.00, 11.01")


def test_a_comparison_keeps_no_verdicts(store: Store) -> None:
    assert main(["judge", "compare", "3", "--against", "11.0", "--db", store.url]) == 1
    assert read_verdicts(store) == []


def test_numbers_that_the_run_lacks_are_named_before_those_that_did_not_move(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    run = store.begin_run("boot", "am62xx_sk", "b1", "11.02", plan={}, provenance={}).id
    params = {"medium": "emmc"}
    sample = SampleRecord("boot.time", params, 1.5, 0.001)
    store.record_attempt(run, AttemptRecord(1, 1, params, "ok", None, None, "", START, 1.0, (sample,)))
    store.finish_run(run, "completed")
    assert main(["judge", "compare", "latest", "--against", "11.00", "--db", store.url]) == 4
    shown = capsys.readouterr().out
    assert not missing_facts(" ".join(shown.split()), "not measured", "run 2", "boot.time sd")
    assert not missing_facts(shown, "2 numbers", "1 not measured", "1 noise")
