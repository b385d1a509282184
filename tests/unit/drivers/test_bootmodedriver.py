"""The straps take a value, read it back, and refuse what is not wired."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from labgrid import Target
from labgrid.driver import FileDigitalOutputDriver

from lab.drivers import BootModeDriver
from lab.errors import ConfigurationError, LabTransientError


@pytest.fixture
def straps(tmp_path: Path) -> dict[int, Path]:
    files = {bit: tmp_path / f"strap{bit}" for bit in (3, 4, 9)}
    for file in files.values():
        file.write_text("0\n")
    return files


def driver(straps: dict[int, Path], **arguments: Any) -> BootModeDriver:
    target = Target("main")
    for bit, file in straps.items():
        FileDigitalOutputDriver(target, f"B{bit}", filepath=str(file))
    boot_mode = BootModeDriver(target, None, lines={bit: f"B{bit}" for bit in straps}, **arguments)
    target.activate(boot_mode)
    return boot_mode


def test_a_value_moves_only_the_lines_that_are_wired(straps: dict[int, Path]) -> None:
    boot_mode = driver(straps, fixed=0x043)
    boot_mode.set(0x243)
    assert {bit: file.read_text() for bit, file in straps.items()} == {3: "0\n", 4: "0\n", 9: "1\n"}
    boot_mode.set(0x04B)
    assert {bit: file.read_text() for bit, file in straps.items()} == {3: "1\n", 4: "0\n", 9: "0\n"}
    assert boot_mode.get() == 0x04B


def test_a_strap_that_nobody_drives_is_named(straps: dict[int, Path]) -> None:
    with pytest.raises(ConfigurationError, match=r" 0, 5 .*no line"):
        driver(straps).set(0x021)


def test_an_output_that_does_not_obey_is_named(straps: dict[int, Path]) -> None:
    boot_mode = driver(straps)
    straps[4].unlink()
    straps[4].symlink_to("/dev/null")  # takes every value and reads back empty
    with pytest.raises(LabTransientError, match=r"strap line\(s\) 4") as raised:
        boot_mode.set(0x010)
    assert raised.value.failure == "strap_mismatch"


@pytest.mark.parametrize("lines", [{}, ["B3"], {"3": "B3"}, {3: 4}, {40: "B3"}])
def test_lines_of_another_shape_are_refused(straps: dict[int, Path], lines: object) -> None:
    target = Target("main")
    FileDigitalOutputDriver(target, "B3", filepath=str(straps[3]))
    with pytest.raises(ConfigurationError, match="lines"):
        BootModeDriver(target, None, lines=lines)
