"""Snagboot's programs: what they are called with, and what their answers mean."""

from __future__ import annotations

import ast
import itertools
import sys
from pathlib import Path

import pytest

from lab.errors import ConfigurationError, LabStableError, TestStableError
from lab.provision import snagboot
from lab.provision.failures import MediaWriteFailedError, RecoveryFailedError, WriteStalledError
from lab.provision.snagboot import (
    ProgramEnd,
    flash_command,
    flash_commands,
    judge_flash,
    judge_recovery,
    recover_command,
)
from lab.strategies.recovering import run_here

IMAGES = {
    "tiboot3-hs-fs.bin": Path("/r/tiboot3-hs-fs.bin"),
    "tispl.bin": Path("/r/a b/tispl.bin"),
    "u-boot.img": Path("/r/u"),
}


def test_the_command_names_each_firmware_as_snagboot_does() -> None:
    command = recover_command("snagrecover", "am625", IMAGES, "3-1.2")
    assert command[:3] == ("snagrecover", "-s", "am625")
    given = [ast.literal_eval(value) for option, value in itertools.pairwise(command) if option == "-F"]
    assert given == [
        {"tiboot3": {"path": "/r/tiboot3-hs-fs.bin"}},
        {"tispl": {"path": "/r/a b/tispl.bin"}},
        {"u-boot": {"path": "/r/u"}},
    ]
    assert command[-2:] == ("-p", "3-1.2")


@pytest.mark.parametrize(
    ("soc", "images", "port", "says"),
    [
        ("", IMAGES, "", "recovery: soc"),
        ("am625", {"Image": Path("x")}, "", "Image: Snagboot knows tiboot3"),
        ("am625", IMAGES, "3-1; reboot", "expected e.g. 3-1.2"),
    ],
)
def test_what_it_cannot_do_is_refused_before_it_is_called(
    soc: str, images: dict[str, Path], port: str, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        recover_command("snagrecover", soc, images, port)


def test_a_program_that_is_not_installed_is_said_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigurationError, match="pipx install snagboot"):
        snagboot.installed()


@pytest.mark.parametrize(
    ("end", "error", "says"),
    [
        (ProgramEnd(("Starting recovery of am625 board",), None), WriteStalledError, "did not end in time"),
        (
            ProgramEnd(("usb.core.USBError: [Errno 13] Access denied (insufficient permissions)",), 1),
            LabStableError,
            "--udev",
        ),
        (ProgramEnd(("Error: no USB device with address 0451:6165",), 1), RecoveryFailedError, "select USB boot"),
        (
            ProgramEnd(("Traceback (most recent call last):", "DFU state error"), 0),
            RecoveryFailedError,
            "DFU state error",
        ),
        (ProgramEnd((), 3), RecoveryFailedError, "status 3: it said nothing"),
    ],
)
def test_what_went_wrong_has_its_class(end: ProgramEnd, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        judge_recovery(end)


def test_a_good_end_is_taken_and_a_failed_flash_is_a_failed_write() -> None:
    judge_recovery(ProgramEnd(("Starting recovery of am625 board", "Done recovering am625 board"), 0))
    judge_flash(ProgramEnd(("downloading… done",), 0))
    with pytest.raises(MediaWriteFailedError, match="snagflash failed"):
        judge_flash(ProgramEnd(("FAILmmc write failed",), 0))


def test_a_medium_is_written_by_commands_in_a_file() -> None:
    images = [(Path("/r/tispl.bin"), 0x80000, "hwpart 1"), (Path("/r/tiboot3.bin"), 0, "hwpart 1")]
    assert flash_commands("mmc0", images, 0x82000000, 0x4000000) == (
        "set target mmc0\nset fb-addr 0x82000000\nset fb-size 0x4000000\n"
        "flash /r/tispl.bin 0x80000 hwpart 1\nflash /r/tiboot3.bin 0x0 hwpart 1\nexit\n"
    )
    assert flash_command("snagflash", "0451:6165", Path("/t/c"))[1:] == (
        "-P",
        "fastboot-uboot",
        "-p",
        "0451:6165",
        "-I",
        "/t/c",
    )


def test_nothing_irreversible_is_hidden_in_a_name() -> None:
    with pytest.raises(TestStableError, match="never issues it"):
        flash_commands("mmc0; mmc rst-function 0 1", [], 0, 0)


def test_a_program_that_hangs_is_ended() -> None:
    end = run_here(["sh", "-c", "echo begun; exec sleep 1000"], 1.0)
    assert (end.status, end.lines) == (None, ("begun",))
    assert run_here([sys.executable, "-c", "print('a'); raise SystemExit(3)"], 60) == ProgramEnd(("a",), 3)
