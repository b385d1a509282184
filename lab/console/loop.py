"""The server's loop: one thread that stamps reads before anything else.

It polls its ports with epoll, reads whole chunks, and takes CLOCK_MONOTONIC_RAW as soon as a read returns. Between
two polls it does one thing: it publishes a chunk to its recording, or sends one reader its waiting records. So no
stamp waits for the disk or the readers of another port.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import select
from collections import deque
from importlib.metadata import version
from pathlib import Path

from lab.console import operations
from lab.console.clients import Clients
from lab.console.connection import Connection
from lab.console.delivery import ReaderQueue
from lab.console.latency import LatencyPercentile, TtyLatencyProbe
from lab.console.model import LATE_WINDOW_NS, Lateness
from lab.console.port import Ports, ServedPort
from lab.console.protocol import Frame, FrameType, Message, refusal
from lab.console.recorder import RecordingStore
from lab.console.serial_line import PortRequest
from lab.console.status import ServerStatus
from lab.errors import BoardlabError, LabStableError
from lab.host.clock import Clock, ClockMonitor, utc_now, wall_monitor
from lab.host.runtime import log_path, recordings_dir, socket_path
from lab.host.scheduling import (
    EVIDENCE_NS,
    Heartbeat,
    IdleStates,
    RunQueue,
    raise_priority,
    stood_still_ns,
)

READ_BYTES = 4096  # N_TTY_BUF_SIZE of the kernel: a tty never has more for one read
BACKLOG_CHUNKS = 64  # more are published before the next look, so that memory stays bounded
BEATS_PER_REOPEN = 4  # a lost port is looked for five times a second
BEATS_PER_LOOK = 20  # the socket is looked for once a second
PORTS_AT_ONCE = 16  # of one answer to `status`: some 0.4 ms, in which no port is read
_log = logging.getLogger(__name__)


class ConsoleServer:
    """Serves ports on the socket of a runtime folder.

    Attributes:
        ports: the ports it has.
    """

    def __init__(self, runtime: Path, clock: Clock) -> None:
        """Raise the priority and listen. The caller holds the folder's lock."""
        self._log_path = log_path(runtime)
        self._clock = clock
        self._scheduling = raise_priority()
        self._started = utc_now().isoformat(timespec="seconds")
        self._version = version("boardlab")  # now: an upgrade changes what is installed, and not this process
        self._epoll = select.epoll()
        self._queue = ReaderQueue()
        self.ports = Ports(self._epoll, RecordingStore(recordings_dir(runtime)), clock, self._scheduling, self._queue)
        self._clients = Clients(socket_path(runtime), self._epoll, self._answer)
        self._backlog: deque[tuple[ServedPort, int, bytes]] = deque()
        self._failed: list[tuple[ServedPort, int]] = []
        self._late = Lateness(0, 0, 0)
        self._stopping = False
        self._beats = 0
        self._run_queue = RunQueue()
        self._suspends = ClockMonitor(clock)
        self._wall = wall_monitor(clock)
        self._idle_states = IdleStates()
        self._heartbeat = Heartbeat()
        self._probe = TtyLatencyProbe()
        self._latency = LatencyPercentile()
        self._epoll.register(self._heartbeat.fd, select.EPOLLIN)
        self._epoll.register(self._probe.fd, select.EPOLLIN)
        _log.info("pid %d serves %s, %s", os.getpid(), socket_path(runtime), self._scheduling.text)

    def run(self) -> None:
        """Serve until `stop` is called."""
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection in the loop would be a late stamp
        now, poll, backlog = self._clock.now_ns, self._epoll.poll, self._backlog
        queue, probe = self._queue, self._probe
        looked_ns = now()
        while not self._stopping:
            asked_ns = now()
            probe_s = probe.timeout_s(asked_ns)
            patience_s = 0 if backlog else _sooner(probe_s, queue.timeout_s(asked_ns))
            events = poll(patience_s)
            busy_ns, looked_ns = asked_ns - looked_ns, now()
            slept_ns = looked_ns - asked_ns
            if events:
                self._handle(events, looked_ns, busy_ns, slept_ns, patience_s)
            else:  # a stop during its sleep alone wakes it up
                still_ns = stood_still_ns(slept_ns, patience_s, 0)
                self._keep_evidence(looked_ns, max(still_ns, probe.late_ns(looked_ns)))
            if probe_s is not None:
                probe.send(looked_ns)
            if not queue.deliver(looked_ns):
                if backlog:
                    self._publish()
                else:
                    queue.advance_backfill()
            while len(backlog) > BACKLOG_CHUNKS:
                self._publish()
        self._publish_all()
        self._clients.close()
        for port in list(self.ports):
            self.ports.close(port)
        self._idle_states.forbid(False)
        self._heartbeat.close()
        self._probe.close()
        self._epoll.close()
        _log.info("pid %d ended", os.getpid())

    def open_port(self, request: PortRequest) -> ServedPort:
        """Open a port, or find it open.

        Raises:
            BoardlabError: as `Ports.open`.
        """
        self._publish_all()  # it may close a port that has something there
        return self.ports.open(request)

    def attach(self, connection: Connection, name: str, write: bool, since: int | None = None) -> ServedPort:
        """Let a client read a port, and write.

        Args:
            since: first byte of the stream; None: start now.

        Raises:
            BoardlabError: no such port, another client is the writer, or the connection is attached to another port.
        """
        port = self.ports.find(name)
        if since is not None:
            self._publish_all()
        self._clients.attach(connection, port, write, since)
        return port

    def now_ns(self) -> int:
        """Return the time of the stamping clock."""
        return self._clock.now_ns()

    def close_port(self, name: str) -> None:
        """Close a port and end the connections that are attached to it.

        Raises:
            LabStableError: no such port.
        """
        port = self.ports.find(name)
        self._publish_all()
        self._clients.disconnect(port)
        self.ports.close(port)

    def status(self, name: str | None = None, after: int | None = None) -> ServerStatus:
        """Return the state of the server and its ports.

        Args:
            name: this port only.
            after: a page of the ports above this number. Neither: all ports; no port is read meanwhile.
        """
        ports = self.ports.some(name, after, PORTS_AT_ONCE)
        more = ports[-1].number if after is not None and len(ports) == PORTS_AT_ONCE else None
        port_states = [port.status() for port in ports]
        late_ns = self._latency.p99_ns(self._clock.now_ns())
        return ServerStatus(
            os.getpid(),
            self._started,
            self._scheduling.text,
            str(self._log_path),
            port_states,
            late_ns,
            more,
            self._version,
        )

    def stop(self) -> None:
        """End after the current round; safe in a signal handler.

        The heartbeat ends every wait.
        """
        self._stopping = True

    def _handle(
        self, events: list[tuple[int, int]], looked_ns: int, busy_ns: int, slept_ns: int, patience_s: float | None
    ) -> None:
        """Stamp arrived bytes, record evidence of lateness, and serve other events."""
        rest = self._stamp(events)
        done_ns = self._clock.now_ns()
        stamping_ns = done_ns - looked_ns  # between a read and its stamp this process may have stood still
        beats = any(fd == self._heartbeat.fd for fd, _ in rest)
        beat_ns = self._heartbeat.beat() if beats else 0
        probe_ns = self._probe.late_ns(looked_ns)
        still_ns = stood_still_ns(slept_ns, patience_s, beat_ns)
        waited_ns = self._run_queue.take_wait_ns()
        self._keep_evidence(done_ns, max(busy_ns, stamping_ns, beat_ns, still_ns, probe_ns, waited_ns))
        suspended_ns = self._suspends.missing_ns()
        # A suspend is a jump against both clocks: whichever shows it, the other must not tell it again at the next
        # beat.
        wall_ns = self._wall.missing_ns() if beats or suspended_ns else 0
        missing_ns = suspended_ns or wall_ns
        if missing_ns:
            _log.warning("the host's clock stood still or jumped: %.3f s are missing in the stamps", missing_ns / 1e9)
            for port in self.ports:
                port.note_clock_step(done_ns, missing_ns)
        if self._failed:
            self._publish_all()
            for port, code in self._failed:
                self.ports.lose(port, code)
            self._failed.clear()
        for fd, mask in rest:
            self._serve(fd, mask)

    def _keep_evidence(self, t_ns: int, late_ns: int) -> None:
        """Keep about the largest lateness of the last second."""
        outdated = t_ns - self._late.t_ns > LATE_WINDOW_NS // 2
        if late_ns > EVIDENCE_NS and (outdated or late_ns >= self._late.lateness_ns):
            self._late = Lateness(t_ns, 0, late_ns)

    def _stamp(self, events: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Read and stamp every ready port; return the other events."""
        now, ports = self._clock.now_ns, self.ports.by_fd
        rest = []
        for fd, mask in events:
            port = ports.get(fd)
            if port is None:
                rest.append((fd, mask))
                continue
            if mask & select.EPOLLOUT:
                rest.append((fd, mask))
            if mask & ~select.EPOLLOUT:
                try:
                    data = os.read(fd, READ_BYTES)
                    t_ns = now()
                except BlockingIOError:
                    continue
                except OSError as error:
                    self._failed.append((port, error.errno or errno.EIO))
                    continue
                if data:
                    self._backlog.append((port, t_ns, data))
                else:
                    self._failed.append((port, errno.EIO))  # a hang-up
        return rest

    def _serve(self, fd: int, mask: int) -> None:
        """Handle an event other than a port's bytes."""
        if fd == self._heartbeat.fd:
            self._beats += 1
            self._probe.send(self._clock.now_ns())
            self._clients.beat()
            self._probe.measuring = any(port.writer is not None for port in self.ports)
            self._idle_states.forbid(self._probe.measuring)
            if self._beats % BEATS_PER_REOPEN == 0:
                self.ports.reopen_lost()
            if self._beats % BEATS_PER_LOOK == 0 and not self._probe.measuring and not self._clients.reachable:
                _log.error("the runtime folder was removed, so no client finds this server: it gives its ports back")
                self.stop()
        elif fd == self._probe.fd:
            now_ns = self._clock.now_ns()
            self._latency.add(now_ns, self._probe.transit_ns(now_ns))
            self._probe.take_arrival(now_ns)
        elif (port := self.ports.by_fd.get(fd)) is not None:
            port.line.flush()
        else:
            self._clients.serve(fd, mask)

    def _publish(self) -> None:
        port, t_ns, data = self._backlog.popleft()
        self._probe.bytes_came(t_ns)
        near = self._late.t_ns and t_ns - self._late.t_ns <= LATE_WINDOW_NS
        port.publish(t_ns, data, self._late if near else None)

    def _publish_all(self) -> None:
        while self._backlog:
            self._publish()

    def _answer(self, connection: Connection, frame: Frame) -> Message:
        try:
            if frame.type == FrameType.WRITE:
                port = self._clients.port_of(connection)
                if port is None or port.writer is not connection:
                    raise LabStableError("this connection may not write; attach to the port with write")
                port.line.write(frame.payload)
                return {}
            return operations.handle(self, connection, frame)
        except BoardlabError as error:
            return refusal(error)


def _sooner(first_s: float | None, second_s: float | None) -> float | None:
    """Return the shorter of two waits; None: for ever."""
    if first_s is None or second_s is None:
        return second_s if first_s is None else first_s
    return min(first_s, second_s)
