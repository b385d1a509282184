"""Low power on simulated boards in virtual time: every release, wake-up source and failure."""

from __future__ import annotations

import pytest
from support.facts import missing_facts
from support.napping import is_put_back, kernel_error, napper
from support.simruns import planned

from lab.benchmarks.lowpower.modes import SuspendPlan
from lab.errors import BoardlabError, ConfigurationError
from lab.run.board import Status

DEEP, MCU = SuspendPlan("deep_sleep", "uart", 1), SuspendPlan("mcu_only", "uart", 1)


def test_an_alarm_of_the_rtc_gives_the_kernels_latency_alone() -> None:
    with napper() as board:
        done = board.strategy.low_power.cycle(SuspendPlan("deep_sleep", "rtc", 5))
        assert done.edge is None
        assert kernel_error(done, board.wakeups()[0]) <= 1
        assert done.log.wake_source == "0x50"
        assert 4 <= done.asleep_s <= 6


@pytest.mark.parametrize("release", ["09.02", "10.00", "11.01"])
def test_mcu_only_is_selected_as_each_release_wants_it_and_again_before_each_suspend(release: str) -> None:
    with napper(release=release) as board:
        modes = [board.strategy.low_power.cycle(plan).log.mode for plan in (MCU, DEEP, MCU)]
        assert modes[1] == "deep_sleep"
        assert board.lab.said("mcu").count("Suspend request to MCU-only mode received") == 2
        assert is_put_back(board)


def test_where_nothing_names_the_mode_the_result_says_what_was_missing() -> None:
    with napper(release="09.02", mcu=False) as board:  # its kernel says nothing of the mode
        missing = board.strategy.low_power.cycle(MCU).unverified
        assert not missing_facts(missing, "kernel's lines", "several")
        assert not missing_facts(missing, "MCU's UART", "SideConsoleDriver")
        assert not missing_facts(missing, "power of the rails", "no rails")


def test_a_release_that_is_not_on_the_board_is_refused() -> None:
    with napper(release="10.00") as board:
        board.strategy.low_power.release = "11.01"
        with pytest.raises(ConfigurationError, match=r"6\.12.*runs 6\.6"):
            board.strategy.low_power.cycle(MCU)


def test_partial_io_is_left_by_a_cold_boot() -> None:
    with napper("am62xx_lp_sk") as board:
        board.strategy.transition("partial_io")
        assert board.lab.board.stage == "partial-io"
        board.strategy.transition("linux")
        assert board.lab.board.cycle == 1, "no power cycle"
        assert board.strategy.shell.run_check("uname -s") == ["Linux"]


@pytest.mark.parametrize(
    ("fault", "plan", "failure", "says"),
    [
        ("suspend_refused", DEEP, "suspend_refused", "The kernel: "),
        ("early_wake", DEEP, "early_wake", "woke by itself"),
        ("early_wake", SuspendPlan("deep_sleep", "rtc", 5), "early_wake", "before its alarm"),
        ("hung_resume", DEEP, "hung_resume", "has not answered"),
        ("mode_refused", MCU, "wrong_sleep_mode", "the kernel's lines: deep_sleep"),
    ],
)
def test_a_failed_suspend_has_its_class_and_the_next_cycle_begins_with_power(
    fault: str, plan: SuspendPlan, failure: str, says: str
) -> None:
    with napper() as board:
        board.lab.board.troubles_for = lambda cycle: [planned(fault).fault(cycle)] if cycle == 1 else []
        with pytest.raises(BoardlabError) as raised:
            board.strategy.low_power.cycle(plan)
        assert (raised.value.failure, raised.value.fault, raised.value.transient) == (failure, "board", True)
        assert says in str(raised.value)
        assert board.strategy.status is Status.unknown
        board.strategy.low_power.cycle(plan)
        assert board.lab.board.cycle == 2
        assert is_put_back(board)
