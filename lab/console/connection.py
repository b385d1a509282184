"""One client of the server: its requests in, its records out, never blocking."""

from __future__ import annotations

import select
import socket
import struct
from collections import deque

from lab.console.model import Gap, Kind
from lab.console.wire import Deframer, Frame, FrameType, Message, encode_event, encode_message

BUFFER_BYTES = 1 << 20  # what a slow client may lag behind: over a minute of a console that never pauses
_RECEIVE_BYTES = 65536
_CREDENTIALS = struct.Struct("@iII")  # struct ucred of unix(7): pid, uid, gid


class Connection:
    """A client.

    Attributes:
        pid: of the client's process, from the kernel.
        greeted: it has said which protocol it speaks.
        closing: it takes no more requests, and ends as soon as it has read what waits for it.
    """

    def __init__(self, sock: socket.socket, epoll: select.epoll, buffer_bytes: int = BUFFER_BYTES) -> None:
        """Takes `sock` over and registers it with `epoll`."""
        sock.setblocking(False)
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        self.pid, _, _ = _CREDENTIALS.unpack(credentials)
        self.fd = sock.fileno()
        self.greeted = False
        self.closing = False
        self._sock = sock
        self._epoll = epoll
        self._deframer = Deframer()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._buffer_bytes = buffer_bytes
        epoll.register(self.fd, select.EPOLLIN)

    @property
    def done(self) -> bool:
        """Nothing is left to be sent, and nothing more will come."""
        return self.closing and not self._waiting

    def receive(self) -> list[Frame] | None:
        """The frames that have come; None when the client is gone.

        Raises:
            ValueError: it does not speak our protocol.
        """
        try:
            data = self._sock.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return list(self._deframer.feed(data)) if data else None

    def answer(self, message: Message) -> None:
        """Send an answer; it is never dropped."""
        self._send(encode_message(FrameType.ANSWER, message))

    def record(self, frame: bytes) -> bool:
        """Send a record, or keep it until the client takes it.

        Returns: whether there was room. If not, the connection is good for `drop` only.
        """
        if self._waiting_bytes + len(frame) > self._buffer_bytes:
            return False
        self._send(frame)
        return True

    def drop(self, t_ns: int, position: int) -> None:
        """Throw away what the client did not take, and end once it has read that it was too slow."""
        partly_sent = list(self._waiting)[:1]
        lost = self._waiting_bytes - sum(map(len, partly_sent))
        self._waiting = deque(partly_sent)
        self._waiting_bytes -= lost
        self._send(encode_event(Gap(t_ns, position, Kind.DROPPED, lost)))
        self.end()

    def end(self) -> None:
        """Take no more requests; the connection is `done` when everything was sent."""
        self.closing = True
        self._watch()

    def flush(self) -> None:
        """Send what waits, as far as the client takes it."""
        while self._waiting:
            frame = self._waiting[0]
            sent = self._try(frame)
            self._waiting_bytes -= sent
            if sent < len(frame):
                self._waiting[0] = frame[sent:]
                return
            self._waiting.popleft()
        self._watch()

    def close(self) -> None:
        """End at once."""
        self._epoll.unregister(self.fd)
        self._sock.close()

    def _send(self, frame: bytes) -> None:
        sent = 0 if self._waiting else self._try(frame)
        if sent < len(frame):
            self._waiting.append(frame[sent:])
            self._waiting_bytes += len(frame) - sent
            self._watch()

    def _try(self, frame: bytes) -> int:
        try:
            return self._sock.send(frame)
        except OSError:  # full (BlockingIOError), or gone, which the next receive() notices
            return 0

    def _watch(self) -> None:
        interest = (0 if self.closing else select.EPOLLIN) | (select.EPOLLOUT if self._waiting else 0)
        self._epoll.modify(self.fd, interest)
