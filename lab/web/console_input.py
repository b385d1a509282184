"""Typing at a console of a reserved board.

The person of the reservation writes through the console server: one line, or as long as the page is open.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Final

from attrs import define, field
from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from lab.console.client import ConsoleClient
from lab.console.lookup import attach_to_port
from lab.errors import BoardlabError, ConfigurationError
from lab.health.reservations import ReservationBook
from lab.web.actions import Board, back
from lab.web.audit_log import AuditLog
from lab.web.audit_log import field as audit_log_field
from lab.web.rendering import Still, event, events
from lab.web.site import Site

LOOK_S: Final = 2.0  # a reservation or a session that ended is seen so soon
ENDS: Final = {"enter": b"\r", "ctrl-c": b"\x03", "ctrl-d": b"\x04", "nothing": b""}


@define
class ConsoleWriter:
    """A person at a console; `sent`: bytes."""

    client: ConsoleClient
    sent: int = 0
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        with self._lock:
            self._drain()
            self.client.write(data)
            self.sent += len(data)

    def listen(self) -> None:
        """Read and drop the console's output.

        Another connection shows it; the server drops a client that reads nothing.
        """
        with self._lock:
            self._drain()

    def close(self) -> None:
        """Give the console back."""
        with self._lock:
            self.client.close()

    def _drain(self) -> None:
        while self.client.read_event(0.0) is not None:
            pass


@define
class ConsoleWriters:
    """The writers of all consoles."""

    site: Site
    _held: dict[tuple[str, str], ConsoleWriter] = field(factory=dict, init=False)  # person and board
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def check(self, board: str, person: str) -> None:
        """Check that a person may type at a board now.

        Raises:
            ConfigurationError: it is not reserved for this person.
            BoardlabError: the results cannot be read.
        """
        with self.site.store() as store:
            holds = ReservationBook(store).standing(board)
        if not any(hold.kind == "reserved" and hold.person == person for hold in holds):
            whose = f"; it is {holds[0].described}" if holds else ""
            raise ConfigurationError(
                f"the console of {board} takes input only from the person who reserved the board{whose}"
            )

    def type(self, board: str, person: str, data: bytes) -> None:
        """Send bytes to a console.

        Raises:
            BoardlabError: as of `check`; somebody else types, or no port of that board is open.
        """
        self.check(board, person)
        writer = self._held.get((person, board))
        if writer is not None:
            writer.write(data)
            return
        writer = ConsoleWriter(attach_to_port(board, self.site.runtime, write=True)[0])
        try:
            writer.write(data)
        finally:
            writer.close()

    def hold(self, board: str, person: str) -> ConsoleWriter:
        """Hold a console for a person.

        Raises:
            BoardlabError: as of `type`.
        """
        self.check(board, person)
        with self._lock:
            if (person, board) in self._held:
                raise ConfigurationError(f"{person} types at {board} already, in another window")
            writer = ConsoleWriter(attach_to_port(board, self.site.runtime, write=True)[0])
            self._held[person, board] = writer
        return writer

    def release(self, board: str, person: str, writer: ConsoleWriter) -> None:
        """Give a console back."""
        with self._lock:
            if self._held.get((person, board)) is writer:
                del self._held[person, board]
        with suppress(BoardlabError):
            writer.close()

    async def stream(
        self,
        board: str,
        person: str,
        writer: ConsoleWriter,
        on_release: Callable[[str], None],
        still: Still = lambda: True,
    ) -> AsyncGenerator[str, None]:
        """Stream events while a page types; release the console afterwards.

        Args:
            on_release: called with the reason, in a thread of its own.
            still: true if this person may still act.
        """
        why = "the page was closed"
        try:
            yield event("held", json.dumps({"board": board}))
            while True:
                await asyncio.sleep(LOOK_S)
                try:
                    if not still():
                        raise ConfigurationError(f"{person} has logged out, was removed or has another role now")
                    await run_in_threadpool(self._look, board, person, writer)
                except BoardlabError as error:
                    why = str(error)
                    yield event("released", json.dumps({"why": why}))
                    return
                yield ": held\n\n"
        finally:

            def end() -> None:
                self.release(board, person, writer)
                on_release(f"{writer.sent} bytes; {why}")

            threading.Thread(target=end, name=f"release {board}").start()

    def _look(self, board: str, person: str, writer: ConsoleWriter) -> None:
        self.check(board, person)
        writer.listen()


def encode_line(line: str, end: str) -> bytes:
    """The bytes of a line and the key that ends it.

    Raises:
        ConfigurationError: it has control characters, or there is no such key.
    """
    if end not in ENDS or not (line.isprintable() or not line):
        raise ConfigurationError(f"a line of printable characters, then one of: {', '.join(ENDS)}")
    return line.encode() + ENDS[end]


def router(audit: AuditLog) -> APIRouter:
    """The addresses for one line, and for an open page."""
    routes = APIRouter(include_in_schema=False)
    writers = ConsoleWriters(audit.site)

    @routes.post("/boards/{board:path}/type")
    def type_line(request: Request, board: Board) -> Response:
        line = request.state.form.get("line", "")  # blanks at its ends are part of it
        with audit.recording(request, "write", board, f"a line of {len(line)} characters") as action:
            data = encode_line(line[:1000], audit_log_field(request, "end", default="enter"))
            writers.type(board, action.person.name, data)
        return back(board, "console")

    @routes.post("/boards/{board:path}/hold")
    async def hold(request: Request, board: Board) -> StreamingResponse:
        name = request.state.person.name

        def begin() -> ConsoleWriter:
            with audit.recording(request, "hold console", board):
                return writers.hold(board, name)

        writer = await run_in_threadpool(begin)

        def record_release(outcome: str) -> None:
            audit.record(request, "release console", name, outcome, board)

        return events(writers.stream(board, name, writer, record_release, request.state.still))

    return routes
