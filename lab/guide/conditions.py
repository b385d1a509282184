"""Under which conditions two guides took the same numbers: the SD card, the CPU clock, the way into a sleep mode."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from lab.guide import boards
from lab.guide.catalogue import CellReading
from lab.guide.sheet import Sheet
from lab.judge.labels import release_key

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
        media: (product or board, storage medium) -> what was used as it.
        clocks_mhz: board -> clock.
    """

    media: Mapping[tuple[str, str], frozenset[str]]
    clocks_mhz: Mapping[str | None, float]
    release: str | None


def of_sheet(sheet: Sheet) -> Conditions:
    """Collect them."""
    media: dict[tuple[str, str], frozenset[str]] = {}
    for reading in sheet.of("storage.", "uboot."):
        for condition in sheet.condition(reading.table):
            if not condition.boards or reading.board in condition.boards:
                owner = (reading.board or "") if condition.boards else boards.product_of(reading.board)
                place = (owner, reading.params.get("medium", ""))
                media[place] = media.get(place, frozenset()) | {condition.text}
    clocks = {r.board: r.number for r in sheet.of("cpu.clock") if r.number}
    return Conditions(media, clocks, sheet.guide.release)


def media_of(reading: CellReading, known: Conditions) -> tuple[str, ...]:
    """What was used as the medium of a reading, if its guide says so."""
    if not reading.metric.startswith(("storage.", "uboot.")):
        return ()
    medium = reading.params.get("medium", "")
    owners = {boards.product_of(reading.board), reading.board or ""}
    return tuple(sorted({text for owner in owners for text in known.media.get((owner, medium), ())}))


def medium_differs(reading: CellReading, old: Conditions, new: Conditions) -> bool:
    """Whether both guides say what was used as the medium of a reading, and not the same."""
    before, after = (set(media_of(reading, side)) for side in (old, new))
    return bool(before - after and after - before)


def way_into_sleep(reading: CellReading, known: Conditions) -> str:
    """How the sleep mode of a reading is entered; empty where that is the same in all releases, or the release is not known."""
    if reading.params.get("mode") != "mcuonly" or not known.release:
        return ""
    return _mcu_only(known.release)


def _mcu_only(release: str) -> str:
    ways = [way for first, way in _MCU_ONLY if release_key(release) >= first]
    return ways[-1] if ways else _MCU_ONLY_FIRST
