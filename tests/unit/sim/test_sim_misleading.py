"""Faults that mislead who reads the console: what they say, and when the boot truly began and ended.

What boardlab makes of them is proved by tests/integration/test_sim_faults.py.
"""

from __future__ import annotations

import re

import pytest
from support.simlab import S, SimLab
from support.simruns import planned

from lab.virtual.truth_log import TrueBoot, Truth, true_boots

HOST = "am62xx-evm"
PROMPT = f"{HOST} login: "
BANNER = "U-Boot 2025.01"


def board(fault: str = "", **parameters: object) -> SimLab:
    """A board that has the fault at its first power on."""
    lab = SimLab()
    if fault:
        plan = planned(fault, cycles="1", **parameters)
        lab.board.troubles_for = lambda cycle: [plan.fault(cycle)] if plan.strikes(cycle) else []
    return lab


def booted(fault: str = "", medium: str = "sd", **parameters: object) -> SimLab:
    """The board, a while after it began to wait for a login."""
    lab = board(fault, **parameters)
    lab.on(medium)
    run_to_prompt(lab)
    lab.run_for(1 * S)
    return lab


def run_to_prompt(lab: SimLab) -> None:
    limit_ns = lab.now_ns + 200 * S
    while lab.board.stage != "login":
        assert lab.step_until(limit_ns), f"no login prompt; the end: {lab.said()[-300:]!r}"


def truth(lab: SimLab) -> list[TrueBoot]:
    """The true times of the boots that reached the prompt."""
    return true_boots(Truth(115200, lab.ports[lab.console].sent, 0, [], lab.noted), HOST)


def planned_s(lab: SimLab) -> float:
    """How long the board means to take from "Starting kernel" to the prompt."""
    assert lab.board.computer is not None
    return lab.board.computer.durations.boot_ns / S


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("oops_after_prompt", PROMPT + r"\[ *\d+\.\d{6}\] Unable to handle kernel NULL pointer"),
        ("external_abort", r"\n\[ .*\] Internal error: synchronous external abort: [0-9a-f]{16} \[#1\]"),
        ("soft_lockup", r"\n\[ .*\] watchdog: BUG: soft lockup - CPU#2 stuck for 26s! "),
        ("mmc_errors", r"\n\[ .*\] mmc1: error -110 whilst initialising SD card\n"),
        ("mmc_errors", r"\n\[ .*\] mmcblk1: recovery failed!\n"),
        ("root_read_only", r"\n\[ .*\] EXT4-fs \(mmcblk1p2\): Remounting filesystem read-only\n"),
        ("fsck_repairs", r"\nsystemd-fsck\[142\]: /dev/mmcblk1p3: recovering journal\n"),
        ("unit_failed", r"\n\[\x1b\[0;1;31mFAILED\x1b\[0m\] Failed to start "),
        ("environment_echoed", r"\nannounce=echo; echo Starting kernel \.\.\.; echo\n"),
        ("environment_echoed", rf"\nver={BANNER}"),
        ("terminal_query", r"autoboot: .* 0 \n\x1b7\x1b\[r\x1b\[999;999H\x1b\[6n\x1b8"),
        ("terminal_query", rf"\x1b\[\?7h{PROMPT}"),
        ("prompt_in_log", rf"\n\[ .*'{PROMPT}' on the console\n"),
        ("prompt_in_issue", rf"\n{PROMPT}\n(.*\n)+{PROMPT}"),
        ("prompt_with_text", rf"\n{PROMPT}session opened for root\n"),
        ("prompt_with_kernel_text", PROMPT + r"\[ *\d+\.\d{6}\] audit: type=1334 .*\n"),
        ("banner_in_user_space", r"\n(board-info: bootloader U-Boot 20|U-Boot 2025|Starting kernel \.\.\. 3 s)"),
        ("panic_quoted", r"\npstore-reader: <4>\[   88\.100000\] Kernel panic - not syncing: "),
        ("first_image_refused", r"\nWrong Image Format for bootm command\n"),
        ("other_medium_errors", r"\n\[ .*\] I/O error, dev mtdblock[3-6], sector 0"),
        ("early_prompt", rf"\n{PROMPT}\n{PROMPT}$"),
        ("printk_caller", r"\n\[    0\.000000\]\[    T0\] Booting Linux"),
        ("printk_dated", r"\n2025-01-08T18:22:53\.000000\+01:00 am62xx-evm kernel: \[    0\.000000\] Booting Linux"),
    ],
)
def test_a_boot_with_the_fault_says_so_and_takes_as_long_as_it_takes(fault: str, says: str) -> None:
    lab = booted(fault)
    assert re.search(says, lab.said()), lab.said()[-2000:]
    (boot,) = truth(lab)
    late_s = {"soft_lockup": 26.0, "prompt_in_issue": 0.4, "early_prompt": 1.5}.get(fault, 0.0)
    assert boot.boot_s == pytest.approx(planned_s(lab) + late_s, abs=0.5)


def test_a_damaged_prompt_comes_once_more_after_a_while() -> None:
    lab = booted("prompt_damaged")
    assert lab.said().endswith(f"{HOST} lowin: ")
    lab.run_for(5 * S)
    assert lab.said().endswith(f"{HOST} lowin: \n{PROMPT}")


def test_without_a_fault_nothing_of_that_is_said() -> None:
    said = booted().said()
    assert said.count(PROMPT) == 1
    assert said.count("Starting kernel ...") == 1
    assert not re.search(r"\berror\b|FAILED|BUG:|recover|read-only", said)


@pytest.mark.parametrize("fault", ["ubi_errors"])
def test_flash_that_cannot_be_read_is_said_by_ubi_and_ubifs(fault: str) -> None:
    said = booted(fault, "ospi").said()
    assert re.search(
        r"\] ubi0 error: ubi_io_read: error -74 \(ECC error\) while reading 4096 bytes from PEB 21:8192", said
    )
    assert re.search(r"\] UBIFS error \(ubi0:0 pid 1\): ubifs_read_node: bad node type", said)


def test_a_bus_error_ends_the_kernel() -> None:
    lab = board("serror")
    lab.on()
    lab.run_for(60 * S)
    assert "SError Interrupt on CPU1, code 0x00000000bf000002 -- SError" in lab.said()
    assert lab.said().endswith("Asynchronous SError Interrupt ]---\n")


@pytest.mark.parametrize(
    ("fault", "banners", "starts"),
    [
        ("warm_restart", 2, 1),
        ("warm_restart_unreadable", 1, 1),
        ("countdown_reset", 1, 1),
        ("watchdog_unreadable", 1, 2),
    ],
)
def test_a_second_start_of_u_boot_may_hide_its_banner_and_the_true_boot_is_that_of_the_last_kernel(
    fault: str, banners: int, starts: int
) -> None:
    lab = booted(fault)
    said = lab.said()
    assert len(re.findall(rf"^{BANNER}", said, re.MULTILINE)) == banners
    assert said.count("Hit any key to stop autoboot") == 2
    assert said.count("Starting kernel ...") == starts
    (boot,) = truth(lab)
    assert boot.boot_s == pytest.approx(planned_s(lab), abs=0.001)
    assert boot.from_power_on_s > planned_s(lab) + 7, "both starts of U-Boot are in it"


@pytest.mark.parametrize(("fault", "says_so"), [("kexec", True), ("clock_restarted", False)])
def test_a_kernel_that_starts_another_one_has_no_true_boot_time(fault: str, says_so: bool) -> None:
    lab = booted(fault)
    said = lab.said()
    assert ("kexec_core: Starting new kernel" in said) is says_so
    assert said.count("Booting Linux") == 1 + says_so
    assert said.count("Starting kernel ...") == 1
    assert said.count("Run /sbin/init as init process") == 2
    stamps = [float(found) for found in re.findall(r"^\[ *(\d+\.\d{6})\]", said, re.MULTILINE)]
    assert stamps != sorted(stamps), "the kernel's clock began anew"
    assert truth(lab) == []


def test_a_late_relay_switches_a_silent_board_later_than_it_is_told_to() -> None:
    lab = board("late_relay", seconds=3)
    lab.on()
    lab.run_for(40 * S)
    silent = lab.said()
    lab.off()
    lab.run_for(2 * S)
    assert lab.board.stage == "kernel", "it still has its power"
    told_ns = lab.now_ns
    lab.on()
    run_to_prompt(lab)
    lab.run_for(1 * S)
    assert lab.said().startswith(silent)
    (boot,) = truth(lab)
    assert boot.on_ns == told_ns + 3 * S
    assert [note.t_ns for note in lab.noted if note.text.endswith(" dark")] == [told_ns + 1 * S]


def test_an_order_to_switch_off_overtakes_a_relay_that_has_not_closed_yet() -> None:
    lab = board("late_relay", seconds=3)
    lab.on()
    lab.run_for(40 * S)
    lab.off()
    lab.run_for(4 * S)
    lab.on()
    lab.run_for(1 * S)
    lab.off()
    said = lab.said()
    lab.run_for(60 * S)
    assert lab.said() == said
    assert lab.board.stage == "off"


def test_the_root_file_system_of_another_medium_is_seen_in_the_log_and_in_proc() -> None:
    lab = booted("root_elsewhere")
    assert "EXT4-fs (mmcblk0p1): mounted filesystem " in lab.said()
    assert "root=PARTUUID=" in lab.said()
    lab.type("root\r")
    lab.run_until("# ")
    assert lab.command("cat /proc/mounts", f"root@{HOST}:~# ").startswith("/dev/mmcblk0p1 / ext4 rw,")


@pytest.mark.parametrize(
    ("medium", "mounted"),
    [("sd", "/dev/mmcblk1p2 / ext4"), ("emmc", "/dev/mmcblk0p1 / ext4"), ("ospi", "ubi0:rootfs / ubifs")],
)
def test_root_is_mounted_as_the_command_line_says_and_from_the_medium_that_was_booted(
    medium: str, mounted: str
) -> None:
    lab = booted(medium=medium)
    assert re.search(r"Kernel command line: .* rw ", lab.said())
    assert not re.search(r"mounted filesystem \S+ ro |\] UBIFS .*R/O mode|readonly", lab.said())
    lab.type("root\r")
    lab.run_until("# ")
    assert lab.command("cat /proc/mounts", f"root@{HOST}:~# ").startswith(mounted)


@pytest.mark.parametrize(("what", "pattern"), [("kernel", r"Linux version (\S+)"), ("uboot", r"^U-Boot (2.*)")])
def test_other_software_has_another_version(what: str, pattern: str) -> None:
    (before,), (after,) = (
        set(re.findall(pattern, lab.said(), re.MULTILINE)) for lab in (booted(), booted("other_software", what=what))
    )
    assert before != after
    assert "-dirty" in after


def test_lost_lines_are_lost_from_the_middle_of_one_to_the_middle_of_another() -> None:
    whole, torn = booted(), booted("lines_lost")
    gone = set(whole.said().splitlines()) - set(torn.said().splitlines())
    assert 40 <= len(gone) <= 60
    assert len(truth(torn)) == 1
    assert truth(torn)[0].boot_s == pytest.approx(truth(whole)[0].boot_s, abs=0.001)
    glued = [line for line in torn.said().splitlines() if line not in set(whole.said().splitlines())]
    assert len(glued) >= 8
