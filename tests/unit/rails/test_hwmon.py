"""hwmon's devices: which one is a rail's, and which shunt its driver has computed the current with."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from lab.errors import ConfigurationError, LabStableError
from lab.rails.config import RailConfig, RailsConfig
from lab.rails.hwmon import HwmonSensor
from lab.rails.model import AdcRange, RailPower
from lab.rails.phase import cut
from lab.rails.sampler import SensorRecorder
from lab.rails.sensors import adapter_of
from lab.rails.trace import Trace


class Monitors:
    """Two INA231, whose numbers follow the order of probing."""

    def __init__(self, root: Path, order: tuple[str, str] = ("1-0040", "1-0041")) -> None:
        self.root = root
        for number, name in enumerate(order):
            (root / "devices" / name).mkdir(parents=True)
            folder = root / f"hwmon{number}"
            folder.mkdir()
            (folder / "device").symlink_to(f"../devices/{name}")
            current = {"1-0040": "80", "1-0041": "300"}[name]
            for file, text in {"name": "ina231", "in1_input": "1800", "curr1_input": current}.items():
                (folder / file).write_text(f"{text}\n")

    def set(self, file: str, text: str) -> None:
        for folder in self.root.glob("hwmon*"):
            (folder / file).write_text(f"{text}\n")

    def power(self, *rails: RailConfig) -> list[RailPower]:
        """What a trace of some samples has of the rails."""
        config = RailsConfig("b", "hwmon", str(self.root), rails)
        clock = Turned()
        recorder = SensorRecorder(config, HwmonSensor(config), AdcRange.ACTIVE, self.root / "a.trace", clock, "")
        for _ in range(20):
            clock.at_ns += recorder.poll_ns
            recorder.store(recorder.poll())
        recorder.close()
        trace = Trace.open(self.root / "a.trace")
        power = cut(trace, *trace.span_ns)
        return [power.rail(rail.name) for rail in rails]


class Turned:
    """A clock that the test turns."""

    at_ns, name = 10**9, "virtual"

    def now_ns(self) -> int:
        """Now."""
        return self.at_ns


CORE, IO = RailConfig("core", 1.8, channel="1-0040"), RailConfig("io", 1.8, channel="1-0041")


@pytest.mark.parametrize("order", [("1-0040", "1-0041"), ("1-0041", "1-0040")])
def test_a_monitor_is_found_by_its_own_name_in_any_order_of_probing(tmp_path: Path, order: tuple[str, str]) -> None:
    core, io = Monitors(tmp_path, order).power(CORE, IO)
    assert core.mean_w == pytest.approx(0.144)
    assert io.mean_w == pytest.approx(0.54)


@pytest.mark.parametrize(
    ("driver_uohm", "shunt_mohm", "mean_w"),
    [("10000", 2.0, 0.72), ("10000", 10.0, 0.144), ("10000", 0.0, 0.144), ("2000", 2.0, 0.144), (None, 2.0, 0.144)],
)
@pytest.mark.parametrize("file", ["shunt_resistor", "shunt1_resistor"])
def test_a_current_is_that_through_the_environment_s_shunt(
    tmp_path: Path, driver_uohm: str | None, shunt_mohm: float, mean_w: float, file: str
) -> None:
    monitors = Monitors(tmp_path)
    if driver_uohm is not None:
        monitors.set(file, driver_uohm)
    (core,) = monitors.power(evolve(CORE, shunt_mohm=shunt_mohm))
    assert core.mean_w == pytest.approx(mean_w)
    settings = Trace.open(tmp_path / "a.trace").meta.settings
    assert f"its shunts in mOhm: {int(driver_uohm or 0) // 1000 or 'unknown'}" in settings


def test_a_step_of_the_driver_is_as_large_as_its_shunt_makes_it(tmp_path: Path) -> None:
    monitors = Monitors(tmp_path)
    monitors.set("shunt_resistor", "10000")
    config = RailsConfig("b", "hwmon", str(tmp_path), (evolve(CORE, shunt_mohm=2.0),))
    (channel,) = HwmonSensor(config).start(AdcRange.ACTIVE).channels
    assert (channel.shunt_mohm, channel.shunt_lsb_nv) == (2.0, 10_000.0)  # 1 mA of the driver's is 5 mA


@pytest.mark.parametrize("text", ["0", "-1", "x", ""])
def test_a_shunt_that_is_no_positive_number_is_refused(tmp_path: Path, text: str) -> None:
    monitors = Monitors(tmp_path)
    monitors.set("shunt_resistor", text)
    with pytest.raises(ConfigurationError, match=r"shunt_resistor.*microohm"):
        monitors.power(CORE)


CHANNELS = {"1-0040": 0.144, "1-0040/1": 0.144, "1-0040/2": 1.65, "vdd_io": 1.65, "ina3221/3": 0.005}


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_monitor_of_three_currents_has_each_by_its_number_or_label(tmp_path: Path, channel: str) -> None:
    monitors = Monitors(tmp_path, ("1-0040",))
    monitors.set("name", "ina3221")
    for file, text in {"in2": "3300", "curr2": "500", "in3": "5000", "curr3": "1"}.items():
        monitors.set(f"{file}_input", text)
    monitors.set("in2_label", "vdd_io")
    monitors.set("shunt2_resistor", "10000")
    rail = evolve(CORE, volts={"3": 5.0, "2": 3.3, "o": 3.3}.get(channel[-1], 1.8), channel=channel)
    (power,) = monitors.power(rail)
    assert power.mean_w == pytest.approx(CHANNELS[channel])
    assert power.uncertainty_w is not None
    assert power.uncertainty_w > rail.volts * 0.004, "a step of 40 µV on 10 mOhm"


def test_two_rails_of_one_channel_are_refused_and_of_two_are_not(tmp_path: Path) -> None:
    monitors = Monitors(tmp_path, ("1-0040",))
    for file in ("in2_input", "curr2_input"):
        monitors.set(file, "1800")
    both = [evolve(IO, channel=channel) for channel in ("1-0040/2", "1-0040/1")]
    assert [power.rail for power in monitors.power(evolve(CORE, name="a"), both[0])] == ["a", "io"]
    with pytest.raises(ConfigurationError, match=r"hwmon0/1.*another rail's"):
        monitors.power(CORE, both[1])
    with pytest.raises(ConfigurationError, match=r"'1-0040/3'.*1-0040/2\."):
        monitors.power(evolve(CORE, channel="1-0040/3"))


def test_a_name_of_two_monitors_is_refused_with_the_names_of_each(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'ina231'.*1-0040.*1-0041"):
        Monitors(tmp_path).power(evolve(CORE, channel="ina231"))


@pytest.mark.parametrize(
    ("backend", "port", "channel"), [("hwmon", "/sys/class/hwmon", "hwmon3"), ("iio", "local:", "iio:device0")]
)
def test_a_number_of_the_order_of_probing_is_no_name(backend: str, port: str, channel: str) -> None:
    with pytest.raises(ValueError, match=f"'core': {channel} .*1-0040"):
        RailsConfig("b", backend, port, (evolve(CORE, channel=channel),))


def test_an_iiod_s_device_has_its_id() -> None:
    RailsConfig("b", "iio", "ip:acme", (evolve(CORE, channel="iio:device0"),))


def test_another_adapter_than_before_is_not_sampled() -> None:
    config = RailsConfig("b", "automation", "/dev/null", (CORE,))
    adapter = adapter_of(config)
    assert adapter == "/devices/virtual/mem/null"
    assert adapter_of(evolve(config, adapter=adapter)) == adapter
    with pytest.raises(LabStableError, match=r"/mem/zero now.*/null "):
        adapter_of(evolve(config, port="/dev/zero", adapter=adapter))
    with pytest.raises(LabStableError, match="is no device now"):
        adapter_of(evolve(config, port="/dev/nothing", adapter=adapter))


def test_a_monitor_that_is_gone_is_the_lab_s_fault_once_it_was_sampled(tmp_path: Path) -> None:
    Monitors(tmp_path, ("1-0041",))
    config = RailsConfig("b", "hwmon", str(tmp_path), (CORE, IO))
    with pytest.raises(ConfigurationError, match=r"no hwmon.*'1-0040'"):
        adapter_of(config)
    with pytest.raises(LabStableError, match=r"is gone.*'1-0040'"):
        adapter_of(evolve(config, adapter="/devices/i2c-1"))
