"""Receiver of XMODEM and YMODEM in boot ROM, SPL and `loady`.

The frames are Chuck Forsberg's "XMODEM/YMODEM Protocol Reference" (1988); that an acknowledged end is followed by `C`
and a last, empty header is U-Boot's common/xyzModem.c.
"""

from __future__ import annotations

import binascii
from typing import Final

from attrs import frozen

from lab.virtual.sim.computer import Computer
from lab.virtual.sim.machine import FIFO_BYTES
from lab.virtual.sim.program import NS_PER_S, Program

SOH, STX, EOT, ACK, NAK, CAN, ASK = 0x01, 0x02, 0x04, 0x06, 0x15, 0x18, ord("C")
ASKS_NS: Final = 1 * NS_PER_S
_BYTE_NS: Final = 1 * NS_PER_S  # within a block
_BLOCK_NS: Final = 10 * NS_PER_S  # between blocks; then a `NAK` asks for the block again
_ERRORS: Final = 20
_SIZES: Final = {SOH: 128, STX: 1024}
_INTERRUPT: Final = 0x03
_FILLED_BYTES: Final = 4096  # a loader polls; nothing of a block is lost while it listens


@frozen
class Received:
    """A file that came in.

    Attributes:
        data: its bytes; XMODEM does not know its size, so the last block's filling is with it.
        blocks, retries: how many blocks came, and how many were asked for again.
    """

    data: bytes
    blocks: int
    retries: int


def receive(computer: Computer, *, batch: bool, asks: int | None = None) -> Program[Received | None]:
    """Ask for a file and take it.

    Args:
        batch: YMODEM: a block with the file's name and size goes first.
        asks: how often `C` is sent before it gives up; None: for ever.

    Returns:
        None: nobody sent one, the sender gave up, or too much was garbled.
    """
    computer.machine.rx_limit = _FILLED_BYTES
    try:
        start = yield from _asked(computer, asks)
        return None if start is None else (yield from _file(computer, start, batch=batch))
    finally:
        computer.machine.rx_limit = FIFO_BYTES


def _asked(computer: Computer, asks: int | None) -> Program[int | None]:
    left = asks
    while left is None or left > 0:
        yield from computer.echo(bytes([ASK]))
        due_ns = computer.now_ns + ASKS_NS
        while (typed := (yield from computer.hear(max(0, due_ns - computer.now_ns)))) is not None:
            if typed.byte in _SIZES:
                return typed.byte
            if typed.byte in {_INTERRUPT, CAN} and asks is not None:
                return None
        left = None if left is None else left - 1
    return None


def _file(computer: Computer, start: int, *, batch: bool) -> Program[Received | None]:
    data, size = bytearray(), None
    expected, errors, blocks, retries = int(not batch), 0, 0, 0
    kind: int | None = start
    while errors < _ERRORS:
        if kind in _SIZES:
            block = yield from _block(computer, _SIZES[kind])
            if block is None or block[0] not in {expected % 256, (expected - 1) % 256}:
                errors, retries = errors + 1, retries + 1
                yield from computer.echo(bytes([NAK]))
            else:
                errors = 0
                if block[0] == expected % 256:
                    blocks, expected = blocks + 1, expected + 1
                    if batch and expected == 1:
                        size = _size(block[1])
                    else:
                        data += block[1]
                yield from computer.echo(bytes([ACK, ASK]) if batch and expected == 1 else bytes([ACK]))
        elif kind == EOT:
            yield from computer.echo(bytes([ACK]))
            if batch:
                yield from _farewell(computer)
            return Received(bytes(data if size is None else data[:size]), blocks, retries)
        elif kind == CAN:
            if (again := (yield from computer.hear(_BYTE_NS))) is not None and again.byte == CAN:
                return None
        elif kind is None:
            errors, retries = errors + 1, retries + 1
            yield from computer.echo(bytes([NAK]))
        typed = yield from computer.hear(_BLOCK_NS)
        kind = None if typed is None else typed.byte
    return None


def _block(computer: Computer, size: int) -> Program[tuple[int, bytes] | None]:
    """Number and bytes of a block; None: it was garbled.

    The rest of it has gone by.
    """
    frame = bytearray()
    while len(frame) < size + 4:
        typed = yield from computer.hear(_BYTE_NS)
        if typed is None:
            return None
        frame.append(typed.byte)
    number, inverse, data, check = frame[0], frame[1], bytes(frame[2:-2]), int.from_bytes(frame[-2:], "big")
    if number ^ inverse != 0xFF or binascii.crc_hqx(data, 0) != check:
        while (yield from computer.hear(_BYTE_NS)) is not None:
            pass
        return None
    return number, data


def _farewell(computer: Computer) -> Program[None]:
    """Take a batch's empty last header, if the sender sends one."""
    yield from computer.echo(bytes([ASK]))
    typed = yield from computer.hear(_BYTE_NS)
    if typed is not None and typed.byte in _SIZES and (yield from _block(computer, _SIZES[typed.byte])) is not None:
        yield from computer.echo(bytes([ACK]))


def _size(header: bytes) -> int | None:
    """The file's size as the first block of YMODEM has it."""
    text = header.partition(b"\0")[2].split(b"\0")[0].split(b" ")[0]
    return int(text) if text.isdigit() else None
