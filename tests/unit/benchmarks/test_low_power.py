"""Low power: what the kernel's log says, who names the mode, how it is selected, and what stands in the way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest
from attrs import evolve, frozen
from support.facts import missing_facts

from lab import boards
from lab.benchmarks.lowpower.kernellog import read_log
from lab.benchmarks.lowpower.modes import Constraint, SuspendPlan, constraint, release_of
from lab.benchmarks.lowpower.preflight import PrintkSettings, Stats, arm, preflight, stats
from lab.benchmarks.lowpower.result import KERNEL, ModeEvidence, of_mcu, of_power, verify
from lab.benchmarks.lowpower.script import FILE, commands, install
from lab.errors import BoardStableError, BoardTransientError, ConfigurationError, LabTransientError

S = 1_000_000_000
AM62 = boards.load("am62xx_sk")
LP = boards.load("am62xx_lp_sk")
QEMU = boards.load("qemu-virt")
PROMPT = "root@am62xx-evm:~# "
WOKEN = SuspendPlan("deep_sleep", "uart", 5)
FOUND = PrintkSettings("7 4 1 7", ("ttyS2",))

# TI's low-power guide, SDK 11: MCU-only, woken by the RTC.
MCU_ONLY = """\
[   45.548480] PM: suspend entry (deep)
[   45.648993] cpu cpu3: ti_sci_suspend: sending max CPU latency=100
[   45.649033] ti-sci 44043000.system-controller: ti_sci_cmd_set_latency_constraint: latency: 100: state: 1: ret 0
[   45.669270] Disabling non-boot CPUs ...
[   45.676640] psci: CPU3 killed (polled 4 ms)
[   45.677311] Enabling non-boot CPUs ...
[   45.678694] CPU1 is up
[   45.681332] ti-sci 44043000.system-controller: ti_sci: wakeup source:0x50, pin:0x72, mode:0x1
[   46.004264] OOM killer enabled.
[   46.032262] PM: suspend exit
""".splitlines()
DEEP = [line.replace("mode:0x1", "mode:0x0") for line in MCU_ONLY if "latency" not in line]


def without_mode(lines: Sequence[str], *more: str) -> list[str]:
    """As a kernel before 6.12 says it."""
    return [re.sub(r"ti_sci: wakeup source:0x50.*", "ti_sci_resume: wakeup source: 0x50", line) for line in lines] + [
        *more
    ]


@frozen
class Shell:
    """Answers by a table: command -> lines and exit status."""

    says: Mapping[str, tuple[list[str], int]]

    def run(self, cmd: str) -> tuple[Sequence[str], Sequence[str], int]:
        lines, status = self.says.get(cmd, ([], 1))
        return lines, [], status


HEALTHY = {
    "uname -v": (["#1 SMP PREEMPT"], 0),
    "cat /sys/power/state": (["freeze mem"], 0),
    "cat /sys/power/mem_sleep 2>/dev/null": (["s2idle [deep]"], 0),
    "cat /sys/class/tty/ttyS2/console 2>/dev/null": (["Y"], 0),
    "cat /proc/sys/kernel/printk": (["7\t4\t1\t7"], 0),
}


def test_the_vendors_latency_is_between_two_lines_of_the_kernel() -> None:
    log = read_log(MCU_ONLY, AM62)
    assert log.latency_s == pytest.approx(46.032262 - 45.677311, abs=1e-9)
    assert (log.variant, log.mode, log.wake_source) == ("deep", "mcu_only", "0x50")


@pytest.mark.parametrize(("before", "caller"), [("", "[    T1]"), ("<6>", ""), ("", "[   C0]")])
def test_lines_with_a_caller_or_a_level_are_the_kernels_too(before: str, caller: str) -> None:
    dressed = [before + line.replace("] ", f"]{caller} ", 1) for line in MCU_ONLY]
    assert read_log(dressed, AM62) == evolve(read_log(MCU_ONLY, AM62), by_level=bool(before))


def test_only_the_last_suspend_of_the_log_counts() -> None:
    later = [re.sub(r"\[   4(\d)", r"[   9\1", line) for line in DEEP]
    log = read_log([*MCU_ONLY, *later], AM62)
    assert (log.mode, log.end_s) == ("deep_sleep", 96.032262)


@pytest.mark.parametrize(
    ("lines", "mode"),
    [
        (MCU_ONLY, "mcu_only"),
        (DEEP, "deep_sleep"),
        (
            without_mode(DEEP, "[   45.600000] remoteproc remoteproc0: stopped remote processor 5000000.m4fss"),
            "deep_sleep",
        ),
        (without_mode(MCU_ONLY), ""),  # the constraint was sent; what the firmware made of it is not said
        (["[    1.000000] nothing of a suspend"], ""),
    ],
)
def test_the_kernels_lines_name_the_mode_or_do_not(lines: list[str], mode: str) -> None:
    assert read_log(lines, AM62).mode == mode


def test_with_one_cpu_the_resume_begins_with_the_first_line_that_the_board_type_names() -> None:
    lines = [
        "[   12.056485] PM: suspend entry (shallow)",
        "[   12.065258] boardlab_lpm: entering shallow",
        "[   12.065258] boardlab_lpm: leaving shallow",
        "[   12.310666] OOM killer enabled.",
        "[   12.311652] PM: suspend exit",
    ]
    log = read_log(lines, QEMU)
    assert (log.start_s, log.mode) == (12.065258, "standby")


def test_the_reason_of_a_refusal_is_found() -> None:
    lines = [
        "[ 1.000000] PM: suspend entry (deep)",
        "[ 1.100000] omap8250 2800000.serial: PM: failed to suspend: error -16",
    ]
    assert "2800000.serial" in read_log(lines, AM62).reason


def test_one_source_that_names_the_mode_verifies_it_and_silence_does_not() -> None:
    kernel = ModeEvidence(KERNEL, "", "they fit several modes")
    assert verify("mcu_only", [kernel, of_mcu("Suspend request to MCU-only mode received")]) == ""
    missing = verify("mcu_only", [kernel, of_mcu(""), of_power(None, AM62)])
    assert "they fit several modes" in missing
    assert not missing_facts(missing, "nothing", "MCU-only")
    assert "no rails are measured" in missing


def test_a_source_that_names_another_mode_fails_the_cycle() -> None:
    with pytest.raises(BoardTransientError, match="the MCU's UART: mcu_only") as raised:
        verify("deep_sleep", [ModeEvidence(KERNEL, "deep_sleep"), of_mcu("Suspend request to MCU-only mode received")])
    assert raised.value.failure == "wrong_sleep_mode"


def test_power_names_a_mode_only_where_it_fits_that_one_alone() -> None:
    board = evolve(AM62, low_power=evolve(AM62.low_power, total_mw={"deep_sleep": [5, 60], "mcu_only": [50, 250]}))
    assert of_power(24.4, board).says == "deep_sleep"
    assert of_power(142.0, board).says == "mcu_only"
    assert (of_power(55.0, board).says, of_power(900.0, board).says) == ("", "")


@pytest.mark.parametrize(
    ("kernel", "value", "path"),
    [
        ("6.1.80-ti", "enabled", "5000000.m4fss/power/wakeup"),
        ("6.6.32-ti", "100", "pm_qos_resume_latency_us"),  # milliseconds
        ("6.12.34-ti-00895-g9167ea3511ca", "100000", "pm_qos_resume_latency_us"),
        ("6.18.1-ti", "100000", "pm_qos_resume_latency_us"),  # a release that boardlab does not know yet
    ],
)
def test_mcu_only_is_selected_as_the_release_on_the_board_wants_it(kernel: str, value: str, path: str) -> None:
    found = constraint(AM62, release_of(AM62, "unreleased", kernel))
    assert found is not None
    assert found.value == value
    assert found.path.endswith(path)


def test_a_release_with_another_kernel_than_the_boards_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"09\.02 of am62xx_sk.*6\.1"):
        release_of(AM62, "09.02", "6.12.34")


def test_the_boards_own_shell_puts_everything_back_after_the_suspend() -> None:
    qos = Constraint("/qos", "100000", "0")
    steps = commands(AM62.low_power.modes["mcu_only"], FOUND, qos, rtc="rtc0", alarm_s=7, afterwards={"/c": "on"})
    asleep = steps.index("echo mem > /sys/power/state")
    assert "echo N > /sys/class/tty/ttyS2/console" in steps[:asleep]
    assert "echo +7 > /sys/class/rtc/rtc0/wakealarm" in steps[:asleep]
    after = steps[asleep + 1 :]
    for step in (
        "echo 0 > /qos",
        "echo on > /c",
        "echo Y > /sys/class/tty/ttyS2/console",
        "echo 7 > /proc/sys/kernel/printk",
    ):
        assert step in after
    quiet = steps.index("echo 1 > /proc/sys/kernel/printk")
    loud = steps.index("echo 7 > /proc/sys/kernel/printk")
    assert quiet < asleep < steps.index("echo Y > /sys/class/tty/ttyS2/console") < loud, (
        "or the whole log is printed anew"
    )


def test_a_script_that_lost_characters_is_never_run() -> None:
    shell = Shell({f"cat {FILE}": (["echo 0 > /qos", "echo me > /sys/power/state"], 0)})
    with pytest.raises(LabTransientError, match=r"'echo mem .*'echo me >"):
        install(shell, ["echo 0 > /qos", "echo mem > /sys/power/state"])


@pytest.mark.parametrize(
    ("changes", "board", "failure", "says"),
    [
        ({"uname -v": (["#1 SMP PREEMPT_RT"], 0)}, AM62, "rt_kernel", "default kernel"),
        ({"cat /sys/power/state": (["freeze"], 0)}, AM62, "no_low_power", "'mem'"),
        ({"cat /sys/power/mem_sleep 2>/dev/null": (["[s2idle]"], 0)}, AM62, "no_low_power", "'deep'"),
        ({LP.low_power.blockers["usb1"].check: (["1-1"], 0)}, LP, "sleep_blocked", "unplug it"),
    ],
)
def test_what_stands_in_the_way_is_said_before_the_first_suspend(
    changes: dict[str, tuple[list[str], int]], board: boards.BoardType, failure: str, says: str
) -> None:
    with pytest.raises(BoardStableError, match=says) as raised:
        preflight(Shell({**HEALTHY, **changes}), board, board.releases["11.01"], SuspendPlan("deep_sleep"))
    assert raised.value.failure == failure


def test_a_blocker_of_gp_devices_does_not_concern_a_secure_one() -> None:
    shell = Shell({**HEALTHY, AM62.low_power.blockers["optee_rng"].check: ([], 0)})
    assert preflight(shell, AM62, AM62.releases["11.01"], SuspendPlan("deep_sleep")) == FOUND
    with pytest.raises(BoardStableError, match="modprobe -r optee_rng"):
        preflight(shell, AM62, AM62.releases["08.05"], SuspendPlan("deep_sleep"))


def test_a_wake_up_source_that_does_not_take_is_an_error() -> None:
    with pytest.raises(BoardStableError, match=r"not armed.*nothing"):
        arm(Shell({}), AM62, WOKEN)


@pytest.mark.parametrize(
    ("lines", "known"),
    [
        (
            [
                *("fail:1", "failed_freeze:0", "failed_resume:1", "failed_resume_early:2", "failed_suspend:1"),
                *(
                    "last_failed_dev:2800000.serial",
                    "last_failed_errno:-16",
                    "last_failed_step:suspend",
                    "success:4",
                    "512",
                ),
            ],
            Stats(4, 1, 3, "suspend of 2800000.serial", None, 512),
        ),
        (
            [
                "success: 20",
                "fail: 1",
                "failed_freeze: 1",
                "failures:",
                "  last_failed_dev:\tmmc1",
                "  last_failed_step:\tfreeze",
                "0",
            ],
            Stats(20, 1, 0, "freeze", None, 0),  # of debugfs; that step has no device
        ),
        (
            ["success:1", "fail:0", "last_hw_sleep:4012345", "cat: /proc/sys/kernel/tainted: No such file"],
            Stats(1, 0, 0, "", 4012345),
        ),
        (["sh: cd: can't cd to /sys/power/suspend_stats", "0"], None),
        ([], None),
    ],
)
def test_the_kernels_counters_are_read_where_they_are(lines: list[str], known: Stats | None) -> None:
    class Answer:
        def run(self, _cmd: str) -> tuple[Sequence[str], Sequence[str], int]:
            return lines, [], 0

    assert stats(Answer(), AM62) == known
