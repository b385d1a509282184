"""What is measured is what the board drew: the product's sensor, trace and phases on emulated INA231s with a known load."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.railbench import RailBench, resolution_w

from lab.metrics import Flag
from lab.rails import AdcRange, Trace
from lab.rails.phase import FEWEST, cut

TYPES = ("am62xx_sk", "am62xx_lp_sk", "qemu-virt")


@pytest.mark.parametrize("board_type", TYPES)
@pytest.mark.parametrize("state", ["deep_sleep", "mcu_only"])
def test_the_mean_power_of_a_sleeping_board_is_true_within_a_step_or_one_percent(
    tmp_path: Path, board_type: str, state: str
) -> None:
    bench = RailBench(board_type)
    _, phase, _ = bench.record(tmp_path / "a.trace", AdcRange.SLEEP, ("idle", 5), (state, 20), ("idle", 5))
    power = cut(Trace.open(tmp_path / "a.trace"), *phase[1:])
    for rail, watts in bench.watts(state).items():
        found = power.rail(rail)
        assert found.mean_w is not None
        assert found.uncertainty_w is not None
        error_w = abs(found.mean_w - watts)
        assert error_w <= max(resolution_w(bench.config, rail), 0.01 * watts)
        assert error_w <= found.uncertainty_w
        assert found.samples >= FEWEST
        assert found.flags == set()
    assert power.total.mean_w == pytest.approx(sum(bench.watts(state).values()), rel=0.05)


@pytest.mark.parametrize("board_type", TYPES)
def test_the_energy_of_a_suspend_cycle_is_true_within_one_percent(tmp_path: Path, board_type: str) -> None:
    bench = RailBench(board_type)
    states = (("idle", 0.3), ("busy", 0.2), ("mcu_only", 0.6), ("busy", 0.12), ("idle", 0.2))
    phases = bench.record(tmp_path / "a.trace", AdcRange.ACTIVE, *states)
    start_ns, end_ns = phases[0][1], phases[-1][2]
    power = cut(Trace.open(tmp_path / "a.trace"), start_ns, end_ns)
    for rail in bench.watts("idle"):
        true_j = sum(bench.watts(state)[rail] * seconds for state, seconds in states)
        found = power.rail(rail)
        assert found.energy_j == pytest.approx(true_j, rel=0.01)
        assert found.mean_w == pytest.approx(found.energy_j / ((end_ns - start_ns) / 1e9))
    true_j = sum(sum(bench.watts(state).values()) * seconds for state, seconds in states)
    assert power.total.energy_j == pytest.approx(true_j, rel=0.01)
    assert Flag.POWER_GAP not in power.flags


def test_a_running_board_is_sampled_about_a_thousand_times_a_second_and_none_is_lost_or_doubled(
    tmp_path: Path,
) -> None:
    bench = RailBench()
    bench.record(tmp_path / "a.trace", AdcRange.ACTIVE, ("idle", 0.5))
    trace = Trace.open(tmp_path / "a.trace")
    assert 800 < 1e9 / trace.meta.period_ns < 1100
    for number, _ in enumerate(trace.meta.channels):
        count = int((trace.records["rail"] == number).sum())
        assert abs(count - 500_000_000 // trace.meta.period_ns) <= 1


def test_a_sleeping_board_is_averaged_over_1024_long_conversions() -> None:
    bench = RailBench()
    path = Path("/dev/null")
    bench.record(path, AdcRange.SLEEP, ("idle", 0.0))
    assert bench.rails.chip_at(0x40) is not None
    assert bench.rails.chip_at(0x40).chip.period_ns == 1024 * (1100 + 140) * 1000


def test_a_rail_that_shares_a_supply_stays_na_and_the_total_is_that_of_the_others(tmp_path: Path) -> None:
    bench = RailBench("am62xx_sk")
    ((_, start_ns, end_ns),) = bench.record(tmp_path / "a.trace", AdcRange.ACTIVE, ("idle", 0.5))
    power = cut(Trace.open(tmp_path / "a.trace"), start_ns, end_ns)
    assert power.rail("vddr_core").mean_w is None
    assert not power.rail("vddr_core").measured
    assert power.total.mean_w == pytest.approx(sum(rail.mean_w for rail in power.rails if rail.mean_w is not None))
