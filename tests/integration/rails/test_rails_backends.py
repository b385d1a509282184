"""The other ways to a rail's power, each at the wire: the Automation Interface, libiio, hwmon files."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from labgrid import Target
from support.railbench import config_of
from support.virtual_bench import BenchProcess, Console

from lab import boards
from lab.drivers import AutomationBootModeDriver, AutomationPort, AutomationPowerDriver
from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.host import status_files
from lab.rails import RailConfig, RailsConfig, Trace, sampling
from lab.rails.automation import AutomationInterface
from lab.rails.phase import cut
from lab.virtual import straps
from lab.virtual.rails.levels import levels

BOARD = "am62xx_sk-1"
BITS = 16
AVERAGED_NS = 1_000_000_000  # more than any sensor's mean goes back


@pytest.fixture
def wired(bench: BenchProcess) -> RailsConfig:
    return config_of("am62xx_sk", f"unix:{bench.board.rails}", BOARD)


@pytest.fixture
def idle(bench: BenchProcess) -> Iterator[BenchProcess]:
    """The board sits at its login prompt, and no sensor averages over anything before that."""
    console = Console(bench.board.uarts["main0"])
    assert bench.power("on") == 200
    console.until(rb"am62xx-evm login: ")
    while (
        not (at_ns := idles_since_ns(bench)) or time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) < at_ns + AVERAGED_NS
    ):
        select.select([], [], [], 0.02)
    yield bench
    assert bench.power("off") == 200
    console.close()


def idles_since_ns(bench: BenchProcess) -> int:
    """When the board's load became that of an idle one, by its truth log; 0: it is not yet."""
    notes = [note for note in bench.truth().notes if note.text.startswith("rails=")]
    return notes[-1].t_ns if notes and notes[-1].text.startswith("rails=idle ") else 0


def idle_w() -> dict[str, float]:
    return dict(levels(boards.load("am62xx_sk"), "11.01")["idle"])


def check(path: Path, tolerance: float) -> None:
    """The trace shows an idle board."""
    trace = Trace.open(path)
    power = cut(trace, *trace.span_ns)
    for rail, watts in idle_w().items():
        found = power.rail(rail)
        assert found.mean_w == pytest.approx(watts, rel=tolerance)
    assert not power.rail("vddr_core").measured


def sampled(config: RailsConfig, path: Path, samples: int) -> None:
    with sampling(config, path) as sampler:
        while len(sampler.trace().records) < samples:
            assert sampler.alive
            select.select([], [], [], 0.05)


def test_the_automation_interface_measures_what_the_board_draws(
    idle: BenchProcess, wired: RailsConfig, tmp_path: Path
) -> None:
    config = evolve(wired, backend="automation", port=idle.board.automation, dut="am62x-sk")
    sampled(config, tmp_path / "a.trace", 60)
    check(tmp_path / "a.trace", 0.05)


def test_an_iiod_is_read_by_the_real_libiio(idle: BenchProcess, wired: RailsConfig, tmp_path: Path) -> None:
    rails = tuple(evolve(rail, shunt_mohm=0.0, address=0) for rail in wired.rails)
    config = evolve(wired, backend="iio", port=f"ip:{idle.board.iiod}", rails=rails)
    sampled(config, tmp_path / "a.trace", 200)
    check(tmp_path / "a.trace", 0.03)
    nobody = evolve(config, rails=(*rails, RailConfig("vdd_moon", 1.0)))
    with (
        pytest.raises(ConfigurationError, match=r"no IIO .*'vdd_moon'"),
        sampling(nobody, tmp_path / "b"),
    ):
        pass
    away = evolve(config, port="ip:127.0.0.1:9")
    with pytest.raises(ConfigurationError, match="no IIO context"), sampling(away, tmp_path / "b"):
        pass


def test_hwmon_files_are_read(wired: RailsConfig, tmp_path: Path) -> None:
    for number, (rail, watts) in enumerate(idle_w().items()):
        folder = tmp_path / "hwmon" / f"hwmon{number}"
        folder.mkdir(parents=True)
        volts = next(each.volts for each in wired.rails if each.name == rail)
        (folder / "name").write_text("ina231\n")
        (folder / "label").write_text(f"{rail}\n")
        (folder / "in1_input").write_text(f"{volts * 1000:.0f}\n")
        (folder / "curr1_input").write_text(f"{watts / volts * 1000:.0f}\n")
    config = evolve(wired, backend="hwmon", port=str(tmp_path / "hwmon"))
    sampled(config, tmp_path / "a.trace", 100)
    check(tmp_path / "a.trace", 0.1)
    missing = evolve(config, rails=(RailConfig("vdd_moon", 1.0),))
    with pytest.raises(ConfigurationError, match=r"no hwmon device"):
        sampled(missing, tmp_path / "b.trace", 1)


@pytest.fixture
def target(bench: BenchProcess) -> Iterator[Target]:
    target = Target("main")
    AutomationPort(target, None, port=bench.board.automation, dut="am62x-sk")
    yield target
    target.cleanup()


def test_the_automation_interface_switches_the_board_and_its_straps(
    bench: BenchProcess, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path))
    power = AutomationPowerDriver(target, None, delay=0.0)
    straps_driver = AutomationBootModeDriver(target, None)
    target.activate(power)
    target.activate(straps_driver)
    straps_driver.set(0x243)
    assert straps.read(Path(bench.board.straps), BITS) == 0x243
    power.on()
    assert bench.status()["power"] == "on"
    assert power.edge is not None
    assert power.edge.requested_ns < power.edge.acknowledged_ns
    power.cycle()
    power.reset()
    power.power_on_reset()
    assert bench.status()["power"] == "on"
    power.off()
    assert bench.status()["power"] == "off"
    (told,) = status_files.read_all(tmp_path / status_files.OUTLETS, status_files.OutletStatus)
    assert (told.pdu, told.outlet, told.command) == ("automation", power.port.port, "off")
    assert (told.commands, told.failures) == (4, 0)  # on, the two of the cycle, off


def test_straps_can_be_wired_to_other_pins_of_the_expander(bench: BenchProcess, target: Target) -> None:
    crossed = AutomationBootModeDriver(target, None, pins={0: 1, 1: 0})
    target.activate(crossed)
    crossed.set(0x241)
    assert straps.read(Path(bench.board.straps), BITS) == 0x242
    crossed.set(0x243)
    with pytest.raises(ConfigurationError, match=r"pins .*strap to a pin"):
        AutomationBootModeDriver(target, "wrong", pins={0: 99})


def test_a_refusal_of_the_automation_interface_is_an_error_that_says_what_to_do(bench: BenchProcess) -> None:
    interface = AutomationInterface(bench.board.automation)
    assert interface.command("version")
    with pytest.raises(LabStableError, match=r"not valid.*check `dut`"):
        interface.command("auto fly")
    with pytest.raises(ConfigurationError, match="No such file"):
        AutomationInterface("/dev/nothing").command("version")


def test_a_silent_port_is_no_automation_interface() -> None:
    master, slave = os.openpty()
    try:
        with pytest.raises(LabTransientError, match=r"no echo.*Automation"):
            AutomationInterface(os.ttyname(slave)).command("version")
    finally:
        os.close(slave)
        os.close(master)
