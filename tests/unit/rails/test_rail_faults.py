"""Every fault of a rail's sensor shows as the flags that its documentation names, and on no other rail."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from railbench import RailBench
from simruns import planned

from lab.metrics import Flag
from lab.rails import PhasePower, Range, Trace
from lab.rails.phase import cut
from virtual.sim.faults.catalogue import FAULTS

RAILS = [name for name, kind in FAULTS.items() if kind.outcome.trial == "rails"]
IDLE_S = 0.7


def measured(path: Path, fault: str = "", board_type: str = "am62xx_lp_sk") -> PhasePower:
    """A board that boots and idles; the fault sets in with the boot, when the sampler already runs."""
    bench = RailBench(board_type)
    sensed = bench.recorder(path, Range.ACTIVE)
    bench.play(sensed, ("off", 0.2))
    bench.troubles += [planned(fault).fault(1)] if fault else []
    phases = bench.play(sensed, ("boot", 0.2), ("idle", IDLE_S))
    sensed.close()
    return cut(Trace.open(path), phases[0][1], phases[-1][2])


def test_a_healthy_board_has_no_flag(tmp_path: Path) -> None:
    power = measured(tmp_path / "a.trace")
    assert power.flags == set()


@pytest.mark.parametrize("name", RAILS)
def test_a_fault_shows_as_the_flags_that_are_documented_and_on_its_rails_only(tmp_path: Path, name: str) -> None:
    fault = planned(name).fault(1)
    struck = {getattr(fault, "rail", ""), getattr(fault, "other", "")}
    power = measured(tmp_path / "a.trace", name)
    documented = {Flag(flag) for flag in FAULTS[name].outcome.flags}
    for rail in power.rails:
        if rail.rail in struck:
            assert documented >= rail.flags
            assert Flag(FAULTS[name].outcome.flags[0]) in rail.flags
        else:
            assert rail.flags == set()
    assert power.total.flags == power.flags


def test_a_sensor_that_was_reset_measures_as_before_a_second_later(tmp_path: Path) -> None:
    bench = RailBench()
    sensed = bench.recorder(tmp_path / "a.trace", Range.ACTIVE)
    bench.play(sensed, ("idle", 0.5))
    bench.troubles.append(planned("sensor_reset").fault(1))
    bench.play(sensed, ("idle", 0.8))
    ((_, start_ns, end_ns),) = bench.play(sensed, ("idle", 0.5))
    sensed.close()
    power = cut(Trace.open(tmp_path / "a.trace"), start_ns, end_ns)
    assert power.flags == set()
    assert power.rail("vdd_core").mean_w == pytest.approx(bench.watts("idle")["vdd_core"], rel=0.01)


def test_a_sleep_with_a_dead_sensor_keeps_the_other_rails(tmp_path: Path) -> None:
    bench = RailBench()
    sensed = bench.recorder(tmp_path / "a.trace", Range.SLEEP)
    bench.troubles.append(planned("sensor_nack", share=1.0).fault(1))
    _, (_, start_ns, end_ns) = bench.play(sensed, ("idle", 2.0), ("deep_sleep", 15.0))
    sensed.close()
    power = cut(Trace.open(tmp_path / "a.trace"), start_ns, end_ns)
    assert power.rail("vdd_core").mean_w is None
    assert Flag.POWER_NACK in power.rail("vdd_core").flags
    assert power.total.mean_w is None, "a total without a rail would be too small"
    assert power.rail("vdda_1v8").mean_w is not None


def test_a_wrong_shunt_without_a_limit_is_not_noticed_and_the_number_is_wrong_by_its_factor(tmp_path: Path) -> None:
    bench = RailBench()
    bench.config = evolve(bench.config, rails=tuple(evolve(rail, max_w=0.0) for rail in bench.config.rails))
    bench.troubles.append(planned("wrong_shunt", factor=2.0).fault(1))
    ((_, start_ns, end_ns),) = bench.record(tmp_path / "a.trace", Range.ACTIVE, ("idle", 1.0))
    found = cut(Trace.open(tmp_path / "a.trace"), start_ns, end_ns).rail("vdd_core")
    assert found.flags == set()
    assert found.mean_w == pytest.approx(2 * bench.watts("idle")["vdd_core"], rel=0.01)
