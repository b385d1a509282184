"""A simulated board of a real bench is provisioned by its U-Boot over a real TFTP server; a process that is killed is no harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.measuring_lab import running_lab
from support.provisioned_lab import ProvisionedLab
from support.simprovision import NEW, OLD


@pytest.mark.soak
def test_a_killed_provisioning_is_done_by_the_next_one(tmp_path: Path) -> None:
    with running_lab(tmp_path, "sim", "--type", "am62xx_sk", "--time-scale", "0.05") as lab:
        made = ProvisionedLab(lab)
        said = made.provisioned(OLD, "emmc")
        made.killed(NEW, "emmc", len(said) // 2)
        made.provisioned(NEW, "emmc")
