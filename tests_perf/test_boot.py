"""Boot time: from "Starting kernel" to the Linux prompt, over power cycles from each boot medium.

Program: none. The board is switched off and on, and the times are those at which its console printed the lines.
The lab brings: a serial adapter, a power switch, and boot-mode straps where more than one medium is measured.
In the guide: "Linux boot time MMCSD" and its like. The time from power on and the stages are in boardlab's report alone.
"""

from __future__ import annotations

import pytest

from lab.pytest_plugin.run_session import CycleRunSession


@pytest.mark.chapter(name="Boot-time Measurement")
def test_boot_time(boot_measurer: CycleRunSession, boot_medium: str) -> None:
    """Every planned cycle has its boot time in the store; the time from power on and the stages are there, too."""
    boot_measurer.measure(boot_medium)
    assert boot_measurer.pending(boot_medium) == []
    assert boot_measurer.missing(boot_medium) == []
