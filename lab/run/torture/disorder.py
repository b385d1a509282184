"""The board does something else: it resets, prints what looks like a marker, or prints things in another order."""

from __future__ import annotations

from random import Random

from lab.host.clock import NS_PER_S
from lab.run.torture.boot import POWER, GoodBoot, Mutated
from lab.run.torture.tape import Tape, events, joined, queued, shuffled, typed


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
    if at <= min(boot.at.values()) or not boot.tape.data[begin:at].strip().count(b"\n"):
        truth |= {
            name: t_ns for name, t_ns in boot.truth(first).items() if name != boot.end
        }  # it looks like a slow start
    else:
        start = boot.at[boot.start]
        truth = {name: t_ns for name, t_ns in truth.items() if name != POWER and boot.at[name] >= start}
    what = f"reset at {at} to {begin}{', its banner garbled' if garbled else ''}, after {hung_ns / 1e9:.3f} s"
    return Mutated(events(joined(first.unmarked().ended(), last)), truth, what)


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
