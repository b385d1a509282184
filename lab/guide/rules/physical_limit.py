"""Throughput above what the bus or the link can carry."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide import udp
from lab.guide.catalogue import CellReading
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_ROUNDING = 1.002
_BUS_MB_S = {  # 10^6 bytes a second
    "sd": (104.0, "UHS-I SDR104: 208 MHz, 4 bits"),
    "emmc": (400.0, "eMMC HS400: 200 MHz, 8 bits, both edges"),
    "ospi": (400.0, "octal flash at 200 MHz, both edges"),
    "ufs": (1457.6, "UFS 3.0 HS-G4, one lane pair, after coding"),
    "sata": (600.0, "SATA at 6 Gbit/s, after coding"),
    "msata": (600.0, "SATA at 6 Gbit/s, after coding"),
}
_USB_HIGH_SPEED = (53.248, "USB 2.0 high speed: 13 bulk packets of 512 bytes in each of 8000 microframes")
_TCP_MBIT_S = 2 * 949.3  # 1460 of 1538 bytes on the wire, both directions
_FASTER_LINKS = 2.5  # the next step of Ethernet


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """What the medium cannot carry was not measured: a cache answered, a clock was wrong, or a digit is."""
    for reading in sheet.of(
        "storage.fio.throughput", "storage.file.throughput", "uboot.throughput", "ospi.raw.throughput"
    ):
        limit = _BUS_MB_S.get(reading.params.get("medium", "ospi"))
        if limit and (rate := (reading.number or 0.0) * _in_mb(reading)) > limit[0] * _ROUNDING:
            yield _remark(reading, f"{rate:.1f} MB/s", f"{limit[0]:g} MB/s ({limit[1]})")
    for reading in sheet.of("usb.device.throughput"):
        if (reading.number or 0.0) > _USB_HIGH_SPEED[0] * _ROUNDING:
            yield _remark(
                reading, f"{reading.number:.1f} MB/s", f"{_USB_HIGH_SPEED[0]:.1f} MB/s ({_USB_HIGH_SPEED[1]})"
            )
    for reading in sheet.of("ethernet.tcp.throughput"):
        yield from _ethernet(reading, _TCP_MBIT_S, "both directions of TCP")
    for rows in udp.tables(sheet).values():
        for row in rows:
            by_frames = udp.frame_limit(row.frame, row.definition or udp.Definition.PAYLOAD)
            limit_mbit_s = max(by_frames, udp.datagram_limit(row.size))  # the column may hold the datagram's size
            yield from _ethernet(row.throughput, limit_mbit_s, f"frames of {row.frame} bytes")


def _in_mb(reading: CellReading) -> float:
    return {"KiB/s": 1024 / 1e6, "MiB/s": 2**20 / 1e6}.get(
        reading.quantity.metric.unit if reading.quantity else "", 1.0
    )


def _ethernet(reading: CellReading, limit: float, what: str) -> Iterator[Remark]:
    rate = reading.number or 0.0
    if rate <= limit * _ROUNDING:
        return
    text = f"{rate:.2f} Mbit/s is more than a gigabit link carries for {what}, {limit:.1f} Mbit/s"
    if rate <= limit * _FASTER_LINKS:
        yield Remark(f"{text}; right only if the port is faster than a gigabit", reading, severity=Severity.SUSPECT)
    else:
        yield Remark(text, reading)


def _remark(reading: CellReading, rate: str, limit: str) -> Remark:
    return Remark(f"{rate} is above the limit of the medium, {limit}: it was not measured on it", reading)


RULE = Rule(id="physical-limit", title="More than the medium can carry", severity=Severity.ERROR, check=check)
