"""Provisioning with the strategy: recovery, turns of writes, and expected software.

A board with nothing on its media comes to U-Boot's prompt over its console, and nothing is written to any medium:

    ROM  "CCC"  <── XMODEM   tiboot3.bin       (TI: AM62x TRM, "UART boot"; U-Boot: doc/board/ti/k3.rst)
    SPL  "CCC"  <── YMODEM   tispl.bin
    SPL  "CCC"  <── YMODEM   u-boot.img

Or it comes there over USB, by Snagboot. One write at a time goes to the USB devices of a hub: two would share its
bandwidth, and stall each other into a time limit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyudev
from attrs import frozen

from lab.console.holders import explaining_shared_port
from lab.drivers.consoleport import ConsoleLine
from lab.errors import ConfigurationError
from lab.host import locks, process
from lab.provision import snagboot
from lab.provision.errors import RecoveryFailedError, ReleaseMismatchError
from lab.provision.image import open_image, read_whole
from lab.provision.release import Recovery, Release
from lab.provision.snagboot import hub_of, hub_of_disk, run_here, turn_at
from lab.provision.writer import Plan, Report, WriteProgress
from lab.provision.ymodem import Sending, YmodemLine
from lab.run.board import Board

UART: Final = "uart"
USB: Final = "usb"
ROM_ASKS_S: Final = 20.0  # after power on; it looks at its other boot devices first
MOST_BYTES: Final = 64 * 1024 * 1024  # of a stage; at the console's speed these would take hours
STAGE_ASKS_S: Final = 30.0  # SPL sets up the memory before it asks


@frozen
class RomImage:
    """A stage in memory: some hundred KiB, at most a few MiB."""

    name: str
    data: bytes


def uart_stages(recovery: Recovery) -> list[RomImage]:
    """Read and check the stages for UART, in their order.

    Raises:
        ConfigurationError: the release has none.
        BoardlabError: one cannot be read (see `lab.provision.image.read_whole`).
    """
    if not recovery.uart:
        raise ConfigurationError(
            "the release has no `recovery: uart:` stages: add tiboot3.bin, tispl.bin and u-boot.img of a build that "
            "boots over UART"
        )
    return [RomImage(stage.name, read_whole(stage, MOST_BYTES)) for stage in recovery.uart]


def send_stages(line: YmodemLine, images: Sequence[RomImage], report: Report) -> None:
    """Send the stages to a board in UART boot mode.

    It has just got its power; its U-Boot starts at the end.

    Raises:
        RecoveryFailedError, WriteStalledError: see `lab.provision.ymodem`. A power cycle begins anew, whatever was
            sent.
    """
    total, before, begun_ns = sum(len(image.data) for image in images), 0, line.now_ns()
    for number, image in enumerate(images):

        def report_sent(count: int, name: str = image.name, done: int = before) -> None:
            report(WriteProgress(name, done + count, total, line.now_ns() - begun_ns))

        sending = Sending(line, image.data, image.name, batch=number > 0)
        sending.send(STAGE_ASKS_S if number else ROM_ASKS_S, report_sent)
        before += len(image.data)


def recover_by(board: Board, release: Release, way: str, report: Report) -> None:
    """Start the board from now on by a release's recovery set.

    Args:
        way: "uart", or "usb"; with the board's USB port where several are connected, e.g. "usb:3-1.2".

    Raises:
        ConfigurationError: no such way, or the release has no set for it.
    """
    name, _, port = way.partition(":")
    if name not in {UART, USB} or (port and name == UART):
        raise ConfigurationError(f"{way!r:.60}: expected uart, usb, or usb:PORT, e.g. usb:3-1.2")
    if not getattr(release.recovery, name):
        raise ConfigurationError(
            f"release {release.name} has no `recovery: {name}:`: add the stages of a build that boots over "
            f"{name.upper()} (docs/releases.md)"
        )

    elsewhere = getattr(board.console, "board_host", "")
    if name == USB and elsewhere:
        raise ConfigurationError(
            f"{way}: the board's USB is plugged into {elsewhere}: start it over `uart`, which goes through its "
            f"console, or run this on {elsewhere}, with an env without RemotePlace"
        )

    def bring(board: Board) -> None:
        if name == UART:
            by_uart(board, release.recovery, report)
        else:
            by_usb(board, release.recovery, report, port=port)

    board.from_nothing = bring


def by_uart(board: Board, recovery: Recovery, report: Report) -> None:
    """Bring a board to U-Boot's prompt by its ROM and console.

    The media stay unchanged.

    Raises:
        ConfigurationError: the release has no such stages, or nothing can select UART boot.
        RecoveryFailedError, WriteStalledError: the board did not take them. Another call begins anew.
        BoardlabError: as of the strategy.
    """
    images = uart_stages(recovery)
    with _power_on_for(board, UART):
        send_stages(ConsoleLine(board.console, board.power.clock), images, report)
        board.interrupt()


def by_usb(
    board: Board, recovery: Recovery, report: Report, *, port: str = "", run: snagboot.RunProgram | None = None
) -> None:
    """The same by its USB port and Snagboot.

    Args:
        port: the board's USB port, e.g. "3-1.2".
        run: runs a program; None: on this host, `snagrecover` from the PATH.

    Raises:
        As of `by_uart`.
    """
    if not recovery.usb:
        raise ConfigurationError(
            "the release has no `recovery: usb:` stages: add the recovery set of a build with USB DFU"
        )
    program = snagboot.find_program() if run is None else "snagrecover"
    with TemporaryDirectory(prefix="boardlab-recovery-") as folder:
        images = {stage.name: Path(folder) / stage.name for stage in recovery.usb}
        for stage in recovery.usb:
            with images[stage.name].open("wb") as file:
                file.writelines(open_image(stage))
        total = sum(path.stat().st_size for path in images.values())
        command = snagboot.recover_command(program, recovery.soc, images, port)
        with _power_on_for(board, USB):
            began_ns = board.power.clock.now_ns()
            snagboot.judge_recovery((run or run_here)(command, snagboot.RECOVER_S))
            report(WriteProgress("snagrecover", total, total, board.power.clock.now_ns() - began_ns))
            board.interrupt()


@contextmanager
def _power_on_for(board: Board, way: str) -> Iterator[None]:
    """Switch the board on with the boot-mode pins for `way`.

    The next start selects its medium again.
    """
    mode = board.type.recovery.get(way)
    if mode is None:
        raise ConfigurationError(
            f"board type {board.type.name} says no boot mode for {way.upper()} (`recovery` of its file)"
        )
    if board.boot_mode is None:
        raise ConfigurationError(
            f"the env has no BootModeDriver, so nothing selects {way.upper()} boot: set the switches to {mode:#x} by "
            "hand, or wire the straps"
        )
    board.off()
    board.switch_on(mode)
    try:
        with explaining_shared_port(board.console):
            yield
    except RecoveryFailedError as error:
        source = board.type.references.get("recovery", "")
        if not source.startswith("assumed"):
            raise
        raise RecoveryFailedError(f"{error} That {mode:#x} selects {way.upper()} boot is {source}") from error


def hub_of_write(plan: Plan, device: str | None, id_path: Callable[[str], str]) -> str:
    """USB hub of a write; empty: none on this host.

    It is the hub of the multiplexer's reader, else of the console's adapter.

    Args:
        device: of the console.
        id_path: asks udev for a device's.
    """
    if plan.target.host:  # which takes its turns itself, `lab.provision.writers.sd_mux`
        return ""
    return hub_of_disk(plan.target.identity) or (hub_of(id_path(device)) if device else "")


def id_path_of(device: str) -> str:
    """A device's ID_PATH; empty where udev knows none."""
    try:
        return str(pyudev.Devices.from_device_file(pyudev.Context(), device).properties.get("ID_PATH", ""))
    except (pyudev.DeviceNotFoundError, OSError):
        return ""


@contextmanager
def writing(board: str, device: str | None, say: Callable[[str], None], plan: Plan) -> Iterator[None]:
    """Hold the turn of the plan's hub; report the wait for it."""
    hub = hub_of_write(plan, device, id_path_of)
    if not hub:
        yield
        return
    who = f"{board}, process {os.getpid()} of {process.person()}"
    medium = plan.target.medium

    def waits(holder: str) -> None:
        say(f"{medium}: waits for the write of {holder}: it is at the same USB hub ({hub})")

    with locks.turn(turn_at(hub), who, waits):
        yield


def check_expected(board: Board) -> None:
    """Check that a provisioned board still boots the same software.

    Raises:
        ReleaseMismatchError: something else.
    """
    for name, line in board.expected.get(board.medium, {}).items():
        now = board.software.get(name, line)
        if now != line:
            raise ReleaseMismatchError(
                f"{board.board} booted another {name} from {board.medium} than after it was provisioned: {now!r} now, "
                f"{line!r} then. Somebody wrote {board.medium} since: provision it again, or: lab provision --forget "
                f"--env ENV --medium {board.medium}"
            )
