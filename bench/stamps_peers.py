"""The programs that bench/stamps.py and bench/sim.py compare: how each is started, and when it says that a marker came."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from attrs import define, field, frozen

from lab.boards import MomentPattern
from lab.console import ConsoleClient, Event, PortInfo, ensure_server, find_moments
from lab.console.model import Chunk, LineTiming
from lab.host.clock import MonotonicRaw

BENCH = Path(__file__).resolve().parent
GRABSERIAL = BENCH / "peers" / ".venv" / "bin" / "grabserial"
GRABSERIAL_TIME = "%Y-%m-%dT%H:%M:%S.%f"
SETTLE_S = 0.5  # after the last byte was played; the peers are all faster, or have lost it
LABGRID_PATIENCE_S = 60.0


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
class ConsoleServer:
    """boardlab's console server, with one reader for each port in this process."""

    task: Task
    name: str = "boardlab"
    first_character: bool = False
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
class Labgrid:
    """labgrid's SerialDriver and expect, one process for each port: it is not made for several in one."""

    task: Task
    name: str = "labgrid SerialDriver + expect"
    first_character: bool = False
    _parent: subprocess.Popen[str] | None = None
    _pids: list[int] = field(factory=list)

    def start(self, ports: Sequence[Path], boots: int, silent: Sequence[Path] = ()) -> None:
        """Start the processes and wait until they expect the first marker; on the silent ports nothing will come."""
        command = [sys.executable, str(BENCH / "stamps_labgrid.py"), json.dumps(dict(self.task.markers))]
        for number, group in ((0, silent), (boots, ports)):
            command += [word for port in group for word in (str(port), str(number))]
        self._parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._parent.stdout is not None
        self._pids = json.loads(self._parent.stdout.readline())

    def pids(self) -> list[int]:
        """The processes."""
        return self._pids

    def take(self, timeout_s: float) -> None:
        """They look after themselves."""
        time.sleep(timeout_s)

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
class Grabserial:
    """grabserial 2.0.4, one process for each port; it stamps the first character of a line, on the wall clock."""

    task: Task
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

    def take(self, timeout_s: float) -> None:
        """They look after themselves."""
        time.sleep(timeout_s)

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


@define
class Bare:
    """A loop of epoll_wait(2), read(2) and the clock: what the machine's own way of a byte costs; see stamps_bare.py."""

    task: Task
    name: str = "bare loop"
    first_character: bool = False
    _process: subprocess.Popen[str] | None = None

    def start(self, ports: Sequence[Path], _boots: int, silent: Sequence[Path] = ()) -> None:
        """Start it and wait until all ports are open; on the silent ones nothing will come."""
        command = [sys.executable, str(BENCH / "stamps_bare.py"), str(self._output), *map(str, (*ports, *silent))]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", "the bare loop did not start"

    def pids(self) -> list[int]:
        """The process."""
        assert self._process is not None
        return [self._process.pid]

    def take(self, timeout_s: float) -> None:
        """It looks after itself."""
        time.sleep(timeout_s)

    def stamps(self) -> list[list[Stamp]]:
        """The moments of each console, without a ±."""
        self.stop()
        patterns = [MomentPattern(name=name, pattern=pattern) for name, pattern in self.task.markers.items()]
        timing = LineTiming(115200, fifo_bytes=self.task.fifo_bytes or 1)
        return [
            [Stamp(moment.name, moment.t_ns) for moment in find_moments(_chunks(reads), patterns, timing)]
            for reads in pickle.loads(self._output.read_bytes())  # noqa: S301 - of our own process
        ]

    def stop(self) -> None:
        """End it; it writes what it has."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    @property
    def _output(self) -> Path:
        return self.task.folder / "bare.pickle"


Peer = ConsoleServer | Bare | Labgrid | Grabserial
PEERS: dict[str, type[Peer]] = {
    "boardlab": ConsoleServer,
    "bare": Bare,
    "labgrid": Labgrid,
    "grabserial": Grabserial,
}


def _chunks(reads: Sequence[tuple[int, bytes]]) -> list[Event]:
    starts = accumulate((len(data) for _, data in reads), initial=0)
    return [Chunk(t_ns, start, data) for start, (t_ns, data) in zip(starts, reads, strict=False)]


def _wait_until_open(process: subprocess.Popen[bytes], port: Path) -> None:
    target = port.resolve()
    while not any(fd.resolve() == target for fd in Path(f"/proc/{process.pid}/fd").iterdir()):
        assert process.poll() is None, "grabserial did not start"
        time.sleep(0.01)
