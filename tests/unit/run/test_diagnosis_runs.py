"""Diagnostic boots of a simulated board: what they find, and that they stay outside the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from support.simruns import SimBench, bench, planned

from lab.benchmarks.diagnosis.parts import INITCALLS, UNITS, PartChange, changes
from lab.results import Run
from lab.run import diagnosisrun
from lab.run.diagnosisrun import DiagnosisRun, where
from lab.run.progress import Progress
from lab.virtual.sim.faults import catalogue

CYCLES = 3


def diagnosed(made: SimBench) -> Run:
    """Measure a run and diagnose it."""
    made.measure()
    its = diagnosisrun.begin(made.store, made.run.run)
    progress = Progress(lambda _line: None, made.run.clock, CYCLES)
    run = DiagnosisRun(made.store, its, made.strategy, progress, made.run.clock, made.strategy.sleep, 0)
    run.measure("sd")
    run.finish()
    return made.store.run(its.id)


def found(tmp_path: Path, name: str, faults: Sequence[catalogue.Planned] = (), seed: int = 1) -> diagnosisrun.BootWhere:
    (tmp_path / name).mkdir()
    with bench(tmp_path / name, faults, cycles=1, seed=seed) as made:
        diagnosed(made)
        (only,) = where(made.store, made.run.run.id)
    return only


def test_diagnostic_boots_are_a_run_of_their_own_with_parts_and_their_cost(tmp_path: Path) -> None:
    with bench(tmp_path, [planned("bootstage", "all")], cycles=1) as made:
        run = diagnosed(made)
        assert (run.kind, run.status) == ("diagnosis", "completed")
        assert made.store.measurements(run.id) == []
        assert [each.ok for each in made.store.attempts(run.id)] == [True] * 3
        (only,) = where(made.store, made.run.run.id)
        kinds = {kind for attempt in made.store.attempts(run.id) for kind in (ref.kind for ref in attempt.artifacts)}
    print(only)
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
    assert kinds >= {"console-log", "file:dmesg.txt", "file:plot.svg", "file:systemd-analyze.txt"}


def differences(tmp_path: Path, fault: str, seed: int) -> list[PartChange]:
    before = found(tmp_path, "before", seed=seed)
    now = found(tmp_path, "now", [planned(fault, "all", ms=50.0)], seed=seed + 100)
    return changes(before.parts, now.parts)


def test_the_initcall_that_is_slower_is_named_alone(tmp_path: Path) -> None:
    (change,) = differences(tmp_path, "slow_initcall", 1)
    assert (change.section, change.name) == (INITCALLS, "sdhci_am654_driver_init")
    assert abs(change.difference_s - 0.05) < max(0.002, change.uncertainty_s)


def test_the_unit_that_is_slower_is_named_alone(tmp_path: Path) -> None:
    (change,) = differences(tmp_path, "slow_unit", 1)
    assert (change.section, change.name) == (UNITS, "systemd-networkd.service")
    assert abs(change.difference_s - 0.05) < max(0.01, change.uncertainty_s)


def test_a_board_without_bootstage_says_so(tmp_path: Path) -> None:
    assert "U-Boot has no bootstage" in found(tmp_path, "plain").problems[0]
