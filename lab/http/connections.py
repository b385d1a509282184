"""The open connections of a server, and their limits."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

from attrs import define, frozen

from lab.http.access import origin

ANSWER_S: Final = 30.0  # for each part of the answer
_PAUSE_S: Final = 0.1  # when the system cannot give another socket
_SILENT_S: Final = 1.0  # without a byte, until a new client counts as silent
_WARNED_S: Final = 60.0  # between two warnings, so that clients cannot fill a log
_log = logging.getLogger(__name__)
Task: TypeAlias = asyncio.Task[None]
State: TypeAlias = Literal["silent", "idle", "answering"]
_STATES: Final[tuple[State, ...]] = get_args(State)  # in the order in which they are closed


@frozen
class RequestLimits:
    """The limits of a server's connections.

    Attributes:
        total, of_address: connections that are open, in all and from one address.
        unlimited: addresses, as `origin` gives them, that have only the limit in all.
        answering: connections whose requests are being answered.
        request_s: from the connection to the end of the request.
        answer_s: from there to the end of the answer; None: no deadline.
    """

    total: int
    of_address: int
    answering: int
    request_s: float
    answer_s: float | None
    unlimited: frozenset[str] = frozenset()


@define(eq=False)
class _Client:
    origin: str
    since_s: float  # of the loop's clock
    state: State = "silent"
    deadline: asyncio.TimerHandle | None = None

    def state_at(self, now_s: float) -> State:
        """Its state; silent only after a while: what it sent first may still be on its way."""
        return "idle" if self.state == "silent" and now_s - self.since_s < _SILENT_S else self.state


class Connections:
    """The open connections of a server, each with a task.

    A task is cancelled at a deadline or a limit.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._clients: dict[Task, _Client] = {}  # in the order of their last step
        self._origins: Counter[str] = Counter()
        self._warned_s: float | None = None

    async def accept(
        self, listening: socket.socket, serve: Callable[[socket.socket], Coroutine[Any, Any, None]]
    ) -> None:
        """Take clients until it is cancelled.

        Args:
            listening: a socket that is bound and listens.
            serve: serves one connection, which is closed afterwards.
        """
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        while True:
            try:
                connection, peer = await loop.sock_accept(listening)
            except OSError as error:  # the client left already, or there are no more files
                _log.debug("a client was not accepted: %s", error)
                await asyncio.sleep(_PAUSE_S)
                continue
            task = loop.create_task(serve(connection))
            task.add_done_callback(partial(self._on_end, connection))
            of = origin(peer[0])
            limits = self._limits
            if self._origins[of] >= limits.of_address and of not in limits.unlimited:
                self._close(self._oldest(of), f"{limits.of_address} connections from {of} are open")
            elif len(self._clients) >= limits.total:
                self._close(self._oldest(), f"{limits.total} connections are open")
            self._origins[of] += 1
            self._step(task, _Client(of, asyncio.get_running_loop().time()), limits.request_s, "silent")
            await asyncio.sleep(0)  # requests have their turn between clients that come at once

    def spoke(self, task: Task) -> None:
        """The client of this connection has sent something."""
        if task in self._clients:
            self._clients[task].state = "idle"

    def begin_answer(self, task: Task) -> None:
        """The request of this connection is complete; it is being answered."""
        client = self._clients.get(task)
        if client is None:
            return
        answering = [other for other, its_client in self._clients.items() if its_client.state == "answering"]
        if len(answering) >= self._limits.answering:
            self._close(answering[0], f"{len(answering)} requests are being answered")
        self._step(task, client, self._limits.answer_s, "answering")

    def end_answer(self, task: Task) -> None:
        """Note that a connection has its answer.

        Its client takes the rest of it, and may ask again until the next deadline.
        """
        client = self._clients.get(task)
        if client is not None:
            self._step(task, client, ANSWER_S, "idle")

    async def close(self) -> None:
        """Close all connections."""
        tasks = list(self._clients)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _step(self, task: Task, client: _Client, seconds: float | None, state: State) -> None:
        if client.deadline is not None:
            client.deadline.cancel()
        client.deadline = None
        if seconds is not None:
            client.deadline = asyncio.get_running_loop().call_later(seconds, self._on_deadline, task, seconds)
        client.state = state
        self._clients.pop(task, None)
        self._clients[task] = client

    def _oldest(self, of: str | None = None) -> Task:
        """Connection to close first: the oldest silent one, else the oldest idle one, else the oldest."""
        now_s = asyncio.get_running_loop().time()
        by_state = {
            client.state_at(now_s): task
            for task, client in reversed(self._clients.items())
            if of in {None, client.origin}
        }
        return next(by_state[state] for state in _STATES if state in by_state)

    def _on_deadline(self, task: Task, seconds: float) -> None:
        _log.debug("a client was slower than %g s: closed", seconds)
        task.cancel()

    def _close(self, task: Task, why: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._warned_s is None or now_s - self._warned_s >= _WARNED_S:
            self._warned_s = now_s
            _log.warning("%s: the oldest are closed for new ones; said once a minute at most", why)
        self._forget(task)
        task.cancel()

    def _on_end(self, connection: socket.socket, task: Task) -> None:
        self._forget(task)
        connection.close()  # a task that was cancelled before it began has no transport that would do it

    def _forget(self, task: Task) -> None:
        client = self._clients.pop(task, None)
        if client is None:
            return
        if client.deadline is not None:
            client.deadline.cancel()
        self._origins[client.origin] -= 1
        if not self._origins[client.origin]:
            del self._origins[client.origin]
