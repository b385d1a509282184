"""What simulated boards say on ordinary boots, release by release: how the kernel mounts its root file system, and what
public logs have that misleads nobody who knows it."""

from __future__ import annotations

import re

import pytest
from support.simlab import MS, SimLab

from lab.virtual.sim.linux import kernel
from lab.virtual.sim.setup import SimSetup

LOGIN = "-evm login: "
PROMPT = "=> "


def booted(medium: str = "sd", board_type: str = "am62xx_sk", release: str | None = None) -> SimLab:
    """A board that waits for a login."""
    lab = SimLab(board_type, release=release)
    lab.on(medium)
    lab.run_until(LOGIN)
    return lab


@pytest.mark.parametrize(
    ("version", "read_only", "writable", "again"),
    [
        ((4, 9), *["with ordered data mode. Opts: (null)"] * 2, ". Opts: (null)"),
        ((5, 10), *["with ordered data mode. Opts: (null)"] * 2, ". Opts: (null)"),
        (
            (5, 15),
            *["with ordered data mode. Opts: (null). Quota mode: none."] * 2,
            ". Opts: (null). Quota mode: none.",
        ),
        ((6, 1), *["with ordered data mode. Quota mode: none."] * 2, ". Quota mode: none."),
        (
            (6, 6),
            "UUID ro with ordered data mode. Quota mode: none.",
            "UUID r/w with ordered data mode. Quota mode: none.",
            " UUID r/w. Quota mode: none.",
        ),
        (
            (6, 12),
            "UUID ro with ordered data mode. Quota mode: none.",
            "UUID r/w with ordered data mode. Quota mode: none.",
            " UUID r/w.",
        ),
    ],
)
def test_each_kernel_has_its_own_words_for_a_mount(
    version: tuple[int, int], read_only: str, writable: str, again: str
) -> None:
    def without_uuid(text: str) -> str:
        return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)

    assert without_uuid(kernel.mounted(version, writable=False)) == read_only
    assert without_uuid(kernel.mounted(version, writable=True)) == writable
    assert without_uuid(kernel.remounted(version)) == again


@pytest.mark.parametrize(
    ("words", "state"), [("rw", "r/w"), ("ro", "ro"), ("", "ro"), ("ro rw", "r/w"), ("rw ro", "ro")]
)
def test_the_kernel_mounts_its_root_as_the_last_word_of_its_command_line_says(words: str, state: str) -> None:
    lab = SimLab()
    lab.on()
    lab.run_until("stop autoboot:")
    lab.type(" ")
    lab.run_until(f"\n{PROMPT}")
    lab.command(f"setenv args setenv bootargs console=${{console}} root=${{root}} {words} rootwait", PROMPT)
    lab.type("boot\r")
    lab.run_until(LOGIN)
    (said,) = re.findall(r"mounted filesystem \S+ (\S+) with ordered", lab.said())
    assert said == state
    assert ("readonly on device" in lab.said()) == (state == "ro")


def test_a_gp_device_says_when_its_second_processors_start_after_u_boot_said_that_the_kernel_does() -> None:
    said = booted(release="08.05").said()
    expected = [
        "Starting kernel ...",
        "I/TC: Secondary CPU 1 initializing\n",
        "I/TC: Secondary CPU 1 switching to normal world boot\n",
        "I/TC: Secondary CPU 3 initializing\n",
        "I/TC: Asynchronous notifications are disabled\n",
    ]
    positions = [said.index(text) for text in expected]
    assert positions == sorted(positions)
    assert "I/TC:" not in booted().said()


def test_what_firmware_says_does_not_wait_for_the_kernels_console() -> None:
    lab = SimLab(release="10.00", setup=SimSetup(tee_talks=True))  # without an early console
    lab.on()
    lab.run_until("Starting kernel ...")
    lab.run_until("I/TC: Asynchronous notifications are disabled\n")
    assert "Booting Linux" not in lab.said()
    before_ns = lab.now_ns
    lab.run_until("Booting Linux")
    assert lab.now_ns - before_ns > 10 * MS


@pytest.mark.parametrize(
    ("release", "medium", "line"),
    [
        ("08.05", "sd", "EEPROM not available at 0x50, trying to read at 0x51"),
        ("09.02", "sd", "EEPROM not available at 80, trying to read at 81"),
        ("08.05", "sd", "Loading Environment from MMC... *** Warning - No MMC card found, using default environment"),
        ("09.02", "sd", "Loading Environment from nowhere... OK"),
        ("11.01", "emmc", "init_env from device 9 not supported!"),
        ("11.01", "sd", "Hit any key to stop autoboot:  2 \b\b\b 1 \b\b\b 0 "),
    ],
)
def test_the_loaders_of_a_release_say_what_its_public_logs_have(release: str, medium: str, line: str) -> None:
    assert f"\n{line}\n" in booted(medium, release=release).said()


def test_other_media_and_boards_do_not_say_it() -> None:
    assert "init_env" not in booted().said()
    assert "EEPROM" not in booted(board_type="am654x-evm").said()


def test_the_first_spl_of_sdk_8_5_was_built_on_another_day_than_the_second() -> None:
    built = re.findall(r"U-Boot SPL 2021\.01 \((.*)\)", booted(release="08.05").said())
    assert built == ["Feb 23 2023 - 13:18:40 +0900", "Feb 22 2023 - 20:13:40 +0900"]


def test_linux_4_9_does_not_say_what_it_runs_as_init() -> None:
    said = booted(board_type="am43xx-gpevm").said()
    assert "Linux version 4.9" in said
    assert "as init process" not in said
    assert "Run /sbin/init as init process" in booted().said()
