"""A release on the eMMC slot of bpim2u, written by its own U-Boot over TFTP: what is damaged meanwhile is found, and mended by the next try.

Two releases on all media of both boards, judged, and by Linux: `./run soak`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import board_releases
from support.board_releases import said
from support.facts import was_provisioned
from support.measuring_lab import running_lab

pytestmark = pytest.mark.soak


@pytest.mark.timeout(1200)  # the images are built when they are not there
def test_a_medium_that_is_damaged_while_it_is_written_is_found_and_mended_by_the_next_try(tmp_path: Path) -> None:
    release = board_releases.release(tmp_path, "bpim2u", "1.0")
    with running_lab(tmp_path, "--type", "bpim2u", "--name", "bpim2u-1", "--network") as lab:
        words = ("provision", "--release", release, "--medium", "emmc")
        assert "read back at" in said(lab, *words, code=1, damaged="emmc")
        assert was_provisioned(said(lab, *words), "emmc", "1.0")
        assert list((lab.bench.folder / "bpim2u-1" / "tftp").iterdir()) == []
