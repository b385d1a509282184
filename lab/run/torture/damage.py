"""Damage to bytes that the board sent well: lost, repeated, garbled or cut on their way.

The board is not disturbed by any of it: each moment was when its last byte arrived, or would have arrived.
"""

from __future__ import annotations

from random import Random

import numpy as np
from attrs import evolve

from lab.run.torture.boot import GoodBoot, Mutated
from lab.run.torture.tape import Tape, events, joined, queued, typed

USB_FRAME_NS = 1_000_000  # of a full-speed device (USB 2.0, 5.3.3)
USB_BYTES = 62  # of text in a packet of an FTDI adapter, which has two of status


def drop(boot: GoodBoot, rng: Random) -> Mutated:
    """Bytes get lost: single ones, a span, whole lines, amid a marker, or what the board did not print this time."""
    tape = boot.tape
    lost = np.zeros(len(tape), dtype=np.bool_)
    match rng.randrange(5):
        case 0:
            places = [boot.place(rng) for _ in range(rng.randint(1, 5))]
            lost[places] = True
            what = f"{len(places)} single bytes, the first at {min(places)}"
        case 1:
            start = boot.place(rng)
            lost[start : start + rng.randint(2, 400)] = True
            what = f"{int(lost.sum())} bytes at {start}"
        case 2:
            start = stop = boot.line_place(rng)
            for _ in range(rng.randint(1, 20)):
                stop = boot.line_after(stop)
            lost[start:stop] = True
            what = f"whole lines, {stop - start} bytes at {start}"
        case 3:
            start, stop = boot.marker(rng)
            first = rng.randrange(start, stop)
            lost[first : first + rng.randint(1, 8)] = True
            what = f"{int(lost.sum())} bytes at {first}, amid {tape.data[start:stop]!r}"
        case _:
            return _skipped(boot, rng)
    return Mutated(events(tape.without(~lost)), boot.truth(tape), f"lost: {what}")


def _skipped(boot: GoodBoot, rng: Random) -> Mutated:
    """The board did not do what a line reports, nor print it."""
    start = boot.pause_place(rng)
    stop = boot.line_after(start)
    took_ns = int(boot.tape.t_ns[min(stop, len(boot.tape) - 1)] - boot.tape.t_ns[start])
    shorter = boot.later(stop, -took_ns)
    kept = np.ones(len(shorter), dtype=np.bool_)
    kept[start:stop] = False
    what = f"not printed, and {took_ns / 1e9:.3f} s saved: {shorter.data[start:stop]!r}"
    return Mutated(events(shorter.without(kept)), boot.truth(shorter), what)


def repeat(boot: GoodBoot, rng: Random) -> Mutated:
    """Bytes come twice: an adapter hands a packet on again, a USB frame later, or a script prints lines again, or all of dmesg."""
    tape = boot.tape
    start = boot.place(rng)
    match rng.randrange(4):
        case 0:
            stop = min(len(tape), start + rng.randint(1, USB_BYTES))
            return _again(boot, start, stop, "packet")
        case 1:
            stop = min(len(tape), start + rng.randint(USB_BYTES, 4096))
            return _again(boot, start, stop, "block")
        case 2:
            start = stop = boot.line_of(start)
            for _ in range(rng.randint(1, 5)):
                stop = boot.line_after(stop)
            return _printed(boot, tape.data[start:stop], stop, "lines printed twice")
        case _:
            first = boot.lines.index(boot.kernel_at)
            last = rng.randrange(first + 1, len(boot.lines))
            where = boot.lines[rng.randrange(last, len(boot.lines))]
            return _printed(boot, tape.data[boot.kernel_at : boot.lines[last]], where, "dmesg printed by a script")


def _again(boot: GoodBoot, start: int, stop: int, what: str) -> Mutated:
    copy = boot.tape.part(start, stop).unmarked()
    ends = np.zeros(len(copy), dtype=np.bool_)
    ends[-1:] = True
    frame_ns = min(USB_FRAME_NS, boot.timing.adapter_latency_ns)  # a line without an adapter holds nothing up
    copy = evolve(copy, t_ns=np.full_like(copy.t_ns, boot.tape.t_ns[stop - 1] + frame_ns), ends=ends)
    tape = joined(boot.tape.part(0, stop).ended(), copy, boot.tape.part(stop))
    return Mutated(events(tape), boot.truth(tape), f"{what} of {stop - start} bytes at {start} handed on twice")


def _printed(boot: GoodBoot, text: bytes, where: int, what: str) -> Mutated:
    start_ns = int(boot.tape.t_ns[max(0, where - 1)])
    copy = typed(text, start_ns, boot.byte_ns, boot.read_bytes)
    tape = queued(joined(boot.tape.part(0, where), copy, boot.tape.part(where)), boot.byte_ns)
    return Mutated(events(tape), boot.truth(tape), f"{what}: {len(text)} bytes at {where}")


def garble(boot: GoodBoot, rng: Random) -> Mutated:
    """Bits flip: noise, a burst, amid a marker, or a broken line that reads as zeros."""
    tape = boot.tape
    text = bytearray(tape.data)
    start = boot.place(rng)
    match rng.randrange(4):
        case 0:
            stop = min(len(text), start + rng.choice([100, 1000, len(text)]))
            count = max(1, round((stop - start) * 10 ** rng.uniform(-3.5, -1.5)))
            for _ in range(count):
                text[rng.randrange(start, stop)] ^= 1 << rng.randrange(8)
            what = f"{count} bits from {start} to {stop}"
        case 1:
            stop = min(len(text), start + rng.randint(2, 400))
            text[start:stop] = rng.randbytes(stop - start)
            what = f"all from {start} to {stop}"
        case 2:
            start, stop = boot.marker(rng)
            places = [rng.randrange(start, stop) for _ in range(rng.randint(1, 3))]
            for place in places:
                text[place] ^= 1 << rng.randrange(8)
            what = f"bits at {places}: {bytes(text[start:stop])!r}"
        case _:
            stop = min(len(text), start + rng.randint(1, 200))
            text[start:stop] = bytes([rng.choice([0x00, 0xFF])]) * (stop - start)
            what = f"a break from {start} to {stop}"
    return Mutated(events(tape.with_text(bytes(text))), boot.truth(tape), f"garbled: {what}")


def cut(boot: GoodBoot, rng: Random) -> Mutated:
    """The recording ends early, or begins late; or the board dies."""
    at = boot.place(rng)
    if rng.randrange(3):
        tape, what = boot.tape.part(0, at), f"ends at {at}"
        return Mutated(events(tape), boot.truth(tape), what)
    tape = boot.tape.part(at)
    return Mutated(events(tape), boot.truth(boot.tape), f"begins at {at}")


LINE_ENDS = (b"\n", b"\r\n", b"\r\r\n", b"\n\r", b"\r", b"\r\n\r\n", b"\n\n")


def line_ends(boot: GoodBoot, rng: Random) -> Mutated:
    """Lines end otherwise: all, those of a part, or one here and there."""
    data = boot.tape.data
    start, stop = (0, len(data)) if rng.randrange(2) else sorted((boot.place(rng), boot.place(rng)))
    share = rng.choice([1.0, 1.0, 0.1])
    wanted = rng.choice(LINE_ENDS)
    pieces: list[Tape] = []
    at = 0
    for line in boot.lines[1:]:
        end = line - 1
        while end > at and data[end - 1] in b"\r\n":
            end -= 1
        if not start <= line <= stop or end < at or rng.random() > share:
            continue
        ending = typed(wanted, int(boot.tape.t_ns[max(0, end - 1)]), boot.byte_ns, boot.read_bytes)
        pieces += [boot.tape.part(at, end), ending]
        at = line
    tape = queued(joined(*pieces, boot.tape.part(at)), boot.byte_ns)
    what = f"{wanted!r} at the end of {share:.0%} of the lines from {start} to {stop}"
    return Mutated(events(tape), boot.truth(tape), what)
