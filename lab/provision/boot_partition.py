"""Record of an eMMC boot partition that a release was written to."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import astuple, field, frozen


@frozen
class Area:
    """Some of what was written to a boot partition.

    Attributes:
        offset: from its start, bytes. count: bytes. crc32, sha256: of them, hexadecimal.
    """

    offset: int
    count: int
    crc32: str
    sha256: str

    @classmethod
    def of(cls, offset: int, data: bytes) -> Area:
        """These bytes, there."""
        return cls(offset, len(data), f"{zlib.crc32(data):08x}", hashlib.sha256(data).hexdigest())


@frozen
class Spare:
    """The boot partition that a write goes to.

    Attributes:
        boots: it, e.g. "boot1"; empty: the write goes to none, or to both.
        kept: the other one, where the eMMC was set to boot from it before; else empty.
        bus: BOOT_BUS_CONDITIONS with which it booted from `kept`, as [width, reset, mode]; empty: they could not be read.
        areas: all that is written to `boots`.
    """

    boots: str = ""
    kept: str = ""
    bus: list[int] = field(factory=list)
    areas: tuple[Area, ...] = ()

    @property
    def noted(self) -> dict[str, Any]:
        """`bus` and `areas` as JSON."""
        return {"bus": self.bus, "areas": [list(astuple(area)) for area in self.areas]} if self.boots else {}

    @classmethod
    def of(cls, boots: str, kept: str, noted: Mapping[str, Any]) -> Spare:
        """Of a record."""
        return cls(boots, kept, list(noted.get("bus", ())), tuple(Area(*each) for each in noted.get("areas", ())))


def newest(tries: Iterable[tuple[str, bool]]) -> frozenset[str]:
    """Boot partitions whose latest release booted.

    tries: each one's partition, and whether it booted; the newest first.
    """
    seen: dict[str, bool] = {}
    for boots, has_booted in tries:
        seen.setdefault(boots, has_booted)
    return frozenset(boots for boots, has_booted in seen.items() if has_booted)
