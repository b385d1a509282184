"""Every fault of a rail's sensor shows as the flags that its documentation names, and on no other rail."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from attrs import define, evolve
from support.railbench import RailBench
from support.simruns import planned

from lab.errors import ConfigurationError
from lab.metrics import Flag
from lab.rails import AdcRange, PhasePower, RailConfig, RailsConfig, Trace
from lab.rails.automation import AutomationInterface, AutomationSensor
from lab.rails.hwmon import HwmonSensor
from lab.rails.iio import IioSensor
from lab.rails.ina_chips import CHIPS
from lab.rails.model import SensorReading, TraceMark
from lab.rails.phase import cut
from lab.rails.sampler import SensorRecorder
from lab.rails.trace import RECORD, pack
from lab.virtual.sim.faults.catalogue import FAULTS

RAILS = [name for name, kind in FAULTS.items() if kind.outcome.trial == "rails"]
IDLE_S = 0.7


def measured(path: Path, fault: str = "", board_type: str = "am62xx_lp_sk") -> PhasePower:
    """A board that boots and idles; the fault sets in with the boot, when the sampler already runs."""
    bench = RailBench(board_type)
    sensed = bench.recorder(path, AdcRange.ACTIVE)
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
    power = measured(tmp_path / "a.trace", name)
    struck = {getattr(fault, "rail", ""), getattr(fault, "other", "")}
    if "*" in struck:
        struck = {rail.rail for rail in power.rails if rail.measured}
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
    sensed = bench.recorder(tmp_path / "a.trace", AdcRange.ACTIVE)
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
    sensed = bench.recorder(tmp_path / "a.trace", AdcRange.SLEEP)
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
    ((_, start_ns, end_ns),) = bench.record(tmp_path / "a.trace", AdcRange.ACTIVE, ("idle", 1.0))
    found = cut(Trace.open(tmp_path / "a.trace"), start_ns, end_ns).rail("vdd_core")
    assert found.flags == set()
    assert found.mean_w == pytest.approx(2 * bench.watts("idle")["vdd_core"], rel=0.01)


RAIL = RailConfig("vdd_core", 0.85, shunt_mohm=10.0)
OTHER = RailConfig("vdd_io", 1.8, shunt_mohm=10.0)
NO_RAIL_HAS_IT = [
    str(2**31),
    str(-(2**31) - 1),
    "9" * 400,
    "-9" * 3000,
    "nan",
    "inf",
    "-inf",
    "",
    "error",
    "1 2",
    "\x00",
    "é",
]


@define
class Turned:
    """A clock that the test turns."""

    at_ns: int = 10**9
    name: str = "virtual"

    def now_ns(self) -> int:
        """Now."""
        return self.at_ns


class Files:
    """Sensors behind hwmon's files: what each says stands in a file."""

    def __init__(self, folder: Path) -> None:
        for number, rail in enumerate((RAIL, OTHER)):
            (folder / f"hwmon{number}").mkdir()
            (folder / f"hwmon{number}" / "label").write_text(rail.name)
        self._folder = folder
        self.say("100")
        self._write(1, "1800", "100")
        self.sensor = HwmonSensor(RailsConfig("b", "hwmon", str(folder), (RAIL, OTHER)))

    def say(self, current: str) -> None:
        """The first rail's current."""
        self._write(0, "850", current)

    def say_volts(self, voltage: str) -> None:
        """The first rail's voltage."""
        self._write(0, voltage, "100")

    def _write(self, number: int, voltage: str, current: str) -> None:
        (self._folder / f"hwmon{number}" / "in1_input").write_bytes(voltage.encode("latin-1"))
        (self._folder / f"hwmon{number}" / "curr1_input").write_bytes(current.encode("latin-1"))


class Iio:
    """Sensors behind libiio, which is played: its attributes are text."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shunt_scale: str = "0.0025") -> None:
        self._attributes = []
        devices = []
        for number, rail in enumerate((RAIL, OTHER)):
            raw = {name: SimpleNamespace(value="1000") for name in ("voltage0", "voltage1")}
            scales = {"voltage0": shunt_scale, "voltage1": "1.25"}
            channels = {
                name: SimpleNamespace(id=name, attrs={"raw": raw[name], "scale": SimpleNamespace(value=scales[name])})
                for name in raw
            }
            label = SimpleNamespace(value=rail.name)
            device = SimpleNamespace(
                id=f"iio:device{number}", name="ina226", attrs={"label": label}, find_channel=channels.get
            )
            devices.append(device)
            self._attributes.append(raw)
        played = SimpleNamespace(Context=lambda _port: SimpleNamespace(devices=devices))
        monkeypatch.setitem(sys.modules, "iio", played)
        self.sensor = IioSensor(RailsConfig("b", "iio", "local:", (RAIL, OTHER)))

    def say(self, current: str) -> None:
        """The first rail's shunt voltage."""
        self._attributes[0]["voltage0"].value, self._attributes[0]["voltage1"].value = current, "1000"

    def say_volts(self, voltage: str) -> None:
        """The first rail's voltage."""
        self._attributes[0]["voltage0"].value, self._attributes[0]["voltage1"].value = "1000", voltage


class Interface:
    """Sensors behind an Automation Interface, whose answers are played."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(AutomationInterface, "command", lambda *_words: self._lines)
        self.say("100")
        self.sensor = AutomationSensor(RailsConfig("b", "automation", str(folder), (RAIL, OTHER)))

    def say(self, current: str) -> None:
        """The first rail's current."""
        self._answer("0.85", current)

    def say_volts(self, voltage: str) -> None:
        """The first rail's voltage."""
        self._answer(voltage, "100")

    def _answer(self, volts: str, current: str) -> None:
        self._lines = [
            f"| 1 | vdd_core | 1000 | {volts} | {current} | 85 |",
            "| 2 | vdd_io | 1000 | 1.8 | 100 | 180 |",
        ]


def test_an_iio_device_has_the_kernel_s_name_and_no_name_of_two(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for number, name in enumerate(("1-0041", "1-0040")):  # in the order of probing
        (tmp_path / name / f"iio:device{number}").mkdir(parents=True)
        (tmp_path / f"iio:device{number}").symlink_to(tmp_path / name / f"iio:device{number}")
    monkeypatch.setattr("lab.rails.iio.DEVICES", tmp_path)
    Iio(monkeypatch).say("320")  # the first device
    rail = RailConfig("core", 0.85, shunt_mohm=10.0, channel="1-0041")
    sensor = IioSensor(RailsConfig("b", "iio", "local:", (rail,)))
    assert [reading.shunt_nv for reading in sensor.read()] == [800_000]
    with pytest.raises(ConfigurationError, match=r"2 IIO .*'ina226'.*1-0040"):
        IioSensor(RailsConfig("b", "iio", "local:", (evolve(rail, channel="ina226"),)))


@pytest.fixture(params=["hwmon", "iio", "automation"])
def texts(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files | Iio | Interface:
    """A backend whose values nothing bounds: they come as text."""
    match request.param:
        case "hwmon":
            return Files(tmp_path)
        case "iio":
            return Iio(monkeypatch)
    return Interface(tmp_path, monkeypatch)


@pytest.mark.parametrize("milliampere", ["55556", "-8193", "65533"])
def test_a_current_beyond_the_chips_range_is_no_value(tmp_path: Path, milliampere: str) -> None:
    """A hundred watts at 1.8 V, and a register of 16 bits that wrapped."""
    files = Files(tmp_path)
    (tmp_path / "hwmon0" / "name").write_text("ina226")
    files.sensor = HwmonSensor(RailsConfig("b", "hwmon", str(tmp_path), (RAIL, OTHER)))
    marks = []
    for text in ("8191", milliampere):
        files.say(text)
        marks.append(files.sensor.read()[0].mark)
    assert marks == [0, TraceMark.IMPLAUSIBLE]


@pytest.mark.parametrize("quantity", ["say", "say_volts"])
@pytest.mark.parametrize("text", NO_RAIL_HAS_IT, ids=range(len(NO_RAIL_HAS_IT)))
def test_a_value_that_no_rail_can_have_is_flagged_and_the_other_rails_are_measured(
    texts: Files | Iio | Interface, tmp_path: Path, text: str, quantity: str
) -> None:
    config = RailsConfig("b", "hwmon", str(tmp_path), (RAIL, OTHER))
    clock = Turned()
    recorder = SensorRecorder(config, texts.sensor, AdcRange.ACTIVE, tmp_path / "a.trace", clock, "")
    for at in range(20):
        if at == 10:
            getattr(texts, quantity)(text)
        clock.at_ns += recorder.poll_ns
        recorder.store(recorder.poll())
    recorder.close()
    trace = Trace.open(tmp_path / "a.trace")
    power = cut(trace, *trace.span_ns)
    core, io = power.rail(RAIL.name), power.rail(OTHER.name)
    assert core.flags & {Flag.POWER_IMPLAUSIBLE, Flag.POWER_NACK}
    assert io.samples - core.samples == 10, "the bad ones have no values"
    assert core.mean_w is not None


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "", "x", "1e999"])
def test_a_scale_that_is_no_positive_number_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"vdd_core.*`scale`"):
        Iio(monkeypatch, shunt_scale=text)


def test_whatever_the_registers_of_a_chip_hold_a_record_holds() -> None:
    for chip in CHIPS.values():
        largest = SensorReading(0, (0xFFFF >> chip.bus_shift) * chip.bus_lsb_uv, -0x8000 * chip.shunt_lsb_nv)
        assert len(pack(0, [largest])) == RECORD.size
