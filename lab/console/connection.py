"""One client connection of the server: requests in, records out, never blocking."""

from __future__ import annotations

import contextlib
import select
import socket
from collections import deque
from itertools import islice

from lab.console.model import Gap, RecordKind
from lab.console.protocol import (
    CREDENTIALS,
    MAX_REQUEST_BYTES,
    Deframer,
    Frame,
    FrameType,
    Message,
    encode_event,
    encode_message,
)

BUFFER_BYTES = 1 << 20  # backlog of a slow client: over a minute of a console without pauses
_UNREAD_BYTES = 1 << 20  # of a client that is sent away; more than a socket holds
_FRAMES_AT_ONCE = 256  # of one sendmsg(2), which takes 1024


class Connection:
    """A client connection.

    Attributes:
        pid: of the client's process, from the kernel.
        states: name of the port that it opened with its own settings; "": none.
        greeted: the protocol version has arrived.
        session: identity of the client across reconnects; empty: none given.
        follows: it gets missed records from the recording, and is never dropped.
        closing: it takes no more requests, and ends after its waiting records are sent.
        enlisted: a call of `flush` is due.
    """

    def __init__(self, sock: socket.socket, epoll: select.epoll, buffer_bytes: int = BUFFER_BYTES) -> None:
        """Takes `sock` over and registers it with `epoll`."""
        sock.setblocking(False)
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        self.pid, _, _ = CREDENTIALS.unpack(credentials)
        self.fd = sock.fileno()
        self.states = ""
        self.greeted = False
        self.session = ""
        self.follows = False
        self.closing = False
        self.enlisted = False
        self._sock = sock
        self._epoll = epoll
        self._deframer = Deframer(MAX_REQUEST_BYTES)
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._buffer_bytes = buffer_bytes
        self._interest = select.EPOLLIN
        self._closed = False
        epoll.register(self.fd, self._interest)

    @property
    def done(self) -> bool:
        """True if everything is sent and nothing more will come."""
        return self.closing and not self._waiting

    def receive(self) -> list[Frame] | None:
        """Return the next whole frame; None if the client is gone.

        It reads no more than that frame, so that ports are polled before the next one.

        Raises:
            ValueError: it does not speak our protocol.
        """
        for _ in ("header", "payload"):
            try:
                data = self._sock.recv(self._deframer.wanted_bytes)
            except BlockingIOError:
                return []
            except OSError:
                return None
            if not data:
                return None
            if frames := list(self._deframer.feed(data)):
                return frames
        return []

    def answer(self, message: Message) -> None:
        """Send an answer at once; answers are never dropped.

        A client that does not read its answers is not read from until it does.
        """
        self._enqueue(encode_message(FrameType.ANSWER, message))
        self.flush()

    def record(self, frame: bytes) -> bool:
        """Keep a record for the next `flush`.

        Returns: False without room; then only `drop` may follow.
        """
        if self._waiting_bytes + len(frame) > self._buffer_bytes:
            return False
        self._enqueue(frame)
        return True

    def drop(self, t_ns: int, position: int) -> None:
        """Discard unsent records, and end after a record that says so."""
        partly_sent = list(self._waiting)[:1]
        lost = self._waiting_bytes - sum(map(len, partly_sent))
        self._waiting = deque(partly_sent)
        self._waiting_bytes -= lost
        self._enqueue(encode_event(Gap(t_ns, position, RecordKind.DROPPED, lost)))
        self.end()

    def end(self) -> None:
        """Take no more requests; the connection is `done` when everything was sent."""
        self.closing = True
        self.flush()

    def flush(self) -> None:
        """Send waiting data until the socket would block."""
        self.enlisted = False
        if self._closed:
            return
        try:
            while self._waiting:
                self._remove_sent(self._sock.sendmsg(list(islice(self._waiting, _FRAMES_AT_ONCE))))
        except BlockingIOError:
            pass
        except OSError:  # gone, which the next receive() notices; the waiting bytes are lost
            self._waiting.clear()
            self._waiting_bytes = 0
        hear = not self.closing and self._waiting_bytes <= self._buffer_bytes
        interest = (select.EPOLLIN if hear else 0) | (select.EPOLLOUT if self._waiting else 0)
        if interest != self._interest:
            self._epoll.modify(self.fd, interest)
            self._interest = interest

    def close(self) -> None:
        """End at once; a second time does nothing."""
        if not self._closed:
            # Unread input would reset the client's connection before our last bytes.
            with contextlib.suppress(OSError):
                self._sock.recv(_UNREAD_BYTES)
            self._epoll.unregister(self.fd)
            self._sock.close()
            self._closed = True

    @property
    def blocked(self) -> bool:
        """True if the client does not read; epoll reports when it does."""
        return bool(self._interest & select.EPOLLOUT)

    @property
    def waiting_bytes(self) -> int:
        """Number of unsent bytes."""
        return self._waiting_bytes

    def _enqueue(self, frame: bytes) -> None:
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)

    def _remove_sent(self, count: int) -> None:
        self._waiting_bytes -= count
        while count:
            frame = self._waiting.popleft()
            if count < len(frame):
                self._waiting.appendleft(frame[count:])
                return
            count -= len(frame)
