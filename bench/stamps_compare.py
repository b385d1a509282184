"""What the programs that compare stamps share: the processor time of the peers, their priority, and the table."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from stamps_peers import SETTLE_S, Peer

from lab.virtual.truth import Truth

PRIORITY = 10  # the console server's own
POLL_S = 0.02


def prepare() -> int:
    """Keep this program, and the peers that it starts, off the first core; returns that core, which is the line's."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # grabserial ends by it; background shells ignore it
    line_core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, os.sched_getaffinity(0) - {line_core} or {line_core})
    return line_core


def watch(peer: Peer, playing: Callable[[], bool], *others: int) -> list[float]:
    """Let the peer read while something plays; its share of one core meanwhile, then that of each of the `others`."""
    pids = peer.pids()
    for pid in pids:
        _prefer(pid)
    before_ns = [sum(map(_cpu_ns, pids)), *map(_cpu_ns, others)]
    begin_ns = time.monotonic_ns()
    while playing():
        peer.take(POLL_S)
    span_ns = time.monotonic_ns() - begin_ns
    after_ns = [sum(map(_cpu_ns, pids)), *map(_cpu_ns, others)]
    settled = time.monotonic() + SETTLE_S
    while time.monotonic() < settled:
        peer.take(POLL_S)
    return [(after - before) / span_ns for before, after in zip(before_ns, after_ns, strict=True)]


def share_of_core(pid: int, seconds: float) -> float:
    """What a process takes of one core in the next seconds."""
    before_ns, begin_ns = _cpu_ns(pid), time.monotonic_ns()
    time.sleep(seconds)
    return (_cpu_ns(pid) - before_ns) / (time.monotonic_ns() - begin_ns)


def truth_ns(
    truth: Truth, pattern: bytes, *, first_character: bool, start_ns: int = 0, end_ns: int | None = None
) -> list[int]:
    """When each marker left the UART, in the span from `start_ns` to `end_ns`: its end, or its line's first character."""
    return [truth.left_ns(place) for place in places(truth, pattern, first_character, start_ns, end_ns)]


def places(
    truth: Truth, pattern: bytes, first_character: bool, start_ns: int = 0, end_ns: int | None = None
) -> list[int]:
    """Where each marker is in what the board sent: its last byte, or its line's first one; as `truth_ns`."""
    if not first_character:
        return [match.position - 1 for match in truth.matches(pattern, start_ns, end_ns)]
    starts = [truth.data.rfind(b"\n", 0, match.start()) + 1 for match in re.finditer(pattern, truth.data)]
    return [at for at in starts if truth.left_ns(at) >= start_ns and (end_ns is None or truth.left_ns(at) < end_ns)]


def spread(errors_ms: Sequence[float], percentiles: ArrayLike) -> list[str]:
    """Percentiles and the largest, as cells."""
    if not errors_ms:
        return ["-"] * (np.size(percentiles) + 1)
    return [f"{value:.3f}" for value in (*np.percentile(errors_ms, percentiles), max(errors_ms, key=abs))]


def share(good: int, of: int) -> str:
    """A share as a cell."""
    return f"{good / of:.2%}" if of else "-"


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """The table as Markdown."""
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")


def _cpu_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])


def _prefer(pid: int) -> None:
    try:
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        print(f"pid {pid} runs without SCHED_FIFO", file=sys.stderr)
