"""Reads and writes of media by U-Boot, and the time they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lab.virtual.sim.computer import Computer
from lab.virtual.sim.program import NS_PER_MS, NS_PER_S, Program
from lab.virtual.sim.storage import PAGE_BYTES, Space, StorageMedium
from lab.virtual.sim.timing import Normal

KIB = 1024
MIB = 1024 * KIB
_SPREAD = Normal(1.0, 0.004)  # of one transfer's time; assumed
_SETUP_NS = 1_500_000  # finding a file or starting a transfer; assumed
_WRITE_SHARE = 1 / 3  # of the read rate, where no guide says how fast writes are; assumed
_OTHER_MIB_S = 20.0  # of a medium that no figure is for; assumed


def seconds_of(computer: Computer, medium: str, size: int, *, write: bool, raw: bool) -> float:
    """Time of a transfer in seconds, by the published rate if any.

    The guides publish U-Boot's raw transfers of eMMC and OSPI, and its FAT files on SD.
    """
    table = computer.model.release.published.uboot_kib_s.get(medium)
    rates: Mapping[str, float] = {}
    if table is not None and (raw or medium == "sd"):
        rates = table.write if write else table.read
    if rates:
        nearest = min(rates, key=lambda known: abs(int(known, 16) - size))
        return size / KIB / rates[nearest]
    return size / (_load_rate(computer, medium) * (_WRITE_SHARE if write else 1.0))


def transfer(
    computer: Computer, medium: str, size: int, *, write: bool = False, raw: bool = False, published: bool = True
) -> Program[int]:
    """Do it; returns the milliseconds that U-Boot would print.

    Args:
        published: False for what no guide measures, such as a file of ext4.
    """
    seconds = drawn_seconds(computer, medium, size, write=write, raw=raw, published=published)
    start_ns = computer.now_ns
    yield from computer.pause(seconds * NS_PER_S)
    return max(1, round((computer.now_ns - start_ns) / NS_PER_MS))


def drawn_seconds(
    computer: Computer, medium: str, size: int, *, write: bool = False, raw: bool = False, published: bool = True
) -> float:
    """Drawn time of a transfer; see `transfer`."""
    if published:
        seconds = seconds_of(computer, medium, size, write=write, raw=raw)
    else:
        seconds = size / _load_rate(computer, medium) + _SETUP_NS / NS_PER_S
    return seconds * _SPREAD.draw(computer.dice("transfer", computer.now_ns))


def _load_rate(computer: Computer, medium: str) -> float:
    """Bytes per second that U-Boot reads."""
    known = computer.model.profile.load_mib_s.get(medium)
    return (known.mean if known else _OTHER_MIB_S) * MIB


def speed(size: int, ms: int) -> str:
    """The rate as U-Boot prints it, e.g. "24.2 MiB/s"."""
    rate = size * 1000 / ms
    for unit, name in ((MIB, "MiB/s"), (KIB, "KiB/s")):
        if rate >= unit:
            return f"{rate / unit:.1f} {name}".replace(".0 ", " ")
    return f"{rate:.0f} Bytes/s"


# --- Transfers of media, piece by piece ---


_PIECES: Final = 10


def capacity(computer: Computer, medium: StorageMedium, partition: int) -> int:
    """Bytes of a hardware partition, as the medium reports them."""
    size = medium.partition_size(partition)
    if partition:
        return size
    for trouble in computer.troubles:
        size = trouble.capacity(medium.name, size)
    return size


def protected(computer: Computer, medium: StorageMedium) -> bool:
    """Return whether a medium refuses writes."""
    return any(trouble.protects(medium.name) for trouble in computer.troubles)


def store(
    computer: Computer, medium: StorageMedium, partition: int, offset: int, ram: Space, address: int, size: int
) -> Program[int]:
    """Write from memory; returns the number of good bytes.

    After a failure nothing more is written.
    """
    ns = drawn_seconds(computer, medium.name, size, write=True, raw=True) * NS_PER_S
    step = max(PAGE_BYTES, -(-size // _PIECES // PAGE_BYTES) * PAGE_BYTES)
    done = 0
    while done < size:
        count = min(step, size - done)
        yield from computer.pause(ns * count / size)
        yield from computer.at("uboot.write")
        if any(trouble.spoils(medium.name, offset + done, count) for trouble in computer.troubles):
            return done
        _land(computer, medium, partition, offset + done, ram, address + done, count)
        done += count
    return done


def _land(
    computer: Computer, medium: StorageMedium, partition: int, offset: int, ram: Space, address: int, size: int
) -> None:
    space = medium.space(partition)
    if medium.flash:
        space.program(offset, ram, address, size)
    else:
        space.copy(offset, ram, address, size)
    for trouble in computer.troubles:
        _flip(space, offset, trouble.garbles_written(medium.name, offset, size))


def load(
    computer: Computer, medium: StorageMedium, partition: int, offset: int, ram: Space, address: int, size: int
) -> None:
    """Read into memory."""
    ram.copy(address, medium.space(partition), offset, size)
    for trouble in computer.troubles:
        _flip(ram, address, trouble.garbles_read(medium.name, offset, size))


def _flip(space: Space, offset: int, places: Sequence[int]) -> None:
    for place in places:
        (byte,) = space.read(offset + place, 1)
        space.write(offset + place, bytes([byte ^ 0xFF]))
