"""Samples that cannot be true are flagged by what else is known of a rail; healthy ones, however quiet, are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from attrs import evolve
from support.railbench import MS, RailBench
from support.simruns import planned

from lab.errors import ConfigurationError
from lab.metrics import Flag
from lab.rails import AdcRange, PhasePower, RailConfig, RailsConfig, Trace
from lab.rails.hwmon import HwmonSensor
from lab.rails.i2c import Register
from lab.rails.ina import InaSensor
from lab.rails.ina_chips import BUS, CHIPS, CONFIG, POWER, SHUNT
from lab.rails.model import Channel, SensorReading
from lab.rails.phase import check_awake, check_sleep, cut
from lab.rails.trace import TraceFile, TraceMeta, pack
from lab.virtual.rails import levels as loads

TYPES = ["am62xx_lp_sk", "am62xx_sk", "am654x-evm", "am43xx-gpevm", "qemu-virt"]
DRAWN = Random(34)


def drawn(count: int, *choices: Callable[[], object]) -> list[tuple[object, ...]]:
    return [tuple(choice() for choice in choices) for _ in range(count)]


def any_type() -> str:
    return DRAWN.choice(TYPES)


def any_range() -> AdcRange:
    return DRAWN.choice([AdcRange.ACTIVE, AdcRange.SLEEP])


def any_seed() -> int:
    return DRAWN.randrange(1000)


def recorded(
    path: Path, board: str, wanted: AdcRange, seed: int, fault: str = "", before: str = "boot", **parameters: object
) -> PhasePower:
    """A board that boots and idles; the fault sets in somewhere in between. The power while it idles."""
    bench = RailBench(board, seed)
    recorder = bench.recorder(path, wanted)
    seconds = 1.0 if wanted is AdcRange.ACTIVE else 20.0
    bench.play(recorder, ("off", 0.3), (before, Random(seed).uniform(0.1, 0.4)))
    ((_, start_ns, _),) = bench.play(recorder, ("idle", Random(seed).uniform(0.0, 0.5)))
    if fault:
        bench.troubles.append(planned(fault, **parameters).fault(1))
    ((_, _, end_ns),) = bench.play(recorder, ("idle", seconds))
    recorder.close()
    return cut(Trace.open(path), start_ns, end_ns)


@pytest.mark.parametrize(
    ("board", "wanted", "seed", "jitter"), drawn(8, any_type, any_range, any_seed, lambda: DRAWN.randrange(3))
)
def test_a_bus_that_repeats_its_last_answers_is_stuck(
    tmp_path: Path, board: str, wanted: AdcRange, seed: int, jitter: int
) -> None:
    """Its chips have no sample ready so often, whichever steps the answers jitter by."""
    power = recorded(tmp_path / "a.trace", board, wanted, seed, "bus_frozen", jitter=jitter)
    assert all(Flag.POWER_STUCK in rail.flags for rail in power.rails if rail.measured)
    assert Flag.POWER_STUCK in power.total.flags


@pytest.mark.parametrize(("board", "seed"), drawn(6, any_type, any_seed))
def test_a_current_without_a_voltage_is_implausible(tmp_path: Path, board: str, seed: int) -> None:
    rail = Random(seed).choice(RailBench(board).rails.wired).rail
    power = recorded(tmp_path / "a.trace", board, AdcRange.ACTIVE, seed, "no_bus_voltage", rail=rail)
    assert {each.rail for each in power.rails if each.flags} == {rail}
    assert power.rail(rail).flags == {Flag.POWER_IMPLAUSIBLE}


@pytest.mark.parametrize(("board", "wanted", "seed"), drawn(10, any_type, any_range, any_seed))
def test_a_healthy_board_has_no_flag(tmp_path: Path, board: str, wanted: AdcRange, seed: int) -> None:
    assert recorded(tmp_path / "a.trace", board, wanted, seed).flags == set()


@pytest.mark.parametrize(("board", "wanted", "seed"), drawn(6, any_type, any_range, any_seed))
def test_a_board_whose_load_never_moves_has_no_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board: str, wanted: AdcRange, seed: int
) -> None:
    monkeypatch.setattr(loads, "RIPPLE", 0.0)
    assert recorded(tmp_path / "a.trace", board, wanted, seed, before="idle").flags == set()


@pytest.mark.parametrize(("board", "seed"), drawn(4, any_type, any_seed))
def test_a_slow_sample_in_which_the_board_was_switched_has_no_flag(tmp_path: Path, board: str, seed: int) -> None:
    bench = RailBench(board, seed)
    off_s = Random(seed).uniform(5, 7)
    first, *_, last = bench.record(tmp_path / "a.trace", AdcRange.SLEEP, ("off", off_s), ("boot", 9.0), ("off", off_s))
    assert cut(Trace.open(tmp_path / "a.trace"), first[1], last[2]).flags == set()


# --- Traces of sensors whose ready flag is honest ---


def a_trace(path: Path, codes: dict[str, list[int]], volts: dict[str, float], noise_lsb: float = 1.0) -> Trace:
    """Samples of a millisecond by rail, in steps of 2.5 µV on 10 mOhm, and each rail's voltage."""
    rails = tuple(RailConfig(name, 1.8, shunt_mohm=10.0) for name in codes)
    channels = tuple(
        Channel(name, 1.8, 10.0, 0.0, 0.001, 1250, 2500, noise_nv=2500 * noise_lsb, offset_bound_nv=1250)
        for name in codes
    )
    meta = TraceMeta("b", rails, channels, "ina226", "p", "s", "active", MS, MS, 0, "raw", "s")
    file = TraceFile(path, meta)
    for at in range(max(map(len, codes.values()))):
        readings = [
            SensorReading(number, round(volts[name] * 1e6), 2500 * codes[name][at])
            for number, name in enumerate(codes)
        ]
        file.add(pack((at + 1) * MS, readings))
    file.end(0)
    return Trace.open(path)


def noisy(chance: Random, count: int, level: int = 400) -> list[int]:
    return [round(chance.gauss(level, 1.0)) for _ in range(count)]


@pytest.mark.parametrize(
    ("seed", "jitter", "from_ms"), drawn(8, any_seed, lambda: DRAWN.randrange(2), lambda: DRAWN.randrange(50, 1500))
)
def test_a_noisy_sensor_that_stands_still_within_a_step_is_stuck_from_anywhere_in_a_phase(
    tmp_path: Path, seed: int, jitter: int, from_ms: int
) -> None:
    chance = Random(seed)
    still = noisy(chance, from_ms) + [400 + chance.randint(0, jitter) for _ in range(2500 - from_ms)]
    trace = a_trace(tmp_path / "a.trace", {"still": still, "alive": noisy(chance, 2500)}, {"still": 1.8, "alive": 1.8})
    power = cut(trace, 0, 2500 * MS)
    assert Flag.POWER_STUCK in power.rail("still").flags
    assert power.rail("alive").flags == set()


@pytest.mark.parametrize("seed", range(6))
def test_a_quiet_sensor_whose_last_step_dithers_rarely_has_no_flag(tmp_path: Path, seed: int) -> None:
    """Averages of a thousand conversions have hardly any noise, and whole milliampere have none."""
    chance = Random(seed)
    names = ["core", "io", "ddr"]
    codes = {
        name: [level + (chance.random() < 0.02) for _ in range(3000)]
        for name, level in zip(names, (400, 60, 0), strict=True)
    }
    trace = a_trace(tmp_path / "a.trace", codes, dict.fromkeys(names, 1.8), noise_lsb=chance.choice((0.0, 0.02, 0.1)))
    for start_ms, end_ms in ((0, 3000), (1000, 1400), (2000, 2040)):
        assert cut(trace, start_ms * MS, end_ms * MS).flags == set()


@pytest.mark.parametrize("seed", range(4))
def test_a_rail_of_no_load_is_not_stuck_while_others_move(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    codes = {"unused": [chance.randrange(3)] * 200, "core": noisy(chance, 100, 900) + noisy(chance, 100, 30)}
    trace = a_trace(tmp_path / "a.trace", codes, dict.fromkeys(codes, 1.8), noise_lsb=0.0)
    assert cut(trace, 100 * MS, 200 * MS).rail("unused").flags == set()


@pytest.mark.parametrize(("low_v", "high_v"), [(1.1, 1.2), (0.8, 0.85), (1.71, 1.89)])
def test_two_rails_that_each_have_the_others_voltage_are_implausible_however_near(
    tmp_path: Path, low_v: float, high_v: float
) -> None:
    codes = {name: noisy(Random(1), 200) for name in ("low", "high", "third")}
    for swapped in (False, True):
        volts = {"low": high_v if swapped else low_v, "high": low_v if swapped else high_v, "third": 3.3}
        trace = a_trace(tmp_path / f"{swapped}.trace", codes, volts)
        nominal = {"low": low_v, "high": high_v, "third": 3.3}
        rails = tuple(evolve(rail, volts=nominal[rail.name]) for rail in trace.meta.rails)
        channels = tuple(evolve(channel, volts=nominal[channel.rail]) for channel in trace.meta.channels)
        power = cut(evolve(trace, meta=evolve(trace.meta, rails=rails, channels=channels)), 0, 200 * MS)
        assert {rail.rail for rail in power.rails if rail.flags} == ({"low", "high"} if swapped else set())


@pytest.mark.parametrize(("volts", "flagged"), [(1.0, False), (1.3, False), (1.6, True), (0.7, True)])
def test_a_rail_whose_voltage_software_sets_is_plausible_in_its_range(
    tmp_path: Path, volts: float, flagged: bool
) -> None:
    trace = a_trace(tmp_path / "a.trace", {"mpu": noisy(Random(2), 200)}, {"mpu": volts})
    rails = (evolve(trace.meta.rails[0], volts=1.1, scaled=True, range_v=(0.95, 1.325)),)
    found = cut(evolve(trace, meta=evolve(trace.meta, rails=rails)), 0, 200 * MS).rail("mpu").flags
    assert (Flag.POWER_IMPLAUSIBLE in found) is flagged


@pytest.mark.parametrize(("input_code", "flagged"), [(1000, False), (801, False), (700, True)])
def test_rails_cannot_take_more_than_the_input_and_the_total_leaves_it_out(
    tmp_path: Path, input_code: int, flagged: bool
) -> None:
    chance = Random(3)
    codes = {"vin": noisy(chance, 200, input_code), "core": noisy(chance, 200), "io": noisy(chance, 200)}
    trace = a_trace(tmp_path / "a.trace", codes, dict.fromkeys(codes, 1.8))
    rails = (evolve(trace.meta.rails[0], input=True), *trace.meta.rails[1:])
    power = cut(evolve(trace, meta=evolve(trace.meta, rails=rails)), 0, 200 * MS)
    assert power.total.mean_w == pytest.approx(2 * 400 * 0.25e-3 * 1.8, rel=0.01)
    assert (Flag.POWER_IMPLAUSIBLE in power.total.flags) is flagged
    assert power.efficiency is not None
    efficiency, bound = power.efficiency
    assert abs(efficiency - 100 * 2 * 400 / input_code) <= bound
    assert cut(trace, 0, 200 * MS).efficiency is None, "nothing says what the input is"


@pytest.mark.parametrize(
    ("asleep_code", "bounds_mw", "flags"),
    [
        (20, None, set()),
        (20, (3.0, 38.0), set()),
        (400, None, {Flag.POWER_STUCK}),
        (401, (3.0, 38.0), {Flag.POWER_STUCK, Flag.POWER_IMPLAUSIBLE}),
        (200, (3.0, 38.0), {Flag.POWER_IMPLAUSIBLE}),
        (2, (3.0, 38.0), {Flag.POWER_IMPLAUSIBLE}),
    ],
)
def test_a_sleep_takes_less_than_the_board_awake_and_what_its_mode_takes(
    tmp_path: Path, asleep_code: int, bounds_mw: tuple[float, float] | None, flags: set[Flag]
) -> None:
    chance = Random(4)
    dithered = [asleep_code + (chance.random() < 0.1) for _ in range(200)]
    codes = {"core": noisy(chance, 100) + dithered + noisy(chance, 100)}
    trace = a_trace(tmp_path / "a.trace", codes, {"core": 1.8}, noise_lsb=0.02)
    power = cut(trace, 120 * MS, 280 * MS)
    assert power.flags == set()
    checked = check_sleep(trace, power, (100 * MS, 300 * MS), bounds_mw)
    assert checked.flags == flags
    assert checked.total.mean_w == power.total.mean_w


def test_a_rail_that_is_off_while_the_board_runs_is_implausible(tmp_path: Path) -> None:
    codes = {"core": noisy(Random(5), 400), "dead": [0] * 400}
    trace = a_trace(tmp_path / "a.trace", codes, {"core": 1.8, "dead": 0.0})
    power = cut(trace, 120 * MS, 280 * MS)
    for checked in (check_awake(power), check_sleep(trace, power, (100 * MS, 300 * MS))):
        assert Flag.POWER_IMPLAUSIBLE in checked.rail("dead").flags
        assert Flag.POWER_IMPLAUSIBLE not in checked.rail("core").flags
        assert Flag.POWER_IMPLAUSIBLE in checked.total.flags


def test_a_rail_takes_no_more_than_a_whole_board(tmp_path: Path) -> None:
    spike = [*noisy(Random(6), 100), 140_000, *noisy(Random(6), 100)]  # 63 W at 1.8 V
    trace = a_trace(tmp_path / "a.trace", {"io": spike, "core": noisy(Random(7), 201)}, {"io": 1.8, "core": 1.8})
    power = cut(trace, 0, 201 * MS)
    assert Flag.POWER_IMPLAUSIBLE in power.rail("io").flags
    assert power.rail("core").flags == set()


def test_two_rails_that_say_the_same_sample_by_sample_are_one_sensor(tmp_path: Path) -> None:
    same, own = noisy(Random(8), 200), noisy(Random(9), 200)
    codes = {"one": same, "other": list(same), "own": own, "unused": [0] * 200, "unused too": [0] * 200}
    power = cut(a_trace(tmp_path / "a.trace", codes, dict.fromkeys(codes, 1.8)), 0, 200 * MS)
    doubted = {rail.rail for rail in power.rails if Flag.POWER_IMPLAUSIBLE in rail.flags}
    assert doubted == {"one", "other"}


def test_a_drivers_value_of_a_load_that_stays_the_same_for_long_is_stuck(tmp_path: Path) -> None:
    codes = {"core": [400] * 1000, "little": [15] * 1000, "io": noisy(Random(3), 1000)}
    trace = a_trace(tmp_path / "a.trace", codes, dict.fromkeys(codes, 1.8), noise_lsb=0.0)
    flagged = [
        {rail.rail for rail in cut(trace, 0, ms * MS).rails if Flag.POWER_STUCK in rail.flags} for ms in (200, 1000)
    ]
    assert flagged == [{"core"}, {"core"}], "blocks reach beyond the phase"
    moving = {"core": [400 + at // 200 for at in range(1000)]}
    trace = a_trace(tmp_path / "b.trace", moving, {"core": 1.8}, noise_lsb=0.0)
    assert cut(trace, 0, 1000 * MS).flags == set()


@pytest.mark.parametrize("jitter", [0, 1])
def test_a_sensor_that_keeps_the_sleeps_value_awake_is_stuck(tmp_path: Path, jitter: int) -> None:
    """The other rail shows that the board woke; the values jitter by a code."""
    kept = [100 + (at % 2) * jitter for at in range(200)]
    codes = {"kept": kept, "core": noisy(Random(10), 100, 30) + noisy(Random(10), 100, 900)}
    trace = a_trace(tmp_path / "a.trace", codes, dict.fromkeys(codes, 1.8), noise_lsb=0.0)
    awake = cut(trace, 100 * MS, 200 * MS)
    assert Flag.POWER_STUCK in awake.rail("kept").flags
    assert awake.rail("core").flags == set()


# --- One sensor for two rails, and the chips' own signs ---


@pytest.mark.parametrize("backend", ["hwmon", "iio", "automation"])
@pytest.mark.parametrize(("own", "other"), [("hwmon1", "hwmon1"), ("vdd_b", ""), ("iio:device0", "iio:device0")])
def test_two_rails_on_one_channel_are_refused_where_they_are_configured(backend: str, own: str, other: str) -> None:
    rails = (RailConfig("vdd_a", 3.3, channel=own), RailConfig("vdd_b", 3.3, channel=other))
    with pytest.raises(ValueError, match=f"'vdd_.': .*'{own}'.*twice"):
        RailsConfig("b", backend, "class", rails)


@pytest.mark.parametrize("names", [("1-0040", "ina3221"), ("board rail", "ina3221"), ("board rail", "1-0040")])
def test_two_names_of_one_hwmon_folder_are_refused_when_it_is_opened(tmp_path: Path, names: tuple[str, str]) -> None:
    folder = tmp_path / "hwmon0"
    folder.mkdir()
    (folder / "name").write_text("ina3221\n")
    (folder / "label").write_text("board rail\n")
    (tmp_path / "1-0040").mkdir()
    (folder / "device").symlink_to("../1-0040")
    rails = tuple(RailConfig(name, 3.3, channel=channel) for name, channel in zip("ab", names, strict=True))
    with pytest.raises(ConfigurationError, match=r"hwmon0/1.*another rail's"):
        HwmonSensor(RailsConfig("b", "hwmon", str(tmp_path), rails))


@pytest.mark.parametrize(("said", "window_ms"), [("", 0), ("35", 35), ("x", 0), ("140", 140)])
def test_a_hwmon_driver_that_says_its_interval_is_asked_no_oftener(tmp_path: Path, said: str, window_ms: int) -> None:
    folder = tmp_path / "hwmon0"
    folder.mkdir()
    (folder / "name").write_text("ina226\n")
    if said:
        (folder / "update_interval").write_text(said)
    sensor = HwmonSensor(RailsConfig("b", "hwmon", str(tmp_path), (RailConfig("a", 3.3, channel="ina226"),)))
    schedule = sensor.start(AdcRange.ACTIVE)
    assert (schedule.window_ns, schedule.late_ns) == (window_ms * MS, window_ms * MS)
    assert schedule.period_ns == schedule.poll_ns == max(10, window_ms) * MS


class Ina219Bus:
    """A bus with an INA219: its ready flag (CNVR) falls when the power register is read (TI SBOS448)."""

    name = "played"
    limit = ""

    def __init__(self) -> None:
        self.registers = {CONFIG: 0, SHUNT: 500, BUS: 450 << 3, POWER: 0}

    def prepare(self, registers: list[Register]) -> Callable[[], list[int]]:
        return lambda: [self._read(register.number) for register in registers]

    def write(self, register: Register, value: int) -> None:
        self.registers[register.number] = value

    def close(self) -> None: ...

    def convert(self, *, overflow: bool = False) -> None:
        self.registers[BUS] = 450 << 3 | 0b10 | overflow

    def _read(self, number: int) -> int:
        value = self.registers[number]
        if number == POWER:
            self.registers[BUS] &= ~0b10
        return value


def test_each_conversion_of_an_ina219_is_read_once_and_its_overflow_is_marked() -> None:
    bus = Ina219Bus()
    sensor = InaSensor(RailsConfig("b", "ina219", "p", (RailConfig("a", 1.8, 0x40, 10.0),)), CHIPS["ina219"], bus)
    sensor.start(AdcRange.ACTIVE)
    found = []
    for at in range(20):
        if at % 4 == 0:
            bus.convert(overflow=at == 8)
        found += [reading for reading in sensor.read() if not reading.mark & 8]
    assert [(each.bus_uv, each.shunt_nv) for each in found] == [(1_800_000, 5_000_000)] * 5
    assert [bool(each.mark) for each in found] == [False, False, True, False, False]
