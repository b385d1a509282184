"""Each outlet of a lab is told of by itself, whoever switches it."""

from __future__ import annotations

from pathlib import Path

import pytest
from labgrid import Target
from labgrid.driver import ExternalPowerDriver, NetworkPowerDriver, PDUDaemonDriver
from labgrid.resource import NetworkPowerPort, PDUDaemonPort

from exporters.farm.host import Outlets
from lab.drivers import StampedPDUDaemonDriver
from lab.drivers.powerdriver import OutletId, last_command, outlet_of, record_command, switch_of


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path))
    return tmp_path


def through(host: str) -> OutletId:
    target = Target("main")
    PDUDaemonPort(target, None, host=host, pdu="rack 1", index=3)
    return StampedPDUDaemonDriver(target, None).outlet


def test_outlets_of_the_same_name_at_two_pdudaemons_are_two(runtime: Path) -> None:
    here, there = through("lab1:16421"), through("lab2:16421")
    record_command(here, "on", 1000.0, 0.1, done=True)
    record_command(there, "off", 1001.0, 0.2, done=False)
    for outlet, command, failures in ((here, "on", 0), (there, "off", 1)):
        status = last_command(outlet)
        assert status is not None
        assert (status.command, status.commands, status.failures) == (command, 1, failures)
    (last,) = [f for f in Outlets(runtime).read() if f.name == "boardlab_outlet_last_command_on"]
    assert {(s.labels["server"], s.labels["pdu"], s.labels["outlet"]): s.value for s in last.samples} == {
        ("lab1:16421", "rack 1", "3"): 1,
        ("lab2:16421", "rack 1", "3"): 0,
    }


@pytest.mark.parametrize(("one", "other"), [("lab1", "lab1:16421"), ("[::1]", "[::1]:16421")])
def test_a_pdudaemon_is_the_same_with_and_without_its_usual_port(one: str, other: str) -> None:
    assert through(one) == through(other)


def test_labgrids_driver_of_pdudaemon_and_ours_switch_the_same_outlet() -> None:
    target = Target("main")
    PDUDaemonPort(target, None, host="lab1", pdu="rack 1", index=3)
    assert switch_of(PDUDaemonDriver(target, None), "b-1").outlet == through("lab1")


def test_a_network_switch_is_known_by_its_host_without_its_password() -> None:
    target = Target("main")
    NetworkPowerPort(target, None, model="rest", host="http://lab:secret@pdu.lab/{index}", index=4)
    outlet = outlet_of(NetworkPowerDriver(target, None), "b-1")
    assert (outlet.pdu, outlet.number) == ("rest", "4")
    assert "pdu.lab" in outlet.server
    assert "secret" not in outlet.label


def test_commands_that_switch_two_boards_are_two_outlets() -> None:
    drivers = [ExternalPowerDriver(Target("main"), None, cmd_on="true", cmd_off="true") for _ in range(2)]
    assert outlet_of(drivers[0], "b-1") != outlet_of(drivers[1], "b-2")
