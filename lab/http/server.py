"""uvicorn with limits on the time and the number of its clients.

uvicorn itself bounds only the bytes of a request's head. `Connections` bounds the rest: a silent or slow client costs a
socket, no thread, and not for long. At a limit, the connection that has waited longest without a request is closed, and
before it those that have never said anything: a request of a browser or a scrape takes milliseconds.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, TypeAlias

import uvicorn
from attrs import define
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lab.errors import LabStableError
from lab.http import connections
from lab.http.access import origin
from lab.http.connections import Connections, RequestLimits, Task
from lab.http.web_config import WebConfig

REQUEST_S: Final = 10.0  # for the whole request: TLS, however slowly its bytes come, and the password
MOST_OPEN: Final = 512  # connections in all: half of the 1,024 files that a process may usually have open
MOST_OF_ADDRESS: Final = 256  # of them, from one address
# Clients that the system keeps until the server takes them; beyond, a client asks again after 1 s.
_BACKLOG: Final = 1024
_HEAD_BYTES: Final = 1 << 14  # of a request
_OPTIONS: Final = {  # of uvicorn.Config
    "log_config": None,
    "log_level": "error",  # a warning for each wrong request would let clients fill the log
    "access_log": False,  # it would have the links that let their reader act
    "server_header": False,
    "proxy_headers": False,
    "interface": "asgi3",
    "http": "h11",
    "ws": "none",
    "h11_max_incomplete_event_size": _HEAD_BYTES,
}
Admit: TypeAlias = Callable[[Request], Awaitable[ASGIApp | None]]  # the refusal's answer; None: admitted


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
    """A connection that is served.

    Attributes:
        task: serves it; cancelled, it closes the connection.
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
        self._accepting = [
            loop.create_task(self._connections.accept(listening, self._serve_one)) for listening in sockets or ()
        ]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new clients, and end present ones as uvicorn does."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)
        await self._connections.close()

    async def _serve_one(self, connection: socket.socket) -> None:
        """Serve the requests of one connection until it ends."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is None:
            return
        client, transport, ended = ("", 0), None, asyncio.Event()
        try:
            if not await _wait_for_byte(connection):
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
        """Answer one request (ASGI) within the limits.

        The application answers, or the refusal of `admit`.
        """
        if scope["type"] != "http":  # the application's start and end
            await app(scope, receive, send)
            return
        served = self._served.get(scope["client"] or ("", 0))
        if served is None:  # the connection is being closed; uvicorn logs an error if this ends before it is
            while (await receive())["type"] != "http.disconnect":
                pass
            return

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(connections.ANSWER_S):
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
        self._connections.begin_answer(served.task)
        try:
            await app(scope, receive, send_in_time)
        finally:
            served.requests -= 1
            if not served.requests:
                self._connections.end_answer(served.task)


async def _wait_for_byte(connection: socket.socket) -> bool:
    """Wait for a client's first byte; False: it left.

    Until then it costs no protocol object.
    """
    loop, file = asyncio.get_running_loop(), connection.fileno()
    spoken = asyncio.Event()
    loop.add_reader(file, spoken.set)
    try:
        await spoken.wait()
    finally:
        loop.remove_reader(file)
    return bool(connection.recv(1, socket.MSG_PEEK))
