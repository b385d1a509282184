"""Low-power modes in Linux, and each SDK release's selection of MCU-only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from attrs import field, frozen, validators

from lab.boards import BoardType, SdkRelease
from lab.errors import ConfigurationError

DEEP_SLEEP, MCU_ONLY, PARTIAL_IO = "deep_sleep", "mcu_only", "partial_io"
RTC, UART, MCU, CAN = "rtc", "uart", "mcu", "can"
_QOS = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us"


@frozen
class SuspendState:
    """The way into a mode.

    Attributes:
        state: value for /sys/power/state. variant: the kernel's name ("PM: suspend entry (deep)").
    """

    state: str
    variant: str


SUSPEND_STATES: Final[Mapping[str, SuspendState]] = {
    DEEP_SLEEP: SuspendState("mem", "deep"),
    MCU_ONLY: SuspendState("mem", "deep"),
    "standby": SuspendState("standby", "shallow"),
    "s2idle": SuspendState("freeze", "s2idle"),
}


@frozen
class Constraint:
    """The setting that selects MCU-only, before each suspend.

    Attributes:
        path: a file of sysfs. value: for MCU-only. cleared: for any other mode.
    """

    path: str
    value: str
    cleared: str


@frozen
class SuspendPlan:
    """One suspend.

    Attributes:
        mode: of lab.boards.SLEEP_MODES. wake: its wake-up source, of lab.boards.WAKE_SOURCES.
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
            f"release {name} of {board.name} has a kernel {named.kernel}, the board runs {kernel}: name the release that is "
            "on the board; the selection of a low-power mode depends on it"
        )
    known = [release for release in board.releases.values() if _version(release.kernel) <= _version(kernel)]
    return named or (max(known, key=lambda release: _version(release.kernel)) if known else None)


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
    if plan.wake not in board.low_power.wakes:
        has = ", ".join(board.low_power.wakes) or "none"
        raise ConfigurationError(f"{where} has no wake-up source {plan.wake!r}; it has: {has}")
    if plan.wake == MCU and plan.mode != MCU_ONLY:
        raise ConfigurationError(f"a key on the MCU's UART wakes from mcu_only alone, not from {plan.mode}")
    if (plan.mode == PARTIAL_IO) != (plan.wake == CAN):
        raise ConfigurationError(
            "partial_io is left by the CAN pins, and these wake from nothing else: choose can as what wakes it"
        )


def _version(kernel: str) -> tuple[int, ...]:
    """Of a kernel: its first two numbers."""
    return tuple(int(part) for part in re.findall(r"\d+", kernel)[:2])
