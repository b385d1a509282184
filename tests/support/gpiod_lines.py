"""Stand-in for the module gpiod, over a Unix socket, where the kernel has no lines that a program can drive.

A test board's socket stands where a chip's device stands (CONFIG_GPIO_SIM would give one). It sends a record per edge, `LINE EDGE NS`,
whose stamp is CLOCK_MONOTONIC as the kernel's.
"""

from __future__ import annotations

import enum
import select
import socket
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Final

from attrs import define, field, frozen


class Edge(enum.Enum):
    """An edge, as of gpiod.line.Edge."""

    RISING = "rising"
    FALLING = "falling"


line: Final = SimpleNamespace(
    Edge=Edge, Clock=SimpleNamespace(MONOTONIC="monotonic"), Direction=SimpleNamespace(INPUT="input")
)


@frozen
class LineSettings:
    """As of gpiod.LineSettings; only an input's edges with stamps of CLOCK_MONOTONIC."""

    direction: str
    edge_detection: Edge
    event_clock: str


@frozen
class EdgeEvent:
    """As of gpiod.EdgeEvent."""

    line_offset: int
    timestamp_ns: int
    line_seqno: int


@define
class LineRequest:
    """As of gpiod.LineRequest, of one line."""

    _socket: socket.socket
    _line: int
    _edge: Edge
    _rest: bytes = field(default=b"", init=False)
    _events: list[EdgeEvent] = field(factory=list, init=False)
    _count: int = field(default=0, init=False)

    def wait_edge_events(self, timeout: float | None = None) -> bool:
        """Return whether an edge came within `timeout` seconds.

        Raises:
            OSError: the board's bench is gone.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._events:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._socket], [], [], left)[0]:
                return False
            data = self._socket.recv(4096)
            if not data:
                raise OSError("the test board has ended")
            *records, self._rest = (self._rest + data).split(b"\n")
            for record in records:
                number, edge, t_ns = record.split()
                if int(number) == self._line and edge.decode() == self._edge.value:
                    self._count += 1
                    self._events.append(EdgeEvent(self._line, int(t_ns), self._count))
        return True

    def read_edge_events(self) -> list[EdgeEvent]:
        """The edges that came."""
        self.wait_edge_events()
        events, self._events = self._events, []
        return events

    def release(self) -> None:
        """Close the connection."""
        self._socket.close()


def request_lines(path: str, *, consumer: str, config: Mapping[int | str, LineSettings]) -> LineRequest:
    """As of gpiod.request_lines, of one line.

    Raises:
        OSError: nothing listens at the socket. ValueError: more than one line, or a line by name.
    """
    ((offset, settings),) = config.items()
    if isinstance(offset, str):
        raise ValueError("these lines have numbers only")  # noqa: TRY004 - as gpiod's
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return LineRequest(connection, offset, settings.edge_detection)
