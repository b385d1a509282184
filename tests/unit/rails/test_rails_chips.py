"""The emulated INA231 is the data sheet's, and the product sets its sensors as the power range wants it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from attrs import evolve
from support.railbench import MS, RailBench, S

from lab.rails import AdcRange, RailConfig, Trace
from lab.rails.ina import bus_time_ns, choose
from lab.rails.ina_chips import CHIPS, Setting
from lab.rails.phase import cut
from lab.virtual.rails.ina231 import BUS, CALIBRATION, CONFIG, CURRENT, MASK, POWER, SHUNT, Ina231

READY, OVERFLOW = 1 << 3, 1 << 2
VOLTS, AMPERES, OHM = 1.8, 0.5, 0.01


def sensor(volts: float = VOLTS, amperes: float = AMPERES) -> Ina231:
    chip = Ina231(lambda _start, _end: (volts, amperes), OHM, Random(1))
    chip.reset(0)
    return chip


def test_it_wakes_up_as_the_data_sheet_says() -> None:
    chip = sensor()
    assert [chip.read(register, 0) for register in range(8)] == [0x4127, 0, 0, 0, 0, 0, 0, 0]
    assert chip.period_ns == 2 * 1_100_000
    assert chip.read(8, 0) is None
    assert not chip.write(9, 1, 0)


def test_a_sample_is_there_when_its_time_has_passed_and_not_before() -> None:
    chip = sensor()
    assert chip.read(MASK, 2_199_999) & READY == 0
    assert chip.read(SHUNT, 2_199_999) == 0
    assert chip.read(MASK, 2_200_000) & READY
    assert chip.read(SHUNT, 2_200_000) == pytest.approx(AMPERES * OHM / 2.5e-6, abs=4)
    assert chip.read(BUS, 2_200_000) == VOLTS / 1.25e-3


def test_the_ready_flag_falls_when_it_is_read_and_when_the_settings_change() -> None:
    chip = sensor()
    assert chip.read(MASK, 3 * MS) & READY
    assert chip.read(MASK, 3 * MS) & READY == 0
    assert chip.read(MASK, 5 * MS) & READY
    chip.write(CONFIG, 0x4127, 7 * MS)
    assert chip.read(MASK, 9 * MS) & READY == 0, "it began anew 2 ms ago"
    assert chip.read(MASK, 10 * MS) & READY


def test_negative_currents_are_two_s_complement_and_the_register_ends_where_it_ends() -> None:
    assert sensor(amperes=-0.5).read(SHUNT, S) == pytest.approx(0x10000 - 2000, abs=4)
    assert sensor(amperes=20.0).read(SHUNT, S) == 0x7FFF


def test_current_and_power_follow_from_the_calibration() -> None:
    """SBOS644, section on programming: current = shunt * calibration / 2048, power = current * bus / 20000."""
    chip = sensor()
    current_lsb = 1e-4
    chip.write(CALIBRATION, round(0.00512 / (current_lsb * OHM)), 0)
    assert chip.read(CURRENT, S) * current_lsb == pytest.approx(AMPERES, rel=2e-3)
    assert chip.read(POWER, S) * 25 * current_lsb == pytest.approx(AMPERES * VOLTS, rel=5e-3)
    assert chip.read(MASK, S) & OVERFLOW == 0


def test_averaging_takes_the_noise_away_and_so_many_times_as_long() -> None:
    def spread(setting: Setting) -> float:
        chip = sensor(amperes=0.25e-3 * 10.5)
        chip.write(CONFIG, CHIPS["ina231"].config(setting), 0)
        assert chip.period_ns == setting.period_ns
        codes = [chip.read(SHUNT, number * setting.period_ns) or 0 for number in range(1, 200)]
        return max(codes) - min(codes)

    assert spread(Setting(1, 140, 140)) > 4
    assert spread(Setting(1024, 140, 1100)) <= 1


def test_a_triggered_sample_comes_once_and_power_down_converts_nothing() -> None:
    chip = sensor()
    chip.write(CONFIG, 0x4123, 0)
    assert chip.read(MASK, S) & READY
    assert chip.read(MASK, 2 * S) & READY == 0
    chip.write(CONFIG, 0x4120, 2 * S)
    assert chip.period_ns == 0
    assert chip.read(MASK, 3 * S) & READY == 0


def test_the_reset_bit_forgets_all_settings() -> None:
    chip = sensor()
    chip.write(CALIBRATION, 2048, 0)
    chip.write(CONFIG, 0x4927, 0)
    chip.write(CONFIG, 0x8000, S)
    assert chip.read(CONFIG, S) == 0x4127
    assert chip.read(CALIBRATION, S) == 0


def test_an_ina230_has_the_wider_limits_of_its_data_sheet() -> None:
    """SBOS601 of 2012: shunt offset 50 µV, bus offset 30 mV, gain 0.5 %."""
    chip = CHIPS["ina230"]
    assert (chip.offset_nv, chip.bus_offset_uv, chip.gain) == (50_000.0, 30_000.0, 0.005)


def test_the_bound_of_a_voltage_is_that_of_its_chip(tmp_path: Path) -> None:
    def bound_v(chip: str) -> float:
        bench = RailBench()
        bench.config = evolve(bench.config, backend=chip)
        ((_, start_ns, end_ns),) = bench.record(tmp_path / chip, AdcRange.ACTIVE, ("idle", 0.3))
        return cut(Trace.open(tmp_path / chip), start_ns, end_ns).rail("vdd_core").uncertainty_v or 0.0

    assert bound_v("ina226") < 0.01
    assert bound_v("ina230") > 0.03


RAILS = (RailConfig("core", 0.85, 0x40, 2.0), RailConfig("io", 1.8, 0x41, 10.0))


def chosen(chip: str, wanted: AdcRange, khz: int, rails: int = 6) -> Setting:
    found = CHIPS[chip]
    many = tuple(evolve(RAILS[number % 2], name=f"r{number}") for number in range(rails))
    return choose(found.settings, many, wanted, khz)


@pytest.mark.parametrize(
    ("chip", "wanted", "khz", "setting"),
    [
        ("ina231", AdcRange.ACTIVE, 2940, Setting(4, 140, 140)),
        ("ina226", AdcRange.ACTIVE, 1000, Setting(4, 140, 140)),
        ("ina231", AdcRange.SLEEP, 400, Setting(1024, 140, 1100)),
        ("ina219", AdcRange.ACTIVE, 1000, Setting(1, 532, 532)),
        ("ina219", AdcRange.SLEEP, 400, Setting(128, 532, 532)),
    ],
)
def test_the_setting_follows_from_the_power_range(chip: str, wanted: AdcRange, khz: int, setting: Setting) -> None:
    assert chosen(chip, wanted, khz) == setting


def test_a_slow_bus_gets_no_more_samples_than_it_carries() -> None:
    for khz in (100, 400, 1000):
        setting = chosen("ina231", AdcRange.ACTIVE, khz)
        assert setting.period_ns >= 1.25 * bus_time_ns(6, khz)
    assert 1e9 / chosen("ina231", AdcRange.ACTIVE, 400).period_ns == pytest.approx(343, abs=1), "docs/rails.md says so"
    assert 1e9 / chosen("ina231", AdcRange.ACTIVE, 1000).period_ns == pytest.approx(893, abs=1)


@pytest.mark.parametrize("name", CHIPS)
def test_a_setting_is_coded_as_the_data_sheet_has_it(name: str) -> None:
    chip = CHIPS[name]
    assert len({chip.config(setting) for setting in chip.settings}) == len(chip.settings)
    known = {
        "ina226": (Setting(1, 1100, 1100), 0x4127),
        "ina230": (Setting(1, 1100, 1100), 0x4127),
        "ina231": (Setting(1, 1100, 1100), 0x4127),
        "ina219": (Setting(128, 532, 532), 0x07FF),
    }
    setting, config = known[name]
    assert chip.config(setting) == config
