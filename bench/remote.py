"""Lateness of stamps of another host's consoles.

    uv run python bench/remote.py [--consoles 16] [--wires 0,0 20,0.01 200,0.01] [--boots 480] [--cuts 20]

Two hosts are network namespaces of this one, with sshd on the one and a wire between them that delays what comes from it and loses
packets both ways (tests/support/netlab.py; it needs root). The consoles are those of bench/stamps.py: boots at the full speed of 115200 Bd, and a
log of when each byte left the UART.

In each run the same console server is read on its host, and from the other one through ssh, by a process for each console, as
measurements do: two rows of the same bytes, and the quotient of their errors. "behind" is how long after its stamp a reader had a read. "lost" are
bytes that the reader on the host got and this one did not, or otherwise.

With `--cuts` all readers on the other host are cut off so many times while the consoles stream, each time when all of them have bytes again: all
connections of ssh are killed. "cuts" is how many the reader saw that saw the fewest.
"core" is how busy the cores were on which all of this runs but the consoles. A wire takes a minute with 480 boots; 20 cuts want some 1600.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
from attrs import define, field
from common import BUSY, Core, go, parser, player, prepare, print_table, share, spread
from stamps import FIFO_BYTES, MARKERS, Result, compare, line_words, truths
from stamps_peers import ConsoleServer, Stamp, Task, watch
from support import netlab

from lab.boards import MomentPattern
from lab.console import Chunk, ConsoleClient, find_moments
from lab.console.reader import ELSEWHERE_S, ReconnectingReader
from lab.console.serial_line import PortRequest
from lab.host.clock import MonotonicRaw
from lab.host.runtime import socket_path
from lab.host.ssh import SshLink

COUNT: Final = struct.Struct("<q")  # of a reader, in the shared file: how many cuts it has come back from
DRAIN_S: Final = 120.0  # for what is on its way when the line has played everything
LOOK_S: Final = 0.2
LEAST_S, MOST_S = 0.2, 1.0  # between the return of the last reader and the next cut
HEADER = [
    *("reader", "delay, loss", "cuts", "lost", "markers", "missed", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "early"),
    *("in ±", "p99 / host's", "p99.9 / host's", "behind p50 ms", "p99 ms", "max ms", "core"),
]


def main() -> int:
    """The program."""
    options = parser(__doc__)
    options.add_argument("--consoles", type=int, default=16)
    options.add_argument("--boots", type=int, default=480, help="for all consoles together")
    options.add_argument(
        "--wires", nargs="+", default=["0,0", "20,0.01", "200,0.01"], help="delay in ms, share of packets lost"
    )
    options.add_argument("--cuts", type=int, default=0)
    options.add_argument("--busy", action="store_true", help=BUSY)
    options.add_argument("--read", type=int, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.read is not None:
        read(given.read)
        return 0
    core = prepare(busy=given.busy)
    rows = []
    with tempfile.TemporaryDirectory(prefix="remote-") as folder, netlab.hosts(Path(folder)) as hosts:
        for wire in given.wires:
            hosts.tell(wire.replace(",", " "))
            found = measure(hosts, given.consoles, -(-given.boots // given.consoles), core, given.cuts)
            rows += [[each[0], wire, *each[1:]] for each in found]
            print(*("  ".join(each) for each in rows[-2:]), sep="\n", file=sys.stderr, flush=True)
    print_table(HEADER, rows)
    return 0


def measure(hosts: netlab.Hosts, consoles: int, boots: int, core: Core, cuts: int) -> list[list[str]]:
    """Play the boots to both readers; a row for each of them, without the wire."""
    with tempfile.TemporaryDirectory(prefix="remote-") as made:
        folder = Path(made)
        peer = Both(Task(folder, MARKERS, FIFO_BYTES), readers=RemoteReaders(hosts, folder, cuts))
        try:
            with player(core, *line_words(folder, consoles, boots)) as playing:
                peer.start([folder / f"uart{each}" for each in range(consoles)], boots)
                idle_s, span_s = cores()
                watch(peer, go(playing))
                idle_then_s, span_then_s = cores()
                peer.readers.finish([len(data) for data in peer.data()])
                found = peer.stamps()
            true = truths(folder, consoles)
            here, there = compare(peer, found, true, 0.0), compare(peer, peer.readers.stamps(), true, 0.0)
            cut_off = [str(peer.readers.fewest_cuts()), str(peer.readers.lost_bytes(peer.data()))]
            behind = spread(peer.readers.behind_ms(), [50, 99])
            busy = f"{1 - (idle_then_s - idle_s) / (span_then_s - span_s):.0%}"
            return [
                ["boardlab, on the host", "-", "-", *cells(here), *["-"] * 5, busy],
                ["boardlab, through ssh", *cut_off, *cells(there), *quotients(there, here), *behind, busy],
            ]
        finally:
            peer.stop()


def cores() -> tuple[float, float]:
    """How long all cores but that of the consoles were idle, and how long they were there, in seconds."""
    every = psutil.cpu_times(percpu=True)
    times = [every[core] for core in os.sched_getaffinity(0)]
    return sum(each.idle + each.iowait for each in times), sum(map(sum, times))


def cells(result: Result) -> list[str]:
    """Of one reader."""
    count = len(result.errors_ms)
    within = "-" if result.covered is None else share(round(result.covered * count), count)
    return [str(count), str(result.missed), *spread(result.errors_ms, [50, 99, 99.9]), str(result.early), within]


def quotients(there: Result, here: Result) -> list[str]:
    """How much larger the errors are than those of the reader on the host."""
    high = [np.percentile(each.errors_ms, [99, 99.9]) for each in (there, here)]
    return [f"{quotient:.3f}" for quotient in high[0] / high[1]]


@define
class RemoteReaders:
    """Readers on the other host, in a process for each console, through one connection of ssh.

    Attributes:
        cuts: how often they are to be cut off; each time all of them stream again.
        made: how many cuts there were.
    """

    hosts: netlab.Hosts
    task_folder: Path
    cuts: int
    made: int = 0
    _processes: list[subprocess.Popen[str]] = field(factory=list, init=False)
    _counts: mmap.mmap | None = field(default=None, init=False)
    _chance: random.Random = field(factory=lambda: random.Random(19), init=False)  # noqa: S311  (cuts, not keys)
    _next_cut_s: float | None = field(default=None, init=False)

    @property
    def folder(self) -> Path:
        """The folder of their files."""
        return self.task_folder / "remote"

    def start(self, devices: Sequence[str]) -> None:
        """Connect one for each device, and wait until all are."""
        self.folder.mkdir()
        (self.folder / "counts").write_bytes(bytes(COUNT.size * len(devices)))
        with (self.folder / "counts").open("r+b") as shared:
            self._counts = mmap.mmap(shared.fileno(), 0)
        order = {
            "folder": str(self.folder),
            "devices": devices,
            "sockets": str(self.task_folder / "ssh"),
            "config": str(self.hosts.ssh_config),
            "server": str(socket_path(self.task_folder / "run")),
        }
        for number in range(len(devices)):
            words = ["ip", "netns", "exec", self.hosts.runner, sys.executable, __file__, "--read", str(number)]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._processes.append(process)
            _tell(process, json.dumps(order))
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", "a reader did not start"

    def cut_if_due(self) -> None:
        """Cut all of them off, if all have bytes again since the last time."""
        if self.made == self.cuts:
            return
        if self._next_cut_s is None:
            assert self._counts is not None
            if min(count for (count,) in COUNT.iter_unpack(self._counts)) >= self.made:
                self._next_cut_s = time.monotonic() + self._chance.uniform(LEAST_S, MOST_S)
        elif time.monotonic() >= self._next_cut_s and self.hosts.cut():
            self.made += 1
            self._next_cut_s = None

    def finish(self, sizes: Sequence[int]) -> None:
        """Wait until each has so many bytes."""
        for process, size in zip(self._processes, sizes, strict=True):
            _tell(process, str(size))
        for process in self._processes:
            assert process.wait(2 * DRAIN_S) == 0, "a reader failed"

    def stamps(self) -> list[list[Stamp]]:
        """The moments of each console."""
        return [[Stamp(*each) for each in self._found(number)["stamps"]] for number in range(len(self._processes))]

    def fewest_cuts(self) -> int:
        """Of the reader that was cut off least often."""
        return min(self._found(number)["cuts"] for number in range(len(self._processes)))

    def behind_ms(self) -> list[float]:
        """Of each read of each reader: how long after its stamp it was there."""
        parts = [np.fromfile(self.folder / f"behind{number}") for number in range(len(self._processes))]
        return [float(each) for each in np.concatenate(parts)]

    def lost_bytes(self, data: Sequence[bytes]) -> int:
        """How many bytes they did not get of these, or got otherwise."""
        pairs = [(here, (self.folder / f"data{number}").read_bytes()) for number, here in enumerate(data)]
        return sum(
            abs(len(here) - len(there)) + sum(a != b for a, b in zip(here, there, strict=False))
            for here, there in pairs
        )

    def stop(self) -> None:
        """End everything."""
        for process in self._processes:
            process.kill()
            process.wait()
        SshLink(netlab.HOST, self.task_folder / "ssh", str(self.hosts.ssh_config)).reset()

    def _found(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"found{number}").read_text())
        return found


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


@define
class Both(ConsoleServer):
    """The console server with a reader on its host, and with those on the other one."""

    readers: RemoteReaders = field(kw_only=True)

    def start(self, ports: Sequence[Path], boots: int, silent: Sequence[Path] = ()) -> None:
        """Start the server and attach to all ports, twice."""
        super().start(ports, boots, silent)
        self.readers.start([str(port.parent.resolve() / port.name) for port in ports])

    def take(self, timeout_s: float) -> None:
        """Read what the server sends."""
        super().take(timeout_s)
        self.readers.cut_if_due()

    def data(self) -> list[bytes]:
        """The bytes of each console."""
        return [b"".join(each.data for each in events if isinstance(each, Chunk)) for events in self._events]

    def stop(self) -> None:
        """End everything."""
        self.readers.stop()
        super().stop()


def read(number: int) -> None:
    """Read one console on the other host, in a process of its own as a measurement is.

    It takes its orders as JSON from stdin, prints "ready", reads until it has so many bytes as a second line of stdin says, and writes its
    findings to the folder.
    """
    order = json.loads(sys.stdin.readline())
    folder = Path(order["folder"])
    link = SshLink(netlab.HOST, Path(order["sockets"]), order["config"])
    client = ReconnectingReader(
        lambda: ConsoleClient(link.forward(order["server"]), ELSEWHERE_S),
        link.reset,
        PortRequest(Path(order["devices"][number])),
        netlab.HOST,
    )
    with (folder / "counts").open("r+b") as shared:
        counts = mmap.mmap(shared.fileno(), 0)
    wanted: list[int] = []
    threading.Thread(target=lambda: wanted.append(int(sys.stdin.readline() or 0)), daemon=True).start()
    print("ready", flush=True)
    clock, events, behind_ms, heard, deadline_s = MonotonicRaw(), [], array("d"), 0, 0.0
    while not wanted or (heard < wanted[0] and time.monotonic() < deadline_s):
        if not wanted:
            deadline_s = time.monotonic() + DRAIN_S
        event = client.read_event(LOOK_S)
        if event is None:
            continue
        events.append(event)
        if isinstance(event, Chunk):
            heard += len(event.data)
            behind_ms.append((clock.now_ns() - event.t_ns) / 1e6)
            COUNT.pack_into(counts, COUNT.size * number, client.cuts)
    patterns = [MomentPattern(name=name, pattern=pattern) for name, pattern in MARKERS.items()]
    moments = find_moments(events, patterns, client.info.meta.timing)
    client.close()
    found = {"cuts": client.cuts, "stamps": [[each.name, each.t_ns, each.uncertainty_ns] for each in moments]}
    (folder / f"data{number}").write_bytes(b"".join(each.data for each in events if isinstance(each, Chunk)))
    (folder / f"behind{number}").write_bytes(behind_ms.tobytes())
    (folder / f"found{number}").write_text(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
