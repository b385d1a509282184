"""An Automation Interface that another program has is not waited for without a limit."""

from __future__ import annotations

import fcntl
import os

import pytest

from lab.errors import LabTransientError
from lab.rails import automation
from lab.rails.automation import AutomationInterface


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
