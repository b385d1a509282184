"""How late console stamps are, beside labgrid's and grabserial's on the same kind of pty.

    uv run python bench/stamps.py [--consoles 1 16] [--boots 500] [--peers boardlab labgrid grabserial]

A process of its own plays boots at the full speed of 115200 Bd through the virtual boards' UART adapters (FIFO of 16
bytes, adapter latency 0) and logs when each byte left the UART. The error of a stamp is the peer's time of a marker
less that truth. Each boot has nine markers. `--boots` is the number for all consoles together: 500 boots take 7
minutes on one console and half a minute on 16. The line has the first core for itself; the peers, and this program,
have the others.

The console server stamps reads and puts moments back by the bytes behind the marker; labgrid is stamped when `expect`
returns; grabserial stamps the first character of a marker's line, and is compared with that one. All peers run with the
same priority, SCHED_FIFO 10 where that is permitted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from aside import Core, stand_aside
from attrs import frozen
from stamps_compare import prepare, print_table, spread, truth_ns, watch
from stamps_line import FIFO_BYTES, MARKERS
from stamps_peers import BENCH, PEERS, Peer, Stamp, Task

from lab.virtual.truth import Truth, read_truth

TARGETS_MS = "targets of the console server on an idle machine: p50 0.05, p99 0.2, p99.9 1"


@frozen
class Result:
    """What one peer did with one number of consoles.

    Attributes:
        errors_ms: stamp less truth, of every marker that was stamped.
        missed: markers without a stamp.
        cpu: of the reading processes, share of one core.
        early: stamps before the truth. covered: share of errors within the stated ±; None where there is none.
    """

    peer: str
    consoles: int
    errors_ms: list[float]
    missed: int
    cpu: float
    early: int
    covered: float | None

    def row(self) -> list[str]:
        """The result as cells of the table."""
        within = "-" if self.covered is None else f"{self.covered:.2%}"
        counts = [str(self.consoles), str(len(self.errors_ms)), str(self.missed)]
        times = spread(self.errors_ms, [50, 99, 99.9])
        return [self.peer, *counts, *times, str(self.early), within, f"{self.cpu:.1%}"]


HEADER = ["peer", "consoles", "markers", "missed", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "early", "in ±", "CPU"]


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consoles", type=int, nargs="+", default=[1, 16], help="how many stream at once")
    parser.add_argument("--boots", type=int, default=500, help="for all consoles together")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    options = parser.parse_args()
    line_core = Core(prepare())
    rows = []
    for consoles in options.consoles:
        for peer in options.peers:
            result = measure(peer, consoles, -(-options.boots // consoles), line_core)
            rows.append(result.row())
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print_table(HEADER, rows)
    print(TARGETS_MS)
    return 0


def measure(name: str, consoles: int, boots: int, line_core: Core) -> Result:
    """Play `boots` boots on each of `consoles` consoles to one peer; the line runs on `line_core`."""
    folder = Path(tempfile.mkdtemp(prefix="stamps-"))
    peer = PEERS[name](Task(folder, MARKERS, FIFO_BYTES))
    command = [sys.executable, str(BENCH / "stamps_line.py"), str(folder)]
    command += ["--consoles", str(consoles), "--boots", str(boots)]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as line:
            assert line.stdin is not None
            assert line.stdout is not None
            assert line.stdout.readline() == "ready\n", "the line did not start"
            stand_aside(line_core, line.pid)
            ports = [folder / f"uart{number}" for number in range(consoles)]
            peer.start(ports, boots)
            cpu = _play(peer, line)
            stamps = peer.stamps()
            line.stdin.close()
        truths = [read_truth(folder / f"truth{number}.log") for number in range(consoles)]
        return compare(peer, stamps, truths, cpu)
    finally:
        peer.stop()
        shutil.rmtree(folder)


def _play(peer: Peer, line: subprocess.Popen[str]) -> float:
    """Let the line play; returns the CPU that the peer took meanwhile."""
    assert line.stdin is not None
    assert line.stdout is not None
    output = line.stdout
    line.stdin.write("go\n")
    line.stdin.flush()
    os.set_blocking(output.fileno(), False)
    return watch(peer, lambda: not output.readline())[0]


def compare(peer: Peer, stamps: Sequence[Sequence[Stamp]], truths: Sequence[Truth], cpu: float) -> Result:
    errors_ns: list[int] = []
    covered: list[bool] = []
    missed = 0
    for found, truth in zip(stamps, truths, strict=True):
        assert truth.lost == 0, f"{truth.lost} bytes were lost in the pty: nobody read it in time"
        for name, pattern in MARKERS.items():
            left_ns = truth_ns(truth, pattern.encode(), first_character=peer.first_character)
            own = [stamp for stamp in found if stamp.marker == name]
            missed += len(left_ns) - len(own)
            for stamp, true_ns in zip(own, left_ns, strict=False):
                errors_ns.append(stamp.t_ns - true_ns)
                if stamp.uncertainty_ns is not None:
                    covered.append(0 <= stamp.t_ns - true_ns <= stamp.uncertainty_ns)
    return Result(
        peer=peer.name,
        consoles=len(truths),
        errors_ms=[error / 1e6 for error in errors_ns],
        missed=missed,
        cpu=cpu,
        early=sum(error < 0 for error in errors_ns),
        covered=sum(covered) / len(covered) if covered else None,
    )


if __name__ == "__main__":
    sys.exit(main())
