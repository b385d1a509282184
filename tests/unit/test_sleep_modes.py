"""A low-power mode is one entry of the table, and data of its board types."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab import boards
from lab.run.board import Status
from lab.sleep_modes import SLEEP_MODES

TESTS = Path(__file__).resolve().parents[1]
LOW_POWER = TESTS.parent / "docs" / "low-power.md"
MOON = """
name = "mine"
based_on = ["am62xx_sk"]
sleep = ["deep_sleep", "mcu_only", "partial_io", "moon"]
[low_power.modes.moon]
title = "Moon Sleep"
state = "mem"
variant = "deep"
settings."/sys/devices/platform/bus@f0000/f900000.dwc3-usb/power/wakeup" = "disabled"
[low_power.firmware]
0x9 = "moon"
"""
USED = """
from lab.sleep_modes import SLEEP_MODES, LowPowerMode

SLEEP_MODES["moon"] = LowPowerMode("Moon Sleep")

from lab import boards
from lab.benchmarks.lowpower.modes import SuspendPlan, check_plan
from lab.guide.layout import guide_name
from lab.metrics.catalogue import RESUMES, by_name
from lab.virtual.rails.levels import levels
from lab.virtual.sim.backend import _STATES
from support.napping import napper

mine = boards.load("mine")
check_plan(mine, SuspendPlan("moon"))
assert RESUMES["moon"].kernel == by_name("lpm.moon.resume_kernel")
assert guide_name("lpm.moon.resume_kernel", {}, "mine").params == {"mode": "moonsleep"}
assert levels(mine, "")[_STATES["moon"]].keys() == levels(mine, "")["deep_sleep"].keys()
with napper("mine") as board:
    done = board.strategy.low_power.cycle(SuspendPlan("moon", "rtc", 5))
    assert done.flags == frozenset()
    assert abs(done.kernel_ms[0] - 137.0) < 10
"""


def test_an_entry_and_a_type_are_all_that_a_mode_needs(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MOON)
    environment = os.environ | {"PYTHONPATH": str(TESTS), "BOARDLAB_BOARD_TYPES": str(tmp_path)}
    used = subprocess.run([sys.executable, "-c", USED], env=environment, capture_output=True, text=True, check=False)
    assert used.returncode == 0, used.stderr


@pytest.mark.parametrize("name", SLEEP_MODES)
def test_a_mode_is_a_state_of_the_strategy_and_on_the_page(name: str) -> None:
    assert Status[name].asleep
    assert f"`{name}`" in LOW_POWER.read_text(encoding="utf-8")


def test_the_types_and_the_table_agree_whether_a_mode_ends_by_a_boot() -> None:
    for board in map(boards.load, boards.shipped()):
        for name, mode in board.low_power.modes.items():
            assert mode.boots == SLEEP_MODES[name].boots, f"{board.name}, {name}"
