"""A UART beside the console, e.g. of the MCU's firmware."""

from __future__ import annotations

from pathlib import Path

import attr
from labgrid.driver import Driver
from labgrid.factory import target_factory
from labgrid.step import step

from lab.console.model import Chunk
from lab.console.serial_line import PortRequest
from lab.drivers.consoleport import ConsoleReader, check_plugged
from lab.drivers.networkports import port_of
from lab.errors import LabTransientError


@target_factory.reg_driver
@attr.s(eq=False)
class SideConsoleDriver(Driver):
    """SideConsoleDriver - a UART beside the console, read and recorded too

    It is no console of U-Boot or Linux.

    A port of another host is read as by StampedConsoleDriver. It is no ConsoleProtocol, so that no other driver takes
    it for the board's console.

    Args:
        runtime (str): the console server's runtime directory; default as `lab console` has it
    """

    bindings = {"port": {"SerialPort", "NetworkSerialPort"}}
    runtime: str = attr.ib(default="", validator=attr.validators.instance_of(str))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._client: ConsoleReader | None = None
        self._name = ""

    def on_activate(self) -> None:
        self._connect()

    def on_deactivate(self) -> None:
        self._disconnect()

    @Driver.check_active
    @step(result=True)
    def take(self) -> str:
        """Return the bytes since the last call."""
        received = b""
        try:
            self._connect().status(self._name)  # its answer comes behind what the server had read before
            while (event := self._connect().read_event(0)) is not None:
                if isinstance(event, Chunk):
                    received += event.data
        except LabTransientError:
            self._disconnect()
            raise
        return received.decode("latin-1")

    @Driver.check_active
    @step(args=["data"])
    def send(self, data: bytes) -> None:
        """Send bytes; they are queued at the port when this returns."""
        try:
            self._connect().write(data)
        except LabTransientError:
            self._disconnect()
            raise

    def _connect(self) -> ConsoleReader:
        if self._client is None:
            check_plugged(self.port, self._name)
            request = PortRequest(Path(str(self.port.port)), self.port.speed)
            self._client, info = port_of(self.port, self.runtime).connect(request)
            self._name = info.name
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None
