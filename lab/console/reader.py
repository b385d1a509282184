"""A reader that reconnects and continues at its next byte.

It also relates the server's clock to this host's.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from attrs import define, field

from lab.console.client import ClockQuery, ConsoleClient
from lab.console.model import Chunk, Event, Gap, Lateness, RecordKind
from lab.console.serial_line import PortRequest
from lab.console.status import PortInfo, ServerStatus
from lab.console.transport import remaining_s
from lab.errors import LabTransientError
from lab.host.clock import time_line
from lab.host.clockrelation import ClockReading, ClockRelation

PATIENCE_S: Final = 60.0  # period of retries for a silent host
# For an answer of another host, as long as ssh waits for one. A link that has to carry more than it can says nothing
# for some seconds, and would be cut off each time.
ELSEWHERE_S: Final = 15.0
CUTS: Final = frozenset(
    {"console_server_gone", "console_server_silent", "no_console_server", "console_link", "console_full"}
)
_AGAIN_S: Final = 0.2  # between two tries
_READINGS: Final = 8  # of the other clock, before the first byte
_QUESTIONS: Final = 3  # of one question, each over a new connection
_NEXT_S: Final = 15.0  # for the next of many bytes that wait at the server


class ReconnectingReader:
    """Reads one port of a perhaps remote server, as `ConsoleClient` does.

    Attributes:
        info: the port.
        cuts: number of lost connections.
        relation: of the server's clock to this host's.
    """

    def __init__(
        self,
        connect: Callable[[], ConsoleClient],
        reset: Callable[[], None],
        request: PortRequest,
        host: str,
        *,
        write: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Connect, and read from now on.

        Args:
            connect: returns a new client of the server.
            reset: forgets a connection that does not answer.
            host: the server's host, for messages.

        Raises:
            BoardlabError: as of `ConsoleClient`, or of `connect`.
        """
        self._connect, self._reset, self._request, self._host = connect, reset, request, host
        self._write, self._patience_s = write, patience_s
        self._session = secrets.token_hex(8)
        self._position: StreamPosition | None = None  # None until the first attach
        self._queued: deque[Event] = deque()  # read, not yet returned
        self._cut_at: float | None = None
        self._tried_at = 0.0
        self._why: LabTransientError | None = None
        self._client: ConsoleClient | None = None
        self.cuts = 0
        self._watch = ClockWatch(ClockRelation(host))
        self.relation = self._watch.relation
        self.info = self._attach_first()

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

        While the server is out of reach it waits beyond `timeout_s`, then for the missed bytes: the board was not
        silent.

        Raises:
            LabTransientError: the server was out of reach for too long, or the missed bytes are no longer stored.
        """
        deadline = time.monotonic() + timeout_s
        while not self._queued:
            client = self._connected_client()
            try:
                event = self._next(client, deadline)
            except LabTransientError as error:
                self._note_cut(error)
                continue
            if event is None:
                if not remaining_s(deadline):
                    return None
            elif self._is_new(event):
                return event
        return self._queued.popleft()

    def write(self, data: bytes) -> None:
        """Send bytes to the port.

        Raises:
            LabTransientError: the connection was cut off; the bytes may have arrived, and are not sent twice.
        """
        client = self._connected_client()
        try:
            client.write(data)
        except LabTransientError as error:
            self._note_cut(error)
            raise

    def status(self, name: str | None = None) -> ServerStatus:  # noqa: ARG002 - as ConsoleClient has it
        """Return the state of the server and our port.

        All earlier bytes of the port are then queued for `read_event`.

        Raises:
            LabTransientError: it is out of reach.
        """
        for _ in range(_QUESTIONS):
            client = self._connected_client()
            try:
                status = client.status(self.info.name)
                position = max((port.info.position for port in status.ports), default=0)
                while self._is_behind(position):  # a backfill brings these events after the answer
                    event = self._next_missed(client, position)
                    if self._is_new(event):
                        self._queued.append(event)
            except LabTransientError as error:
                self._note_cut(error)
            else:
                return status
        raise self._no_answer()

    def read_clock(self) -> None:
        """Ask the server's clock now.

        Raises:
            LabTransientError: it is out of reach, or its host was booted again.
        """
        for _ in range(_QUESTIONS):
            client = self._connected_client()
            try:
                self._watch.ask(client)
            except LabTransientError as error:
                self._note_cut(error)
            else:
                return
        raise self._no_answer()

    def close(self) -> None:
        """End the connection. The server goes on reading its ports."""
        if self._client is not None:
            self._client.close()
        self._client = None
        self._watch.forget()

    def _no_answer(self) -> LabTransientError:
        text = f"the console server on {self._host} gives no answer"
        return self._why or LabTransientError(text, failure="console_link")

    def _next(self, client: ConsoleClient, deadline: float) -> Event | None:
        """Return the next event; read missed bytes first, query the clock meanwhile.

        Raises:
            LabTransientError: the server is gone, or silent.
        """
        if self._is_behind(self.info.position):
            return self._next_missed(client, self.info.position)
        event = client.read_event(min(remaining_s(deadline), self._watch.look(client)))
        if event is None:
            self._watch.check(client)
        return event

    def _is_behind(self, position: int) -> bool:
        return self._position is not None and self._position.position < position

    def _is_new(self, event: Event) -> bool:
        return self._position is not None and self._position.is_new(event)

    def _next_missed(self, client: ConsoleClient, position: int) -> Event:
        """Return the next event on the way to this position.

        Raises:
            LabTransientError: nothing arrives, though the server has more bytes.
        """
        event = client.read_event(_NEXT_S)
        if event is None:
            raise LabTransientError(
                f"the console server on {self._host} has more bytes, up to {position}, than came within {_NEXT_S:g} s",
                failure="console_link",
            )
        return event

    def _connected_client(self) -> ConsoleClient:
        """Return the connection, reconnecting if needed.

        Raises:
            LabTransientError: none came about in time.
        """
        while self._client is None:
            now = time.monotonic()
            if self._cut_at is not None and now - self._cut_at > self._patience_s:
                raise LabTransientError(
                    f"the console server on {self._host} is out of reach since {now - self._cut_at:.0f} s: "
                    f"{self._why}. The board's output is recorded there",
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
                    with contextlib.suppress(LabTransientError):  # another process is at it; tried again
                        self._reset()
        return self._client

    def _attach_first(self) -> PortInfo:
        """Attach first; if nothing answers, once more over a new connection."""
        try:
            return self._attach()
        except LabTransientError as error:
            if error.failure != "console_server_silent":
                raise
        self._reset()
        return self._attach()

    def _attach(self) -> PortInfo:
        client = self._connect()
        try:
            questions = _READINGS if self._position is None else 1  # the missed events wait behind them
            began_ns = min(self._watch.ask(client).there_ns for _ in range(questions))
            request = self._request
            info = client.open(
                request.device,
                request.speed_bd,
                request.adapter_latency_ns,
                board=request.board or None,
                elsewhere=True,
            )
            position = self._position or StreamPosition(f"{info.name} on {self._host}", began_ns, info.position)
            client.attach(info.name, write=self._write, since=position.position, session=self._session)
        except BaseException:
            client.close()
            raise
        position.begin_again()
        self._position = position
        self._client = client
        self._cut_at = None
        return info

    def _note_cut(self, error: LabTransientError) -> None:
        """Note a lost connection; the next use reconnects.

        Raises:
            LabTransientError: the failure is another one.
        """
        if error.failure not in CUTS:
            raise error
        self.close()
        self.cuts += 1
        self._why = error
        if self._cut_at is None:
            self._cut_at = time.monotonic()


@define
class StreamPosition:
    """One reader's position in a port's stream.

    Attributes:
        label: the port, for messages.
        began_ns: the server's clock at the start of reading.
        position: of the next byte.
    """

    label: str
    began_ns: int
    position: int
    _since_byte: list[Event] = field(factory=list, init=False)  # what came since the last byte
    _repeated: list[Event] = field(factory=list, init=False)  # what comes again after a cut

    def begin_again(self) -> None:
        """Expect the non-data events at `position` again after attaching anew."""
        self._repeated = list(self._since_byte)

    def is_new(self, event: Event) -> bool:
        """True if the event is new after the cut; advance past it.

        Raises:
            LabTransientError: bytes before it are missing without a gap record.
        """
        if event.position > self.position:
            if not (isinstance(event, Gap) and event.kind is RecordKind.UNRECORDED):
                raise LabTransientError(
                    f"{self.label}: bytes {self.position} to {event.position} of its stream did not come. Attach "
                    "again; look at the recording there for what was said",
                    failure="console_overrun",
                )
            self.position = event.position
        if isinstance(event, Chunk):
            if event.end <= self.position:
                return False
            self.position = event.end
            self._since_byte, self._repeated = [], []
            return True
        if 0 < event.t_ns < self.began_ns and not isinstance(event, Lateness):
            return False  # it lies at our first byte: told, but old
        if event in self._repeated:
            self._repeated.remove(event)
            return False
        self._since_byte.append(event)
        return True


AGAIN_S: Final = 5.0  # after the last answer; it shows as well that the server still answers


@define
class ClockWatch:
    """Keeps the relation to the server's clock up to date.

    Each reader asks for itself: an answer also proves that its own connection is alive.

    Attributes:
        relation: of the server's clock to this host's.
    """

    relation: ClockRelation
    _question: ClockQuery | None = field(default=None, init=False)
    _next: float = field(default=0.0, init=False)

    def ask(self, client: ConsoleClient) -> ClockReading:
        """Query the clock and wait for the answer.

        Raises:
            LabTransientError: there is none, or that host was booted again.
        """
        return self._take(client.clock())

    def look(self, client: ConsoleClient) -> float:
        """Query the clock when due, and take answers; return seconds until due.

        Raises:
            LabTransientError: that host was booted again.
        """
        if self._question is not None and (reading := self._question.reading()) is not None:
            self._question = None
            self._take(reading)
        if self._question is None and not remaining_s(self._next):
            self._question = client.ask_clock()
        return remaining_s(self._next if self._question is None else self._question.deadline)

    def check(self, client: ConsoleClient) -> None:
        """Fail if an answer is overdue and nothing can be received.

        Raises:
            LabTransientError: the answer has not come in time.
        """
        question = self._question
        if question is not None and question.reading() is None and not remaining_s(question.deadline):
            raise client.silent()

    def forget(self) -> None:
        """Discard the pending query of a closed connection."""
        self._question = None

    def _take(self, reading: ClockReading) -> ClockReading:
        self._next = time.monotonic() + AGAIN_S
        self.relation.same = reading.line == time_line()
        if not self.relation.same:
            self.relation.add(reading)
        return reading
