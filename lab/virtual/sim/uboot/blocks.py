"""How U-Boot's commands read and write media: piece by piece, so that what ends a write leaves a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lab.virtual.sim.computer import Computer
from lab.virtual.sim.program import NS_PER_S, Program
from lab.virtual.sim.space import PAGE_BYTES, Space
from lab.virtual.sim.storage import StorageMedium
from lab.virtual.sim.uboot.transfer import drawn_seconds

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
    """Whether it refuses to be written."""
    return any(trouble.protects(medium.name) for trouble in computer.troubles)


def store(
    computer: Computer, medium: StorageMedium, partition: int, offset: int, ram: Space, address: int, size: int
) -> Program[int]:
    """Write from memory. Returns: how many bytes went well; after a failure nothing more is written."""
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
