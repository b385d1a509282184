"""Something is slow: the board, or the host that reads it.

A slow board has another boot time. A slow host has none of its own: its stamps are late, the server records what it
noticed, and the ± has to cover it.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import numpy as np
from attrs import evolve

from lab.console.model import Suspended
from lab.host.clock import NS_PER_S
from lab.run.torture.boot import GoodBoot, Mutated
from lab.run.torture.tape import events, held

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
