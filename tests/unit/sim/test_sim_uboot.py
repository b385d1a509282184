"""U-Boot on a simulated board: countdown, line editing, commands, transfers at the published rates."""

from __future__ import annotations

import re

import pytest
from support.simlab import S, SimLab

PROMPT = "=> "


def stopped(release: str | None = None, time_scale: float = 1.0) -> SimLab:
    """A board at U-Boot's prompt."""
    lab = SimLab(release=release, time_scale=time_scale)
    lab.on()
    lab.run_until("stop autoboot:")
    lab.type(" ")
    lab.run_until(f"\n{PROMPT}")
    return lab


@pytest.fixture
def uboot() -> SimLab:
    return stopped()


@pytest.fixture(scope="module")
def shared() -> SimLab:
    """For tests that leave nothing behind."""
    return stopped()


def test_any_key_stops_the_countdown_and_without_one_it_boots() -> None:
    lab = SimLab()
    lab.on()
    lab.run_until("Hit any key to stop autoboot:  2 ")
    start_ns = lab.now_ns
    lab.run_until("switch to partitions")
    assert 2 * S <= lab.now_ns - start_ns <= 2.2 * S


def test_a_key_before_u_boot_owns_the_uart_is_forgotten() -> None:
    lab = SimLab()
    lab.on()
    lab.run_until("U-Boot SPL")
    lab.type("x")
    lab.run_until("Starting kernel ...")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo a  'b  c'", "a b  c\n"),
        ("setenv x 1 2; echo ${x} $x", "1 2 1 2\n"),
        ("printenv nothing", '## Error: "nothing" not defined\n'),
        ("true; echo $?", "0\n"),
        ("false; echo $?", "1\n"),
        ('if test -n "${loadaddr}"; then echo yes; else echo no; fi', "yes\n"),
        ("run nothing", '## Error: "nothing" not defined\n'),
        ("md.l 0x43000030 1", "43000030: 00000243\n"),
        ("mmc dev 7", "no mmc device at slot 7\n"),
        ("mmc list", "mmc@fa10000: 0\nmmc@fa00000: 1\n"),
        ("version", "U-Boot 2025.01-00502-g5350f13b6639 (Jun 26 2025 - 14:32:24 +0000)\n"),
        ("frobnicate", "Unknown command 'frobnicate' - try 'help'\n"),
        ("sf read ${loadaddr} 0 1000", "No SPI flash selected. Please run `sf probe'\n"),
        ("booti ${loadaddr} - ${fdtaddr}", "Bad Linux ARM64 Image magic!\n"),
        ("", ""),
    ],
)
def test_commands_answer_as_u_boots_do(shared: SimLab, command: str, says: str) -> None:
    assert shared.command(command, PROMPT) == says


def test_help_and_printenv_and_bdinfo_list_what_there_is(uboot: SimLab) -> None:
    commands = uboot.command("help", PROMPT)
    assert re.search(r"^fatload +- load binary file", commands, re.MULTILINE)
    assert "bootcmd=run load_${boot}" in uboot.command("printenv", PROMPT)
    assert "-> size     = 0x0000000080000000" in uboot.command("bdinfo", PROMPT)


def test_typing_is_echoed_and_can_be_mended(uboot: SimLab) -> None:
    assert uboot.command("echo wrnog\b\b\b\bong", PROMPT) == "wrong\n" or uboot.said().count("\b \b") == 4
    uboot.type("garbage\x03")
    uboot.run_until(f"<INTERRUPT>\n{PROMPT}")
    assert uboot.command("echo \x1b[Aup", PROMPT) == "up\n"
    assert uboot.command("nonsense\x15echo killed", PROMPT) == "killed\n"


def test_control_c_ends_a_sleep(uboot: SimLab) -> None:
    uboot.type("sleep 60\r")
    uboot.run_for(1 * S)
    start_ns = uboot.now_ns
    uboot.type("\x03")
    uboot.run_until(PROMPT)
    assert uboot.now_ns - start_ns < S


@pytest.mark.parametrize(
    ("command", "size", "published_kib_s"),
    [
        ("mmc dev 0; time mmc read ${loadaddr} 0x0 0x10000", 32 << 10, 171560.21),
        ("mmc dev 0; time mmc write ${loadaddr} 0x0 0x20000", 64 << 10, 97523.81),
        ("time fatwrite mmc 1 ${loadaddr} test 400000", 4 << 10, 39009.52),
    ],
)
def test_transfers_take_as_long_as_the_guide_says(
    uboot: SimLab, command: str, size: int, published_kib_s: float
) -> None:
    answer = uboot.command(command, PROMPT)
    seconds = float(re.search(r"time: (\d+\.\d+) seconds", answer)[1])  # type: ignore[index]
    assert size / seconds == pytest.approx(published_kib_s, rel=0.03)


def test_a_hasty_board_says_the_time_that_the_real_one_takes() -> None:
    answer = stopped(time_scale=0.1).command("mmc dev 0; time mmc read ${loadaddr} 0x0 0x10000", PROMPT)
    seconds = float(re.search(r"time: (\d+\.\d+) seconds", answer)[1])  # type: ignore[index]
    assert (32 << 10) / seconds == pytest.approx(171560.21, rel=0.03)


def test_what_was_written_is_read_back_and_compares_equal(uboot: SimLab) -> None:
    uboot.command("fatwrite mmc 1 ${loadaddr} test 800000", PROMPT)
    answer = uboot.command("fatload mmc 1 84000000 test", PROMPT)
    assert re.fullmatch(r"8388608 bytes read in \d+ ms \(\d+(\.\d)? MiB/s\)\n", answer)
    assert "Total of 8388608 byte(s) were the same" in uboot.command("cmp.b ${loadaddr} 84000000 800000", PROMPT)
    assert "Total of 0 byte(s)" in uboot.command("cmp.b ${loadaddr} 90000000 800000", PROMPT)
    assert "8388608   test" in uboot.command("fatls mmc 1", PROMPT)


def test_flash_is_erased_written_and_read(uboot: SimLab) -> None:
    assert "SF: Detected s28hs512t" in uboot.command("sf probe", PROMPT)
    assert "4194304 bytes @ 0x0 Erased: OK" in uboot.command("sf erase 0 400000", PROMPT)
    assert "4194304 bytes @ 0x0 Written: OK" in uboot.command("sf write ${loadaddr} 0 400000", PROMPT)
    assert "4194304 bytes @ 0x0 Read: OK" in uboot.command("sf read 84000000 0 400000", PROMPT)
    assert "were the same" in uboot.command("cmp.b ${loadaddr} 84000000 400000", PROMPT)
    assert "past flash size" in uboot.command("sf read 84000000 3f00000 400000", PROMPT)


def test_a_saved_environment_survives_the_power_cycle(uboot: SimLab) -> None:
    uboot.command("setenv bootdelay 5; saveenv", PROMPT)
    uboot.off()
    uboot.run_for(S)
    uboot.on()
    uboot.run_until("stop autoboot:  5 ")


def test_reset_starts_again_at_the_rom(uboot: SimLab) -> None:
    uboot.type("reset\r")
    uboot.run_until("resetting ...\n\nU-Boot SPL")


def test_boot_goes_on_to_linux(uboot: SimLab) -> None:
    uboot.type("boot\r")
    uboot.run_until("-evm login: ")


def test_init_bin_sh_ends_at_a_bare_shell_in_the_published_time() -> None:
    lab = stopped(release="09.02")
    lab.command("setenv optargs init=/bin/sh", PROMPT)
    lab.type("boot\r")
    lab.run_until("Starting kernel ...")
    start_ns = lab.now_ns
    lab.run_until("sh-5.2# ")
    assert (lab.now_ns - start_ns) / S == pytest.approx(3.45, abs=0.1)
    assert "login:" not in lab.said()
    assert lab.command("echo $((6 * 7))", "sh-5.2# ") == "42\n"
