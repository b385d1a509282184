"""A console as a line for files: bytes in both directions, and a clock."""

from __future__ import annotations

from typing import Any

from attrs import frozen


@frozen
class ConsoleLine:
    """A `lab.provision.ymodem.SerialLine`: a console that the console server owns and records.

    Attributes:
        console: a StampedConsoleDriver. clock: that of the power switch's instants.
    """

    console: Any
    clock: Any

    def read(self, timeout_s: float) -> bytes:
        """See `SerialLine`."""
        return bytes(self.console.receive(timeout_s))

    def write(self, data: bytes) -> None:
        """See `SerialLine`."""
        self.console.send(data)

    def now_ns(self) -> int:
        """See `SerialLine`."""
        return int(self.clock.now_ns())
