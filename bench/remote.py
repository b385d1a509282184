"""How late the stamps of another host's consoles are, beside those of a reader on that host and labgrid's NetworkSerialPort.

    uv run python bench/remote.py [--consoles 16] [--wires 0,0 20,0.01 200,0.01] [--readers ssh labgrid] [--boots 480] [--cuts 20] [--busy]

Two hosts are network namespaces of this one, with sshd on the one and a wire between them that delays what comes from it and loses
packets both ways (bench/netlab.py; it needs root). The consoles are those of bench/stamps.py: boots at the full speed of 115200 Bd, and a log
of when each byte left the UART.

In each run the same console server is read on its host, and from the other one through ssh, by a process for each console, as
measurements do: two rows of the same bytes, and the quotient of their errors. labgrid's SerialDriver reads the ports as `lab farm export` serves
them (RFC 2217) in a run of its own, and is stamped when `expect` returns.
"behind" is how long after its stamp a reader had a read. "lost" are bytes that the reader on the host got and this one did not, or otherwise.

With `--cuts` all readers elsewhere are cut off so many times while the consoles stream, each time when all of them have bytes again: all
connections of ssh are killed. "cuts" is how many the reader saw that saw the fewest.
"core" is how busy the cores were on which all of this runs but the consoles, and the load that of the machine.
A wire and a kind of reader take a minute with 480 boots; 20 cuts want some 1600.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import netlab
import numpy as np
import psutil
from aside import Core, stand_aside
from remote_labgrid import Labgrid
from remote_readers import Both, Elsewhere
from remote_ways import BySsh
from stamps import Result, compare
from stamps_compare import prepare, print_table, share, spread, watch
from stamps_line import FIFO_BYTES, MARKERS
from stamps_peers import BENCH, Task

from lab.virtual.truth import read_truth

SSH = "ssh"
LABGRID = "labgrid"
LABGRID_BOOTS = 10  # of a console: it falls behind with each, and what it does then takes as long
HEADER = [
    *("reader", "delay, loss", "cuts", "lost", "markers", "missed", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "early"),
    *("in ±", "p99 / host's", "p99.9 / host's", "behind p50 ms", "p99 ms", "max ms", "core", "load"),
]


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consoles", type=int, default=16)
    parser.add_argument("--boots", type=int, default=480, help="for all consoles together")
    parser.add_argument(
        "--wires", nargs="+", default=["0,0", "20,0.01", "200,0.01"], help="delay in ms, share of packets lost"
    )
    parser.add_argument("--readers", nargs="+", choices=[SSH, LABGRID], default=[SSH, LABGRID])
    parser.add_argument("--cuts", type=int, default=0)
    parser.add_argument("--congestion", default="reno", help="how the hosts' TCP takes losses")
    parser.add_argument("--ssh-options", nargs="*", default=[], help="of ssh_config(5), e.g. 'Compression yes'")
    parser.add_argument(
        "--busy", action="store_true", help="the machine has other work; only ratios mean something then"
    )
    options = parser.parse_args()
    core = Core(prepare(), options.busy)
    boots = -(-options.boots // options.consoles)
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="remote-") as folder,
        netlab.hosts(Path(folder), options.congestion, options.ssh_options) as hosts,
    ):
        for wire in options.wires:
            hosts.tell(wire.replace(",", " "))
            for readers in options.readers:
                more = measure(hosts, readers, options.consoles, boots, core, options.cuts)
                rows += [[row[0], wire, *row[1:]] for row in more]
                print(*("  ".join(row) for row in rows[-len(more) :]), sep="\n", file=sys.stderr, flush=True)
    print_table(HEADER, rows)
    return 0


def measure(hosts: netlab.Hosts, readers: str, consoles: int, boots: int, core: Core, cuts: int) -> list[list[str]]:
    """Play the boots to one kind of reader, and cut it off so many times; a row for each reader, without the wire."""
    folder = Path(tempfile.mkdtemp(prefix="remote-"))
    task = Task(folder, MARKERS, FIFO_BYTES)
    peer: Both | Labgrid
    if readers == LABGRID:
        peer, boots = Labgrid(task, hosts=hosts), min(boots, LABGRID_BOOTS)
    else:
        way = BySsh(hosts, folder)
        peer = Both(task, elsewhere=Elsewhere(hosts, way, folder / "elsewhere", dict(task.markers), cuts))
    words = [
        sys.executable,
        str(BENCH / "stamps_line.py"),
        str(folder),
        "--consoles",
        str(consoles),
        "--boots",
        str(boots),
    ]
    try:
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as line:
            assert line.stdin is not None
            assert line.stdout is not None
            output = line.stdout
            assert output.readline() == "ready\n", "the line did not start"
            stand_aside(core, line.pid)
            peer.start([folder / f"uart{each}" for each in range(consoles)], boots)
            line.stdin.write("go\n")
            line.stdin.flush()
            os.set_blocking(output.fileno(), False)
            idle_s, span_s = cores()
            watch(peer, lambda: not output.readline())
            idle_then_s, span_then_s = cores()
            machine = [f"{1 - (idle_then_s - idle_s) / (span_then_s - span_s):.0%}", f"{os.getloadavg()[0]:.1f}"]
            if isinstance(peer, Both):
                peer.elsewhere.finish([len(data) for data in peer.said()])
            found = peer.stamps()
            line.stdin.close()
        truths = [read_truth(folder / f"truth{each}.log") for each in range(consoles)]
        here = compare(peer, found, truths, 0.0)
        if not isinstance(peer, Both):
            return [[peer.name, "-", "-", *cells(here), *["-"] * 5, *machine]]
        there = compare(peer, peer.elsewhere.stamps(), truths, 0.0)
        cut_off = [str(peer.elsewhere.fewest_cuts()), str(peer.elsewhere.lost_bytes(peer.said()))]
        behind = spread(peer.elsewhere.behind_ms(), [50, 99])
        return [
            ["boardlab, on the host", "-", "-", *cells(here), *["-"] * 5, *machine],
            [peer.elsewhere.way.name, *cut_off, *cells(there), *quotients(there, here), *behind, *machine],
        ]
    finally:
        peer.stop()
        shutil.rmtree(folder)


def cores() -> tuple[float, float]:
    """How long all cores but that of the consoles were idle, and how long they were there, in seconds."""
    every = psutil.cpu_times(percpu=True)
    times = [every[core] for core in os.sched_getaffinity(0)]
    return sum(each.idle + each.iowait for each in times), sum(map(sum, times))


def cells(result: Result) -> list[str]:
    """Of one reader."""
    count = len(result.errors_ms)
    within = "-" if result.covered is None else share(round(result.covered * count), count)
    times = spread(result.errors_ms, [50, 99, 99.9])
    return [str(count), str(result.missed), *times, str(result.early), within]


def quotients(there: Result, here: Result) -> list[str]:
    """How much larger the errors are than those of the reader on the host."""
    high = [np.percentile(each.errors_ms, [99, 99.9]) for each in (there, here)]
    return [f"{quotient:.3f}" for quotient in high[0] / high[1]]


if __name__ == "__main__":
    sys.exit(main())
