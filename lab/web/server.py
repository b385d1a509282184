"""uvicorn with the deadlines and limits of `exporters.server`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import uvicorn
from attrs import define
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from exporters import server
from exporters.server import Connections, RequestLimits, origin

_OPTIONS: Final = {
    "log_config": None,
    "log_level": "error",  # a warning for each wrong request would let clients fill the log
    "access_log": False,  # it would have the link by which one acts
    "server_header": False,
    "proxy_headers": False,
    "interface": "asgi3",
    "http": "h11",
    "ws": "none",
    "h11_max_incomplete_event_size": server.HEAD_BYTES,
}


@define(eq=False)
class _Served:
    """A connection. requests: that are being answered; the next may come while the last one's clean-up goes on."""

    task: server.Task
    requests: int = 0


class LimitedServer(uvicorn.Server):
    """Serves an application at sockets that listen, with limits for its connections.

    A client has REQUEST_S for a request, and ANSWER_S to take each part of the answer; a live view may last for days.

    Args:
        proxies: addresses of reverse proxies, each of which stands for many clients. options: of uvicorn.Config.
    """

    def __init__(self, app: ASGIApp, proxies: Iterable[str] = (), **options: Any) -> None:
        super().__init__(uvicorn.Config(partial(self._answer, app), **{**_OPTIONS, **options}))
        many = frozenset(map(origin, proxies))
        limits = RequestLimits(
            server.MOST_OPEN, server.MOST_OF_ADDRESS, server.MOST_OPEN, server.REQUEST_S, None, many
        )
        self._connections = Connections(limits)
        self._accepting: list[asyncio.Task[None]] = []
        self._served: dict[tuple[str, int], _Served] = {}  # by address and port of the client

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then take clients."""
        await super().startup(sockets=[])
        loop = asyncio.get_running_loop()
        self._accepting = [loop.create_task(self._connections.accept(each, self._serve_one)) for each in sockets or ()]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more clients, and end those that are there as uvicorn does."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)
        await self._connections.close()

    async def _serve_one(self, connection: socket.socket) -> None:
        """Serve the requests of one connection until it ends."""
        loop, task, client, transport = asyncio.get_running_loop(), asyncio.current_task(), ("", 0), None
        protocol: Any = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        ended, lost = loop.create_future(), protocol.connection_lost

        def connection_lost(error: Exception | None) -> None:
            lost(error)
            if not ended.done():
                ended.set_result(None)

        protocol.connection_lost = connection_lost
        if task is None:
            return
        try:
            client = connection.getpeername()[:2]
            self._served[client] = _Served(task)
            handshake_s = server.REQUEST_S if self.config.ssl else None
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self.config.ssl, ssl_handshake_timeout=handshake_s
            )
            await ended
        except OSError:  # the client is gone, or its TLS is wrong
            return
        finally:
            self._served.pop(client, None)
            if transport is not None:
                transport.abort()

    async def _answer(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        served = self._served.get(scope.get("client") or ("", 0))
        if served is None:  # the application's start and end, or a client that is gone
            await app(scope, receive, send)
            return

        async def timed(message: Message) -> None:
            try:
                async with asyncio.timeout(server.ANSWER_S):
                    await send(message)
            except TimeoutError:
                served.task.cancel()

        served.requests += 1
        self._connections.asked(served.task)
        try:
            await app(scope, receive, timed)
        finally:
            served.requests -= 1
            if not served.requests:
                self._connections.answered(served.task)
