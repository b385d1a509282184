"""A board with nothing on its media comes to U-Boot's prompt: over its console, or over USB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from lab.console.holders import fairly
from lab.drivers.consoleport import ConsoleLine
from lab.errors import ConfigurationError
from lab.provision import snagboot, uart_boot
from lab.provision.failures import RecoveryFailedError
from lab.provision.image import open_image
from lab.provision.release import Recovery, Release
from lab.provision.snagboot import run_here
from lab.provision.writer import Progress, Report

UART: Final = "uart"
USB: Final = "usb"


def recover_by(strategy: Any, release: Release, way: str, report: Report) -> None:
    """From now on this board comes to U-Boot's prompt from nothing, by a release's recovery set.

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
            f"release {release.name} has no `recovery: {name}:`: add the stages of a build that boots over {name.upper()} (docs/releases.md)"
        )

    elsewhere = getattr(strategy.console, "board_host", "")
    if name == USB and elsewhere:
        raise ConfigurationError(
            f"{way}: the board's USB is plugged into {elsewhere}: start it over `uart`, which goes through its console, or run this on "
            f"{elsewhere}, with an env without RemotePlace"
        )

    def bring(board: Any) -> None:
        if name == UART:
            by_uart(board, release.recovery, report)
        else:
            by_usb(board, release.recovery, report, port=port)

    strategy.from_nothing = bring


def by_uart(strategy: Any, recovery: Recovery, report: Report) -> None:
    """Bring a board to U-Boot's prompt by its ROM and its console; the media are not touched.

    Raises:
        ConfigurationError: the release has no such stages, or nothing can select UART boot.
        RecoveryFailedError, WriteStalledError: the board did not take them. Another call begins anew.
        BoardlabError: as of the strategy.
    """
    images = uart_boot.stages(recovery)
    with _powered(strategy, UART):
        uart_boot.send(ConsoleLine(strategy.console, strategy.power.clock), images, report)
        strategy.interrupt()


def by_usb(
    strategy: Any, recovery: Recovery, report: Report, *, port: str = "", run: snagboot.Run | None = None
) -> None:
    """The same by its USB port and Snagboot.

    Args:
        port: the board's USB port, e.g. "3-1.2". run: runs a program; None: on this host, `snagrecover` from the PATH.

    Raises:
        As of `by_uart`.
    """
    if not recovery.usb:
        raise ConfigurationError(
            "the release has no `recovery: usb:` stages: add the recovery set of a build with USB DFU"
        )
    program = snagboot.installed() if run is None else "snagrecover"
    with TemporaryDirectory(prefix="boardlab-recovery-") as folder:
        images = {stage.name: Path(folder) / stage.name for stage in recovery.usb}
        for stage in recovery.usb:
            with images[stage.name].open("wb") as file:
                file.writelines(open_image(stage))
        total = sum(path.stat().st_size for path in images.values())
        command = snagboot.recover_command(program, recovery.soc, images, port)
        with _powered(strategy, USB):
            began_ns = strategy.power.clock.now_ns()
            snagboot.judge_recovery((run or run_here)(command, snagboot.RECOVER_S))
            report(Progress("snagrecover", total, total, strategy.power.clock.now_ns() - began_ns))
            strategy.interrupt()


@contextmanager
def _powered(strategy: Any, way: str) -> Iterator[None]:
    """The board has just got its power, with the boot-mode pins that select `way`; the next start selects its medium again."""
    mode = strategy.type.recovery.get(way)
    if mode is None:
        raise ConfigurationError(
            f"board type {strategy.type.name} says no boot mode for {way.upper()} (`recovery` of its file)"
        )
    if strategy.boot_mode is None:
        raise ConfigurationError(
            f"the env has no BootModeDriver, so nothing selects {way.upper()} boot: set the switches to {mode:#x} by hand, or wire the straps"
        )
    strategy.off()
    strategy.switch_on(mode)
    try:
        with fairly(strategy.console):
            yield
    except RecoveryFailedError as error:
        source = strategy.type.references.get("recovery", "")
        if not source.startswith("assumed"):
            raise
        raise RecoveryFailedError(f"{error} That {mode:#x} selects {way.upper()} boot is {source}") from error
