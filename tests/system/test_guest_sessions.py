"""Whole sessions on the kernel's own drivers: their boot times are the board's."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from support.chaos_verdict import Story, judge, untrue
from support.driver_guest import DEADLINE_S
from support.guest_lab import GuestLab, Outcome, guest_lab

pytestmark = [pytest.mark.soak, pytest.mark.timeout(8 * DEADLINE_S)]

BOOT: Final = ("/lab/project/tests_perf/test_boot.py", "--lab-medium", "sd", "--lab-release", "11.01")


@pytest.fixture(scope="module")
def lab() -> Iterator[GuestLab]:
    with tempfile.TemporaryDirectory(prefix="guest-") as name, guest_lab(Path(name), "--time-scale", "0.25") as lab:
        yield lab


def test_a_session_s_boot_times_are_the_board_s(lab: GuestLab, tmp_path: Path) -> None:
    lab.write_environment()
    lab.start(*BOOT, "--lab-cycles", "2")
    while (status := lab.tick()) is None:
        time.sleep(0.2)
    outcome = lab.outcome(tmp_path)
    assert status == 0, outcome.log
    assert len(outcome.timed) == 2
    assert_true(lab, outcome)


def assert_true(lab: GuestLab, outcome: Outcome) -> None:
    """Each boot time is the board's within its ±, or flagged; no byte came from another board, or went to one."""
    story = Story(lab.bench.truth())
    assert untrue([judge(timed, [story]) for timed in outcome.timed]) == []
    assert b"stranger" not in outcome.recorded
    assert bytes(lab.cables["stranger"].typed) == b""
