"""Ports of labgrid at the console server, for all console drivers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from attrs import define, frozen
from labgrid.resource import SerialPort
from labgrid.resource.common import ManagedResource

from lab.console.client import ConsoleClient, ensure_server
from lab.console.holders import blame_sharing
from lab.console.model import Event
from lab.console.serial_line import PortRequest
from lab.console.status import PortInfo, ServerStatus
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import UBOOT
from lab.drivers.prompt import type_line
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host.clockrelation import ClockRelation
from lab.host.runtime import runtime_dir, server_pid

RETURN_S: Final = 3.0  # wait for an adapter that went away: a USB device reappears within a second or two
_LOOK_S: Final = 0.1


class ConsoleReader(Protocol):
    """Reader and writer of a port, e.g. `ConsoleClient`."""

    def read_event(self, timeout_s: float) -> Event | None: ...
    def write(self, data: bytes) -> None: ...
    def status(self, name: str | None = None) -> ServerStatus: ...
    def close(self) -> None: ...


class ConsolePort(Protocol):
    """A port, wherever it is.

    Attributes:
        label: for messages.
        pty: it is a pseudo terminal, as far as that is known: no real board hangs on it.
        elsewhere: the other host that it is on; empty: it is on this one.
    """

    @property
    def label(self) -> str: ...
    @property
    def pty(self) -> bool: ...
    @property
    def elsewhere(self) -> str: ...
    def connect(self, request: PortRequest) -> tuple[ConsoleReader, PortInfo]:
        """Read it, and be the one who writes.

        Raises:
            BoardlabError: that is not possible now.
        """
        ...

    def relation(self) -> ClockRelation | None:
        """Relation of the stamps' clock to this host's; None: the same."""
        ...

    def device(self) -> str:
        """The device behind its name, which may be a link of udev's."""
        ...

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        """Explain a failure by other readers of the port."""
        ...


@define
class LocalPort:
    """A SerialPort of labgrid's: the adapter is plugged into this host.

    Attributes:
        runtime: the console server's folder; empty: the usual one.
    """

    port: Any
    runtime: str
    elsewhere: str = ""

    @property
    def label(self) -> str:
        return str(self.port.port)

    @property
    def pty(self) -> bool:
        """False; the recording knows pseudo terminals."""
        return False

    def connect(self, request: PortRequest) -> tuple[ConsoleReader, PortInfo]:
        node = guarded_calls.current_node(self.port, "port", guarded_calls.CONSOLE)
        with new_client(self.runtime) as client:
            info = client.open(
                node,
                speed_bd=request.speed_bd,
                adapter_latency_ns=request.adapter_latency_ns,
                board=request.board or None,
            )
            client.attach(info.name, write=True)
        return client, info

    def relation(self) -> ClockRelation | None:
        return None

    def device(self) -> str:
        port = Path(self.port.port)
        return os.path.normpath(port.parent / port.readlink()) if port.is_symlink() else str(port)

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        folder = Path(self.runtime) if self.runtime else runtime_dir()
        return blame_sharing(error, Path(self.port.port), {server_pid(folder)}) if self.port.port else error


def check_plugged(port: Any, before: str = "") -> None:
    """Make sure that a serial port has a device or an exporter.

    Args:
        before: the device that it had in this session, for whose return it waits; empty: none.

    Raises:
        ConfigurationError: it has none. LabTransientError: it went away, or no exporter serves it now.
    """
    deadline_s = time.monotonic() + RETURN_S
    while before and not port.port and isinstance(port, ManagedResource) and time.monotonic() < deadline_s:
        time.sleep(_LOOK_S)
        port.poll()
    if port.port:
        return
    if isinstance(port, SerialPort) and before:
        raise LabTransientError(
            f"{before} went away, and nothing that fits {port.display_name} is back after {RETURN_S:g} s: look at the "
            "adapter, its cable and its hub (dmesg)",
            failure="adapter_lost",
        )
    if isinstance(port, SerialPort):
        raise ConfigurationError(
            f"{port.display_name}: no such serial port now; is the adapter plugged in, and does `match` fit it? "
            "(udevadm info /dev/ttyUSB0)"
        )
    raise LabTransientError(
        f"{port.display_name}: no exporter serves this port on {port.host} now. Is the place acquired, does the "
        "exporter run there, and does its log say why it does not serve the port? (labgrid-client -p PLACE show)",
        failure="exporter_gone",
    )


@contextmanager
def new_client(runtime: str) -> Iterator[ConsoleClient]:
    """Client of a runtime directory's console server.

    Empty: the usual directory. The client is closed only if the block fails.
    """
    client = ConsoleClient(ensure_server(Path(runtime) if runtime else None))
    try:
        yield client
    except BaseException:
        client.close()
        raise


@frozen
class ConsoleLine:
    """A `lab.provision.ymodem.YmodemLine`: a console that the console server owns and records.

    Attributes:
        console: a StampedConsoleDriver.
        clock: that of the power switch's instants.
    """

    console: Any
    clock: Any

    def read(self, timeout_s: float) -> bytes:
        return bytes(self.console.receive(timeout_s))

    def write(self, data: bytes) -> None:
        self.console.send(data)

    def sendline(self, text: str) -> None:
        type_line(self.console, UBOOT, text)

    def now_ns(self) -> int:
        return int(self.clock.now_ns())
