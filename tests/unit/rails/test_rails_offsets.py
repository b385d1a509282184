"""What a sensor reads at no current, as `lab rails selftest --zero` has measured it, is in no power, whatever reads the sensor."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from support.railsserved import hwmon

from lab.errors import LabTransientError
from lab.host.clock import MonotonicRaw
from lab.rails import AdcRange, RailConfig, RailPower, RailsConfig, Trace, selftest
from lab.rails.automation import AutomationInterface, AutomationRow
from lab.rails.phase import cut
from lab.rails.sampler import SensorRecorder
from lab.rails.sensors import open_sensor

SAMPLES = 6
MS = 1_000_000


class Ticking:
    """A clock that goes on by 10 ms whenever it is read."""

    name = "CLOCK_MONOTONIC_RAW"

    def __init__(self) -> None:
        self.t_ns = 0

    def now_ns(self) -> int:
        self.t_ns += 10 * MS
        return self.t_ns


@pytest.fixture
def automation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RailsConfig:
    """An Automation Interface that reads 0.85 V and 200 mA on 10 milliohm."""
    row = AutomationRow("vdd_core", 2000.0, 0.85, 200.0, 170.0)
    monkeypatch.setattr(AutomationInterface, "measure", lambda *_: [row])
    port = tmp_path / "port"
    port.touch()
    return RailsConfig("b1", "automation", str(port), (RailConfig("vdd_core", 0.85, shunt_mohm=10.0),))


def measured(config: RailsConfig, path: Path) -> RailPower:
    recorder = SensorRecorder(config, open_sensor(config), AdcRange.ACTIVE, path, Ticking(), "none")
    for _ in range(SAMPLES):
        recorder.store(recorder.poll())
    recorder.close()
    return cut(Trace.open(path), 0, (SAMPLES + 1) * 10 * MS).rail("vdd_core")


def with_offset(config: RailsConfig, offset_uv: float) -> RailsConfig:
    return evolve(config, rails=tuple(evolve(rail, offset_uv=offset_uv) for rail in config.rails))


def check(config: RailsConfig, path: Path, bound_mw: float) -> None:
    """50 µV of 2000 are the sensor's own; the data sheet of an INA226 allows 10 µV, and 7.5 mV of its bus."""
    as_read, zeroed = (measured(each, path) for each in (config, with_offset(config, 50.0)))
    assert as_read.mean_w == pytest.approx(0.170)
    assert zeroed.mean_w == pytest.approx(0.170 * 1950 / 2000)
    assert as_read.parts is not None
    gains = 2 * 0.170 * (0.001 if config.backend == "automation" else 0.005)
    of_bus = gains + 0.0075 * 0.2
    assert as_read.parts.sensor_w - of_bus == pytest.approx(0.85 * 10e-6 / 0.010)
    assert zeroed.parts is not None
    assert zeroed.parts.sensor_w - of_bus * 1950 / 2000 == pytest.approx(bound_mw / 1e3)


def test_through_the_automation_interface(automation: RailsConfig, tmp_path: Path) -> None:
    check(automation, tmp_path / "a.trace", bound_mw=0.85 * 0.125)


def test_through_hwmon(tmp_path: Path) -> None:
    check(hwmon(tmp_path), tmp_path / "a.trace", bound_mw=0.85 * 0.5)


def test_what_the_self_test_says_for_an_offset_makes_the_power_of_a_board_that_is_off_nothing(tmp_path: Path) -> None:
    off = hwmon(tmp_path)
    (tmp_path / "hwmon0" / "curr1_input").write_text("3\n")
    zero_uv = selftest.zero(off, MonotonicRaw(), seconds=0.05)["vdd_core"]
    assert zero_uv == 30
    assert measured(with_offset(off, zero_uv), tmp_path / "a.trace").mean_w == 0


def test_a_damaged_number_of_the_automation_interface_is_a_row_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = ["| 0 | vdd_core | 12.34 | 0.85.1 | 10.03 | 8.54 |", "| 1 | vddr_core | -- | 0.85 | 10.03 | 8.54 |"]
    whole = "| 2 | soc_dvdd_3v3 | -2.50 | 3.301250 | -0.25 | -0.83 |"
    monkeypatch.setattr(AutomationInterface, "command", lambda *_: [*said, whole])
    (row,) = AutomationInterface("port").measure(1, 10)
    assert row == AutomationRow("soc_dvdd_3v3", -2.5, 3.30125, -0.25, -0.83)
    monkeypatch.setattr(AutomationInterface, "command", lambda *_: said)
    with pytest.raises(LabTransientError, match="no rails in the answer"):
        AutomationInterface("port").measure(1, 10)
