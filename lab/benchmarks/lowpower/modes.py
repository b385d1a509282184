"""Plans of a suspend, and each SDK release's selection of MCU-only.

The modes themselves are data of the board type (`lab.boards.SleepMode`).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attrs import field, frozen, validators

from lab.boards import BoardType, SdkRelease, SleepMode
from lab.errors import ConfigurationError

MCU_ONLY = "mcu_only"
RTC, UART, MCU, CAN = "rtc", "uart", "mcu", "can"
_QOS = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us"


@frozen
class Constraint:
    """The setting that selects MCU-only, before each suspend.

    Attributes:
        path: a file of sysfs.
        value: for MCU-only.
        cleared: for any other mode.
    """

    path: str
    value: str
    cleared: str


@frozen
class SuspendPlan:
    """One suspend.

    Attributes:
        mode: of lab.sleep_modes.
        wake: its wake-up source, of lab.boards.WAKE_SOURCES.
        sleep_s: length of the sleep; whole seconds with the RTC.
        energy: measure that of the whole suspend and resume: the rails are then sampled as fast as for an
            active board, and their mean power while asleep is less exact.
    """

    mode: str
    wake: str = RTC
    sleep_s: int = field(default=5, validator=validators.ge(1))
    energy: bool = False


def constraint(board: BoardType, release: SdkRelease | None) -> Constraint | None:
    """The selection of MCU-only in this release; None: impossible.

    Source: TI's low-power guide in its releases 9.2, 10.0 and 11.0. 10.x takes milliseconds in a file whose name says
    microseconds; from 11.0 on they are microseconds.
    """
    if release is None or board.identity is None:
        return None
    mcu = f"/sys/bus/platform/devices/{board.identity.mcu}/power/wakeup"
    return {
        "wakeup_device": Constraint(mcu, "enabled", "disabled"),
        "qos_ms": Constraint(_QOS, "100", "0"),
        "qos_us": Constraint(_QOS, "100000", "0"),
    }.get(release.low_power)


def release_of(board: BoardType, name: str, kernel: str) -> SdkRelease | None:
    """The board's release: the named one, else by its kernel.

    The newest release whose kernel is not newer than the board's. A lab may measure a release before the board type
    knows it: the selection of a mode holds until a kernel changes it.

    Args:
        kernel: output of `uname -r`.

    Raises:
        ConfigurationError: the release of that name has another kernel.
    """
    named = board.releases.get(name)
    if named is not None and _version(named.kernel) != _version(kernel):
        raise ConfigurationError(
            f"release {name} of {board.name} has a kernel {named.kernel}, the board runs {kernel}: name the release "
            "that is on the board; the selection of a low-power mode depends on it"
        )
    older = [release for release in board.releases.values() if _version(release.kernel) <= _version(kernel)]
    return named or (max(older, key=lambda release: _version(release.kernel)) if older else None)


def check_plan(board: BoardType, plan: SuspendPlan) -> None:
    """Refuse a plan that the board type cannot do.

    Raises:
        ConfigurationError: no such mode or wake-up source, or they do not go together.
    """
    where = f"board type {board.name}"
    if not board.sleep:
        raise ConfigurationError(f"{where} has no low-power modes: measure another board")
    if plan.mode not in board.sleep:
        raise ConfigurationError(f"{where} has no low-power mode {plan.mode!r}; it has: {', '.join(board.sleep)}")
    sources = woken_by(board, plan.mode)
    if plan.wake not in sources:
        raise ConfigurationError(
            f"{where} is not woken from {plan.mode} by {plan.wake!r}; it is by: {', '.join(sources) or 'nothing'}"
        )


def mode_of(board: BoardType, plan: SuspendPlan) -> SleepMode:
    """The mode of a plan as its board type describes it."""
    return board.low_power.modes[plan.mode]


def woken_by(board: BoardType, mode: str) -> list[str]:
    """The wake-up sources of a mode, the usual one first."""
    return board.low_power.modes[mode].woken_by or list(board.low_power.wakes)


def wake_of(board: BoardType, mode: str, asked: str, wired: Collection[str]) -> str:
    """The wake-up source for a mode: the asked, else a wired.

    Args:
        wired: the sources that the environment drives, beside the RTC and the console.
    """
    sources = woken_by(board, mode)
    if asked in sources or not sources:
        return asked
    return next((source for source in sources if source in {RTC, UART, *wired}), sources[0])


def _version(kernel: str) -> tuple[int, ...]:
    """Of a kernel: its first two numbers."""
    return tuple(int(part) for part in re.findall(r"\d+", kernel)[:2])
