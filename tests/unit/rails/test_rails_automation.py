"""An Automation Interface that another program has is not waited for without a limit."""

from __future__ import annotations

import fcntl
import json
import os

import cattrs
import pytest
from attrs import asdict

from lab.errors import LabTransientError
from lab.rails import automation
from lab.rails.automation import AutomationInterface
from lab.rails.config import RailConfig, RailsConfig


def test_a_program_that_is_stopped_with_the_interface_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automation, "_OTHERS_S", 0.1)
    master, slave = os.openpty()
    try:
        fcntl.flock(slave, fcntl.LOCK_EX)
        with pytest.raises(LabTransientError, match="another program has had the Automation Interface") as caught:
            AutomationInterface(os.ttyname(slave)).command("version")
        assert caught.value.failure == "automation_interface"
    finally:
        os.close(master)
        os.close(slave)


def test_a_client_that_may_have_rails_sampled_has_no_command_in_the_boards_name() -> None:
    asked = asdict(RailsConfig("b1", "automation", "/dev/ttyACM0", (RailConfig("vdd_core", 0.85),), dut="am64x-evm"))
    assert RailsConfig.loads(json.dumps(asked)).dut == "am64x-evm"
    with pytest.raises(cattrs.BaseValidationError):
        RailsConfig.loads(json.dumps({**asked, "dut": "am64x-evm\rauto power dut off"}))
