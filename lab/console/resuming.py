"""A reader that goes on at its byte after its connection was cut off, and knows how the server's clock is related to its own."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from attrs import frozen

from lab.console.client import ConsoleClient
from lab.console.model import Chunk, Event, Gap, Lateness, RecordKind
from lab.console.status import PortInfo, ServerStatus
from lab.errors import LabTransientError
from lab.host.clock import time_line
from lab.host.clockrelation import ClockReading, ClockRelation

PATIENCE_S: Final = 60.0  # how long a host that does not answer is tried again
CUTS: Final = frozenset(
    {"console_server_gone", "console_server_silent", "no_console_server", "console_link", "console_full"}
)
_AGAIN_S: Final = 0.2  # between two tries
_READINGS: Final = 8  # of the other clock, after connecting
_QUESTIONS: Final = 3  # of one question, each over a new connection
_NEXT_S: Final = 15.0  # for the next of many bytes that wait at the server
_READ_AGAIN_S: Final = 5.0  # one more; it shows as well that the server still answers


@frozen
class PortOrder:
    """A port to be opened on the server's host.

    Attributes:
        device: its path there. Others: as of `ConsoleClient.open`.
    """

    device: str
    speed_bd: int | None = None
    adapter_latency_ns: int | None = None
    board: str | None = None


class ResumingClient:
    """Reads one port of a console server that may be on another host; it offers what `ConsoleClient` does.

    Attributes:
        info: the port. cuts: how often the connection was cut off.
        relation: of the server's clock to this host's.
    """

    def __init__(
        self,
        connect: Callable[[], ConsoleClient],
        reset: Callable[[], None],
        order: PortOrder,
        host: str,
        *,
        write: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Connect, and read from now on.

        Args:
            connect: a new client of the server. reset: forget a connection that does not answer.
            host: where it is, for messages.

        Raises:
            BoardlabError: as of `ConsoleClient`, or of `connect`.
        """
        self._connect, self._reset, self._order, self._host = connect, reset, order, host
        self._write_wanted, self._patience_s = write, patience_s
        self._session = secrets.token_hex(8)
        self._position: int | None = None
        self._began_ns = 0  # the server's clock at the first attach
        self._at_position: list[Event] = []  # what came since the last byte
        self._queued: deque[Event] = deque()  # read already, for the next that ask
        self._repeated: list[Event] = []  # what comes again after a cut
        self._cut_at: float | None = None
        self._tried_at = 0.0
        self._asked_at = 0.0
        self._why: LabTransientError | None = None
        self._client: ConsoleClient | None = None
        self.cuts = 0
        self.relation = ClockRelation(host)
        self.info = self._attach()

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def read_event(self, timeout_s: float) -> Event | None:
        """The next event of the port; None when none came in time.

        While the server is out of reach it waits beyond `timeout_s`, and then for what was missed: that is no silence of the board's.

        Raises:
            LabTransientError: it was out of reach for too long, or the missed bytes are not kept any more.
        """
        deadline = time.monotonic() + timeout_s
        while not self._queued:
            client = self._answering()
            try:
                self._read_up_to(client, self.info.position)
                if self._queued:
                    break
                self._read_clock(client)
                event = client.read_event(max(0.0, deadline - time.monotonic()))
            except LabTransientError as error:
                self._cut(error)
                continue
            if event is None:
                return None
            if self._is_new(event):
                return event
        return self._queued.popleft()

    def write(self, data: bytes) -> None:
        """Send bytes to the port.

        Raises:
            LabTransientError: the connection was cut off; whether the bytes arrived is not known, and nobody sends them twice.
        """
        try:
            self._answering().write(data)
        except LabTransientError as error:
            self._cut(error)
            raise

    def status(self, name: str | None = None) -> ServerStatus:  # noqa: ARG002 - as ConsoleClient has it
        """How the server and our port are, now; all that our port had brought before is here then, for `read_event`.

        Raises:
            LabTransientError: it is out of reach.
        """
        for _ in range(_QUESTIONS):
            try:
                client = self._answering()
                status = client.status(self.info.name)
                self._read_up_to(client, max((port.info.position for port in status.ports), default=0))
            except LabTransientError as error:
                self._cut(error)
            else:
                return status
        raise self._no_answer()

    def read_clock(self) -> None:
        """Ask the server's clock now.

        Raises:
            LabTransientError: it is out of reach, or its host was booted again.
        """
        for _ in range(_QUESTIONS):
            try:
                self._take_reading(self._answering())
            except LabTransientError as error:
                self._cut(error)
            else:
                return
        raise self._no_answer()

    def close(self) -> None:
        """End the connection. The server goes on reading its ports."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def _no_answer(self) -> LabTransientError:
        said = f"the console server on {self._host} gives no answer"
        return self._why or LabTransientError(said, failure="console_link")

    def _read_up_to(self, client: ConsoleClient, position: int) -> None:
        """Queue what comes until this position of the stream: a catch-up brings it behind the answers.

        Raises:
            LabTransientError: nothing comes any more, though there is more.
        """
        while self._position is not None and self._position < position:
            event = client.read_event(_NEXT_S)
            if event is None:
                raise LabTransientError(
                    f"the console server on {self._host} has {position - self._position} bytes more than came within {_NEXT_S:g} s",
                    failure="console_link",
                )
            if self._is_new(event):
                self._queued.append(event)

    def _answering(self) -> ConsoleClient:
        """The connection, waited for.

        Raises:
            LabTransientError: there is none for too long.
        """
        while self._client is None:
            now = time.monotonic()
            if self._cut_at is not None and now - self._cut_at > self._patience_s:
                raise LabTransientError(
                    f"the console server on {self._host} is out of reach since {now - self._cut_at:.0f} s: {self._why}. What the "
                    "board says is recorded there",
                    failure="console_link",
                ) from self._why
            time.sleep(max(0.0, self._tried_at + _AGAIN_S - now))
            self._tried_at = time.monotonic()
            try:
                self.info = self._attach()
            except LabTransientError as error:
                if error.failure not in CUTS:
                    raise
                self._why = error
                if error.failure == "console_server_silent":
                    self._reset()
        return self._client

    def _attach(self) -> PortInfo:
        client = self._connect()
        try:
            began_ns = min(self._take_reading(client).there_ns for _ in range(_READINGS))
            order = self._order
            info = client.open(
                order.device, order.speed_bd, order.adapter_latency_ns, board=order.board, elsewhere=True
            )
            since = info.position if self._position is None else self._position
            client.attach(info.name, write=self._write_wanted, since=since, session=self._session)
        except BaseException:
            client.close()
            raise
        if self._position is None:
            self._began_ns = began_ns
        self._position = since
        self._repeated = list(self._at_position)
        self._client = client
        self._cut_at = None
        return info

    def _cut(self, error: LabTransientError) -> None:
        """What becomes of a failure: a cut is mended at the next use.

        Raises:
            LabTransientError: it is none.
        """
        if error.failure not in CUTS:
            raise error
        self.close()
        self.cuts += 1
        self._why = error
        if self._cut_at is None:
            self._cut_at = time.monotonic()

    def _is_new(self, event: Event) -> bool:
        """Whether it did not come before the cut already.

        Raises:
            LabTransientError: bytes before it are missing, and no gap says so.
        """
        known = self._position
        if known is not None and event.position > known:
            if not (isinstance(event, Gap) and event.kind is RecordKind.UNRECORDED):
                raise LabTransientError(
                    f"{self.info.name} on {self._host}: bytes {known} to {event.position} of its stream did not come. Attach again; look "
                    "at the recording there for what was said",
                    failure="console_overrun",
                )
            self._position = event.position
        if isinstance(event, Chunk):
            if self._position is not None and event.end <= self._position:
                return False
            self._position = event.end
            self._at_position, self._repeated = [], []
            return True
        if 0 < event.t_ns < self._began_ns and not isinstance(
            event, Lateness
        ):  # it lies at our first byte: told, but old
            return False
        if event in self._repeated:
            self._repeated.remove(event)
            return False
        self._at_position.append(event)
        return True

    def _read_clock(self, client: ConsoleClient) -> None:
        if time.monotonic() - self._asked_at >= _READ_AGAIN_S:
            self._take_reading(client)

    def _take_reading(self, client: ConsoleClient) -> ClockReading:
        reading = client.clock()
        self._asked_at = time.monotonic()
        self.relation.same = reading.line == time_line()
        if not self.relation.same:
            self.relation.add(reading)
        return reading
