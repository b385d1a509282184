"""The environments say where each board's rails are, and the driver gives what the sampler needs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve
from labgrid import Target
from labgrid.environment import Environment
from support.railsserved import hwmon

from lab.drivers import RailsDriver, RailSensors
from lab.errors import ConfigurationError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.rails import AdcRange, RailsConfig, Sampler, sampling
from lab.rails.hwmon import HwmonSensor
from lab.rails.process import spawn
from lab.rails.sampler import SensorRecorder

ENVS = Path(__file__).parents[3] / "envs"
WITH_RAILS = {
    "am62x": ("am62x-sk-1", 5, ["vddr_core"]),
    "am62xlp": ("am62x-lp-1", 6, []),
    "am65x": ("am65x-evm-1", 8, []),
    "sim-am62x": ("am62xx_sk-1", 5, ["vddr_core"]),
    "sim-am62xlp": ("am62xx_lp_sk-1", 6, []),
    "sim-am65x": ("am654x-evm-1", 8, []),
}


@pytest.mark.parametrize("name", WITH_RAILS)
def test_an_environment_wires_the_rails_of_its_board(name: str) -> None:
    environment = Environment(config_file=str(ENVS / f"{name}.yaml"))
    config = environment.get_target().get_driver("RailsDriver", activate=False).config
    board, measured, shared = WITH_RAILS[name]
    assert config.board == board
    assert len(config.measured) == measured
    assert [rail.name for rail in config.rails if rail.shared_with] == shared


def test_rails_of_a_wrong_shape_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"rails: .*address: 0x40"):
        RailSensors(Target("main"), None, backend="ina231", port="/dev/i2c-1", rails={"vdd_core": 0x40})


def test_without_a_strategy_nobody_knows_which_board_it_is() -> None:
    target = Target("main")
    RailSensors(target, None, backend="ina231", port="/dev/i2c-1")
    driver = RailsDriver(target, None)
    with pytest.raises(ConfigurationError, match=r"add a BoardStrategy"):
        assert driver.config


def test_later_samplings_need_the_adapter_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target("main")
    RailSensors(target, None, backend="hwmon", port=str(tmp_path))
    driver = RailsDriver(target, None)
    target.activate(driver)
    config = hwmon(tmp_path)
    monkeypatch.setattr(RailsDriver, "config", config)
    monkeypatch.setattr("lab.drivers.railsdriver.sampling", partial(sampling_of, evolve(config, adapter="first")))
    with driver.sampling(tmp_path / "a.trace"):
        pass
    monkeypatch.setattr("lab.drivers.railsdriver.sampling", sampling)
    with (
        pytest.raises(LabTransientError, match=r"no device now.*first"),
        driver.sampling(tmp_path / "b.trace"),
    ):
        pass


def test_a_prepared_process_samples_each_time_and_ends_with_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target("main")
    RailSensors(target, None, backend="hwmon", port=str(tmp_path))
    driver = RailsDriver(target, None)
    target.activate(driver)
    monkeypatch.setattr(RailsDriver, "config", hwmon(tmp_path))
    processes = []

    def counted(trace: Path, wanted: AdcRange = AdcRange.ACTIVE) -> subprocess.Popen[bytes]:
        processes.append(spawn(trace, wanted))
        return processes[-1]

    monkeypatch.setattr("lab.drivers.railsdriver.spawn", counted)
    path = tmp_path / "rise.trace"
    for _ in range(3):
        driver.prepare(path)
        path.unlink(missing_ok=True)
        with driver.sampling(path) as sampler:
            assert sampler.pid == processes[0].pid
            assert sampler.trace().meta.board == "b1"
    processes[0].kill()
    processes[0].wait()
    driver.prepare(path)
    with driver.sampling(tmp_path / "other.trace") as sampler:
        assert sampler.pid not in {process.pid for process in processes}
    target.deactivate(driver)
    assert [process.poll() is None for process in processes] == [False] * 2


@contextmanager
def sampling_of(
    config: RailsConfig, given: RailsConfig, trace: Path, _range: AdcRange, _spawned: object
) -> Iterator[Sampler]:
    """The first sampling, of an adapter that sysfs has: this sensor is files."""
    assert not given.adapter
    sensor = HwmonSensor(config)
    SensorRecorder(config, sensor, AdcRange.ACTIVE, trace, MonotonicRaw(), "").close()
    yield Sampler(trace, subprocess.Popen(["true"]))
