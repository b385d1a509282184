"""Traces and phases, on samples that a test writes itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import ConfigurationError, LabStableError, TestStableError
from lab.metrics import Flag
from lab.rails import RailConfig, RailsConfig, Trace, TraceMark
from lab.rails.model import Channel, SensorReading
from lab.rails.phase import cut
from lab.rails.trace import DTYPE, RECORD, TraceFile, TraceMeta, pack

MS = 1_000_000
S = 1_000_000_000
RAILS = (
    RailConfig("core", 1.0, 0x40, 10.0),
    RailConfig("io", 3.3, 0x41, 10.0),
    RailConfig("ram", 1.0, shared_with="core"),
)
CHANNELS = tuple(
    Channel(rail.name, rail.volts, rail.shunt_mohm, tolerance=0.01, gain=0.001, bus_lsb_uv=1250, shunt_lsb_nv=2500)
    for rail in RAILS[:2]
)
META = TraceMeta(
    board="board-1",
    rails=RAILS,
    channels=CHANNELS,
    backend="ina226",
    port="/dev/i2c-1",
    settings="average of 4",
    wanted="active",
    period_ns=MS,
    window_ns=0,
    late_ns=0,
    clock="CLOCK_MONOTONIC_RAW",
    scheduling="SCHED_FIFO 10",
)


def shunt_nv(watts: float, volts: float, mohm: float = 10.0) -> int:
    return round(watts / volts * mohm * 1e6)


def written(
    path: Path, core_w: dict[int, float], io_w: float = 0.33, meta: TraceMeta = META, *, end: bool = True
) -> Trace:
    """A trace with these powers of the core at these times in milliseconds; the other rail is constant."""
    writer = TraceFile(path, meta)
    for ms, watts in core_w.items():
        core = SensorReading(0, 1_000_000, shunt_nv(watts, 1.0))
        writer.add(pack(ms * MS, [core, SensorReading(1, 3_300_000, shunt_nv(io_w, 3.3))]))
    if end:
        writer.end(max(core_w) * MS)
    return Trace.open(path)


def test_numpy_alone_reads_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    written(path, {1: 0.5, 2: 0.25})
    with path.open("rb") as file:
        meta = json.loads(file.readline())
        records = np.fromfile(file, np.dtype(DTYPE))
    assert meta["channels"][0]["rail"] == "core"
    assert records["t_ns"].tolist() == [MS, MS, 2 * MS, 2 * MS, 2 * MS]
    assert records["rail"].tolist() == [0, 1, 0, 1, 255]
    core = records[records["rail"] == 0]
    power_w = core["bus_uv"] * 1e-6 * core["shunt_nv"] * 1e-9 / (meta["channels"][0]["shunt_mohm"] * 1e-3)
    assert power_w.tolist() == [0.5, 0.25]


@given(st.integers(0, 17))
def test_a_torn_record_is_not_seen(tmp_path_factory: pytest.TempPathFactory, kept: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "a.trace"
    whole = written(path, {1: 0.5, 2: 0.25}, end=False)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - RECORD.size + kept])
    torn = Trace.open(path)
    assert not torn.ended
    assert (torn.records == whole.records[:-1]).all()


def test_what_is_no_trace_is_refused_with_what_to_do(tmp_path: Path) -> None:
    other = tmp_path / "a.txt"
    other.write_text("hello\n")
    with pytest.raises(ConfigurationError, match=r"version 1, .*b'hello"):
        Trace.open(other)
    with pytest.raises(ConfigurationError, match=r"read: No such file"):
        Trace.open(tmp_path / "nothing")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        TraceFile(tmp_path / "no" / "a.trace", META)


def test_a_full_disk_is_an_error_of_the_lab() -> None:
    with pytest.raises(LabStableError, match=r"/dev/full: .*No space"):
        TraceFile(Path("/dev/full"), META)


def test_energy_is_the_integral_by_trapezoids_and_the_mean_is_weighted_by_time(tmp_path: Path) -> None:
    trace = written(tmp_path / "a.trace", {0: 0.0, 1: 0.1, 2: 0.2, 6: 0.2, 10: 0.2})
    core = cut(trace, 0, 10 * MS).rail("core")
    assert core.energy_j == pytest.approx(0.0002 + 0.2 * 0.008)
    assert core.mean_w == pytest.approx(core.energy_j / 0.010), "a mean of the samples would be 0.14"
    assert (core.min_w, core.max_w) == (0.0, pytest.approx(0.2))
    assert core.samples == 5


def test_a_phase_takes_only_the_samples_whose_window_lies_in_it(tmp_path: Path) -> None:
    slow = evolve(META, window_ns=100 * MS, period_ns=100 * MS)
    levels = {ms: 1.0 if ms <= 500 else 0.5 if ms == 600 else 0.1 for ms in range(100, 1101, 100)}
    trace = written(tmp_path / "a.trace", levels, meta=slow)
    asleep = cut(trace, 560 * MS, 1100 * MS).rail("core")
    assert asleep.samples == 5
    assert asleep.mean_w == pytest.approx(0.1), "the sample that is half awake and half asleep was counted"
    assert cut(trace, 0, 500 * MS).rail("core").mean_w == pytest.approx(1.0)


def test_the_total_is_that_of_the_unrounded_rails_and_a_shared_rail_stays_na(tmp_path: Path) -> None:
    power = cut(written(tmp_path / "a.trace", dict.fromkeys(range(20), 0.25)), 0, 19 * MS)
    assert [rail.rail for rail in power.rails] == ["core", "io", "ram"]
    assert not power.rail("ram").measured
    assert power.rail("ram").mean_w is None
    assert power.total.mean_w == pytest.approx(0.25 + 0.33)
    assert power.total.energy_j == pytest.approx((0.25 + 0.33) * 0.019)
    assert power.total.max_w == pytest.approx(0.58)
    assert power.flags == set()


def test_the_uncertainty_has_its_parts(tmp_path: Path) -> None:
    trace = written(tmp_path / "a.trace", {ms: 0.2 if ms < 50 else 0.8 for ms in range(100)})
    sure = cut(trace, 0, 49 * MS).rail("core")
    assert sure.parts is not None
    assert sure.parts.resolution_w == pytest.approx(2.5e-6 / 0.01)
    assert sure.parts.shunt_w == pytest.approx(0.002, rel=1e-3)
    assert sure.parts.sensor_w == pytest.approx(2 * 0.0002 + 0.0075 * 0.2, rel=1e-3), "two gains, and the bus' offset"
    assert sure.parts.noise_w == pytest.approx(0, abs=1e-12)
    assert sure.parts.edges_w == 0
    unsure = cut(trace, 0, 49 * MS, 0, 5 * MS).rail("core")
    assert unsure.parts is not None
    assert unsure.parts.edges_w == pytest.approx(0.6 * 5 / 49, rel=0.02), "up to 5 ms of the 0.8 W may belong to it"
    assert unsure.energy_uncertainty_j == pytest.approx(0.8 * 0.005, rel=0.02)
    assert unsure.uncertainty_w > sure.uncertainty_w


def test_an_energy_by_itself_takes_all_samples_and_has_its_ends_in_its_uncertainty(tmp_path: Path) -> None:
    trace = written(tmp_path / "a.trace", {ms: 0.2 if ms < 90 else 0.8 for ms in range(100)})
    sure = cut(trace, 0, 99 * MS).rail("core")
    unsure = cut(trace, 0, 99 * MS, 0, 10 * MS, whole=True).rail("core")
    assert (unsure.energy_j, unsure.samples) == (sure.energy_j, sure.samples)
    assert sure.energy_uncertainty_j is not None
    assert unsure.energy_uncertainty_j == pytest.approx((sure.energy_uncertainty_j**2 + 0.008**2) ** 0.5, rel=0.02)


def test_a_mean_of_few_samples_is_as_unsure_as_so_few_make_it(tmp_path: Path) -> None:
    """A short sleep has four: their spread says less of the noise than that of many does."""
    for count, factor in ((4, 3.182446), (100, 1.984217)):  # Student's t for 3 and 99 degrees of freedom
        levels = {ms: 0.1 if ms % 2 else 0.2 for ms in range(count)}
        found = cut(written(tmp_path / f"{count}.trace", levels), 0, (count - 1) * MS).rail("core")
        assert found.parts is not None
        assert found.samples == count
        spread_w = 0.05 * (count / (count - 1)) ** 0.5
        assert found.parts.noise_w == pytest.approx(factor * spread_w / count**0.5, rel=1e-3)


def test_the_offset_of_a_sensor_is_subtracted(tmp_path: Path) -> None:
    channels = (evolve(CHANNELS[0], offset_nv=10_000), CHANNELS[1])
    trace = written(tmp_path / "a.trace", dict.fromkeys(range(10), 0.2), meta=evolve(META, channels=channels))
    assert cut(trace, 0, 9 * MS).rail("core").mean_w == pytest.approx(0.2 - 0.001)


def flags_of(
    path: Path, readings: dict[int, SensorReading], start_ms: int = 0, end_ms: int = 99, **meta: object
) -> set[Flag]:
    writer = TraceFile(path, evolve(META, **meta))
    for ms, reading in readings.items():
        writer.add(pack(ms * MS, [reading]))
    writer.end(0)
    return set(cut(Trace.open(path), start_ms * MS, end_ms * MS).rail("core").flags)


GOOD = {ms: SensorReading(0, 1_000_000, shunt_nv(0.2, 1.0) + 2500 * (ms % 3)) for ms in range(100)}
NOISY = (evolve(CHANNELS[0], noise_nv=2500), CHANNELS[1])


@pytest.mark.parametrize(
    ("changed", "flag"),
    [
        ({}, None),
        ({ms: SensorReading(0, 0, 0, TraceMark.NACK) for ms in (50,)}, Flag.POWER_NACK),
        ({ms: SensorReading(0, 0, 0, TraceMark.STALE) for ms in (50,)}, Flag.POWER_STUCK),
        ({50: GOOD[50]._replace(mark=TraceMark.RESET)}, Flag.SENSOR_RESET),
        ({50: GOOD[50]._replace(mark=TraceMark.SATURATED)}, Flag.POWER_IMPLAUSIBLE),
        ({ms: GOOD[ms]._replace(bus_uv=1_800_000) for ms in range(100)}, Flag.POWER_IMPLAUSIBLE),
        ({ms: GOOD[ms]._replace(shunt_nv=-GOOD[ms].shunt_nv) for ms in range(100)}, Flag.POWER_IMPLAUSIBLE),
        (dict.fromkeys(range(100), GOOD[0]), Flag.POWER_STUCK),
    ],
)
def test_what_is_doubtful_is_flagged(tmp_path: Path, changed: dict[int, SensorReading], flag: Flag | None) -> None:
    found = flags_of(tmp_path / "a.trace", {**GOOD, **changed}, channels=NOISY)
    assert found >= ({flag} if flag else set())
    assert not found - {flag, Flag.POWER_GAP}


def test_a_board_that_is_off_is_plausible(tmp_path: Path) -> None:
    off = {ms: SensorReading(0, 0, 2500 * (ms % 3 - 1)) for ms in range(100)}
    assert flags_of(tmp_path / "a.trace", off, channels=NOISY) == set()


def test_missing_samples_are_a_gap(tmp_path: Path) -> None:
    some = {ms: reading for ms, reading in GOOD.items() if not 40 <= ms < 45}
    assert flags_of(tmp_path / "a.trace", some) == {Flag.POWER_GAP}
    late = {ms: reading for ms, reading in GOOD.items() if ms < 60}
    assert flags_of(tmp_path / "b.trace", late) == {Flag.POWER_GAP}, "the sampler was gone for the rest of the phase"


def test_a_phase_without_samples_has_no_value_and_neither_has_the_total(tmp_path: Path) -> None:
    trace = written(tmp_path / "a.trace", dict.fromkeys(range(10), 0.2))
    power = cut(trace, 1 * S, 2 * S)
    assert power.rail("core").mean_w is None
    assert power.total.mean_w is None
    assert Flag.POWER_FEW_SAMPLES in power.rail("core").flags
    with pytest.raises(TestStableError, match="has no length"):
        cut(trace, 5, 5)


def test_a_sensor_that_says_the_same_while_the_board_goes_to_sleep_is_stuck(tmp_path: Path) -> None:
    writer = TraceFile(tmp_path / "a.trace", META)
    for ms in range(20):
        watts = 0.9 if ms < 10 else 0.01
        readings = [SensorReading(0, 1_000_000, 200_000), SensorReading(1, 3_300_000, shunt_nv(watts, 3.3) + ms)]
        writer.add(pack(ms * MS, readings))
    writer.end(0)
    power = cut(Trace.open(tmp_path / "a.trace"), 10 * MS, 19 * MS)
    assert Flag.POWER_STUCK in power.rail("core").flags
    assert Flag.POWER_STUCK not in power.rail("io").flags


def test_a_configuration_survives_the_way_to_the_sampler() -> None:
    config = RailsConfig("board-1", "ina226", "/dev/i2c-1", RAILS)
    assert RailsConfig.loads(config.dumps()) == config
