"""Linux on a simulated board: login, shell, the files that tests use, sleep."""

from __future__ import annotations

import re

import pytest
from support.simlab import S, SimLab

PROMPT = "root@am62xx-evm:~# "
QOS = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us"
UART = "/sys/bus/platform/devices/2800000.serial"


def logged_in(board_type: str = "am62xx_sk", release: str | None = None) -> SimLab:
    lab = SimLab(board_type, release)
    lab.on()
    lab.run_until("-evm login: ")
    lab.type("root\r")
    lab.run_until("# ")
    return lab


@pytest.fixture
def linux() -> SimLab:
    return logged_in()


@pytest.fixture(scope="module")
def shared() -> SimLab:
    """For tests that leave nothing behind."""
    return logged_in()


def test_an_unknown_user_is_asked_for_a_password_and_refused() -> None:
    lab = SimLab()
    lab.on()
    lab.run_until("-evm login: ")
    lab.type("guest\r")
    lab.run_until("Password: ")
    lab.type("secret\r")
    lab.run_until("Login incorrect")
    lab.run_until("-evm login: ")
    assert "secret" not in lab.said()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("uname -r", "6.12.34-ti-00895-g9167ea3511ca\n"),
        ("uname -a | wc -w", "8\n"),
        ("cat /proc/cmdline | grep -o root", "root\nroot\nroot\n"),
        ("grep -c processor /proc/cpuinfo", "4\n"),
        ("cat /sys/firmware/devicetree/base/model | tr -d '\\0'; echo", "Texas Instruments AM625 SK\n"),
        ("echo hi > /tmp/x && cat /tmp/x; rm /tmp/x; ls /tmp/x", "hi\nls: /tmp/x: No such file or directory\n"),
        ("cat /nowhere; echo $?", "cat: /nowhere: No such file or directory\n1\n"),
        ("frob; echo $?", "-sh: frob: command not found\n127\n"),
        ("echo x > /proc/cmdline; echo $?", "sh: /proc/cmdline: Permission denied\n1\n"),
        ("cd /run && pwd; cd", "/run\n"),
        ("for i in $(seq 3); do printf '%02d ' $i; done; echo", "01 02 03 \n"),
        ("[ -d /proc ] && [ 3 -gt 2 ] && echo yes", "yes\n"),
        ("dmesg | head -1", "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd034]\n"),
        ("dmesg -n 1; cat /proc/sys/kernel/printk | cut -f1", "1\n"),
        # /dev/kmsg is no console of the kernel: the facility is user (1), whatever is asked for; util-linux before 2.40 loses it.
        ("echo '<3>hi' > /dev/kmsg; for o in -Sr -r; do dmesg $o | tail -1 | grep -o '^<.*>'; done", "<11>\n<3>\n"),
        ("echo '<29>hi' > /dev/kmsg; dmesg -Sr | tail -1 | grep -o '^<.*>'", "<29>\n"),
        ("echo c > /dev/null; echo 5 | sort -n | tail -1", "5\n"),
        ("find /sys/bus/platform/devices/*.serial/ -name console", f"{UART}/2800000.serial:0/tty/ttyS2/console\n"),
        ("sh -c 'exit 3'; echo $?", "3\n"),
        ("systemctl is-system-running --wait", "running\n"),
    ],
)
def test_commands_answer_as_linux_does(shared: SimLab, command: str, says: str) -> None:
    assert shared.command(command, "# ").removesuffix("root@am62xx-evm:~") == says


def test_governors_can_be_set_and_wrong_ones_are_refused(linux: SimLab) -> None:
    node = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    assert linux.command(f"echo performance > {node}; cat {node}", PROMPT) == "performance\n"
    assert "Invalid argument" in linux.command(f"echo turbo > {node}", PROMPT)


def test_what_is_typed_while_a_command_runs_is_read_afterwards(linux: SimLab) -> None:
    linux.type("sleep 3\r")
    linux.run_for(S)
    linux.type("echo ahead\r")
    linux.run_until("ahead\nroot@")


def test_control_c_ends_a_command(linux: SimLab) -> None:
    linux.type("sleep 100\r")
    linux.run_for(S)
    linux.type("\x03")
    linux.run_until(PROMPT)
    assert linux.command("echo $?", PROMPT) == "130\n"


def test_files_survive_a_power_cycle_but_those_in_memory_do_not(linux: SimLab) -> None:
    linux.command("echo keep > kept; echo lose > /tmp/lost", PROMPT)
    linux.off()
    linux.run_for(S)
    linux.on()
    linux.run_until("-evm login: ")
    linux.type("root\r")
    linux.run_until(PROMPT)
    assert linux.command("cat kept /tmp/lost", PROMPT) == "keep\ncat: /tmp/lost: No such file or directory\n"


def test_reboot_begins_again_at_spl_and_poweroff_leaves_the_board_dead(linux: SimLab) -> None:
    boot_id = "cat /proc/sys/kernel/random/boot_id"
    before = linux.command(boot_id, PROMPT)
    linux.type("reboot\r")
    linux.run_until("reboot: Restarting system\n\nU-Boot SPL")
    linux.run_until("-evm login: ")
    linux.type("root\r")
    linux.run_until(PROMPT)
    assert linux.command(boot_id, PROMPT) != before
    died: list[bool] = []
    linux.board.died_hook = lambda: died.append(True)
    linux.type("poweroff\r")
    linux.run_until("reboot: Power down")
    linux.run_for(60 * S)
    assert died == [True]
    assert linux.board.stage == "powered-down"


def test_the_rtc_wakes_the_board_and_the_kernels_clock_stood_still(linux: SimLab) -> None:
    uptime = [float(linux.command("cat /proc/uptime", PROMPT).split()[0])]
    host_ns = linux.now_ns
    linux.type("rtcwake -s 20 -m mem\r")
    linux.run_until("printk: Suspending console(s)")
    linux.run_for(S)
    silent_from = len(linux.said())
    linux.run_for(15 * S)
    assert len(linux.said()) == silent_from
    linux.run_until("PM: suspend exit")
    linux.run_until(PROMPT)
    passed_s = (linux.now_ns - host_ns) / S
    uptime.append(float(linux.command("cat /proc/uptime", PROMPT).split()[0]))
    assert passed_s > 20
    assert uptime[1] - uptime[0] < passed_s - 19
    assert "wakeup source:0x50" in linux.said()
    assert linux.command("cat /sys/power/suspend_stats/success", PROMPT) == "1\n"


def latency_s(lab: SimLab) -> float:
    """As TI's script has it: from "Enabling non-boot CPUs" to "PM: suspend exit", on the kernel's clock."""
    log = lab.command("dmesg", PROMPT)
    stamps = {
        text: float(t) for t, text in re.findall(r"^\[ *(\d+\.\d+)\] (Enabling non-boot|PM: suspend exit)", log, re.M)
    }
    return stamps["PM: suspend exit"] - stamps["Enabling non-boot"]


@pytest.mark.parametrize(("mode", "published_ms"), [("deep_sleep", 137.03), ("mcu_only", 86.12)])
def test_without_printk_the_resume_latency_is_the_published_one(linux: SimLab, mode: str, published_ms: float) -> None:
    linux.command(f"dmesg -n 1; echo N > {UART}/2800000.serial:0/tty/ttyS2/console", PROMPT)
    if mode == "mcu_only":
        linux.command(f"echo 100000 > {QOS}", PROMPT)
    linux.command("rtcwake -s 2 -m mem", PROMPT)
    assert latency_s(linux) * 1000 == pytest.approx(published_ms, rel=0.04)


@pytest.mark.parametrize(
    ("release", "select", "mode"),
    [
        ("11.01", f"echo 100000 > {QOS}", "mcu_only"),
        ("11.01", "true", "deep_sleep"),
        ("10.00", f"echo 100 > {QOS}", "mcu_only"),
        ("09.02", "echo enabled > /sys/bus/platform/devices/5000000.m4fss/power/wakeup", "mcu_only"),
        ("09.02", f"echo 100 > {QOS}", "deep_sleep"),
    ],
)
def test_mcu_only_is_selected_as_the_release_wants_it(release: str, select: str, mode: str) -> None:
    linux = logged_in(release=release)
    linux.command(select, PROMPT)
    linux.type("echo mem > /sys/power/state\r")
    linux.run_for(3 * S)
    assert linux.board.stage == mode
    linux.type("k", "mcu")
    linux.run_for(3 * S)
    assert (linux.board.stage == "shell") == (mode == "mcu_only")
    assert ("Press a single key" in linux.said("mcu")) == (mode == "mcu_only")


def test_a_key_on_the_console_wakes_only_when_it_is_armed(linux: SimLab) -> None:
    linux.type("rtcwake -s 30 -m mem\r")
    linux.run_for(2 * S)
    linux.type("x")
    linux.run_for(2 * S)
    assert linux.board.stage == "deep_sleep"
    linux.run_until(PROMPT)
    linux.command(f"echo enabled > {UART}/power/wakeup; echo enabled > /sys/class/tty/ttyS2/power/wakeup", PROMPT)
    linux.type("rtcwake -s 30 -m mem\r")
    linux.run_for(2 * S)
    linux.type("x")
    linux.run_until("wakeup source:0x80")


def test_the_wkup_uart_wakes_from_deep_sleep(linux: SimLab) -> None:
    linux.type("echo mem > /sys/power/state\r")
    linux.run_for(2 * S)
    linux.type("w", "wkup")
    linux.run_until("PM: suspend exit")


def test_a_type_without_low_power_modes_refuses_to_suspend() -> None:
    linux = logged_in("am62xxsip_sk")
    prompt = "root@am62xxsip-evm:~# "
    assert "Invalid argument" in linux.command("echo mem > /sys/power/state", prompt)


@pytest.mark.parametrize("board_type", ["am62xx_lp_sk", "am62xx_sk"])
def test_partial_io_ends_in_a_cold_boot_by_its_wake_up_pin(board_type: str) -> None:
    linux = logged_in(board_type)
    assert linux.board.computer is not None
    linux.command("ethtool -s mcu_mcan0 wol p", "# ")
    linux.type("poweroff\r")
    linux.run_until("Entering Partial-IO")
    linux.run_for(10 * S)
    assert linux.board.stage == "partial-io"
    linux.board.receive("can", b"1", linux.now_ns)
    linux.run_until("U-Boot SPL")
