"""The readers of bench/remote.py: on the host with the ports, and from the other one through ssh, by TLS and by labgrid."""

from __future__ import annotations

import json
import random
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import netlab
from attrs import define, field
from stamps_peers import BENCH, LABGRID_PATIENCE_S, ConsoleServer, Stamp, Task

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
import certificates

from lab.boards import MomentPattern
from lab.console import Chunk, ConsoleClient, Event, find_moments
from lab.console.resuming import PortOrder, ResumingClient
from lab.console.tlsway import TlsWay
from lab.host.clock import MonotonicRaw
from lab.host.runtime import socket_path
from lab.host.sshlink import SshLink
from lab.host.tls import Identity

LAB = Path(sys.executable).with_name("lab")
BETWEEN_CUTS_S = 0.2  # looking for connections takes time of its own
DRAIN_S = 120.0  # for what is on its way when the line has played everything


@define
class Elsewhere:
    """Readers of a server's ports on the other host, in this process; how they come there is a subclass's.

    Attributes:
        cut_at: after how many bytes of all consoles the connections are cut, in order; a cut that comes while they are still cut off waits.
        cuts: how many there were.
    """

    hosts: netlab.Hosts
    task: Task
    name: str = ""
    cut_at: list[int] = field(factory=list)
    cuts: int = 0
    heard: int = 0
    behind_ms: list[float] = field(factory=list)
    _next_cut: float = 0.0
    _clients: list[ResumingClient] = field(factory=list)
    _events: list[list[Event]] = field(factory=list)

    def begin(self) -> None:
        """Make the way there."""

    def connect(self) -> ConsoleClient:
        """A connection."""
        raise NotImplementedError

    def reset(self) -> None:
        """The connection does not answer."""

    def cut(self) -> bool:
        """Cut all connections off; False: there are none."""
        raise NotImplementedError

    @property
    def server(self) -> Path:
        """The console server's socket on its host."""
        return socket_path(self.task.folder / "run")

    def start(self, ports: Sequence[Path]) -> None:
        """Connect to the server that runs there."""
        self.begin()
        for port in ports:
            order = PortOrder(str(port.parent.resolve() / port.name))
            self._clients.append(ResumingClient(self._inside, self.reset, order, netlab.HOST))
            self._events.append([])

    def take(self) -> None:
        """What has come by now."""
        clock = MonotonicRaw()
        for client, events in zip(self._clients, self._events, strict=True):
            while (event := client.read_event(0)) is not None:
                events.append(event)
                if isinstance(event, Chunk):
                    self.heard += len(event.data)
                    self.behind_ms.append((clock.now_ns() - event.t_ns) / 1e6)

            if self.cut_at and self.heard >= self.cut_at[0] and time.monotonic() >= self._next_cut:
                self._next_cut = time.monotonic() + BETWEEN_CUTS_S
                if self.cut():
                    self.cut_at.pop(0)
                    self.cuts += 1

    def drain(self, size: int) -> None:
        """Take what is still on its way, of so many bytes."""
        deadline = time.monotonic() + DRAIN_S
        while self.heard < size and time.monotonic() < deadline:
            self.take()

    def stamps(self) -> list[list[Stamp]]:
        """The moments of each console."""
        patterns = [MomentPattern(name=name, pattern=pattern) for name, pattern in self.task.markers.items()]
        return [
            [Stamp(m.name, m.t_ns, m.uncertainty_ns) for m in find_moments(events, patterns, client.info.meta.timing)]
            for events, client in zip(self._events, self._clients, strict=True)
        ]

    def bytes_of(self, number: int) -> bytes:
        """What came on one console."""
        return data_of(self._events[number])

    def stop(self) -> None:
        """Hang up."""
        for client in self._clients:
            client.close()

    def _inside(self) -> ConsoleClient:
        with netlab.inside(self.hosts.runner):
            return self.connect()


@define
class BySsh(Elsewhere):
    """Through ssh: one connection for all."""

    name: str = "boardlab, through ssh"
    _link: SshLink | None = None

    def begin(self) -> None:
        """See the base."""
        self._link = SshLink(netlab.HOST, self.task.folder / "ssh", str(self.hosts.ssh_config))

    def connect(self) -> ConsoleClient:
        """See the base."""
        assert self._link is not None
        return ConsoleClient(self._link.forwarded(str(self.server)))

    def reset(self) -> None:
        """See the base."""
        assert self._link is not None
        with netlab.inside(self.hosts.runner):
            self._link.reset()

    def cut(self) -> bool:
        """See the base."""
        return self.hosts.cut() > 0


@define
class ByTls(Elsewhere):
    """By TCP with TLS: a connection for each console."""

    name: str = "boardlab, TLS"
    _front: subprocess.Popen[str] | None = None
    _port: int = 0

    def begin(self) -> None:
        """See the base."""
        made = self.task.folder / "certificates"
        made.mkdir()
        certificates.authority(made)
        for name in ("server", "client"):
            certificates.sign(made, name, hosts=f"IP:{netlab.HOST}")
            certificates.identity(made, name, self.task.folder / name)
        self._serve()

    def connect(self) -> ConsoleClient:
        """See the base."""
        return ConsoleClient(TlsWay(netlab.HOST, self._port, Identity(self.task.folder / "client")))

    def cut(self) -> bool:
        """See the base."""
        assert self._front is not None
        assert self._front.poll() is None, "the front has ended"
        self._end()
        self._serve()
        return True

    def stop(self) -> None:
        """See the base."""
        super().stop()
        self._end()

    def _serve(self) -> None:
        words = ["console", "tls", "--listen", f"{netlab.HOST}:{self._port}", "--runtime", self.task.folder / "run"]
        self._front = subprocess.Popen(
            self.hosts.on_host(LAB, *words, "--certificates", self.task.folder / "server"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._front.stdout is not None
        found = re.search(r":(\d+) \(TLS\)", self._front.stdout.readline())
        assert found, "lab console tls did not start"
        self._port = int(found[1])

    def _end(self) -> None:
        if self._front is not None:
            self._front.kill()
            self._front.wait()


@define
class All(ConsoleServer):
    """The console server with readers on its host, and with others on the other one."""

    elsewhere: Sequence[Elsewhere] = field(kw_only=True)

    def start(self, ports: Sequence[Path], boots: int, silent: Sequence[Path] = ()) -> None:
        """Start the server and attach to all ports, once for each way."""
        super().start(ports, boots, silent)
        for each in self.elsewhere:
            each.start(ports)

    def take(self, timeout_s: float) -> None:
        """Read what the server sends."""
        super().take(timeout_s)
        for each in self.elsewhere:
            each.take()

    def drain(self) -> None:
        """Wait for what is on its way."""
        size = sum(len(data_of(events)) for events in self._events)
        for each in self.elsewhere:
            each.drain(size)

    def lost_bytes(self, reader: Elsewhere) -> int:
        """How many bytes a reader did not get of what the one on the host got, or got otherwise."""
        pairs = [(data_of(events), reader.bytes_of(number)) for number, events in enumerate(self._events)]
        return sum(
            abs(len(here) - len(there)) + sum(a != b for a, b in zip(here, there, strict=False))
            for here, there in pairs
        )

    def stop(self) -> None:
        """End everything."""
        for each in self.elsewhere:
            each.stop()
        super().stop()


@define
class Labgrid(ConsoleServer):
    """labgrid's SerialDriver on the TCP ports of the console server, one process for each port, on the other host."""

    hosts: netlab.Hosts = field(kw_only=True)
    name: str = "labgrid NetworkSerialPort + expect"
    _processes: list[subprocess.Popen[str]] = field(factory=list)
    _bridge: subprocess.Popen[str] | None = None

    def start(self, ports: Sequence[Path], boots: int, silent: Sequence[Path] = ()) -> None:
        """Start the server, its TCP ports, and the processes that expect the first marker."""
        super().start(ports, boots, silent)
        for client, port in zip(self._clients, self._ports, strict=True):
            client.attach(port.name)
        command = [sys.executable, BENCH / "remote_bridge.py", socket_path(self.task.folder / "run"), netlab.HOST]
        self._bridge = subprocess.Popen(
            self.hosts.on_host(*command, *ports), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._bridge.stdout is not None
        markers = json.dumps(dict(self.task.markers))
        for tcp in self._bridge.stdout.readline().split():
            words = [sys.executable, BENCH / "stamps_labgrid.py", markers, f"{netlab.HOST}:{tcp}", str(boots)]
            self._processes.append(
                subprocess.Popen(["ip", "netns", "exec", self.hosts.runner, *words], stdout=subprocess.PIPE, text=True)
            )
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline(), "a labgrid console did not start"

    def stamps(self) -> list[list[Stamp]]:
        """What each process printed; nothing of one that did not find all of its markers in time."""
        end = time.monotonic() + LABGRID_PATIENCE_S
        printed = []
        for process in self._processes:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
            printed.append(process.stdout.readline() if ready else "")
        return [[Stamp(name, t_ns) for name, t_ns in json.loads(text or "[[]]")[0]] for text in printed]

    def stop(self) -> None:
        """End everything."""
        for process in self._processes:
            process.terminate()
            process.wait()
        if self._bridge is not None:
            self._bridge.kill()
            self._bridge.wait()
        super().stop()


def data_of(events: Sequence[Event]) -> bytes:
    """The bytes of a console."""
    return b"".join(event.data for event in events if isinstance(event, Chunk))


def cuts(count: int, size: int, seed: int) -> list[int]:
    """After how many of `size` bytes to cut, so many times: one in each of as many equal parts."""
    chance = random.Random(seed)  # noqa: S311  (cuts, not keys)
    return [int(size * (number + chance.random()) / (count + 1)) for number in range(1, count + 1)]
