"""An Automation Interface that another program has is not waited for without a limit."""

from __future__ import annotations

import fcntl
import json
import os
import select

import cattrs
import pytest
from attrs import asdict

from lab.errors import LabStableError, LabTransientError
from lab.host.devices import DeviceIdentity
from lab.rails import automation
from lab.rails.automation import AutomationInterface
from lab.rails.config import RailConfig, RailsConfig


def test_a_program_that_is_stopped_with_the_interface_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automation, "_OTHERS_S", 0.1)
    master, slave = os.openpty()
    try:
        fcntl.flock(slave, fcntl.LOCK_EX)
        with pytest.raises(LabTransientError, match=r"another program") as caught:
            AutomationInterface(os.ttyname(slave)).command("version")
        assert caught.value.failure == "automation_interface"
    finally:
        os.close(master)
        os.close(slave)


def test_an_interface_that_is_another_device_since_a_reset_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    identities = iter([DeviceIdentity("tty", "bus", "1"), DeviceIdentity("tty", "bus", "2")])
    monkeypatch.setattr("lab.rails.automation.devices.identify", lambda _fd: next(identities))
    monkeypatch.setattr(automation, "_ECHO_S", 0.0)
    master, slave = os.openpty()
    try:
        interface = AutomationInterface(os.ttyname(slave))
        with pytest.raises(LabTransientError, match="no echo"):
            interface.command("version")
        os.read(master, 100)
        with pytest.raises(LabStableError, match=r"another device.*nothing") as caught:
            interface.command("auto power dut off")
        assert caught.value.failure == "automation_interface"
        assert not select.select([master], [], [], 0)[0]
    finally:
        os.close(master)
        os.close(slave)


def test_a_client_that_may_have_rails_sampled_has_no_command_in_the_boards_name() -> None:
    asked = asdict(RailsConfig("b1", "automation", "/dev/ttyACM0", (RailConfig("vdd_core", 0.85),), dut="am64x-evm"))
    assert RailsConfig.loads(json.dumps(asked)).dut == "am64x-evm"
    with pytest.raises(cattrs.BaseValidationError):
        RailsConfig.loads(json.dumps({**asked, "dut": "am64x-evm\rauto power dut off"}))
