"""The readers of consoles that stamps.py, sim.py and remote.py compare, and their stamps."""

from __future__ import annotations

import datetime as dt
import json
import multiprocessing
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from attrs import define, field, frozen
from common import BENCH, cpu_s
from labgrid import Target
from labgrid.driver import SerialDriver
from labgrid.resource import RawSerialPort

from lab.boards import MomentPattern
from lab.console import ConsoleClient, Event, PortInfo, ensure_server, find_moments
from lab.host.clock import MonotonicRaw
from lab.virtual.truth_log import Truth

GRABSERIAL = BENCH / "peers" / ".venv" / "bin" / "grabserial"
GRABSERIAL_TIME = "%Y-%m-%dT%H:%M:%S.%f"
SETTLE_S = 0.5  # after the last byte was played; the peers are all faster, or have lost it
LABGRID_PATIENCE_S = 60.0
LABGRID_TIMEOUT_S, FOR_EVER_S = 30.0, 86_400.0
PRIORITY = 10  # the console server's own
POLL_S = 0.02


@frozen
class Stamp:
    """When a peer says that a marker came.

    Attributes:
        uncertainty_ns: its ±, where the peer has one.
    """

    marker: str
    t_ns: int
    uncertainty_ns: int | None = None


@frozen
class Task:
    """What the peers are given.

    Attributes:
        folder: for their files.
        markers: name -> pattern, in the order in which they come in each boot.
        fifo_bytes: what the console server is told of the adapters.
    """

    folder: Path
    markers: Mapping[str, str]
    fifo_bytes: int | None = None


@define
class Peer:
    """A reader of many consoles.

    Attributes:
        first_character: it stamps the first character of a marker's line, not the marker's last one.
    """

    task: Task
    name: str = ""
    first_character: bool = False

    def take(self, timeout_s: float) -> None:
        """Read; processes of a peer look after themselves."""
        time.sleep(timeout_s)


@define
class ConsoleServer(Peer):
    """boardlab's console server, with one reader for each port in this process."""

    name: str = "boardlab"
    _clients: list[ConsoleClient] = field(factory=list)
    _ports: list[PortInfo] = field(factory=list)
    _events: list[list[Event]] = field(factory=list)
    _selector: selectors.BaseSelector = field(factory=selectors.DefaultSelector)

    def start(self, ports: Sequence[Path], _boots: int, silent: Sequence[Path] = ()) -> None:
        """Start the server and attach to all ports; on the silent ones nothing will come."""
        address = ensure_server(self.task.folder / "run")
        for number, port in enumerate([*ports, *silent]):
            client = ConsoleClient(address)
            info = client.open(port, fifo_bytes=self.task.fifo_bytes, name=f"uart{number}")
            self._ports.append(client.attach(info.name, write=True))
            self._clients.append(client)
            self._events.append([])
            self._selector.register(client, selectors.EVENT_READ, (client, self._events[-1]))

    def pids(self) -> list[int]:
        """The server's process."""
        return [self._clients[0].status().pid]

    def take(self, timeout_s: float) -> None:
        """Read what the server sends."""
        for key, _ in self._selector.select(timeout_s):
            client, events = key.data
            while (event := client.read_event(0)) is not None:
                events.append(event)

    def stamps(self) -> list[list[Stamp]]:
        """The moments of each console."""
        patterns = [MomentPattern(name=name, pattern=pattern) for name, pattern in self.task.markers.items()]
        return [
            [
                Stamp(moment.name, moment.t_ns, moment.uncertainty_ns)
                for moment in find_moments(events, patterns, info.meta.timing)
            ]
            for events, info in zip(self._events, self._ports, strict=True)
        ]

    def stop(self) -> None:
        """End the server."""
        self._clients[0].stop()


@define
class Labgrid(Peer):
    """labgrid's SerialDriver and expect, one process for each port: it is not made for several in one."""

    name: str = "labgrid SerialDriver + expect"
    _parent: subprocess.Popen[str] | None = None
    _pids: list[int] = field(factory=list)

    def start(self, ports: Sequence[Path], boots: int, silent: Sequence[Path] = ()) -> None:
        """Start the processes and wait until they expect the first marker; on the silent ports nothing will come."""
        command = [sys.executable, __file__, json.dumps(dict(self.task.markers))]
        for number, group in ((0, silent), (boots, ports)):
            command += [word for port in group for word in (str(port), str(number))]
        self._parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._parent.stdout is not None
        self._pids = json.loads(self._parent.stdout.readline())

    def pids(self) -> list[int]:
        """The processes."""
        return self._pids

    def stamps(self) -> list[list[Stamp]]:
        """What each process sent at its end."""
        assert self._parent is not None
        printed = self._parent.communicate(timeout=LABGRID_PATIENCE_S)[0]
        return [[Stamp(name, t_ns) for name, t_ns in stamps] for stamps in json.loads(printed)]

    def stop(self) -> None:
        """End what has not ended."""
        if self._parent is not None:
            self._parent.terminate()
            self._parent.wait()


@define
class Grabserial(Peer):
    """grabserial 2.0.4, one process for each port; it stamps the first character of a line, on the wall clock."""

    name: str = "grabserial 2.0.4"
    first_character: bool = True
    _processes: list[subprocess.Popen[bytes]] = field(factory=list)

    def start(self, ports: Sequence[Path], _boots: int, silent: Sequence[Path] = ()) -> None:
        """Start the processes and wait until they have opened their ports; on the silent ones nothing will come."""
        ports = [*ports, *silent]
        subprocess.run(["uv", "sync", "--quiet", "--frozen", "--project", str(BENCH / "peers")], check=True)
        for number, port in enumerate(ports):
            command = [str(GRABSERIAL), "-S", "-d", str(port), "-b", "115200", "-n", "-T", "-F", GRABSERIAL_TIME]
            command += ["-Q", "-o", str(self._output(number))]
            # It ends with a complaint of the interpreter about its thread on stdin.
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self._processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, **quiet))
        for process, port in zip(self._processes, ports, strict=True):
            _wait_until_open(process, port)

    def pids(self) -> list[int]:
        """The processes."""
        return [process.pid for process in self._processes]

    def stamps(self) -> list[list[Stamp]]:
        """The times before the lines with a marker, moved from the wall clock to ours."""
        offset_ns = MonotonicRaw().now_ns() - time.time_ns()
        found = []
        for process in self._processes:
            process.send_signal(signal.SIGINT)  # it then writes what it has
            process.wait()
        for number in range(len(self._processes)):
            text = self._output(number).read_text(encoding="utf-8", errors="replace")
            lines = re.findall(r"^\[(\d{4}-\S+)\] (.*)$", text, re.MULTILINE)
            found.append(
                [
                    Stamp(name, round(dt.datetime.strptime(at, GRABSERIAL_TIME).timestamp() * 1e9) + offset_ns)  # noqa: DTZ007  (local time is what it writes)
                    for at, line in lines
                    for name, pattern in self.task.markers.items()
                    if re.search(pattern, line)
                ]
            )
        return found

    def stop(self) -> None:
        """End what has not ended."""
        for process in self._processes:
            process.kill()
            process.wait()

    def _output(self, number: int) -> Path:
        return self.task.folder / f"grabserial-{number}.txt"


PEERS: dict[str, type[Peer]] = {
    "boardlab": ConsoleServer,
    "labgrid": Labgrid,
    "grabserial": Grabserial,
}


def _wait_until_open(process: subprocess.Popen[bytes], port: Path) -> None:
    target = port.resolve()
    while not any(fd.resolve() == target for fd in Path(f"/proc/{process.pid}/fd").iterdir()):
        assert process.poll() is None, "grabserial did not start"
        time.sleep(0.01)


def watch(peer: Peer, playing: Callable[[], bool], *others: int) -> list[float]:
    """Let the peer read while something plays; its share of one core meanwhile, then that of each of the `others`."""
    pids = peer.pids()
    for pid in pids:
        _prefer(pid)
    before_s = [sum(map(cpu_s, pids)), *map(cpu_s, others)]
    begin_s = time.monotonic()
    while playing():
        peer.take(POLL_S)
    span_s = time.monotonic() - begin_s
    after_s = [sum(map(cpu_s, pids)), *map(cpu_s, others)]
    settled = time.monotonic() + SETTLE_S
    while time.monotonic() < settled:
        peer.take(POLL_S)
    return [(after - before) / span_s for before, after in zip(before_s, after_s, strict=True)]


def _prefer(pid: int) -> None:
    try:
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        print(f"pid {pid} runs without SCHED_FIFO", file=sys.stderr)


def truth_ns(
    truth: Truth, pattern: str, *, first_character: bool, start_ns: int = 0, end_ns: int | None = None
) -> list[int]:
    """When each marker left the UART, in the span from `start_ns` to `end_ns`: its last byte, or its line's first one."""
    wanted = pattern.encode()
    if not first_character:
        return [truth.left_ns(match.position - 1) for match in truth.matches(wanted, start_ns, end_ns)]
    starts = [truth.data.rfind(b"\n", 0, match.start()) + 1 for match in re.finditer(wanted, truth.data)]
    times = [truth.left_ns(start) for start in starts]
    return [t_ns for t_ns in times if t_ns >= start_ns and (end_ns is None or t_ns < end_ns)]


def labgrid_consoles() -> None:
    """`stamps_peers.py MARKERS PORT BOOTS [PORT BOOTS ...]`: expect the markers of so many boots on each port with labgrid.

    Each port has a process of its own, since labgrid is not made for several in one. They are forked once labgrid is loaded, so that
    hundreds share its memory and start in a second. With 0 boots expect the first marker for as long as it takes. Prints the processes' ids as JSON when all have begun, then the markers'
    names and times of each port that has boots, and ends with its stdin.
    """
    markers, words = json.loads(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # which ends the others, too
    fork = multiprocessing.get_context("fork")
    pids, playing = [], []
    for port, boots in zip(words[::2], map(int, words[1::2]), strict=True):
        ours, theirs = fork.Pipe()
        process = fork.Process(target=expect, args=(theirs, port, boots, markers), daemon=True)
        process.start()
        ours.recv()
        pids.append(process.pid)
        if boots:
            playing.append(ours)
    print(json.dumps(pids), flush=True)
    print(json.dumps([pipe.recv() for pipe in playing]), flush=True)
    sys.stdin.read()  # what the processes took is counted as long as they are there


def expect(parent: Connection, port: str, boots: int, markers: Mapping[str, str]) -> None:
    """Say that it begins, expect the markers, and send what came when."""
    clock = MonotonicRaw()
    target = Target("main")
    RawSerialPort(target, name=None, port=port, speed=115200)
    console = SerialDriver(target, name=None)
    target.activate(console)
    parent.send("ready")
    stamps: list[tuple[str, int]] = []
    if not boots:
        console.expect(next(iter(markers.values())), timeout=FOR_EVER_S)
    for _ in range(boots):
        for name, pattern in markers.items():
            console.expect(pattern, timeout=LABGRID_TIMEOUT_S)
            stamps.append((name, clock.now_ns()))
    parent.send(stamps)
    signal.pause()


if __name__ == "__main__":
    labgrid_consoles()
