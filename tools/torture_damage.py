"""Damage to bytes that the board sent well: lost, repeated, garbled or cut on their way.

The board is not disturbed by any of it: each moment was when its last byte arrived, or would have arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

import numpy as np
from attrs import evolve
from torture_boot import POWER, GoodBoot, Mutated, Tape, events, held, joined, queued, shuffled, typed

from lab.console.model import Suspended
from lab.host.clock import NS_PER_S

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


def splice(boot: GoodBoot, rng: Random) -> Mutated:
    """The board resets: to its ROM, to U-Boot, or straight into a kernel (kexec); its banner may be garbled."""
    at = boot.place(rng)
    ways = [0]
    if "uboot" in boot.at and at > boot.at["uboot"]:
        ways.append(boot.line_of(boot.at["uboot"] - 1))
    if at > boot.at.get("init", len(boot.tape)):  # kexec needs somebody who calls it
        ways.append(boot.kernel_at)
    begin = rng.choice(ways)
    again = boot.tape.part(begin)
    garbled = rng.randrange(3)
    if garbled:
        again = _garbled_head(again, boot.line_after(max(begin, min(boot.at.values()))) - begin, rng)
    hung_ns = round(10 ** rng.uniform(-2, 0.7) * NS_PER_S)
    shift_ns = int(boot.tape.t_ns[at - 1]) + hung_ns - int(again.t_ns[0]) if at else hung_ns
    first, last = boot.tape.part(0, at), boot.another_kernel(again, rng).moved(shift_ns)
    truth = boot.truth(last)
    kernel_ns = truth.get(boot.start)
    if at <= min(boot.at.values()) or not boot.tape.data[begin:at].strip().count(b"\n"):
        truth |= {
            name: t_ns for name, t_ns in boot.truth(first).items() if name != boot.end
        }  # it looks like a slow start
    else:
        start = boot.at[boot.start]
        truth = {name: t_ns for name, t_ns in truth.items() if name != POWER and boot.at[name] >= start}
    what = f"reset at {at} to {begin}{', its banner garbled' if garbled else ''}, after {hung_ns / 1e9:.3f} s"
    return Mutated(events(joined(first.unmarked().ended(), last)), truth, what, kernel_ns)


def _garbled_head(tape: Tape, stop: int, rng: Random) -> Tape:
    text = bytearray(tape.data)
    for _ in range(rng.choice([1, 2, 8, stop])):
        text[rng.randrange(stop)] ^= 1 << rng.randrange(8)
    return tape.with_text(bytes(text))


def insert(boot: GoodBoot, rng: Random) -> Mutated:
    """The board prints what looks like a marker: in a line, at a line's start, behind the prompt."""
    name = rng.choice([boot.end, boot.end, boot.start, "first_printk", *boot.at])
    if name not in boot.at:
        name = boot.start
    end = boot.at[name]
    marker = boot.tape.data[boot.line_of(end - 1) : end].strip()
    stamp = b"[%5d.%06d] " % (rng.randrange(20), rng.randrange(1_000_000))
    form = rng.choice(
        [
            b"%s\r\n",
            b"%s, or so it says\r\n",
            b"         Starting something that waits for %s on ttyS2...\r\n",
            b"[  OK  ] Found %s in the log.\r\n",
            b"bootcmd=run findfdt; echo %s; booti ${loadaddr}\r\n",
            b"echo %s\r\n",
            b'"%s"\r\n',
            stamp + b"audit: %s\r\n",
            b"%s\r\n%s\r\n" if name != boot.end else b"\r\nWelcome\r\n\r\n%s\r\n\r\n",
        ]
    )
    if rng.randrange(8) == 0:
        return _behind(boot, rng, marker, stamp)
    where = boot.line_place(rng) if rng.randrange(8) else boot.place(rng)
    if name not in (boot.end, boot.start, "first_printk") and where < end:
        where = boot.line_after(end)  # the first of these counts by definition, whoever prints it
    if name == "first_printk" and boot.at[boot.start] <= where < end:
        where = boot.line_after(end)  # nothing that could print it runs before the kernel does
    text = form.replace(b"%s", marker)
    pause_ns = round(rng.choice([0, 0, rng.uniform(0, 0.2), rng.uniform(0.5, 4)]) * NS_PER_S)
    if pause_ns:  # the board waits in the text, and all that follows comes later
        where = boot.pause_after(where)
        boot = boot.of(boot.later(where, pause_ns))
    start_ns = int(boot.tape.t_ns[max(0, where - 1)])
    split = text.find(marker) + len(marker)
    head = typed(text[:split], start_ns, boot.byte_ns, boot.read_bytes)
    rest = typed(text[split:], start_ns + pause_ns, boot.byte_ns, boot.read_bytes)
    tape = queued(joined(boot.tape.part(0, where), head, rest, boot.tape.part(where)), boot.byte_ns)
    return Mutated(events(tape), boot.truth(tape), f"at {where}: {text!r}, pausing {pause_ns / 1e9:.3f} s in it")


def _behind(boot: GoodBoot, rng: Random, marker: bytes, stamp: bytes) -> Mutated:
    """Something is printed behind the prompt."""
    text = rng.choice(
        [
            stamp + b"random: crng init done\r\n",
            b"\r\n" + stamp + b"random: crng init done\r\n",
            b"\r\n[  OK  ] Reached target Multi-User System.\r\n",
            b"\x1b[H\x1b[J",
            b"\r\n",
            b"\r\n\r\n" + boot.prompt.encode(),
            marker + b"\r\n",
        ]
    )
    after_ns = round(10 ** rng.uniform(-3, 0.3) * NS_PER_S)
    where = boot.at[boot.end]
    said = typed(text, int(boot.tape.t_ns[where - 1]) + after_ns, boot.byte_ns, boot.read_bytes)
    tape = joined(boot.tape.part(0, where), said)
    return Mutated(events(tape), boot.truth(tape), f"behind the prompt, after {after_ns / 1e9:.3f} s: {text!r}")


def reorder(boot: GoodBoot, rng: Random) -> Mutated:
    """Neighbouring lines or reads change places, or one line breaks into another."""
    way = rng.randrange(3)
    first = boot.line_place(rng) if way else boot.place(rng)
    second = boot.line_after(first) if way else min(len(boot.tape), first + rng.randint(1, 64))
    third = boot.line_after(second) if way else min(len(boot.tape), second + rng.randint(1, 64))
    if not first < second < third or any(map(boot.splits_marker, (first, second, third))):
        first, second, third = 0, boot.lines[1], boot.lines[2]
    pieces = [(second, third), (first, second)]
    what = f"{first} to {second} behind {second} to {third}"
    if way == 2:
        middle = rng.randrange(first, second)
        pieces = [(first, middle), (second, third), (middle, second)]
        what = f"{second} to {third} at {middle}"
    tape = shuffled(boot.tape, pieces)
    return Mutated(events(tape), boot.truth(tape), f"reordered: {what}")


HEARTBEAT_NS = NS_PER_S // 20  # the server was awake at most so long before, and takes all since then for lateness
KERNEL_BYTES = 65536 + 4096  # TTYB_DEFAULT_MEM_LIMIT and N_TTY_BUF_SIZE
SMALL_BYTES = 4096  # of an adapter's driver that stops taking bytes when the tty is full
MS = 1_000_000


def delay(boot: GoodBoot, rng: Random) -> Mutated:
    """The board takes longer somewhere, or here and there; or the host reads a little late."""
    match rng.randrange(3):
        case 0:
            by_ns = round(10 ** rng.uniform(-3, 1.2) * NS_PER_S)
            offset = boot.pause_place(rng)
            tape = boot.later(offset, by_ns)
            return Mutated(events(tape), boot.truth(tape), f"the board pauses at {offset} for {by_ns / 1e9:.4f} s")
        case 1:
            return _slow_board(boot, rng)
        case _:
            return _busy_host(boot, rng)


def _slow_board(boot: GoodBoot, rng: Random) -> Mutated:
    tape, count = boot.tape, rng.randint(2, 12)
    slow = boot
    for _ in range(count):
        by_ns = round(10 ** rng.uniform(-3, -0.3) * NS_PER_S)
        tape = slow.later(slow.pause_place(rng), by_ns)
        slow = slow.of(tape)
    return Mutated(events(tape), boot.truth(tape), f"the board is slower at {count} places")


def _busy_host(boot: GoodBoot, rng: Random) -> Mutated:
    """Another process holds the processor: the run queue says for how long (/proc/self/schedstat)."""
    count = rng.randint(1, 12)
    held_up = []
    for _ in range(count):
        begin_ns = int(boot.tape.t_ns[boot.place(rng)]) - rng.randint(0, 5 * MS)
        held_up.append((begin_ns, begin_ns + round(10 ** rng.uniform(-0.5, 2) * MS)))
    tape = boot.tape
    for begin_ns, end_ns in _apart(held_up):
        tape = held(tape, begin_ns, end_ns, end_ns - begin_ns, KERNEL_BYTES)
    what = f"the host is busy for up to 0.1 s at {count} places"
    return Mutated(events(tape), boot.truth(boot.tape), what)


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that overlap, or nearly do, as one."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1] + MS:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def stall(boot: GoodBoot, rng: Random) -> Mutated:
    """The server stands still for 0.1 to 5 s, once or more; or the whole host does, and its clock with it."""
    match rng.randrange(6):
        case 0:
            return _suspended(boot, rng, rng.choice(boot.tape.t_ns).item(), said=True)
        case 1 if boot.clock_shown_ns is not None:
            first_ns, last_ns = boot.clock_shown_ns
            return _suspended(
                boot, rng, rng.randint(first_ns, last_ns - 200 * MS), said=False, until_ns=last_ns - 50 * MS
            )
        case _:
            return _stopped(boot, rng)


def _suspended(boot: GoodBoot, rng: Random, begin_ns: int, *, said: bool, until_ns: int | None = None) -> Mutated:
    """The host is suspended, which its server sees; or its virtual machine is paused, which only the board's clock shows.

    Args:
        until_ns: awake again at the latest; no kernel's line comes after it that could show anything.
    """
    tape = boot.tape
    stood_ns = round(rng.uniform(0.1, 5) * NS_PER_S)
    if until_ns is not None:
        stood_ns = min(stood_ns, until_ns - begin_ns)
    begin_ns -= rng.randint(0, 100 * MS) if said else 0
    end_ns = begin_ns + stood_ns
    asleep = held(tape, begin_ns, end_ns, 0, rng.choice([1, 62, 4096]))
    after = asleep.t_ns >= end_ns
    awake = evolve(asleep, t_ns=np.where(after, asleep.t_ns - stood_ns, asleep.t_ns))
    found = events(awake)
    if said:
        at = next((number for number, event in enumerate(found) if event.t_ns >= begin_ns), len(found))
        position = found[at].position if at < len(found) else len(awake)
        found = (*found[:at], Suspended(begin_ns, position, stood_ns), *found[at:])
    who = "the host is suspended" if said else "the virtual machine of the host is paused"
    after_s = (begin_ns - int(tape.t_ns[0])) / 1e9
    return Mutated(found, boot.truth(tape), f"{who} for {stood_ns / 1e9:.3f} s at {after_s:.3f} s")


def _stopped(boot: GoodBoot, rng: Random) -> Mutated:
    """The server stands still; now and then the kernel cannot keep all that comes."""
    stood = []
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        begin_ns = int(boot.tape.t_ns[boot.place(rng)]) - rng.randint(0, 100 * MS)
        stood.append((begin_ns, begin_ns + round(rng.uniform(0.1, 5) * NS_PER_S)))
    tape, said = boot.tape, []
    for begin_ns, end_ns in _apart(stood):
        noticed_ns = end_ns - begin_ns + rng.randrange(HEARTBEAT_NS)
        tape = held(tape, begin_ns, end_ns, noticed_ns, rng.choice([KERNEL_BYTES] * 3 + [SMALL_BYTES]))
        said.append(f"{(end_ns - begin_ns) / 1e9:.3f} s at {(begin_ns - int(boot.tape.t_ns[0])) / 1e9:.3f} s")
    what = f"the server stands still for {', '.join(said)}"
    return Mutated(events(tape), boot.truth(boot.tape), what)


def prompt(boot: GoodBoot, rng: Random) -> Mutated:
    """A text like the prompt comes first, or the prompt is damaged and comes again."""
    return _lookalike(boot, rng) if rng.randrange(2) else _damaged_prompt(boot, rng)


def _lookalike(boot: GoodBoot, rng: Random) -> Mutated:
    """A program prints the prompt's text before there is a getty, and the boot pauses there."""
    first, last = boot.at.get("init", boot.kernel_at), boot.line_of(boot.at[boot.end] - 1)
    where = boot.pause_after(boot.line_after(rng.randrange(first, max(first + 1, last - 1))))
    where = min(where, last)
    pause_ns = round(rng.choice([rng.uniform(0.5, 1.5), rng.uniform(1, 4)]) * NS_PER_S)
    boot = boot.of(boot.later(where, pause_ns))
    start_ns = int(boot.tape.t_ns[max(0, where - 1)])
    head = typed(b"\r\n" + boot.prompt.encode(), start_ns, boot.byte_ns, boot.read_bytes)
    rest = typed(b"\r\n", start_ns + pause_ns - 4 * boot.byte_ns, boot.byte_ns, boot.read_bytes)
    tape = queued(joined(boot.tape.part(0, where).ended(), head, rest, boot.tape.part(where)), boot.byte_ns)
    return Mutated(
        events(tape), boot.truth(tape), f"a text like the prompt at {where}, {pause_ns / 1e9:.3f} s before the rest"
    )


def _damaged_prompt(boot: GoodBoot, rng: Random) -> Mutated:
    """A byte of the prompt is damaged or lost, and the getty prints it again later."""
    end = boot.at[boot.end]
    at = rng.randrange(end - len(boot.prompt.encode()), end - 1)
    text = bytearray(boot.tape.data)
    text[at] ^= 1 << rng.randrange(7)
    tape = boot.tape.part(0, end).with_text(bytes(text[:end]))
    if rng.randrange(2):
        keep = np.ones(len(tape), dtype=np.bool_)
        keep[at] = False
        tape = tape.without(keep)
    again_ns = int(boot.tape.t_ns[end - 1]) + round(rng.uniform(0.6, 10) * NS_PER_S)
    again = typed(b"\r\n" + boot.prompt.encode(), again_ns, boot.byte_ns, boot.read_bytes)
    what = (
        f"the prompt damaged at {at}, and printed again after {(again_ns - int(boot.tape.t_ns[end - 1])) / 1e9:.3f} s"
    )
    return Mutated(events(joined(tape.ended(), again)), boot.truth(boot.tape), what)


DamageKind = Callable[[GoodBoot, Random], Mutated]

KINDS: Final[Mapping[str, DamageKind]] = {
    "drop": drop,
    "repeat": repeat,
    "delay": delay,
    "insert": insert,
    "splice": splice,
    "line_ends": line_ends,
    "garble": garble,
    "cut": cut,
    "reorder": reorder,
    "stall": stall,
    "prompt": prompt,
}


def mutate(boot: GoodBoot, kind: str, seed: int) -> Mutated:
    """The case of a kind with this seed; always the same one."""
    return KINDS[kind](boot, Random(f"{kind}:{seed}"))  # noqa: S311  (chance needs no secrecy here)
