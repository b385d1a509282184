"""uvicorn with limits for its clients, which uvicorn itself has not.

uvicorn bounds the bytes of a request's head, but neither its time nor the connections. `Connections` bounds both: a
silent or slow client costs a socket, no thread, and not for long. At a limit, the connection that has waited longest
without a request is closed, one that never said anything first: a request of a browser or a scrape takes milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

import uvicorn
from attrs import define, frozen
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lab.errors import LabStableError
from lab.http.access import WebConfig, origin

REQUEST_S: Final = 10.0  # for the whole request: TLS, however slowly its bytes come, and the password
ANSWER_S: Final = 30.0  # for each part of the answer
MOST_OPEN: Final = 512  # connections in all: half of the 1,024 files that a process may usually have open
MOST_OF_ADDRESS: Final = 256  # of them, from one address
_BACKLOG: Final = (
    1024  # clients that the system keeps until the server takes them; beyond, a client asks again after 1 s
)
_HEAD_BYTES: Final = 1 << 14
_SILENT_S: Final = 1.0  # without a byte, until a new client counts as silent
_PAUSE_S: Final = 0.1  # when the system cannot give another socket
_WARNED_S: Final = 60.0  # between two warnings, so that clients cannot fill a log
_log = logging.getLogger(__name__)

Task: TypeAlias = asyncio.Task[None]
State: TypeAlias = Literal["silent", "idle", "answering"]
_STATES: Final[tuple[State, ...]] = get_args(State)  # in the order in which they are closed


# --- Connections ---


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
            task.add_done_callback(partial(self._ended, connection))
            self._enter(task, origin(peer[0]))
            await asyncio.sleep(0)  # requests have their turn between clients that come at once

    def spoke(self, task: Task) -> None:
        """The client of this connection has sent something."""
        if task in self._clients:
            self._clients[task].state = "idle"

    def asked(self, task: Task) -> None:
        """The request of this connection is complete; it is being answered."""
        client = self._clients.get(task)
        if client is None:
            return
        answering = [each for each, its in self._clients.items() if its.state == "answering"]
        if len(answering) >= self._limits.answering:
            self._close(answering[0], f"{len(answering)} requests are being answered")
        self._step(task, client, self._limits.answer_s, "answering")

    def answered(self, task: Task) -> None:
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

    def _enter(self, task: Task, of: str) -> None:
        limits = self._limits
        if self._origins[of] >= limits.of_address and of not in limits.unlimited:
            self._close(self._oldest(of), f"{limits.of_address} connections from {of} are open")
        elif len(self._clients) >= limits.total:
            self._close(self._oldest(), f"{limits.total} connections are open")
        self._origins[of] += 1
        self._step(task, _Client(of, asyncio.get_running_loop().time()), limits.request_s, "silent")

    def _step(self, task: Task, client: _Client, seconds: float | None, state: State) -> None:
        if client.deadline is not None:
            client.deadline.cancel()
        client.deadline = None
        if seconds is not None:
            client.deadline = asyncio.get_running_loop().call_later(seconds, self._late, task, seconds)
        client.state = state
        self._clients.pop(task, None)
        self._clients[task] = client

    def _oldest(self, of: str | None = None) -> Task:
        """Connection to close first: the oldest silent one, else the oldest idle one, else the oldest."""
        now_s = asyncio.get_running_loop().time()
        found = {
            its.state_at(now_s): task for task, its in reversed(self._clients.items()) if of in {None, its.origin}
        }
        return next(found[state] for state in _STATES if state in found)

    def _late(self, task: Task, seconds: float) -> None:
        _log.debug("a client was slower than %g s: closed", seconds)
        task.cancel()

    def _close(self, task: Task, why: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._warned_s is None or now_s - self._warned_s >= _WARNED_S:
            self._warned_s = now_s
            _log.warning("%s: the oldest are closed for new ones; said once a minute at most", why)
        self._forget(task)
        task.cancel()

    def _ended(self, connection: socket.socket, task: Task) -> None:
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


# --- The server ---


_OPTIONS: Final = {
    "log_config": None,
    "log_level": "error",  # a warning for each wrong request would let clients fill the log
    "access_log": False,  # it would have the link by which one acts
    "server_header": False,
    "proxy_headers": False,
    "interface": "asgi3",
    "http": "h11",
    "ws": "none",
    "h11_max_incomplete_event_size": _HEAD_BYTES,
}
Admit: TypeAlias = Callable[[Request], Awaitable[ASGIApp | None]]


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an IP address.

    Raises:
        LabStableError: the address cannot be listened at.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = None
    try:
        # asyncio sets TCP_NODELAY only where the protocol is named; without it a live line waits 40 ms for the
        # browser's ACK
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        if listening is not None:
            listening.close()
        raise LabStableError(
            f"cannot listen at {host}:{port}: {error.strerror}; name another address or port with --listen"
        ) from error
    return listening


@define(eq=False)
class _Served:
    """A connection.

    Attributes:
        requests: in progress; the next one may come during the last one's clean-up.
    """

    task: Task
    requests: int = 0


class LimitedServer(uvicorn.Server):
    """Serves an application at sockets that listen, with limits for its connections.

    A client has REQUEST_S for a request, and ANSWER_S to take each part of the answer; a live view may last for days.

    Args:
        config: a web-config file with TLS or without.
        proxies: addresses of reverse proxies, each of which stands for many clients.
        admit: gives the answer to a request that is refused, within REQUEST_S; None: the application answers.
        answering: requests that are answered at once; None: those of all connections.
        answer_s: for the whole answer; None: no deadline.
        options: of uvicorn.Config.

    Raises:
        ConfigurationError: the certificates of the web-config file cannot be used.
    """

    def __init__(
        self,
        app: ASGIApp,
        config: WebConfig | None = None,
        *,
        proxies: Iterable[str] = (),
        admit: Admit | None = None,
        answering: int | None = None,
        answer_s: float | None = None,
        **options: Any,
    ) -> None:
        context = config.context() if config is not None else None
        tls = {} if context is None else {"ssl_context_factory": lambda *_: context}
        super().__init__(uvicorn.Config(partial(self._answer, app, admit), **{**_OPTIONS, **tls, **options}))
        unlimited = frozenset(map(origin, proxies))
        self._connections = Connections(
            RequestLimits(MOST_OPEN, MOST_OF_ADDRESS, answering or MOST_OPEN, REQUEST_S, answer_s, unlimited)
        )
        self._accepting: list[Task] = []
        self._served: dict[tuple[str, int], _Served] = {}  # by address and port of the client

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then take clients."""
        await super().startup(sockets=[])
        loop = asyncio.get_running_loop()
        self._accepting = [loop.create_task(self._connections.accept(each, self._serve_one)) for each in sockets or ()]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new clients, and end present ones as uvicorn does."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)
        await self._connections.close()

    async def _serve_one(self, connection: socket.socket) -> None:
        """Serve the requests of one connection until it ends."""
        loop, task, client, transport = asyncio.get_running_loop(), asyncio.current_task(), ("", 0), None
        ended = asyncio.Event()
        if task is None:
            return
        try:
            if not await _spoken(connection):
                return
            self._connections.spoke(task)
            client = connection.getpeername()[:2]
            self._served[client] = _Served(task)
            protocol = self._protocol(ended.set)
            handshake_s = REQUEST_S if self.config.ssl else None
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self.config.ssl, ssl_handshake_timeout=handshake_s
            )
            await ended.wait()
        except OSError:  # the client is gone, or its TLS is wrong
            return
        finally:
            self._served.pop(client, None)
            if transport is not None and not ended.is_set():
                transport.abort()

    def _protocol(self, ended: Callable[[], None]) -> Any:
        """uvicorn's protocol of one connection; `ended` is called when it is lost."""
        protocol: Any = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        lost = protocol.connection_lost

        def connection_lost(error: Exception | None) -> None:
            lost(error)
            ended()

        protocol.connection_lost = connection_lost
        return protocol

    async def _answer(self, app: ASGIApp, admit: Admit | None, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the application's start and end
            await app(scope, receive, send)
            return
        served = self._served.get(scope["client"] or ("", 0))
        if (
            served is None
        ):  # the connection is being closed; without an answer before its end, uvicorn would log an error
            while (await receive())["type"] != "http.disconnect":
                pass
            return

        async def timed(message: Message) -> None:
            try:
                async with asyncio.timeout(ANSWER_S):
                    await send(message)
            except TimeoutError:
                served.task.cancel()

        if admit is not None:
            admission = asyncio.ensure_future(admit(Request(scope)))
            served.task.add_done_callback(lambda _: admission.cancel())  # no password waits for a client that is gone
            try:
                app = await admission or app
            except asyncio.CancelledError:
                if served.task.done():
                    return
                raise
        served.requests += 1
        self._connections.asked(served.task)
        try:
            await app(scope, receive, timed)
        finally:
            served.requests -= 1
            if not served.requests:
                self._connections.answered(served.task)


async def _spoken(connection: socket.socket) -> bool:
    """Wait for a client's first byte: until then it costs no protocol. False: it left."""
    loop, file = asyncio.get_running_loop(), connection.fileno()
    spoken = asyncio.Event()
    loop.add_reader(file, spoken.set)
    try:
        await spoken.wait()
    finally:
        loop.remove_reader(file)
    return bool(connection.recv(1, socket.MSG_PEEK))
