"""How late the stamps of another host's consoles are, beside those of a reader on that host and labgrid's NetworkSerialPort.

    uv run python bench/remote.py [--consoles 16] [--boots 160] [--wires 0,0 20,0.01 200,0.01]

Two hosts are network namespaces of this one, with sshd on the one and a wire between them that delays what comes from it and loses
packets both ways (bench/netlab.py; it needs root). The consoles are those of bench/stamps.py: boots at the full speed of 115200 Bd, and a log
of when each byte left the UART.

In each run the same console server is read on its host and, through ssh, from the other one: two rows of the same bytes. labgrid's
SerialDriver reads the ports as `lab farm export` serves them (RFC 2217) in a run of its own, and is stamped when `expect` returns.
"behind" is how long after its stamp a reader had the last byte of a read.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import netlab
from aside import stand_aside
from attrs import define, field
from stamps import compare
from stamps_compare import prepare, print_table, share, spread, watch
from stamps_line import FIFO_BYTES, MARKERS
from stamps_peers import BENCH, LABGRID_PATIENCE_S, ConsoleServer, Stamp, Task

from lab.boards import MomentPattern
from lab.console import Chunk, ConsoleClient, Event, find_moments
from lab.console.resuming import PortOrder, ResumingClient
from lab.host.clock import MonotonicRaw
from lab.host.runtime import socket_path
from lab.host.sshlink import SshLink
from virtual.truth import read_truth

HEADER = (
    "reader",
    "wire",
    "markers",
    "missed",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "max ms",
    "early",
    "in ±",
    "behind p50 ms",
    "p99 ms",
)


@define
class Elsewhere:
    """Readers of a server's ports through ssh, in this process."""

    hosts: netlab.Hosts
    task: Task
    name: str = "boardlab, from the other host"
    first_character: bool = False
    _clients: list[ResumingClient] = field(factory=list)
    _events: list[list[Event]] = field(factory=list)
    behind_ms: list[float] = field(factory=list)

    def start(self, ports: Sequence[Path]) -> None:
        """Connect to the server that runs there."""
        link = SshLink(netlab.HOST, self.task.folder / "ssh", str(self.hosts.ssh_config))
        server = str(socket_path(self.task.folder / "run"))
        with netlab.inside(self.hosts.runner):
            for port in ports:
                connect = partial(_through, link, server)
                order = PortOrder(str(port.parent.resolve() / port.name))
                self._clients.append(ResumingClient(connect, link.reset, order, netlab.HOST))
                self._events.append([])

    def take(self) -> None:
        """What has come by now."""
        clock = MonotonicRaw()
        for client, events in zip(self._clients, self._events, strict=True):
            while (event := client.read_event(0)) is not None:
                events.append(event)
                if isinstance(event, Chunk):
                    self.behind_ms.append((clock.now_ns() - event.t_ns) / 1e6)

    def stamps(self) -> list[list[Stamp]]:
        """The moments of each console."""
        patterns = [MomentPattern(name=name, pattern=pattern) for name, pattern in self.task.markers.items()]
        return [
            [Stamp(m.name, m.t_ns, m.uncertainty_ns) for m in find_moments(events, patterns, client.info.meta.timing)]
            for events, client in zip(self._events, self._clients, strict=True)
        ]

    def stop(self) -> None:
        """Hang up."""
        for client in self._clients:
            client.close()


@define
class Both(ConsoleServer):
    """The console server with a reader on its host and one on the other."""

    elsewhere: Elsewhere = field(kw_only=True)

    def start(self, ports: Sequence[Path], boots: int) -> None:
        """Start the server and attach to all ports, twice."""
        super().start(ports, boots)
        self.elsewhere.start(ports)

    def take(self, timeout_s: float) -> None:
        """Read what the server sends."""
        super().take(timeout_s)
        self.elsewhere.take()

    def stop(self) -> None:
        """End everything."""
        self.elsewhere.stop()
        super().stop()


@define
class Labgrid(ConsoleServer):
    """labgrid's SerialDriver on the TCP ports of the console server, one process for each port, on the other host."""

    hosts: netlab.Hosts = field(kw_only=True)
    name: str = "labgrid NetworkSerialPort + expect"
    _processes: list[subprocess.Popen[str]] = field(factory=list)
    _bridge: subprocess.Popen[str] | None = None

    def start(self, ports: Sequence[Path], boots: int) -> None:
        """Start the server, its TCP ports, and the processes that expect the first marker."""
        super().start(ports, boots)
        for client, port in zip(self._clients, self._ports, strict=True):
            client.attach(port.name)
        command = [
            sys.executable,
            BENCH / "remote_bridge.py",
            socket_path(self.task.folder / "run"),
            netlab.HOST,
            *ports,
        ]
        self._bridge = subprocess.Popen(
            self.hosts.on_host(*command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._bridge.stdout is not None
        markers = json.dumps(dict(self.task.markers))
        for tcp in self._bridge.stdout.readline().split():
            words = [sys.executable, BENCH / "stamps_labgrid.py", f"{netlab.HOST}:{tcp}", str(boots), markers]
            self._processes.append(
                subprocess.Popen(["ip", "netns", "exec", self.hosts.runner, *words], stdout=subprocess.PIPE, text=True)
            )
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

    def stamps(self) -> list[list[Stamp]]:
        """What each process printed; nothing of one that did not find all of its markers in time."""
        end = time.monotonic() + LABGRID_PATIENCE_S
        printed = []
        for process in self._processes:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
            printed.append(process.stdout.readline() if ready else "")
        return [[Stamp(name, t_ns) for name, t_ns in json.loads(text or "[]")] for text in printed]

    def stop(self) -> None:
        """End everything."""
        for process in self._processes:
            process.kill()
            process.wait()
        if self._bridge is not None:
            self._bridge.kill()
            self._bridge.wait()
        super().stop()


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consoles", type=int, default=16)
    parser.add_argument("--boots", type=int, default=160, help="for all consoles together")
    parser.add_argument(
        "--wires", nargs="+", default=["0,0", "20,0.01", "200,0.01"], help="delay in ms, share of packets lost"
    )
    parser.add_argument("--without-labgrid", action="store_true")
    options = parser.parse_args()
    core = prepare()
    rows = []
    with tempfile.TemporaryDirectory(prefix="remote-") as folder, netlab.hosts(Path(folder)) as hosts:
        for wire in options.wires:
            hosts.tell(wire.replace(",", " "))
            for labgrid in (False,) if options.without_labgrid else (False, True):
                rows += measure(
                    hosts, wire, options.consoles, -(-options.boots // options.consoles), core, labgrid=labgrid
                )
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print_table(HEADER, rows)
    return 0


def measure(hosts: netlab.Hosts, wire: str, consoles: int, boots: int, core: int, *, labgrid: bool) -> list[list[str]]:
    """Play the boots to one kind of reader; a row for each reader."""
    folder = Path(tempfile.mkdtemp(prefix="remote-"))
    task = Task(folder, MARKERS, FIFO_BYTES)
    peer = Labgrid(task, hosts=hosts) if labgrid else Both(task, elsewhere=Elsewhere(hosts, task))
    words = [sys.executable, BENCH / "stamps_line.py", folder, "--consoles", str(consoles), "--boots", str(boots)]
    try:
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as line:
            assert line.stdin is not None
            assert line.stdout is not None
            output = line.stdout
            assert output.readline() == "ready\n", "the line did not start"
            stand_aside(core, line.pid)
            peer.start([folder / f"uart{number}" for number in range(consoles)], boots)
            line.stdin.write("go\n")
            line.stdin.flush()
            os.set_blocking(output.fileno(), False)
            watch(peer, lambda: not output.readline())
            found = [(peer.name if labgrid else "boardlab, on the host", peer.stamps(), [])]
            if isinstance(peer, Both):
                found.append((peer.elsewhere.name, peer.elsewhere.stamps(), peer.elsewhere.behind_ms))
            line.stdin.close()
        truths = [read_truth(folder / f"truth{number}.log") for number in range(consoles)]
        rows = []
        for name, stamps, behind_ms in found:
            result = compare(peer, stamps, truths, 0.0)
            within = (
                "-"
                if result.covered is None
                else share(round(result.covered * len(result.errors_ms)), len(result.errors_ms))
            )
            counts = [str(len(result.errors_ms)), str(result.missed)]
            times = spread(result.errors_ms, [50, 99, 99.9])
            rows.append([name, wire, *counts, *times, str(result.early), within, *spread(behind_ms, [50, 99])[:2]])
        return rows
    finally:
        peer.stop()
        shutil.rmtree(folder)


def _through(link: SshLink, server: str) -> ConsoleClient:
    return ConsoleClient(link.forwarded(server))


if __name__ == "__main__":
    sys.exit(main())
