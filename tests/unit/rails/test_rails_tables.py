"""Tables and pictures of a trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.facts import missing_facts
from support.railbench import RailBench

from lab import boards
from lab.cli.rails import document, draw_stack, guide_lines, phase_lines, stage_lines, watch_lines
from lab.errors import ConfigurationError
from lab.metrics import Moment
from lab.rails import AdcRange, Trace
from lab.rails.live import Now
from lab.rails.phase import cut, stages


@pytest.fixture(scope="module")
def asleep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, int, int]:
    """A suspend cycle of an SK-AM62: its trace, and when it slept."""
    path = tmp_path_factory.mktemp("trace") / "a.trace"
    bench = RailBench("am62xx_sk")
    _, (_, start_ns, end_ns), _ = bench.record(path, AdcRange.SLEEP, ("idle", 4), ("deep_sleep", 16), ("idle", 4))
    return Trace.open(path), start_ns, end_ns


def moment(name: str, t_ns: int, uncertainty_ns: int = 1_000_000) -> Moment:
    return Moment(name=name, t_ns=t_ns, uncertainty_ns=uncertainty_ns, position=0, text=name)


def test_the_table_of_a_sleep_has_the_shape_of_the_guide_and_its_figures(asleep: tuple[Trace, int, int]) -> None:
    trace, *span = asleep
    lines = guide_lines(cut(trace, *span))
    assert lines[0] == '"Rail name","Rail voltage(V)","Power (mW)"'
    cells = [line.strip('"').split('","') for line in lines[1:]]
    published = boards.load("am62xx_sk").releases["11.01"].published.sleep_mw["deep_sleep"]
    assert [(name, volts) for name, volts, _ in cells] == [
        ("vdd_core", "0.85"),
        ("vddr_core", "0.85"),
        ("soc_dvdd_3v3", "3.30"),
        ("soc_dvdd_1v8", "1.80"),
        ("vdda_1v8", "1.80"),
        ("vdd_ddr4", "1.20"),
        ("Total", " "),
    ]
    for name, _, power in cells[:-1]:
        if name == "vddr_core":
            assert power == "n/a"
        else:
            assert float(power) == pytest.approx(published[name], abs=1.1)


def test_a_rail_that_draws_nothing_has_no_minus() -> None:
    lines = watch_lines([Now("vdd_core", -0.0001, -0.000003), Now("vdd_ddr4", 1.2, None, "does not answer")])
    assert [line.split() for line in lines[1:]] == [
        ["vdd_core", "0.000", "0.00"],
        ["vdd_ddr4", "1.200", "-", "does", "not", "answer"],
        ["total", "0.00"],
    ]


def test_the_input_is_not_in_the_total() -> None:
    lines = watch_lines([Now("vin", 5.0, 2.0), Now("core", 0.85, 0.5), Now("io", 3.3, 0.25)], {"vin"})
    assert lines[-1].split() == ["total", "750.00"]


def test_the_printed_total_is_that_of_the_unrounded_rails(asleep: tuple[Trace, int, int]) -> None:
    trace, *span = asleep
    power = cut(trace, *span)
    total = sum(rail.mean_w for rail in power.rails if rail.mean_w is not None)
    assert guide_lines(power)[-1] == f'"Total"," ","{total * 1000:.2f}"'
    assert phase_lines(power)[-1].split()[:2] == ["total", f"{total * 1000:.2f}"]


def test_json_has_every_part_and_where_it_comes_from(asleep: tuple[Trace, int, int]) -> None:
    trace, *span = asleep
    found = document(cut(trace, *span), trace.meta.provenance())
    assert found["rails"][0]["parts"]["resolution_w"] > 0
    assert found["rails"][1]["measured"] is False
    assert not missing_facts(found["provenance"]["sensor_settings"], "ina231", "1024", "shunt 1100 us", "bus 140 us")
    assert found["provenance"]["shunts_mohm"]["vdd_core"] == 2.0


def test_a_boot_has_the_energy_of_each_stage(tmp_path: Path) -> None:
    bench = RailBench("am62xx_lp_sk")
    (_, a, b), (_, _, c) = bench.record(tmp_path / "a.trace", AdcRange.ACTIVE, ("boot", 0.6), ("idle", 0.4))
    trace = Trace.open(tmp_path / "a.trace")
    names = ("spl", "starting_kernel", "login")
    moments = [
        moment("power", a - 10**12),
        *(moment(name, t) for name, t in zip(names, (a + 10**7, b, c - 10**7), strict=True)),
    ]
    boot, idle = stages(trace, moments)
    assert (boot.start, boot.end, idle.end) == names
    assert boot.power.total.energy_j == pytest.approx(sum(bench.watts("boot").values()) * 0.59, rel=0.01)
    assert idle.power.total.energy_j == pytest.approx(sum(bench.watts("idle").values()) * 0.39, rel=0.01)
    assert boot.power.total.parts is not None
    assert boot.power.total.parts.edges_w > 0
    assert stage_lines([boot, idle])[1].split()[:3] == ["spl", "starting_kernel", "0.590"]


def test_the_picture_stacks_every_rail_and_marks_the_moments_in_it(asleep: tuple[Trace, int, int]) -> None:
    trace, start_ns, _ = asleep
    svg = draw_stack(trace, [moment("suspend entry", start_ns), moment("long ago", 0)])
    assert svg.startswith("<svg ")
    for channel in trace.meta.channels:
        assert channel.rail in svg
    assert "suspend entry" in svg
    assert "long ago" not in svg


def test_a_trace_without_samples_is_said_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    RailBench().record(path, AdcRange.SLEEP, ("idle", 0.0))
    with pytest.raises(ConfigurationError, match="no samples"):
        draw_stack(Trace.open(path))
