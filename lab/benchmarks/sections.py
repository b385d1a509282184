"""All sections, in the order of the guides."""

from __future__ import annotations

from typing import Final

from lab.benchmarks import (
    audio,
    can,
    eembc,
    ethernet,
    extras,
    filecopy,
    graphics,
    iperf3,
    ipsec,
    lmbench,
    openssl,
    pcie,
    processor,
    realtime,
    storage,
    uboottransfer,
    usbdevice,
)
from lab.benchmarks.section import Section
from lab.boards import BoardType

ALL: Final[tuple[Section, ...]] = (
    lmbench.SECTION,
    *processor.SECTIONS,
    *eembc.SECTIONS,
    audio.SECTION,
    *graphics.SECTIONS,
    *ethernet.SECTIONS,
    *iperf3.SECTIONS,
    pcie.SECTION,
    *storage.SECTIONS,
    *filecopy.SECTIONS,
    *uboottransfer.SECTIONS,
    *uboottransfer.READ_SECTIONS,
    usbdevice.SECTION,
    openssl.SECTION,
    *ipsec.SECTIONS,
    can.SECTION,
    realtime.SECTION,
    *extras.SECTIONS,
)


def of_chapter(chapter: str, board: BoardType) -> list[Section]:
    """A chapter's sections for a board type, harmless and Linux ones first."""
    fitting = [section for section in ALL if section.chapter == chapter and section.fits(board)]
    return sorted(fitting, key=order)


def order(section: Section) -> tuple[bool, bool]:
    """Sort key: harmless sections first, Linux before U-Boot.

    So each is booted once.
    """
    return bool(section.overwrites), section.where == "uboot"
