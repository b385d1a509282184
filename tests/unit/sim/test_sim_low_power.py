"""Low power through strategy and drivers on simulated boards, in virtual time."""

from __future__ import annotations

import pytest
from napping import Napper, kernel_error, napper, prompt_error
from simlab import S
from simruns import planned

from lab.benchmarks.lowpower.modes import Plan
from lab.errors import BoardlabError, ConfigurationError
from strategies import Status

DEEP, MCU = Plan("deep_sleep", "uart", 1), Plan("mcu_only", "uart", 1)


def is_put_back(board: Napper) -> bool:
    """Whether the console prints again, and no constraint is left."""
    kernel = board.kernel
    return kernel.console_attached and kernel.settings.get("qos", "0") == "0" and board.kernel.console_level == 1


@pytest.mark.parametrize("plan", [DEEP, MCU, Plan("mcu_only", "mcu", 1), Plan("deep_sleep", "gpio", 1)], ids=str)
def test_both_latencies_are_the_true_ones_and_the_board_is_left_as_it_was(plan: Plan) -> None:
    with napper(adapter_latency_ns=1_000_000) as board:
        done = board.strategy.sleeping.cycle(plan)
        (true,) = board.wakeups()
        assert kernel_error(done, true) <= 1
        assert prompt_error(done, true) <= 1
        assert done.since_edge_ms(done.answer)[0] > done.kernel_ms[0], "the firmware's share is in the host's only"
        assert done.unverified == ""
        assert {e.says for e in done.evidence} - {""} == {plan.mode}
        assert is_put_back(board)
        assert board.strategy.status is Status.linux
        assert board.strategy.shell.run_check("uname -s") == ["Linux"]


def test_an_alarm_of_the_rtc_gives_the_kernels_latency_alone() -> None:
    with napper() as board:
        done = board.strategy.sleeping.cycle(Plan("deep_sleep", "rtc", 5))
        assert done.edge is None
        assert kernel_error(done, board.wakeups()[0]) <= 1
        assert done.log.wake_source == "0x50"
        assert 4 <= done.asleep_s <= 6


@pytest.mark.parametrize("release", ["09.02", "10.00", "11.01"])
def test_mcu_only_is_selected_as_each_release_wants_it_and_again_before_each_suspend(release: str) -> None:
    with napper(release=release) as board:
        modes = [board.strategy.sleeping.cycle(plan).log.mode for plan in (MCU, DEEP, MCU)]
        assert modes[1] == "deep_sleep"
        assert board.lab.said("mcu").count("Suspend request to MCU-only mode received") == 2
        assert is_put_back(board)


def test_where_nothing_names_the_mode_the_result_says_what_was_missing() -> None:
    with napper(release="09.02", mcu=False) as board:  # its kernel says nothing of the mode
        missing = board.strategy.sleeping.cycle(MCU).unverified
        assert "the kernel's lines: they fit several modes" in missing
        assert "the MCU's UART: the env has no SideConsoleDriver" in missing
        assert "the power of the rails: no rails are measured" in missing


def test_a_release_that_is_not_on_the_board_is_refused() -> None:
    with napper(release="10.00") as board:
        board.strategy.sleeping.release = "11.01"
        with pytest.raises(ConfigurationError, match=r"has a kernel 6\.12.*the board runs 6\.6"):
            board.strategy.sleeping.cycle(MCU)


def test_the_states_are_the_low_power_modes_and_linux_wakes_the_board() -> None:
    with napper() as board:
        strategy = board.strategy
        strategy.transition("mcu_only")
        assert strategy.status is Status.mcu_only
        assert board.lab.board.stage == "mcu_only"
        strategy.transition("deep_sleep")  # by way of Linux
        assert board.lab.board.stage == "deep_sleep"
        strategy.transition("linux")
        assert board.lab.board.cycle == 1, "woken, not power-cycled"
        strategy.transition("deep_sleep")
        strategy.transition("off")
        assert board.lab.board.stage == "off"


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
        ("early_wake", Plan("deep_sleep", "rtc", 5), "early_wake", "before its alarm"),
        ("hung_resume", DEEP, "hung_resume", "has not answered"),
        ("mode_refused", MCU, "wrong_sleep_mode", "the kernel's lines: deep_sleep"),
    ],
)
def test_a_failed_suspend_has_its_class_and_the_next_cycle_begins_with_power(
    fault: str, plan: Plan, failure: str, says: str
) -> None:
    with napper() as board:
        board.lab.board.troubles_for = lambda cycle: [planned(fault).fault(cycle)] if cycle == 1 else []
        with pytest.raises(BoardlabError) as raised:
            board.strategy.sleeping.cycle(plan)
        assert (raised.value.failure, raised.value.fault, raised.value.transient) == (failure, "board", True)
        assert says in str(raised.value)
        assert board.strategy.status is Status.unknown
        board.strategy.sleeping.cycle(plan)
        assert board.lab.board.cycle == 2
        assert is_put_back(board)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_the_board_puts_itself_back_when_the_host_stops_while_it_sleeps(interruption: type[BaseException]) -> None:
    plan = Plan("mcu_only", "gpio", 1)
    with napper() as board:
        pin = board.strategy.target.get_driver("SimPinDriver", name="gpio")
        pin.interruption = interruption
        with pytest.raises(interruption):
            board.strategy.sleeping.cycle(plan)
        assert board.strategy.status is Status.unknown
        assert not board.kernel.console_attached, "it sleeps, and nobody is there to wake it"
        board.lab.run_for(90 * S)
        assert is_put_back(board)
        pin.interruption = None
        board.strategy.sleeping.cycle(plan)
        assert board.lab.board.cycle == 2, "the next transition power-cycles"


@pytest.mark.parametrize(
    ("board_type", "plan", "says"),
    [
        ("am62xxsip_sk", DEEP, "has no low-power modes"),
        ("am62xx_sk", Plan("partial_io", "can"), "has no low-power mode 'partial_io'"),
        ("am62xx_sk", Plan("standby"), "it has: deep_sleep, mcu_only"),
        ("am62xx_sk", Plan("deep_sleep", "can"), "has no wake-up source 'can'"),
        ("am62xx_sk", Plan("deep_sleep", "mcu"), "wakes from mcu_only alone"),
        ("am62xx_lp_sk", Plan("partial_io", "uart"), "partial_io is left by the CAN pins"),
    ],
)
def test_what_a_board_cannot_do_is_refused_before_it_is_touched(board_type: str, plan: Plan, says: str) -> None:
    with napper(board_type) as board:
        with pytest.raises(ConfigurationError, match=says):
            board.strategy.sleeping.cycle(plan)
        assert board.lab.board.cycle == 0


def test_a_wake_up_source_that_is_not_wired_is_refused_before_the_board_is_touched() -> None:
    with napper(mcu=False) as board:
        with pytest.raises(ConfigurationError, match="add a SideConsoleDriver"):
            board.strategy.sleeping.cycle(Plan("mcu_only", "mcu"))
        assert board.lab.board.cycle == 0
