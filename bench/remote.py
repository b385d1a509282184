"""How late the stamps of another host's consoles are, beside those of a reader on that host and labgrid's NetworkSerialPort.

    uv run python bench/remote.py [--consoles 16] [--boots 160] [--wires 0,0 20,0.01 200,0.01] [--cuts 20] [--cut-wires 20,0.01] [--busy]

Two hosts are network namespaces of this one, with sshd on the one and a wire between them that delays what comes from it and loses
packets both ways (bench/netlab.py; it needs root). The consoles are those of bench/stamps.py: boots at the full speed of 115200 Bd, and a log
of when each byte left the UART.

In each run the same console server is read on its host, and from the other one through ssh and by TLS: three rows of the same bytes. labgrid's
SerialDriver reads the ports as `lab farm export` serves them (RFC 2217) in a run of its own, and is stamped when `expect` returns.
"behind" is how long after its stamp a reader had the last byte of a read. "lost" are bytes that the reader on the host got and this one
did not, or otherwise. A run more for each of `--cut-wires` cuts the readers elsewhere off, `--cuts` times while the consoles stream: all
connections of ssh are killed, and the TLS front is, which starts again. (Each reader asks the clock eight times when it comes again, one reader
after the other: on a wire of 200 ms that is most of a minute a cut.)
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
from aside import Core, stand_aside
from remote_readers import All, BySsh, ByTls, Elsewhere, Labgrid, cuts
from stamps import compare
from stamps_compare import prepare, print_table, share, spread, watch
from stamps_line import FIFO_BYTES, MARKERS, boot_text
from stamps_peers import BENCH, Task

from virtual.truth import read_truth

HEADER = (
    *(
        "reader",
        "wire",
        "cuts",
        "lost",
        "markers",
        "missed",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
        "early",
        "in ±",
    ),
    *("behind p50 ms", "p99 ms"),
)


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consoles", type=int, default=16)
    parser.add_argument("--boots", type=int, default=160, help="for all consoles together")
    parser.add_argument(
        "--wires", nargs="+", default=["0,0", "20,0.01", "200,0.01"], help="delay in ms, share of packets lost"
    )
    parser.add_argument("--cuts", type=int, default=20, help="in a run of its own; 0: none")
    parser.add_argument(
        "--cut-wires", nargs="*", default=["20,0.01"], help="of `--wires`, on which connections are cut"
    )
    parser.add_argument(
        "--busy", action="store_true", help="the machine has other work; only ratios mean something then"
    )
    parser.add_argument("--without-labgrid", action="store_true")
    options = parser.parse_args()
    core = Core(prepare(), options.busy)
    boots = -(-options.boots // options.consoles)
    rows = []
    with tempfile.TemporaryDirectory(prefix="remote-") as folder, netlab.hosts(Path(folder)) as hosts:
        for wire in options.wires:
            hosts.tell(wire.replace(",", " "))
            for number in (0, options.cuts) if options.cuts and wire in options.cut_wires else (0,):
                rows += measure(hosts, wire, options.consoles, boots, core, number)
                print(*("  ".join(row) for row in rows[-3:]), sep="\n", file=sys.stderr, flush=True)
            if not options.without_labgrid:
                rows += measure(hosts, wire, options.consoles, boots, core, labgrid=True)
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print_table(HEADER, rows)
    return 0


def measure(
    hosts: netlab.Hosts, wire: str, consoles: int, boots: int, core: Core, number: int = 0, *, labgrid: bool = False
) -> list[list[str]]:
    """Play the boots to one kind of reader, and cut it off so many times; a row for each reader."""
    folder = Path(tempfile.mkdtemp(prefix="remote-"))
    task = Task(folder, MARKERS, FIFO_BYTES)
    size = consoles * boots * len(boot_text())
    there: list[Elsewhere] = []
    if not labgrid:
        there = [BySsh(hosts, task, cut_at=cuts(number, size, 1)), ByTls(hosts, task, cut_at=cuts(number, size, 2))]
    peer = Labgrid(task, hosts=hosts) if labgrid else All(task, elsewhere=there)
    words = [sys.executable, BENCH / "stamps_line.py", folder, "--consoles", str(consoles), "--boots", str(boots)]
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
            watch(peer, lambda: not output.readline())
            if isinstance(peer, All):
                peer.drain()
            found = [(peer.name if labgrid else "boardlab, on the host", peer.stamps(), ["-", "-"], ["-", "-"])]
            for each in there:
                assert isinstance(peer, All)
                found.append(
                    (
                        each.name,
                        each.stamps(),
                        [str(each.cuts), str(peer.lost_bytes(each))],
                        spread(each.behind_ms, [50, 99])[:2],
                    )
                )
            line.stdin.close()
        truths = [read_truth(folder / f"truth{each}.log") for each in range(consoles)]
        rows = []
        for name, stamps, lost, behind in found:
            result = compare(peer, stamps, truths, 0.0)
            within = (
                "-"
                if result.covered is None
                else share(round(result.covered * len(result.errors_ms)), len(result.errors_ms))
            )
            counts = [str(len(result.errors_ms)), str(result.missed)]
            times = spread(result.errors_ms, [50, 99, 99.9])
            rows.append([name, wire, *lost, *counts, *times, str(result.early), within, *behind])
        return rows
    finally:
        peer.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
