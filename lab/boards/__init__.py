"""Board types as data: prompts, UARTs, media, boot moments, releases.

One TOML file per type in `types/` or in a folder of the lab's own, read by `load`. Real environments and virtual
boards use the same files.
"""

from lab.boards.hardware import (
    FEATURES,
    POWER_OFF,
    WAKE_SOURCES,
    Benchmarks,
    Blocker,
    Identity,
    Link,
    LowPowerModes,
    Rail,
    SleepMode,
    WakeSource,
)
from lab.boards.markers import NORMAL, QUIET, Flow, MediumEvidence, MomentPattern, OwnMoment, Sign, quiet_flow, way_of
from lab.boards.model import BoardType, Medium, Prompts, Timeouts, Uart
from lab.boards.registry import Pattern, assumptions, load, load_file, names, patterns, shipped
from lab.boards.release import Published, PublishedRange, SdkRelease, TransferRates
from lab.sleep_modes import SLEEP_MODES

__all__ = [
    "FEATURES",
    "NORMAL",
    "POWER_OFF",
    "QUIET",
    "SLEEP_MODES",
    "WAKE_SOURCES",
    "Benchmarks",
    "Blocker",
    "BoardType",
    "Flow",
    "Identity",
    "Link",
    "LowPowerModes",
    "Medium",
    "MediumEvidence",
    "MomentPattern",
    "OwnMoment",
    "Pattern",
    "Prompts",
    "Published",
    "PublishedRange",
    "Rail",
    "SdkRelease",
    "Sign",
    "SleepMode",
    "Timeouts",
    "TransferRates",
    "Uart",
    "WakeSource",
    "assumptions",
    "load",
    "load_file",
    "names",
    "patterns",
    "quiet_flow",
    "shipped",
    "way_of",
]
