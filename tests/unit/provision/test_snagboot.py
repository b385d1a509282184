"""Snagboot's programs: what they are called with, and what their answers mean."""

from __future__ import annotations

import ast
import itertools
import sys
from pathlib import Path

import pytest

from lab.errors import ConfigurationError, LabStableError
from lab.provision import snagboot
from lab.provision.errors import RecoveryFailedError, WriteStalledError
from lab.provision.snagboot import (
    ProgramEnd,
    download_command,
    judge_download,
    judge_recovery,
    recover_command,
    run_here,
)

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
    assert command[-2:] == ("--usb-path", "3-1.2")


@pytest.mark.parametrize(
    ("soc", "images", "port", "says"),
    [
        ("", IMAGES, "", "recovery: soc"),
        ("am625", {"Image": Path("x")}, "", "Image: Snagboot knows tiboot3"),
        ("am625", IMAGES, "3-1; reboot", "expected e.g. 3-1.2"),
        ("am625", IMAGES, "0451:6165", "expected e.g. 3-1.2"),
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
        snagboot.find_program()


@pytest.mark.parametrize(
    ("end", "error", "says"),
    [
        (ProgramEnd(("Starting recovery of am625 board",), None), WriteStalledError, "did not end in time"),
        (
            ProgramEnd(("usb.core.USBError: [Errno 13] Access denied (insufficient permissions)",), 1),
            LabStableError,
            "--udev",
        ),
        (
            ProgramEnd(
                (
                    "[ERROR] USB Device was found at address 3-1.2 but can't be accessed because of a device file access rights issue.",
                ),
                255,
            ),
            LabStableError,
            "--udev",
        ),
        (
            ProgramEnd(
                (
                    "[ERROR] Device access error: failed to access USB device 3-1.3, please check its presence and access rights",
                ),
                255,
            ),
            RecoveryFailedError,
            "select USB boot",
        ),
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


def test_a_good_end_is_taken_and_a_failed_download_is_a_failed_recovery() -> None:
    judge_recovery(ProgramEnd(("Starting recovery of am625 board", "Done recovering am625 board"), 0))
    judge_download(ProgramEnd(("Sending command download with args /t/piece", "Done"), 0))
    with pytest.raises(RecoveryFailedError, match=r"failed.*`usb_port`"):
        judge_download(ProgramEnd(("Fastboot error: Fastboot fail with message: data too large",), 0))


def test_a_piece_goes_into_memory_and_nowhere_else() -> None:
    words = download_command("snagflash", "0451:6165", Path("/t/piece"))
    assert words == ("snagflash", "-P", "fastboot", "-p", "0451:6165", "-f", "download:/t/piece")
    with pytest.raises(ConfigurationError, match=r"expected e\.g\. 3-1\.2"):
        download_command("snagflash", "", Path("/t/piece"))


def test_a_program_that_hangs_is_ended() -> None:
    end = run_here(["sh", "-c", "echo begun; exec sleep 1000"], 1.0)
    assert (end.status, end.lines) == (None, ("begun",))
    assert run_here([sys.executable, "-c", "print('a'); raise SystemExit(3)"], 60) == ProgramEnd(("a",), 3)
