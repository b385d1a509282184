"""Runs for other programs: JUnit, OpenMetrics, KCIDB."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import kcidb_io
import pytest
from attrs import evolve
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from support import recorded_run
from support.facts import missing_facts

from exporters.openmetrics import openmetrics
from lab.cli import main
from lab.errors import ConfigurationError
from lab.metrics import summarise
from lab.results import AttemptRecord, Store, open_store
from lab.results.exports import junit, kcidb
from lab.results.listing import Overview, overview
from lab.results.records import LIMITS

LOST = {"kernel_panic": "board", "pdu_timeout": "lab", "test": "test"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as opened:
        yield opened


@pytest.fixture
def run(store: Store) -> Overview:
    """A recorded run, and three cycles that nothing saved; with text that XML and JSON do not take."""
    run_id = recorded_run.record(store, virtual=True).id
    with store._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE runs SET status = 'failed'")
    for cycle, (outcome, fault) in enumerate(LOST.items(), start=100):
        store.record_attempt(
            run_id,
            AttemptRecord(
                cycle=cycle,
                number=1,
                params={"medium": "sd"},
                outcome=outcome,
                fault=fault,
                transient=True,
                message="it said \x00\x1b[31m<&>\ufffe",
                started_at=recorded_run.START.replace(microsecond=cycle),
                duration_s=2.5,
            ),
        )
    found = overview(store, run_id)
    limit = {"limits": {"boot.time": [{"of": "mean", "max": 0.001}]}}
    attempts = [evolve(each, details={**each.details, **limit}) if each.ok else each for each in found.attempts]
    return Overview(found.run, attempts, found.measurements)


def test_a_run_that_did_not_complete_is_an_error_of_junit_and_a_miss_of_kcidb(run: Overview) -> None:
    (suite,) = ET.fromstring(junit([run]))
    (error,) = suite.findall("testcase[@name='complete']/error")
    assert not missing_facts(error.get("message", ""), "not complete", "failed")
    (missed,) = [test for test in json.loads(kcidb([run], "lab"))["tests"] if test["path"] == "boardlab.complete.boot"]
    assert missed["status"] == "MISS"
    complete = Overview(evolve(run.run, status="completed", plan={}), run.attempts, run.measurements)
    assert 'name="complete"' not in junit([complete])


def test_junit_has_each_number_and_each_cycle_that_is_lost(run: Overview) -> None:
    (suite,) = ET.fromstring(junit([run]))
    cases = {(case.get("classname"), case.get("name")): case for case in suite.findall("testcase")}
    assert len(cases) == len(run.measurements) + len(LOST) + 1, "and that the run is not complete"
    boot = next(m for m in run.measurements if m.metric.name == "boot.time" and m.params == {"medium": "sd"})
    properties = {each.get("name"): each.get("value") for each in cases["boot.time", "sd"].iter("property")}
    assert float(properties["value"] or "") == summarise(boot.samples).mean
    assert (properties["unit"], properties["flags"]) == ("s", " ".join(sorted(boot.flags)))
    assert len((properties["samples"] or "").split()) == len(boot.samples)
    assert cases["boot.time", "sd"].find("failure").get("type") == "limit"  # type: ignore[union-attr]
    kinds = {
        each.get("type"): each.tag for case in cases.values() for each in case if each.tag in {"failure", "error"}
    }
    assert kinds == {
        "limit": "failure",
        "kernel_panic": "failure",
        "pdu_timeout": "error",
        "test": "error",
        "failed": "error",
    }
    assert (suite.get("errors"), suite.get("tests")) == ("3", str(len(cases)))


def test_openmetrics_has_the_exporters_names_with_run_and_time(store: Store, run: Overview) -> None:
    other = overview(store, recorded_run.record(store, virtual=True).id)
    families = {family.name: family for family in text_string_to_metric_families(openmetrics([run, other]))}
    samples = [s for s in families["boardlab_boot_duration_seconds"].samples if s.labels["medium"] == "sd"]
    assert [s.labels["run"] for s in samples] == [str(run.run.id), str(other.run.id)]
    boot = next(m for m in run.measurements if m.metric.name == "boot.time" and m.params == {"medium": "sd"})
    assert samples[0].value == pytest.approx(summarise(boot.samples).mean)
    assert float(samples[0].timestamp) == pytest.approx(run.run.started_at.timestamp())
    assert "boardlab_boot_duration_uncertainty_seconds" in families


def test_a_limit_on_the_spread_of_one_sample_is_an_error_of_junit(run: Overview) -> None:
    boot = next(m for m in run.measurements if m.metric.name == "boot.time" and m.params == {"medium": "sd"})
    limits = {LIMITS: {boot.metric.name: [{"of": "spread", "max": 0.5}]}}
    attempts = [evolve(attempt, details=limits) for attempt in run.attempts]
    alone = evolve(boot, samples=boot.samples[:1])
    (suite,) = ET.fromstring(junit([Overview(run.run, attempts, [alone])]))
    (error,) = suite.findall("testcase[@classname='boot.time']/error")
    assert not missing_facts(error.get("message", ""), "spread", "marginal")


def test_openmetrics_leaves_out_what_did_not_complete_and_says_so(
    store: Store, run: Overview, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = recorded_run.record(store, virtual=True).id
    assert store.run(whole).status == "completed"
    words = ["results", "export", str(run.run.id), str(whole), "--openmetrics", "--db", store.url]
    assert main(words) == 0
    said = capsys.readouterr()
    assert f'run="{whole}"' in said.out
    assert f'run="{run.run.id}"' not in said.out
    assert not missing_facts(said.err, f"run {run.run.id}", "failed")


def test_kcidb_is_valid_by_its_own_schema_and_keeps_away_from_boot_tests(run: Overview) -> None:
    document = json.loads(kcidb([run], "mylab"))
    kcidb_io.schema.LATEST.validate(document)
    assert all(test["path"].startswith("boardlab.") for test in document["tests"])
    numbers = {test["path"]: test for test in document["tests"] if "number" in test}
    boot = next(m for m in run.measurements if m.metric.name == "boot.time" and m.params == {"medium": "sd"})
    assert numbers["boardlab.boot_time.sd"]["number"] == {
        "value": summarise(boot.samples).mean,
        "unit": "s",
        "prefix": "metric",
    }
    assert {test["status"] for test in numbers.values()} == {"DONE"}
    cycles = [test["misc"] | test for test in document["tests"] if "cycle" in test["misc"]]
    lost = {test["outcome"]: test["status"] for test in cycles}
    assert lost == {"kernel_panic": "FAIL", "pdu_timeout": "MISS", "test": "ERROR"}
    assert len({test["id"] for test in document["tests"]}) == len(document["tests"])


@pytest.mark.parametrize(("origin", "build"), [("My Lab", ""), ("", ""), ("mylab", "other:1"), ("mylab\n", "")])
def test_an_origin_that_kernelci_would_refuse_is_refused(run: Overview, origin: str, build: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--(kcidb|build-id)"):
        kcidb([run], origin, build)


def test_a_run_is_exported_in_one_form_at_a_time(
    store: Store, run: Overview, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["results", "export", str(run.run.id), "--db", store.url]
    for more, begin in (
        (["--junit"], "<?xml"),
        (["--openmetrics"], "# EOF"),
        (["--kcidb", "mylab"], '{\n  "version"'),
    ):
        assert main([*words, *more]) == 0
        assert capsys.readouterr().out.startswith(begin)
    assert main([*words, "--junit", "--csv"]) == 2
    assert "one of them" in capsys.readouterr().err
