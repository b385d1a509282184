"""In partial I/O every rail but those that stay on is near 0 V; the highest of them is the metric."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from support.railbench import RailBench

from lab import boards
from lab.benchmarks.lowpower.modes import CAN, SuspendPlan
from lab.benchmarks.lowpower.power import Off, off
from lab.benchmarks.lowpower.result import rail_samples
from lab.boards import BoardType
from lab.errors import BoardTransientError
from lab.metrics import Flag, by_name
from lab.rails import AdcRange, PhasePower, Trace
from lab.rails.phase import cut
from lab.virtual.sim.faults.power import SensorNack

LP = boards.load("am62xx_lp_sk")
PARTIAL_IO = "partial_io"
PLAN = SuspendPlan(PARTIAL_IO, CAN, 1)


def rails(path: Path, bench: RailBench | None = None) -> PhasePower:
    """A board that goes from idle to partial I/O."""
    bench = bench or RailBench(LP.name)
    *_, (_, start_ns, end_ns) = bench.record(path, AdcRange.ACTIVE, ("idle", 0.3), ("settled", 0.1), (PARTIAL_IO, 0.5))
    return cut(Trace.open(path), start_ns, end_ns)


def with_rail_up(rail: str) -> RailBench:
    """A board of which one rail stays up in partial I/O."""
    bench = RailBench(LP.name)
    bench.rails.load.levels = {**bench.rails.load.levels, PARTIAL_IO: {rail: 0.002}}
    return bench


def with_always_on(rail: str) -> BoardType:
    """The board type, of which one rail stays on by design."""
    return evolve(LP, rails=[evolve(each, always_on=each.name == rail) for each in LP.rails])


def test_the_highest_rail_of_a_good_board_is_near_0_v_within_its_uncertainty(tmp_path: Path) -> None:
    found = off(rails(tmp_path / "a.trace").rails, LP, "partial_io")
    assert found is not None
    assert found.volts <= found.uncertainty_v < LP.low_power.near_0_v
    assert found.flags == set()


def test_a_rail_that_stays_up_is_refused_with_its_name_its_voltage_and_the_mend(tmp_path: Path) -> None:
    power = rails(tmp_path / "a.trace", with_rail_up("vdda_1v8"))
    with pytest.raises(BoardTransientError, match=r"vdda_1v8 1\.[78]\d V.*always_on") as caught:
        off(power.rails, LP, "partial_io")
    assert caught.value.failure == "rails_up"


def test_a_rail_that_stays_on_by_design_does_not_count(tmp_path: Path) -> None:
    found = off(rails(tmp_path / "a.trace", with_rail_up("vdda_1v8")).rails, with_always_on("vdda_1v8"), "partial_io")
    assert found is not None
    assert found.rail != "vdda_1v8"


def test_the_uncertainty_of_a_voltage_holds_the_truth(tmp_path: Path) -> None:
    bench = with_rail_up("vdda_1v8")
    power = rails(tmp_path / "a.trace", bench).rail("vdda_1v8")
    true_v, _ = bench.rails.load.at("vdda_1v8", bench.now_ns - 1000, bench.now_ns)
    assert power.mean_v is not None
    assert power.uncertainty_v is not None
    assert abs(power.mean_v - true_v) <= power.uncertainty_v


def test_a_sensor_that_does_not_answer_now_and_then_flags_the_metric(tmp_path: Path) -> None:
    bench = RailBench(LP.name)
    bench.troubles.append(SensorNack())
    found = off(rails(tmp_path / "a.trace", bench).rails, LP, "partial_io")
    assert found is not None
    assert Flag.POWER_NACK in found.flags


def test_without_a_single_voltage_there_is_no_number(tmp_path: Path) -> None:
    silent = [evolve(rail, mean_v=None) for rail in rails(tmp_path / "a.trace").rails]
    assert off(silent, LP, "partial_io") is None
    assert rail_samples(None, PLAN, frozenset(), (0, 0)) == []


def test_the_number_is_a_metric_in_volt_with_the_kernels_line_as_its_window() -> None:
    found = Off("vdd_core", 0.01, 0.008, frozenset({Flag.POWER_FEW_SAMPLES}))
    (number,) = rail_samples(found, PLAN, frozenset({Flag.SIMULATED}), (100, 180))
    assert (number.metric, by_name(number.metric).unit) == ("lpm.partial_io.rail_voltage", "V")
    assert (number.value, number.uncertainty) == (0.01, 0.008)
    assert number.flags == {Flag.SIMULATED, Flag.POWER_FEW_SAMPLES}
    assert (number.log_start, number.log_end) == (100, 180)
