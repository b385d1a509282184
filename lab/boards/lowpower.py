"""How a board type sleeps and wakes, as data: what arms its wake-up sources, what is known to keep it awake."""

from __future__ import annotations

from attrs import Factory, field, frozen, validators

from lab.boards.hardware import RAIL_OFF_V

SLEEP_MODES = ("deep_sleep", "mcu_only", "standby", "s2idle", "partial_io")
WAKE_SOURCES = ("rtc", "uart", "mcu", "gpio", "can")


@frozen
class WakeSource:
    """What makes an event wake the board.

    Attributes:
        settings: file of sysfs -> value that arms the source; each is read back.
        commands: what else arms it.
        afterwards: file of sysfs -> value once the board is back.
        says: what is known where the source was armed and does not act, and the remedy; by release where it differs.
    """

    settings: dict[str, str] = Factory(dict)
    commands: list[str] = Factory(list)
    afterwards: dict[str, str] = Factory(dict)
    says: str = ""


@frozen
class Blocker:
    """Something known to keep a board from sleeping or from coming back.

    Attributes:
        check: shell command that succeeds where the board has it.
        says: what it does, and the remedy.
        device: the kind of chip that it matters on ("GP"); empty: all.
    """

    check: str
    says: str
    device: str = ""


@frozen
class LowPower:
    """Sleep and wake-up of a board type.

    Attributes:
        rtc: the clock whose alarm wakes the board.
        asleep_s: silence of the console after which a suspending board is taken to sleep.
        resume_s: how long it may take from a wake-up event to the shell's answer.
        resume_start: regular expressions of the kernel's first line of a resume, the preferred one first. The vendor's
            is "Enabling non-boot CPUs"; the others are for one CPU and for suspend-to-idle.
        wakes: the wake-up sources that the board has, of WAKE_SOURCES.
        blockers: by name.
        near_0_v: below it a rail is off.
        total_mw: mode -> bounds of the power of all rails in this mode, as evidence that it was reached.
    """

    rtc: str = "rtc0"
    asleep_s: float = field(default=3.0, validator=validators.gt(0.0))
    resume_s: float = field(default=15.0, validator=validators.gt(0.0))
    near_0_v: float = field(default=RAIL_OFF_V, validator=validators.gt(0.0))
    resume_start: list[str] = Factory(lambda: ["Enabling non-boot CPUs"])
    wakes: dict[str, WakeSource] = Factory(dict)
    blockers: dict[str, Blocker] = Factory(dict)
    total_mw: dict[str, list[float]] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        for source in self.wakes:
            if source not in WAKE_SOURCES:
                raise ValueError(f"low_power.wakes names {source!r}; the sources are: {', '.join(WAKE_SOURCES)}")
        for mode, bounds in self.total_mw.items():
            if mode not in SLEEP_MODES or len(bounds) != 2 or not 0 <= bounds[0] < bounds[1]:
                raise ValueError(f"low_power.total_mw.{mode}: expected a mode and [least, most], got {bounds}")
