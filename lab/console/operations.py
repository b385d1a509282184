"""The server's operations, one per request.

hello   {protocol}                                       -> {protocol, pid}
open    {device, speed_bd?, adapter_latency_ns?, fifo_bytes?, name?, board?}  -> PortInfo; opens it, or finds it open
attach  {name, write, since?, session?}                  -> PortInfo; RECORD frames follow, from byte `since` on.
                                                            Another connection of the same session is ended
close   {name}                                           -> {}; ends all connections that are attached to it
clock   {}                                               -> {t_ns, line}: the clock of the stamps, and its time line
status  {name, after?}                                   -> ServerStatus: of one port; with `after`, of the first ones
                                                            whose number is above it (`more`: for the next question);
                                                            else of all at once
stop    {}                                               -> {}; the server ends

`lab.console.protocol` checks the fields.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from attrs import asdict

from lab.console.connection import Connection
from lab.console.port import ServedPort, default_name
from lab.console.protocol import PROTOCOL, Frame, FrameType, Message, check_request
from lab.console.serial_line import PortRequest
from lab.console.status import ServerStatus
from lab.errors import ConfigurationError, LabStableError
from lab.host.clock import time_line

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


class Server(Protocol):
    """The server's interface for the operations."""

    def open_port(self, request: PortRequest) -> ServedPort:
        """Open a port, or find it open."""
        ...

    def attach(self, connection: Connection, name: str, write: bool, since: int | None = None) -> ServedPort:
        """Let a client read a port, and write."""
        ...

    def now_ns(self) -> int:
        """Return the time of the stamping clock."""
        ...

    def close_port(self, name: str) -> None:
        """Close a port and end the connections that are attached to it."""
        ...

    def status(self, name: str | None, after: int | None) -> ServerStatus:
        """Return the state of the server and its ports."""
        ...

    def stop(self) -> None:
        """End after this request."""
        ...


def handle(server: Server, connection: Connection, frame: Frame) -> Message:
    """The answer to one REQUEST.

    Raises:
        BoardlabError: the request cannot be fulfilled.
    """
    if frame.type != FrameType.REQUEST:
        raise LabStableError(f"a client sends requests and what to write, not {frame.type.name} frames")
    try:
        message = frame.message()
    except ValueError as error:
        raise LabStableError(f"not a request: {error}") from error
    if not connection.greeted and message.get("op") != "hello":
        raise LabStableError('the first request must be {"op": "hello", "protocol": …}')
    return _ACTIONS[check_request(message)](server, connection, message)


def _hello(_server: Server, connection: Connection, message: Message) -> Message:
    if message["protocol"] == PROTOCOL:
        connection.greeted = True
    return {"protocol": PROTOCOL, "pid": os.getpid()}


def _open(server: Server, connection: Connection, message: Message) -> Message:
    device = Path(message["device"])
    name = message.get("name") or default_name(device)
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no name for a port: use letters, digits and . _ - (at most 100)")
    if not device.is_absolute():
        raise ConfigurationError(f"{device}: name a port by its absolute path")
    request = PortRequest(
        device,
        message.get("speed_bd"),
        message.get("adapter_latency_ns"),
        message.get("fifo_bytes"),
        message.get("board") or "",
        name,
    )
    port = server.open_port(request)
    if request.states:
        connection.states = port.meta.name
    return asdict(port.info)


def _attach(server: Server, connection: Connection, message: Message) -> Message:
    connection.session = message.get("session") or ""
    return asdict(server.attach(connection, message["name"], message["write"], message.get("since")).info)


def _clock(server: Server, _connection: Connection, _message: Message) -> Message:
    return {"t_ns": server.now_ns(), "line": time_line()}


def _close(server: Server, _connection: Connection, message: Message) -> Message:
    server.close_port(message["name"])
    return {}


def _status(server: Server, _connection: Connection, message: Message) -> Message:
    return server.status(message.get("name"), message.get("after")).document()


def _stop(server: Server, _connection: Connection, _message: Message) -> Message:
    server.stop()
    return {}


_ACTIONS: dict[str, Callable[[Server, Connection, Message], Message]] = {
    "hello": _hello,
    "open": _open,
    "attach": _attach,
    "clock": _clock,
    "close": _close,
    "status": _status,
    "stop": _stop,
}
