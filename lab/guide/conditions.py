"""Under which conditions two guides took the same numbers: the SD card, the CPU clock, the way into a sleep mode."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from lab.guide.catalogue import CellReading
from lab.guide.model import release_key
from lab.guide.sheet import Sheet

# How MCU Only is entered, from the first release that does it so: the vendor's low-power guide.
_MCU_ONLY = (
    ((10,), "a latency limit of 100 (written to a file of microseconds)"),
    ((11,), "a latency limit of 100000 us"),
)
_MCU_ONLY_FIRST = "the wake-up file of the M4F core"


@frozen
class Conditions:
    """What a sheet says about how its numbers were taken.

    Attributes:
        media: storage medium -> what was used as it.
        clocks_mhz: board -> clock.
    """

    media: Mapping[str, frozenset[str]]
    clocks_mhz: Mapping[str | None, float]
    release: str | None


def of_sheet(sheet: Sheet) -> Conditions:
    """Collect them."""
    media: dict[str, frozenset[str]] = {}
    for reading in sheet.of("storage.", "uboot."):
        medium = reading.params.get("medium", "")
        stated = frozenset(condition.text for condition in sheet.condition(reading.table))
        media[medium] = media.get(medium, frozenset()) | stated
    clocks = {r.board: r.number for r in sheet.of("cpu.clock") if r.number}
    return Conditions(media, clocks, sheet.guide.release)


def medium_change(reading: CellReading, old: Conditions, new: Conditions) -> tuple[str, str] | None:
    """What the medium of a reading was and is, if both guides say so and differ."""
    medium = reading.params.get("medium", "")
    if not reading.metric.startswith(("storage.", "uboot.")):
        return None
    before, after = old.media.get(medium, frozenset()), new.media.get(medium, frozenset())
    gone, come = sorted(before - after), sorted(after - before)
    return (gone[0], come[0]) if gone and come else None


def mode_change(reading: CellReading, old: Conditions, new: Conditions) -> tuple[str, str] | None:
    """How the sleep mode of a reading was and is entered, if the releases enter it differently."""
    if reading.params.get("mode") != "mcuonly" or not old.release or not new.release:
        return None
    before, after = _mcu_only(old.release), _mcu_only(new.release)
    return (before, after) if before != after else None


def _mcu_only(release: str) -> str:
    ways = [way for first, way in _MCU_ONLY if release_key(release) >= first]
    return ways[-1] if ways else _MCU_ONLY_FIRST
