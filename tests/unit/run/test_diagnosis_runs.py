"""Diagnostic boots of a simulated board: what they find, and that they stay outside the numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts
from support.recorded_run import START
from support.simruns import SimBench, bench, planned

from lab.benchmarks.diagnosis.parts import INITCALLS, UNITS, BootPart, PartChange, changes
from lab.cli import main
from lab.errors import ConfigurationError
from lab.judge.boot_breakdown import BootBreakdown, difference_lines, explain, read_breakdowns
from lab.results import AttemptRecord, Run
from lab.results.records import DIAGNOSIS
from lab.run import diagnosis
from lab.run.board import check_complete
from lab.run.diagnosis import BootDiagnosis, DiagnosisRun
from lab.run.progress import Progress
from lab.virtual.sim.faults import catalogue

CYCLES = 3


def diagnosed(made: SimBench) -> Run:
    """Measure a run and diagnose it."""
    made.measure()
    its = diagnosis.begin(made.store, made.run.run)
    progress = Progress(lambda _line: None, made.run.clock, CYCLES)
    run = DiagnosisRun(made.store, its, made.strategy, progress, made.run.clock, made.strategy.sleep, 0)
    run.measure("sd")
    run.finish()
    return made.store.run(its.id)


def found(tmp_path: Path, name: str, faults: Sequence[catalogue.Planned] = (), seed: int = 1) -> BootBreakdown:
    (tmp_path / name).mkdir()
    with bench(tmp_path / name, faults, cycles=1, seed=seed) as made:
        diagnosed(made)
        (only,) = read_breakdowns(made.store, made.run.run.id)
    return only


def test_diagnostic_boots_are_a_run_of_their_own_with_parts_and_their_cost(tmp_path: Path) -> None:
    with bench(tmp_path, [planned("bootstage", "all")], cycles=1) as made:
        run = diagnosed(made)
        assert (run.kind, run.status) == ("diagnosis", "completed")
        assert made.store.measurements(run.id) == []
        assert [each.ok for each in made.store.attempts(run.id)] == [True] * 3
        (only,) = read_breakdowns(made.store, made.run.run.id)
        kinds = {kind for attempt in made.store.attempts(run.id) for kind in (ref.kind for ref in attempt.artifacts)}
    names = {(part.section, part.name) for part in only.parts}
    assert names >= {
        (INITCALLS, "sdhci_am654_driver_init"),
        (INITCALLS, "probe fa10000.mmc"),
        (UNITS, "systemd-networkd.service"),
        ("bootstage", "board_init_r"),
        ("stages", "Kernel load"),
    }
    assert only.boots == 3
    assert only.cost_s is not None
    assert only.getty_s is not None
    assert 0.9 < only.getty_s < 1.3
    assert only.problems == ()
    assert only.tree is not None
    places = [path[1:] for path, _ in only.tree.all()]
    assert ("User space", "systemd-resolved.service (in parallel)") in places
    assert ("User space", "systemd-networkd.service") in places
    assert kinds >= {"console-log", "file:dmesg.txt", "file:plot.svg", "file:systemd-analyze.txt"}


def test_a_medium_whose_parts_vary_is_booted_more_often(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=1) as made:
        its = diagnosis.begin(made.store, made.run.run)

        def pending() -> list[int]:  # of a session that goes on with the run
            clock = made.run.clock
            progress = Progress(print, clock, 3)
            return DiagnosisRun(made.store, its, made.strategy, progress, clock, made.strategy.sleep, 0).pending("sd")

        for cycle, factor in enumerate((1.0, 2.0, 0.5), 1):
            assert pending() == list(range(cycle, 4))
            parts = [BootPart(INITCALLS, f"part_{number}", 0.0, 0.01, 0.01 * factor) for number in range(9)]
            document = BootDiagnosis(4.0, tuple(parts)).document()
            made.store.record_attempt(
                its.id,
                AttemptRecord(
                    cycle, 1, {"medium": "sd"}, "ok", None, None, "", START, 9.0, details={DIAGNOSIS: document}
                ),
            )
        assert pending() == [4, 5, 6, 7, 8, 9]


def differences(tmp_path: Path, fault: str, seed: int) -> list[PartChange]:
    before = found(tmp_path, "before", seed=seed)
    now = found(tmp_path, "now", [planned(fault, "all", ms=50.0)], seed=seed + 100)
    return changes(before.parts, now.parts)


def test_the_unit_that_is_slower_is_named_alone(tmp_path: Path) -> None:
    (change,) = differences(tmp_path, "slow_unit", 1)
    assert (change.section, change.name) == (UNITS, "systemd-networkd.service")
    assert abs(change.difference_s - 0.05) < max(0.01, change.uncertainty_s)


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["slow_initcall", "slow_unit"])
def test_the_slower_part_is_named_alone_in_19_of_20(tmp_path: Path, fault: str) -> None:
    alone = 0
    for seed in range(20):
        (tmp_path / str(seed)).mkdir()
        found = [each.name for each in differences(tmp_path / str(seed), fault, seed)]
        alone += found in (["sdhci_am654_driver_init"], ["systemd-networkd.service"])
    assert alone >= 19


def test_a_board_without_bootstage_says_so(tmp_path: Path) -> None:
    assert "U-Boot has no bootstage" in found(tmp_path, "plain").problems[0]


def test_a_run_is_shown_with_its_parts_and_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with bench(tmp_path, [planned("slow_initcall", "5-8", ms=50.0)], cycles=1) as made:
        diagnosed(made)
        first = made.run.run
        later = made.store.begin_run(
            "boot", first.board_type, first.board, "11.02", plan=first.plan, provenance=first.provenance
        )
        diagnosed(evolve(made, run=evolve(made.run, run=later)))
        second = later.id
        assert [line.partition(", was")[0] for line in explain(made.store, second, second, {"sd"})] == [
            f"sd: {line.partition(', was')[0]}"
            for line in difference_lines(*(read_breakdowns(made.store, run)[0] for run in (first.id, second)))
        ]
        assert explain(made.store, second, second, {"emmc"}) == explain(made.store, first.id, first.id, {"sd"}) == []
    db = str(tmp_path / "results.db")
    assert main(["results", "where", str(second), str(first.id), "--db", db]) == 0
    text = capsys.readouterr().out
    assert re.search(r"against run 1.*\n +\+\d\d\.\d ms ± \d\.\d ms: sdhci_am654_driver_init, was \d+\.\d ms\n", text)
    assert not missing_facts(text, "note", "diagnostic boot")
    page = tmp_path / "page.html"
    assert main(["report", str(second), "--against", str(first.id), "-o", str(page), "--db", db]) == 0
    html = page.read_text(encoding="utf-8")
    assert "Where the time goes" in html
    assert re.search(r"<li>\+\d\d\.\d ms ± \d\.\d ms: sdhci_am654_driver_init", html)
    capsys.readouterr()
    assert main(["results", "where", str(second), str(first.id), "--json", "--db", db]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert [change["name"] for change in document["changes"]] == ["sdhci_am654_driver_init"]


def test_a_run_without_diagnostic_boots_says_how_to_get_them(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=1) as made:
        made.measure()
        with pytest.raises(ConfigurationError, match="--where"):
            read_breakdowns(made.store, made.run.run.id)


def test_an_older_copy_of_the_strategy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench(tmp_path, cycles=1) as made:
        check_complete(made.strategy)
        monkeypatch.setattr(type(made.strategy), "boot", lambda _strategy, init="": init)
        monkeypatch.delattr(type(made.strategy), "wired")
        with pytest.raises(ConfigurationError, match=r"older than .*boot\(argu"):
            check_complete(made.strategy)
