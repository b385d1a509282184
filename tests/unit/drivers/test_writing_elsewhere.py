"""Boards on other hosts: what this host would send them must reach them, which is decided before anything is switched."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from labgrid import Target
from labgrid.resource import NetworkSerialPort

from lab.console.published import PublishedPort
from lab.control.provisioning import recover_by
from lab.drivers import LinuxWriterDriver, StampedConsoleDriver, UBootWriterDriver
from lab.drivers.boardservers import BoardServer
from lab.errors import ConfigurationError
from lab.host.clock import time_line
from lab.provision.release import Content, Expected, Image, Recovery, RecoveryStage, Release

OTHER = "another boot"


def console(line: str) -> StampedConsoleDriver:
    """Of a place; `line` says on which host it is."""
    target = Target("main")
    port = NetworkSerialPort(target, None, host="127.0.0.1", port=4000, protocol="raw")
    port.extra = PublishedPort("/run/console.sock", "lab-2", "m", line, "/dev/ttyUSB0").extra()
    return StampedConsoleDriver(target, None)


def board(line: str) -> Any:
    """The strategy as far as a way needs it until the board is switched."""

    def switched(_status: str) -> None:
        raise InterruptedError

    return SimpleNamespace(
        console=console(line),
        power=SimpleNamespace(clock=None),
        status=SimpleNamespace(name="off"),
        type=SimpleNamespace(console=SimpleNamespace(speed_bd=115200), prompts=SimpleNamespace(uboot="=> ")),
        transition=switched,
        select_medium=lambda _medium: None,
    )


def writer(name: str, **arguments: Any) -> Any:
    """A driver that writes."""
    if name == "linux":
        return LinuxWriterDriver(Target("main"), "w", media={"emmc": "/dev/mmcblk1"}, boot_from="sd", **arguments)
    return UBootWriterDriver(Target("main"), "w", media={"emmc": "mmc 0"}, **arguments)


def begin(driver: Any, line: str) -> None:
    driver.writers(board(line))["emmc"].writer.begin()


@pytest.mark.parametrize(
    ("name", "arguments", "line", "refused"),
    [
        ("uboot", {}, OTHER, "this host alone; nothing was written"),
        ("uboot", {"listen": "192.0.2.1", "server": "localhost"}, OTHER, "localhost is reached from this host alone"),
        ("uboot", {"over": "usb", "usb_port": "0451:6165"}, OTHER, "the board's USB is plugged into lab-2"),
        ("linux", {}, OTHER, "the board is on lab-2"),
        ("uboot", {"over": "console"}, OTHER, ""),
        ("uboot", {"listen": "127.0.0.1", "server": "10.0.2.2"}, OTHER, ""),
        ("linux", {"over": "ssh"}, OTHER, "no SSHDriver"),
        ("uboot", {}, time_line(), ""),
        ("linux", {}, time_line(), ""),
        ("uboot", {"listen": "auto"}, time_line(), "give `listen` this host's address"),
    ],
)
def test_what_does_not_reach_a_board_of_another_host_is_refused_before_it_is_switched(
    name: str, arguments: dict[str, str], line: str, refused: str
) -> None:
    if refused:
        with pytest.raises(ConfigurationError, match=refused):
            begin(writer(name, **arguments), line)
    else:
        with pytest.raises(InterruptedError):
            begin(writer(name, **arguments), line)


def test_the_address_of_this_host_can_be_left_to_its_routes() -> None:
    served = BoardServer("auto", board_address="127.0.0.1")
    served.check_reached("")
    assert served.listen == "127.0.0.1"
    with pytest.raises(ConfigurationError, match="knows no way there"):
        BoardServer("auto", board_address="no.such.host.invalid").check_reached("lab-2")


def test_a_board_of_another_host_is_started_from_nothing_over_its_console_only(tmp_path: Path) -> None:
    stage = [RecoveryStage(name="tiboot3.bin", source=str(tmp_path / "x"), sha256="0" * 64)]
    content = Content(Image(source=stage[0].source, sha256="0" * 64))
    release = Release(
        "r", ["any"], {"sd": content}, Expected(uboot="U-Boot"), recovery=Recovery(uart=stage, usb=stage)
    )
    far, near = board(OTHER), board(time_line())
    with pytest.raises(ConfigurationError, match="start it over `uart`"):
        recover_by(far, release, "usb", lambda _progress: None)
    recover_by(far, release, "uart", lambda _progress: None)
    recover_by(near, release, "usb", lambda _progress: None)
    assert far.from_nothing is not None
