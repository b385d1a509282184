"""The server's loop: one thread that stamps first and does everything else afterwards.

It looks at its ports with epoll, reads whole chunks, and takes CLOCK_MONOTONIC_RAW as soon as a read returns. Between
two looks it publishes one chunk: writes it to the recording and hands it to the readers. So no stamp waits for the
disk or the readers of another port.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import select
import socket
from collections import deque
from pathlib import Path

from lab.clock import Clock, utc_now
from lab.console import operations
from lab.console.canary import Canary
from lab.console.connection import Connection
from lab.console.model import LATE_WINDOW_NS, Lateness
from lab.console.port import Port
from lab.console.ports import Ports
from lab.console.runtime import log_path, recordings_dir, socket_path
from lab.console.scheduling import EVIDENCE_NS, Heartbeat, RunQueue, raise_priority
from lab.console.shelf import Shelf
from lab.console.status import ServerStatus
from lab.console.wire import Frame, FrameType, Message, refusal
from lab.errors import BoardlabError, LabStableError

READ_BYTES = 4096  # N_TTY_BUF_SIZE of the kernel: a tty never has more for one read
BACKLOG_CHUNKS = 64  # more are published before the next look, so that memory stays bounded
BEATS_PER_REOPEN = 4  # a lost port is looked for five times a second
BEATS_OF_PATIENCE = 100  # a client that is sent away has five seconds to read why
_log = logging.getLogger(__name__)


class ConsoleServer:
    """Serves ports on the socket of a runtime folder.

    Attributes:
        ports: the ports it has.
    """

    def __init__(self, runtime: Path, clock: Clock) -> None:
        """Raise the priority and listen. The caller holds the folder's lock, so a socket that is there is stale."""
        self._runtime = runtime
        self._clock = clock
        self._scheduling = raise_priority()
        self._started = utc_now().isoformat(timespec="seconds")
        self._epoll = select.epoll()
        self.ports = Ports(self._epoll, Shelf(recordings_dir(runtime)), clock, self._scheduling)
        self._connections: dict[int, Connection] = {}
        self._attached: dict[int, Port] = {}  # by the connection's file descriptor
        self._leaving: dict[int, int] = {}  # connections that are closing, and the beats they have left
        self._backlog: deque[tuple[Port, int, bytes]] = deque()
        self._failed: list[tuple[Port, int]] = []
        self._late = Lateness(0, 0, 0)
        self._stopping = False
        self._beats = 0
        self._run_queue = RunQueue()
        self._heartbeat = Heartbeat()
        self._epoll.register(self._heartbeat.fd, select.EPOLLIN)
        self._canary = Canary()
        self._epoll.register(self._canary.fd, select.EPOLLIN)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        socket_path(runtime).unlink(missing_ok=True)
        self._listener.bind(str(socket_path(runtime)))
        self._listener.listen()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        _log.info("pid %d serves %s, %s", os.getpid(), socket_path(runtime), self._scheduling.text)

    def run(self) -> None:
        """Serve until somebody calls `stop`."""
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection in the loop would be a late stamp
        now, poll, backlog = self._clock.now_ns, self._epoll.poll, self._backlog
        looked_ns = now()
        while not self._stopping:
            busy_ns = now() - looked_ns
            events = poll(0 if backlog else None)
            looked_ns = now()
            if events:
                rest = self._stamp(events)
                beat_ns = self._heartbeat.beat() if any(fd == self._heartbeat.fd for fd, _ in rest) else 0
                canary_ns = self._canary.late_ns(looked_ns)
                self._judge(looked_ns, max(busy_ns, beat_ns, canary_ns, self._run_queue.waited_ns()))
                if self._failed:
                    self._lose_failed()
                for fd, mask in rest:
                    self._serve(fd, mask)
            while backlog:
                self._publish()
                if len(backlog) < BACKLOG_CHUNKS:
                    break
        self._close()

    def stop(self) -> None:
        """End after the current round; also from a signal handler, since the heartbeat ends every wait."""
        self._stopping = True

    def attach(self, connection: Connection, name: str, write: bool) -> Port:
        """Let a client read a port, and write.

        Raises:
            BoardlabError: no such port, somebody else may write, or the connection is attached to another port.
        """
        port = self.ports.find(name)
        if self._attached.get(connection.fd, port) is not port:
            raise LabStableError(f"this connection is attached to another port than {name}; use one for each")
        port.attach(connection, write)
        self._attached[connection.fd] = port
        return port

    def close_port(self, name: str) -> None:
        """Close a port and end the connections that are attached to it.

        Raises:
            LabStableError: no such port.
        """
        port = self.ports.find(name)
        self._publish_all()
        for fd in [fd for fd, attached in self._attached.items() if attached is port]:
            self._connections[fd].end()
        self.ports.close(port)

    def status(self) -> ServerStatus:
        """How everything is."""
        ports = [port.status() for port in self.ports]
        return ServerStatus(os.getpid(), self._started, self._scheduling.text, str(log_path(self._runtime)), ports)

    def _stamp(self, events: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Read and stamp every port that has something. Returns: the events of everything else."""
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

    def _judge(self, looked_ns: int, late_ns: int) -> None:
        """Keep the evidence of late stamps: the largest of about the last second."""
        outdated = looked_ns - self._late.t_ns > LATE_WINDOW_NS // 2
        if late_ns > EVIDENCE_NS and (outdated or late_ns >= self._late.lateness_ns):
            self._late = Lateness(looked_ns, 0, late_ns)

    def _publish(self) -> None:
        port, t_ns, data = self._backlog.popleft()
        self._canary.send(t_ns)
        near = self._late.t_ns and t_ns - self._late.t_ns <= LATE_WINDOW_NS
        port.publish(t_ns, data, self._late if near else None)

    def _publish_all(self) -> None:
        while self._backlog:
            self._publish()

    def _lose_failed(self) -> None:
        self._publish_all()
        for port, code in self._failed:
            self.ports.lose(port, code)
        self._failed.clear()

    def _serve(self, fd: int, mask: int) -> None:
        """Do what an event asks for that is not a port's to be read."""
        if fd == self._heartbeat.fd:
            self._keep_house()
        elif fd == self._canary.fd:
            self._canary.arrived()
        elif fd == self._listener.fileno():
            self._accept()
        elif (port := self.ports.by_fd.get(fd)) is not None:
            port.line.flush()
        elif (connection := self._connections.get(fd)) is not None:
            if mask & select.EPOLLOUT:
                connection.flush()
            if connection.closing:
                if connection.done or mask & (select.EPOLLHUP | select.EPOLLERR):
                    self._hang_up(connection)
            elif mask & ~select.EPOLLOUT:
                self._hear(connection)

    def _hear(self, connection: Connection) -> None:
        try:
            frames = connection.receive()
        except ValueError as error:
            _log.warning("pid %d does not speak the protocol: %s", connection.pid, error)
            frames = None
        if frames is None:
            self._hang_up(connection)
            return
        for frame in frames:
            connection.answer(self._answer(connection, frame))

    def _answer(self, connection: Connection, frame: Frame) -> Message:
        try:
            if frame.type == FrameType.WRITE:
                port = self._attached.get(connection.fd)
                if port is None or port.writer is not connection:
                    raise LabStableError("this connection may not write; attach to the port with write")
                port.line.write(frame.payload)
                return {}
            return operations.handle(self, connection, frame)
        except BoardlabError as error:
            return refusal(error)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            _log.error("cannot accept a client: %s", error)
            self._epoll.modify(self._listener.fileno(), 0)  # until the next beat, lest the loop spins
            return
        connection = Connection(sock, self._epoll)
        self._connections[connection.fd] = connection

    def _hang_up(self, connection: Connection) -> None:
        port = self._attached.pop(connection.fd, None)
        if port is not None:
            port.detach(connection)
        del self._connections[connection.fd]
        self._leaving.pop(connection.fd, None)
        connection.close()

    def _keep_house(self) -> None:
        """What is done at a heartbeat."""
        self._beats += 1
        self._canary.send(self._clock.now_ns())
        self._epoll.modify(self._listener.fileno(), select.EPOLLIN)
        if self._beats % BEATS_PER_REOPEN == 0:
            self.ports.reopen_lost()
        for connection in [each for each in self._connections.values() if each.closing]:
            beats = self._leaving.setdefault(connection.fd, BEATS_OF_PATIENCE)
            self._leaving[connection.fd] = beats - 1
            if connection.done or beats == 0:
                self._hang_up(connection)

    def _close(self) -> None:
        self._publish_all()
        for connection in list(self._connections.values()):
            connection.flush()
            self._hang_up(connection)
        for port in list(self.ports):
            self.ports.close(port)
        self._listener.close()
        self._heartbeat.close()
        self._canary.close()
        self._epoll.close()
        socket_path(self._runtime).unlink(missing_ok=True)
        _log.info("pid %d ended", os.getpid())
