"""Guides in the store: a run for each board, with the file as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts
from support.guide_family import mini, table
from support.guide_library import NOW, SK, put

from lab.cli import main
from lab.errors import ConfigurationError, TestStableError
from lab.guide.check import importer
from lab.metrics import by_name
from lab.results import Store
from lab.results.records import SampleRecord
from lab.results.store import open_store


def test_a_guide_becomes_a_run_for_each_board_with_the_file_as_evidence(
    library: Store, paths: Mapping[str, Path]
) -> None:
    runs = {run.board: run for run in library.runs() if run.release == "11.01"}
    assert runs.keys() == {"am62xx_lp_sk-fs", SK, "am62xxsip_sk-fs"}
    run = runs[SK]
    assert (run.kind, run.board_type, run.board, run.release, run.status) == (
        "published",
        "am62xx_sk",
        SK,
        "11.01",
        "completed",
    )
    assert not missing_facts(run.provenance["title"], "Linux 11.01")
    assert run.provenance["module"]["name"] == "AM62x SK"
    (attempt,) = library.attempts(run.id)
    file = attempt.artifact("guide")
    assert file
    assert library.artifacts.read(file.sha256) == paths["am62x-11.01.rst"].read_bytes()


def test_samples_are_recovered_values_and_broken_runs_are_none(library: Store) -> None:
    (run_id,) = [run.id for run in library.runs() if (run.release, run.board) == ("11.01", SK)]
    samples = {(s.metric, tuple(sorted(s.params.items()))): s for s in library.samples(run_id)}
    assert samples["lmbench.bw_mem", (("operation", "rd"), ("size", "1mb"))].value == 1303.54
    boot = samples["boot.time", (("medium", "sd"),)]
    assert (boot.value, boot.uncertainty) == (16.24, pytest.approx(0.23))
    assert not any(s.metric.startswith("ipsec.") for s in samples.values())
    assert samples["power.total", (("mode", "deepsleep"), ("rail", "total"))].value == 24.37
    assert all(s.unit == by_name(s.metric).unit for s in samples.values())


def test_the_same_file_is_imported_once(store: Store, small: Path) -> None:
    first = put(store, small, "6.3")
    again = put(store, small, "6.3")
    assert [(one.run_id, one.samples, one.is_new) for one in again] == [(first[0].run_id, 0, False)]
    assert len(store.runs()) == 1
    assert put(store, small, "6.4")[0].is_new


def test_all_boards_of_a_guide_are_stored_or_none(store: Store, paths: Mapping[str, Path]) -> None:
    guide = importer.prepare(paths["am62x-11.01.rst"], "11.01", None, None, NOW)
    *others, last = guide.boards
    (attempt,) = last.run.attempts
    bad = evolve(attempt, samples=(*attempt.samples, SampleRecord("no.metric", {}, 1.0, 0.1)))
    broken = evolve(guide, boards=(*others, evolve(last, run=evolve(last.run, attempts=(bad,)))))
    with pytest.raises(TestStableError, match=r"no metric 'no\.metric'"):
        importer.Importer(store).add(broken)
    assert store.runs() == []
    assert [one.is_new for one in importer.Importer(store).add(guide)] == [True, True, True]
    assert {run.status for run in store.runs()} == {"completed"}


def test_tables_without_a_board_need_to_be_given_one(store: Store, paths: Mapping[str, Path], tmp_path: Path) -> None:
    two = table("Benchmark,a1-fs: Score,b2-fs: Score", "Glmark2-DRM,1.00,2.00", title="Glmark2")
    power = table(
        "Rail name,Rail voltage(V),Power (mW)",
        "vdd_core,0.85,8.53",
        "Total,,8.53",
        title="Deep Sleep Power Performance",
    )
    path = tmp_path / "two.rst"
    path.write_text(mini(two, power))
    assert [(one.board, one.samples, one.cells_without_board) for one in put(store, path, "11.01")] == [
        ("a1-fs", 1, 2),
        ("b2-fs", 1, 2),
    ]
    path = tmp_path / "power.rst"
    path.write_text(
        mini(table("Rail name,Rail voltage(V),Power (mW)", "vdd_core,0.85,8.53", title="Deep Sleep Power Performance"))
    )
    with pytest.raises(ConfigurationError, match=r"no table.*names a board"):
        put(store, path, "11.02")
    assert [(one.board, one.samples) for one in put(store, path, "11.02", SK)] == [(SK, 1)]


def test_a_board_that_the_guide_says_nothing_of_is_refused(store: Store, small: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'a1-fs'; .*am62xx_sk-fs"):
        put(store, small, "11.01", "a1-fs")
    assert store.runs() == []


def test_a_board_without_a_number_of_a_metric_is_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = table("Benchmark,a1-fs: Score", "Glmark2-DRM,1.00", title="Glmark2")
    others = table("Fruit,STM32MP157F-DK2", "Pears,3.00", title="Prices")
    path = tmp_path / "mixed.rst"
    path.write_text(mini(scores, others))
    database = str(tmp_path / "results.db")
    assert main(["guide", "import", str(path), "--release", "11.01", "--db", database]) == 0
    assert not missing_facts(capsys.readouterr().err, "STM32MP157F-DK2", "left out")
    with open_store(database) as store:
        assert [run.board for run in store.runs()] == ["a1-fs"]
