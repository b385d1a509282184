"""U-Boot's commands for bytes in memory: compare, checksum, digest, fill."""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Mapping, Sequence

from lab.virtual.sim.program import Program
from lab.virtual.sim.sh.interpreter import Streams
from lab.virtual.sim.uboot.basics import FAILED, USAGE, is_number, line, number
from lab.virtual.sim.uboot.uboot import Command, UBoot

_ALGORITHMS = ("sha1", "sha256")


def _compare(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    if len(arguments) != 4 or not all(is_number(argument) for argument in arguments[1:]):
        return USAGE
    left, right, size = (number(argument) for argument in arguments[1:])
    yield from uboot.computer.pause(size)  # about 1 ns a byte
    same = uboot.ram.differs_at(left, uboot.ram, right, size)
    if same is not None:
        (one,), (two,) = uboot.ram.read(left + same, 1), uboot.ram.read(right + same, 1)
        yield from line(
            streams, f"byte at 0x{left + same:016x} ({one:#x}) != byte at 0x{right + same:016x} ({two:#x})"
        )
    yield from line(streams, f"Total of {size if same is None else same} byte(s) were the same")
    return 0 if same is None else FAILED


def _crc32(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`crc32 ADDRESS SIZE`."""
    if len(arguments) != 3 or not all(is_number(argument) for argument in arguments[1:]):
        return USAGE
    address, size = number(arguments[1]), number(arguments[2])
    yield from uboot.computer.pause(2 * size)
    found = binascii.crc32(uboot.ram.read(address, size))
    yield from line(streams, f"crc32 for {address:08x} ... {address + size - 1:08x} ==> {found:08x}")
    return 0


def _hash(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`hash sha256 ADDRESS SIZE [*VARIABLE]`."""
    if len(arguments) not in {4, 5} or not all(is_number(argument) for argument in arguments[2:4]):
        return USAGE
    if arguments[1] not in _ALGORITHMS:
        yield from line(streams, f"Unknown hash algorithm '{arguments[1]}'")
        return FAILED
    address, size = number(arguments[2]), number(arguments[3])
    yield from uboot.computer.pause(10 * size)
    found = hashlib.new(arguments[1], uboot.ram.read(address, size)).hexdigest()
    if len(arguments) == 5:
        uboot.shell.variables[arguments[4].removeprefix("*")] = found
    else:
        said = f"{arguments[1]} for {address:08x} ... {address + size - 1:08x} ==> {found}"
        yield from streams.out(said.encode())  # common/hash.c ends it without a line's end
    return 0


def _fill(uboot: UBoot, arguments: Sequence[str], _streams: Streams) -> Program[int]:
    """`mw.b ADDRESS VALUE [COUNT]`, and `mw.l` with a value of four equal bytes."""
    yield from ()
    if len(arguments) not in {3, 4} or not all(is_number(argument) for argument in arguments[1:]):
        return USAGE
    count = number(arguments[3]) if len(arguments) == 4 else 1
    count *= 4 if arguments[0] == "mw.l" else 1
    uboot.ram.fill(number(arguments[1]), count, number(arguments[2]) & 0xFF)
    return 0


def _fuse(uboot: UBoot, arguments: Sequence[str], streams: Streams) -> Program[int]:
    """`fuse …`: what it would burn is noted, and nothing is put back."""
    uboot.computer.storage.burned.append(" ".join(arguments))
    yield from line(streams, "Programming bank 0 word 0x00000000 to 0x00000001...")
    return 0


COMMANDS: Mapping[str, Command] = {
    "cmp.b": _compare,
    "crc32": _crc32,
    "fuse": _fuse,
    "hash": _hash,
    "mw.b": _fill,
    "mw.l": _fill,
}
