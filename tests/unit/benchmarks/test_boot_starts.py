"""A board that began to boot once more is noticed, even where its banner is garbled."""

from __future__ import annotations

import re

import pytest
from attrs import frozen

from lab import boards
from lab.benchmarks.boot import BootWatch, PowerEdge
from lab.benchmarks.boot.kernellog import BootKernelLog
from lab.benchmarks.boot.starts import ALIKE_SHARE, Starts, alike
from lab.benchmarks.output import unreadable
from lab.console.model import Chunk, LineTiming
from lab.console.moments import MomentFinder, feed_watch
from lab.metrics import Flag

AM62 = boards.load("am62xx_sk")
SPL = "U-Boot SPL 2025.01-00502-g5350f13b6639 (Jun 26 2025 - 14:32:24 +0000)"
UBOOT = "U-Boot 2025.01-00502-g5350f13b6639 (Jun 26 2025 - 14:32:24 +0000)"
GARBLED = "u-Boot 2025.01/00502-g5350f13b6639 (Jwn 22 2035 - 14:32:24 +0000)"
S = 1_000_000_000


@frozen
class Marker:
    name: str
    text: str
    t_ns: int = 11 * S
    position: int = 100
    uncertainty_ns: int = 1


def starts(*said: str) -> str:
    """The outcome of a boot with these lines; "doubtful" or "again": a stage may have started over."""
    watched = Starts(AM62)
    for line in said:
        name = next((marker.name for marker in AM62.markers if re.search(marker.regex, line)), None)
        errors = [watched.moment(Marker(name, line)) if name else None, watched.whole_line(line)]
        for error in errors:
            if error is not None:
                return error.failure
    return "doubtful" if watched.doubtful else "again" if watched.again else "ok"


def test_as_many_banners_as_a_healthy_boot_has_are_one_start() -> None:
    assert starts(SPL, "SYSFW ABI: 4.0", SPL, UBOOT, "DRAM:  2 GiB", "Starting kernel ...") == "ok"


def test_a_printed_environment_that_holds_the_banner_is_no_start() -> None:
    assert starts(SPL, SPL, UBOOT, "ver=" + UBOOT, "Starting kernel ...") == "ok"


@pytest.mark.parametrize("before", ["ver=", "new ", "got "])
def test_u_boots_version_behind_a_word_is_no_spl(before: str) -> None:
    said = (f"{before}{UBOOT}", "Environment size: 1487/131067 bytes", "Starting kernel ...")
    assert starts(SPL, SPL, UBOOT, *said) == ("ok" if before == "ver=" else "again")
    assert starts(SPL, "Environment size: 9/9 bytes", SPL, f"{before}{UBOOT}", "Environment size: 9/9 bytes") == "ok"


def test_a_banner_whose_hyphen_is_garbled_is_no_variable() -> None:
    assert starts(SPL, "SYSFW ABI: 4.0", SPL.replace("-", "=", 1), "SYSFW ABI: 4.0", SPL, "SYSFW ABI: 4.0") == "reset"


@pytest.mark.parametrize("cut", [9, 38, 60])
def test_a_garbled_banner_with_a_newline_in_it_is_one_too_many(cut: int) -> None:
    dram = "DRAM:  2 GiB"
    assert starts(SPL, SPL, UBOOT, dram, GARBLED[:cut], GARBLED[cut + 1 :], dram) == "reset"
    assert starts(SPL, SPL, GARBLED[:cut], GARBLED[cut + 1 :], dram, UBOOT, dram) == "reset"


def test_a_stage_comes_again_behind_the_same_line() -> None:
    hit, net = "Hit any key to stop autoboot:  2", "Net:   eth0: ethernet@8000000"
    assert starts(SPL, SPL, UBOOT, net, hit, "\x80\xe6\x9e", net, hit) == "reset"
    assert starts(SPL, SPL, UBOOT, net, hit, "  *** U-Boot Boot Menu ***", hit) == "again"


@pytest.mark.parametrize(
    "line",
    [
        "NOTICE:  BL31: Built : 17:14:28, Jan  7 2025",
        "NOTICE:  BL2: v2.12.0(release):v2.12.0",
        UBOOT.replace("U-Boot", "U-Boot TPL"),
    ],
)
def test_another_stage_that_says_nearly_the_same_is_no_second_start(line: str) -> None:
    assert starts(SPL, line, "NOTICE:  BL31: v2.12.0(release):v2.12.0", line, SPL, UBOOT, line) == "ok"


def test_a_line_behind_a_garbled_banner_is_not_counted_with_it() -> None:
    assert starts(SPL, SPL.replace("2025", "2\x0025"), "DRAM:  2 GiB", "Trying to boot from MMC2", UBOOT) == "ok"


@pytest.mark.parametrize("garbled", [GARBLED, "Net:   eth0: ethe" + GARBLED, GARBLED + "\b"])
def test_a_garbled_banner_is_one_too_many(garbled: str) -> None:
    assert starts(SPL, SPL, UBOOT, "DRAM:  2 GiB", garbled) == "doubtful"
    assert starts(SPL, SPL, UBOOT, "DRAM:  2 GiB", garbled, "DRAM:  2 GiB") == "reset"


@pytest.mark.parametrize("head", ["W-Boot SPN", "W-Boot SQL", "W-Boot sPL", "\bG-Boot SPL", "u-Goot SPL"])
def test_a_banner_of_spl_that_is_garbled_is_one_too_many(head: str) -> None:
    garbled = SPL.replace("U-Boot SPL", head)
    assert starts(SPL, "Trying to boot from MMC2", SPL, garbled, "Trying to boot from MMC2") == "reset"


@pytest.mark.parametrize(("kept", "outcome"), [(5, "doubtful"), (9, "reset"), (20, "reset")])
def test_a_line_that_a_reset_broke_off_is_known_again(kept: int, outcome: str) -> None:
    line = "Core:  72 devices, 32 uclasses"
    assert starts(SPL, SPL, UBOOT, line[:kept], UBOOT.replace("U-", "W-"), line) == outcome


def test_a_garbled_banner_before_the_good_one_counts_as_well() -> None:
    assert starts(SPL, SPL, GARBLED, "DRAM:  2 GiB", UBOOT, "DRAM:  2 GiB") == "reset"


def test_a_banner_that_was_garbled_once_is_no_reset() -> None:
    assert starts(SPL.replace("Boot", "Bool"), SPL, UBOOT, "Starting kernel ...") == "ok"


def test_a_kernel_that_names_the_boot_loader_has_not_begun_anew() -> None:
    assert starts(SPL, SPL, UBOOT, "Starting kernel ...", f"[    0.300000] firmware: {GARBLED}") == "ok"


def test_other_lines_are_not_like_a_banner() -> None:
    others = [
        "SYSFW ABI: 4.0 (firmware rev 0x000b '11.1.0--v11.01.00 (Fancy Rat)')",
        "NOTICE:  BL31: v2.12.0(release):11.00.15-3-g2ab59f45a-dirty",
        "Changed A53 CPU frequency to 1400000000Hz (T grade) in DT",
        "Loading Device Tree to 000000008fff0000, end 000000008fffee74 ... OK",
    ]
    assert max(alike(line, banner) for line in others for banner in (SPL, UBOOT)) < ALIKE_SHARE / 2
    assert alike(GARBLED, UBOOT) > 2 * ALIKE_SHARE


@pytest.mark.parametrize("read_bytes", [1, 62, 4096])
def test_a_planned_reset_is_none_however_the_bytes_were_read(read_bytes: int) -> None:
    said = f"{SPL}\r\nResetting on cold boot to workaround ErrataID:i2331\r\n{SPL}\r\n{SPL}\r\n{UBOOT}\r\n".encode()
    boot, finder = BootWatch(AM62, "sd", PowerEdge(9 * S, 10 * S)), MomentFinder(AM62.markers, LineTiming(115200))
    for at in range(0, len(said), read_bytes):
        feed_watch(boot, Chunk(11 * S, at, said[at : at + read_bytes]), [finder])
        boot.check(11 * S)
    assert [moment.name for moment in boot.moments] == ["spl", "spl", "spl", "uboot"]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        (b"\x1b[0;32m  OK  \x1b[0m] Started \xe2\x80\xa6 \xc3\xa9.\r", 0),
        (b"Hit any key to stop autoboot:  2 \b\b\b 1 \r", 0),
        (b"U-B\x8fot \xff2025\x01", 3),
    ],
)
def test_bytes_that_no_console_prints_are_counted(line: bytes, count: int) -> None:
    assert unreadable(line) == count


@pytest.mark.parametrize(
    ("line", "flagged"), [(b"Core: \x8f\xff\x01 devices\r\n", True), (b"Core: \xff 72\r\n", False)]
)
def test_a_line_that_cannot_be_read_flags_the_boot_whose_markers_may_be_lost(line: bytes, flagged: bool) -> None:
    boot = BootWatch(AM62, "sd", PowerEdge(9 * S, 10 * S))
    names = [pattern.name for pattern in AM62.moments if pattern.name != "shell"]
    for number, name in enumerate(names):
        boot.feed(line if name == "uboot" else b"text\r\n", (11 + number) * S)
        boot.moment(Marker(name, "", (11 + number) * S, 100 * (number + 1)))
    boot.check(60 * S)
    assert (Flag.CONSOLE_OVERRUN in boot.finish()[0].flags) is flagged


@pytest.mark.parametrize("line", ["aa " * 60 + "!", "T" * 4000, "a:b " * 1000 + "[ 1.0", "\x1b[0m " * 500])
def test_no_line_keeps_who_watches_it_busy(line: str) -> None:
    log = BootKernelLog({})
    log.whole_line(line, 10.0)
    assert (log.torn, log.restarted, log.counts) == (0, "", {})


@pytest.mark.parametrize(
    "before", ["", "2026-11-22T02:19:28+0000 ", "Nov 22 02:19:28 ", "\x1b[0m", "<6>", "main0: \x1b[1m"]
)
def test_what_a_logger_or_a_terminal_puts_before_a_kernels_line_is_no_part_of_it(before: str) -> None:
    log = BootKernelLog({})
    for second in (5, 6, 7, 8, 9):
        log.whole_line(f"{before}[    {second}.000000] usb 1-1", 20.0)
    for micros in (100, 200, 300):
        log.whole_line(f"{before}[    0.000{micros}] smp: another kernel", 30.0)
    assert log.restarted


def test_a_kexec_on_the_console_is_a_second_start_and_only_as_a_line_of_the_kernels_own() -> None:
    lines = [f"[    {second}.000000] line {second}" for second in range(1, 6)]
    quoted, real = (BootKernelLog({}) for _ in range(2))
    for second, line in enumerate(lines, 1):
        for log in (quoted, real):
            log.whole_line(line, 2.0 + second)
    quoted.whole_line("script: kexec_core: Starting new kernel", 8.0)
    real.whole_line("[    6.000000] kexec_core: Starting new kernel", 8.0)
    assert not quoted.restarted
    assert real.restarted
    assert real.split_s == 8.0
