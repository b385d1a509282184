"""Runs of simulated boards that boot in another flow: their numbers are the true ones, and a run is of one flow."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts
from support.simruns import SimBench, bench, planned

from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_SPL, BOOT_TIME
from lab.metrics.model import Metric
from lab.run.boot import firmware_flags
from lab.virtual.sim.faults.base import Fault
from lab.virtual.sim.setup import SimSetup
from lab.virtual.truth_log import Truth


def numbers(made: SimBench, metric: Metric) -> list[tuple[float, float, str]]:
    """Value, ± and flow of a metric's samples."""
    samples = made.store.samples(made.run.run.id, metric=metric.name)
    return [(s.value, s.uncertainty, s.params.get("flow", "normal")) for s in samples]


def spl_ns(truth: Truth) -> int:
    """When the first banner of SPL had come as far as its version."""
    return truth.find(rb"U-Boot SPL 20\d\d\.\d\d")[0]


def test_a_falcon_boot_is_measured_from_its_spl_and_from_power_on(tmp_path: Path) -> None:
    with bench(tmp_path, setup=SimSetup(flow="falcon")) as made:
        assert [told.outcome for told in made.measure()] == ["ok"]
        (boot,) = made.true_boots()
        ((value_s, uncertainty_s, flow),) = numbers(made, BOOT_SPL)
        assert flow == "falcon"
        assert abs(value_s - (boot.prompt_ns - spl_ns(made.truth())) / 1e9) <= uncertainty_s
        ((value_s, uncertainty_s, _),) = numbers(made, BOOT_POWER_ON)
        assert abs(value_s - boot.from_power_on_s) <= uncertainty_s
        assert numbers(made, BOOT_TIME) == []
        assert made.run.pending("sd") == []


def test_an_sbl_boot_has_its_boot_time_and_a_parameter(tmp_path: Path) -> None:
    with bench(tmp_path, setup=SimSetup(flow="sbl")) as made:
        assert [told.outcome for told in made.measure()] == ["ok"]
        ((value_s, uncertainty_s, flow),) = numbers(made, BOOT_TIME)
        assert flow == "sbl"
        assert abs(value_s - made.true_boots()[0].boot_s) <= uncertainty_s
        (sample,) = made.store.samples(made.run.run.id, metric=BOOT_TIME.name)
        assert "flow_unverified" not in sample.flags


@pytest.mark.parametrize(
    ("first", "then"),
    [("falcon", "normal"), *(pytest.param("normal", other, marks=pytest.mark.soak) for other in ("falcon", "sbl"))],
)
def test_a_run_is_of_one_flow(tmp_path: Path, first: str, then: str) -> None:
    with bench(tmp_path, cycles=2, setup=SimSetup(flow=first)) as made:

        def another_bootloader(cycle: int) -> list[Fault]:
            if cycle > 1:
                made.lab.board.setup = evolve(made.lab.board.setup, flow=then)
            return []

        made.lab.board.troubles_for = another_bootloader
        outcomes = [told.outcome for told in made.measure()]
        assert outcomes[0] == "ok"
        assert set(outcomes[1:]) == {"software_changed"}


def test_a_quiet_kernel_is_a_flow_of_its_own(tmp_path: Path) -> None:
    with bench(tmp_path, [planned("quiet_kernel")]) as made:
        assert [told.outcome for told in made.measure()] == ["ok"]
        ((value_s, uncertainty_s, flow),) = numbers(made, BOOT_TIME)
        assert flow == "quiet"
        assert abs(value_s - made.true_boots()[0].boot_s) <= uncertainty_s
        (sample,) = made.store.samples(made.run.run.id, metric=BOOT_TIME.name)
        assert "flow_unverified" not in sample.flags
        (attempt,) = made.store.attempts(made.run.run.id)
        assert attempt.details["flow"] == "quiet"


def test_a_kernel_that_falls_silent_ends_its_run(tmp_path: Path) -> None:
    with bench(tmp_path, [planned("quiet_kernel", cycles="2-9")], cycles=2) as made:
        outcomes = [told.outcome for told in made.measure()]
        assert outcomes[0] == "ok"
        assert set(outcomes[1:]) == {"software_changed"}
        said = made.store.attempts(made.run.run.id)[-1].message
        assert not missing_facts(said, "'quiet' now", "'normal' then")


@pytest.mark.parametrize(
    ("now", "others", "flagged"),
    [
        ("SPL 2", ["SPL 1", "SPL 1"], True),
        ("SPL 1", ["SPX 1", "SPL 1"], False),  # the first boot's line was damaged
        ("SPL 1", ["SPX 1", "SPL 1", "SPL 1"], False),
        ("SPX 1", ["SPL 1"], False),  # which of the two is damaged is open
        (None, ["SPL 1", "SPL 1"], False),  # its line is lost, and says nothing
    ],
)
def test_another_firmware_than_in_two_other_boots_is_flagged(
    now: str | None, others: list[str], *, flagged: bool
) -> None:
    software = {} if now is None else {"spl": now}
    assert bool(firmware_flags(software, [{"spl": other} for other in others])) == flagged
