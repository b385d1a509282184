"""Low power through strategy and drivers on simulated boards, in virtual time; every release, source and failure is an
integration test, since it takes longer (test_sim_sleep.py)."""

from __future__ import annotations

import re
from contextlib import nullcontext

import pytest
from support.napping import is_put_back, kernel_error, napper, prompt_error
from support.simlab import S
from support.simruns import planned

from lab.benchmarks.lowpower.modes import SuspendPlan
from lab.benchmarks.lowpower.result import suspend_samples
from lab.control import lowpower
from lab.errors import BoardTransientError, ConfigurationError, LabStableError
from lab.metrics import Flag
from lab.run.board import Status

DEEP, MCU = SuspendPlan("deep_sleep", "uart", 1), SuspendPlan("mcu_only", "uart", 1)


@pytest.mark.parametrize("plan", [DEEP, SuspendPlan("mcu_only", "mcu", 1)], ids=str)
def test_both_latencies_are_the_true_ones_and_the_board_is_left_as_it_was(plan: SuspendPlan) -> None:
    with napper(adapter_latency_ns=1_000_000) as board:
        done = board.strategy.low_power.cycle(plan)
        (true,) = board.wakeups()
        assert kernel_error(done, true) <= 1
        assert prompt_error(done, true) <= 1
        assert done.since_edge_ms(done.answer)[0] > done.kernel_ms[0], "the firmware's share is in the host's only"
        assert done.unverified == ""
        assert {e.says for e in done.evidence} - {""} == {plan.mode}
        assert is_put_back(board)
        assert board.strategy.status is Status.linux
        assert board.strategy.shell.run_check("uname -s") == ["Linux"]


@pytest.mark.parametrize(("release", "flags"), [("09.02", {Flag.MODE_UNVERIFIED}), ("11.01", set())])
def test_numbers_of_a_mode_that_nobody_named_say_so(release: str, flags: set[Flag]) -> None:
    with napper(release=release, mcu=False) as board:  # before 11.01 the kernel says nothing of the mode
        done = board.strategy.low_power.cycle(SuspendPlan("mcu_only", "rtc", 5))
        samples = suspend_samples(done, frozenset(), board.strategy.console.captured(), 0)
        assert samples
        assert all(each.flags == flags for each in samples)


@pytest.mark.parametrize("seed", range(3))
def test_lines_that_a_program_writes_to_the_kernels_log_change_no_number(seed: int) -> None:
    with napper(seed=seed) as board:
        board.lab.board.troubles_for = lambda cycle: [planned("program_logs_suspend").fault(cycle)]
        done = board.strategy.low_power.cycle(DEEP)
        assert kernel_error(done, board.wakeups()[0]) <= 1
        assert done.flags == frozenset()


@pytest.mark.parametrize("question", ["read_again", "stats"])
def test_a_shell_that_does_not_answer_the_cross_check_loses_no_cycle(
    monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    with napper() as board:
        asked = getattr(lowpower, question)
        first = iter([question == "stats"])  # before the suspend

        def silent(*arguments: object) -> object:
            if next(first, False):
                return asked(*arguments)
            raise BoardTransientError("no answer", failure="command_timeout")

        monkeypatch.setattr(lowpower, question, silent)
        done = board.strategy.low_power.cycle(DEEP)
        assert done.flags == {Flag.NOT_CROSS_CHECKED}
        within_a_command = question == "stats"  # the last one; the next cycle then boots the board
        assert board.strategy.status is (Status.unknown if within_a_command else Status.linux)
        assert kernel_error(done, board.wakeups()[0]) <= 1


@pytest.mark.parametrize(
    ("by", "says"),
    [
        (
            "freezer",
            "'Freezing user space processes failed after 20.005 seconds (1 tasks refusing to freeze, wq_busy=0):', "
            "its suspend_stats name freeze",
        ),
        ("cpu", "'Error taking CPU1 down: -16'"),
        (
            "device",
            "'omap8250 2800000.serial: PM: failed to suspend: error -16', its suspend_stats name suspend of 2800000.serial",
        ),
        ("wakeup", "'PM: last active wakeup source: 2b1f0000.rtc'"),
    ],
)
def test_a_refused_suspend_says_what_refused_it(by: str, says: str) -> None:
    with napper() as board:
        board.lab.board.troubles_for = lambda cycle: [planned("suspend_refused", by=by).fault(cycle)]
        with pytest.raises(BoardTransientError, match=re.escape(f"The kernel: {says}")) as raised:
            board.strategy.low_power.cycle(DEEP)
        assert raised.value.failure == "suspend_refused"


@pytest.mark.parametrize(
    ("number", "failed"),
    [(0, ""), (1, "wrong_sleep_mode"), (2, "wrong_sleep_mode"), (8, ""), (255, "")],
)
def test_the_firmware_names_the_mode_that_was_reached(number: int, failed: str) -> None:
    with napper() as board:
        board.lab.board.troubles_for = lambda cycle: [planned("firmware_mode", number=number).fault(cycle)]
        with pytest.raises(BoardTransientError) if failed else nullcontext() as raised:
            done = board.strategy.low_power.cycle(DEEP)
            assert done.flags == ({Flag.MODE_UNVERIFIED} if number else frozenset())
        assert not failed or raised.value.failure == failed


@pytest.mark.parametrize("error", ["no", "yes"])
def test_a_kernel_that_restarts_out_of_its_power_off_was_not_in_partial_io(error: str) -> None:
    with napper("am62xx_lp_sk") as board:
        board.lab.board.troubles_for = lambda cycle: [planned("partial_io_refused", error=error).fault(cycle)]
        with pytest.raises(BoardTransientError, match=r"stay in Partial I/O") as raised:
            board.strategy.transition("partial_io")
        assert raised.value.failure == "wrong_sleep_mode"
        assert ("emergency restart" in str(raised.value)) == (error == "yes")


def test_the_states_are_the_low_power_modes_and_linux_wakes_the_board() -> None:
    with napper() as board:
        strategy = board.strategy
        strategy.transition("mcu_only")
        assert strategy.status is Status["mcu_only"]
        assert board.lab.board.stage == "mcu_only"
        strategy.transition("deep_sleep")  # by way of Linux
        assert board.lab.board.stage == "deep_sleep"
        strategy.transition("linux")
        assert board.lab.board.cycle == 1, "woken, not power-cycled"
        strategy.transition("deep_sleep")
        strategy.transition("off")
        assert board.lab.board.stage == "off"


@pytest.mark.parametrize(
    ("interruption", "seen"), [(KeyboardInterrupt, KeyboardInterrupt), (RuntimeError, LabStableError)]
)
def test_the_board_puts_itself_back_when_the_host_stops_while_it_sleeps(
    interruption: type[BaseException], seen: type[BaseException]
) -> None:
    plan = SuspendPlan("mcu_only", "gpio", 1)
    with napper() as board:
        pin = board.strategy.target.get_driver("SimPinDriver", name="gpio")
        pin.interruption = interruption
        with pytest.raises(seen):
            board.strategy.low_power.cycle(plan)
        assert board.strategy.status is Status.unknown
        assert not board.kernel.console_attached, "it sleeps, and nobody is there to wake it"
        board.lab.run_for(90 * S)
        assert is_put_back(board)
        pin.interruption = None
        board.strategy.low_power.cycle(plan)
        assert board.lab.board.cycle == 2, "the next transition power-cycles"


@pytest.mark.parametrize(
    ("board_type", "plan", "says"),
    [
        ("am62xxsip_sk", DEEP, "has no low-power modes"),
        ("am62xx_sk", SuspendPlan("io_ddr", "can"), "has no low-power mode 'io_ddr'"),
        ("am62xx_sk", SuspendPlan("standby"), "it has: deep_sleep, mcu_only, partial_io"),
        (
            "am62xx_sk",
            SuspendPlan("deep_sleep", "mcu"),
            "not woken from deep_sleep by 'mcu'; it is by: uart, rtc, gpio",
        ),
        ("am62xx_lp_sk", SuspendPlan("partial_io", "uart"), "not woken from partial_io by 'uart'; it is by: can"),
        ("am62axx_sk", SuspendPlan("io_ddr", "rtc"), "not woken from io_ddr by 'rtc'; it is by: can, mcu"),
        (
            "am62axx_sk",
            SuspendPlan("io_ddr", "can"),
            r"jumper that nothing reports: J9 fitted.*jumpers: \['J9 fitted'\]",
        ),
    ],
)
def test_what_a_board_cannot_do_is_refused_before_it_is_touched(board_type: str, plan: SuspendPlan, says: str) -> None:
    with napper(board_type) as board:
        with pytest.raises(ConfigurationError, match=says):
            board.strategy.low_power.cycle(plan)
        assert board.lab.board.cycle == 0


def test_a_wake_up_source_that_is_not_wired_is_refused_before_the_board_is_touched() -> None:
    with napper(mcu=False) as board:
        with pytest.raises(ConfigurationError, match="add a SideConsoleDriver"):
            board.strategy.low_power.cycle(SuspendPlan("mcu_only", "mcu"))
        assert board.lab.board.cycle == 0
