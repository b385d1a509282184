"""All low-power modes: a new one is an entry here, and data of its board types.

How a board enters, proves and leaves a mode is of its type (`lab.boards.SleepMode`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen


@frozen
class LowPowerMode:
    """A low-power mode, as far as all boards that have it are alike.

    Attributes:
        printed: as guides title its numbers, e.g. "Deep Sleep"; empty: its numbers are compared with no guide's.
        boots: the board comes back by a boot, else Linux resumes.
        resume_ms: of a simulated board whose guide published no resume latency; assumed in the size of other figures.
    """

    printed: str = ""
    boots: bool = False
    resume_ms: float = 137.0


SLEEP_MODES: Final[Mapping[str, LowPowerMode]] = {
    "deep_sleep": LowPowerMode("Deep Sleep"),
    "mcu_only": LowPowerMode("MCU Only", resume_ms=94.0),
    "standby": LowPowerMode("Standby"),
    "s2idle": LowPowerMode(),
    "partial_io": LowPowerMode("Partial I/O", boots=True),
    "io_ddr": LowPowerMode(resume_ms=310.0),
    "rtc_io_ddr": LowPowerMode(resume_ms=240.0),
    "rtc_only": LowPowerMode(boots=True),
}
