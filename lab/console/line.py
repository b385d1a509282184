"""The device side of a port: opening it, writing to it without blocking, losing it and finding it again."""

from __future__ import annotations

import contextlib
import os
import select
from pathlib import Path

from attrs import evolve, frozen

from lab.console.index import RecordingMeta
from lab.console.serialport import SerialPort, close_port, is_pty, line_errors, open_port, set_speed
from lab.errors import BoardlabError, LabTransientError
from lab.host.clock import utc_now
from lab.host.scheduling import Scheduling

DEFAULT_SPEED_BD = 115200  # of a port that nobody has opened yet, where nobody says
_CONFIGURED = "; latency as configured"
OUTGOING_BYTES = 65536  # what the port has not taken yet; six seconds at 115200 Bd


@frozen(str=False)
class PortRequest:
    """A port as a client asks for it; None: as it is open, or as the port itself says."""

    name: str
    device: Path
    speed_bd: int | None = None
    adapter_latency_ns: int | None = None
    fifo_bytes: int | None = None
    board: str = ""

    def __str__(self) -> str:
        """For messages."""
        settings = [
            *([] if self.speed_bd is None else [f"{self.speed_bd} Bd"]),
            *([] if self.adapter_latency_ns is None else [f"adapter latency {self.adapter_latency_ns} ns"]),
            *([] if self.fifo_bytes is None else [f"FIFO {self.fifo_bytes} bytes"]),
        ]
        return " at ".join([f"{self.name!r}: {self.device}", *([", ".join(settings)] if settings else [])])

    @property
    def states(self) -> bool:
        """Whether it says how the port is to be; who only looks says nothing."""
        return (self.speed_bd, self.adapter_latency_ns, self.fifo_bytes) != (None, None, None)

    @property
    def opening_speed_bd(self) -> int:
        """The speed to open the port with."""
        return DEFAULT_SPEED_BD if self.speed_bd is None else self.speed_bd

    def fits(self, meta: RecordingMeta) -> bool:
        """Whether a port that is open like this is what is asked for."""
        return (
            self.speed_bd in {None, meta.speed_bd}
            and self.adapter_latency_ns in {None, meta.adapter_latency_ns}
            and self.fifo_bytes in {None, meta.fifo_bytes}
        )

    def changed(self, meta: RecordingMeta) -> RecordingMeta:
        """What the recording has to say of an open port that is to be as asked for."""
        is_configured = self.adapter_latency_ns is not None and not meta.adapter.endswith(_CONFIGURED)
        return evolve(
            meta,
            speed_bd=meta.speed_bd if self.speed_bd is None else self.speed_bd,
            adapter_latency_ns=meta.adapter_latency_ns if self.adapter_latency_ns is None else self.adapter_latency_ns,
            fifo_bytes=meta.fifo_bytes if self.fifo_bytes is None else self.fifo_bytes,
            adapter=f"{meta.adapter}{_CONFIGURED}" if is_configured else meta.adapter,
        )

    def meta(self, serial: SerialPort, scheduling: Scheduling, boot_id: str) -> RecordingMeta:
        """What the recording has to say, now that the port is open."""
        is_configured = self.adapter_latency_ns is not None
        return RecordingMeta(
            name=self.name,
            device=str(self.device),
            speed_bd=self.opening_speed_bd,
            adapter_latency_ns=serial.adapter_latency_ns
            if self.adapter_latency_ns is None
            else self.adapter_latency_ns,
            fifo_bytes=serial.fifo_bytes if self.fifo_bytes is None else self.fifo_bytes,
            scheduling_ns=scheduling.allowance_ns,
            low_latency=serial.low_latency,
            adapter=f"{serial.adapter}{_CONFIGURED}" if is_configured else serial.adapter,
            lock=serial.lock,
            scheduling=scheduling.text,
            boot_id=boot_id,
            started=utc_now().isoformat(),
            pty=is_pty(self.device),
        )


class SerialLine:
    """An open serial port.

    Attributes:
        fd: -1 while the port is lost.
        state: "open", or since when and why it is lost.
    """

    def __init__(self, request: PortRequest, serial: SerialPort, epoll: select.epoll) -> None:
        """Takes the open device over and registers it with `epoll`."""
        self._request = request
        self._epoll = epoll
        self._outgoing = bytearray()
        self.fd = -1
        self.state = ""
        self._take(serial)

    def is_device(self, path: Path) -> bool:
        """Whether this path leads to the open device; of a lost one only its own path does, for numbers are reused."""
        if self.fd < 0:
            return path == self._request.device
        try:
            return path.stat().st_rdev == os.fstat(self.fd).st_rdev
        except OSError:
            return False

    def change(self, speed_bd: int) -> None:
        """Listen at another speed, now or when a lost port is back.

        Raises:
            BoardlabError: the driver refuses.
        """
        if self.fd >= 0:
            set_speed(self.fd, self._request.device, speed_bd)
        self._request = evolve(self._request, speed_bd=speed_bd)

    def write(self, data: bytes) -> None:
        """Queue bytes for the port.

        Raises:
            LabTransientError: the port is lost, or does not take what it was given before.
        """
        name = self._request.name
        if self.fd < 0:
            raise LabTransientError(f"{name}: {self.state}; plug it in again", failure="port_lost")
        if len(self._outgoing) + len(data) > OUTGOING_BYTES:
            raise LabTransientError(
                f"{name}: the port has not taken {len(self._outgoing)} bytes that it was given before; "
                "check the adapter and its cable",
                failure="port_stuck",
            )
        self._outgoing += data
        self.flush()

    def flush(self) -> None:
        """Give the port what it takes without blocking."""
        with contextlib.suppress(OSError):  # full, or gone, which the next read notices
            del self._outgoing[: os.write(self.fd, self._outgoing)]
        self._epoll.modify(self.fd, select.EPOLLIN | (select.EPOLLOUT if self._outgoing else 0))

    def lose(self, code: int) -> None:
        """The port failed with this errno: let go of it."""
        self.state = f"lost since {utc_now().isoformat(timespec='seconds')}: {os.strerror(code)}"
        self.close()

    def try_reopen(self) -> bool:
        """Open a lost port if it is there again. Returns: whether it is open now."""
        if not self._may_be_back():
            return False
        try:
            self._take(open_port(self._request.device, self._request.opening_speed_bd))
        except BoardlabError:  # not ready yet, or somebody else was faster
            return False
        return True

    def errors(self) -> dict[str, int] | None:
        """The kernel's counters of lost and damaged characters; None where there are none."""
        return None if self.fd < 0 else line_errors(self.fd)

    def close(self) -> None:
        """Give the port back. What it did not take is lost."""
        if self.fd >= 0:
            self._epoll.unregister(self.fd)
            close_port(self.fd)
        self.fd = -1
        self._outgoing.clear()

    def _take(self, serial: SerialPort) -> None:
        self.fd = serial.fd
        self.state = "open"
        self._link = self._link_identity()
        self._epoll.register(self.fd, select.EPOLLIN)

    def _may_be_back(self) -> bool:
        """A pty's number may have gone to another program: only a link that was made anew says that it is ours."""
        device = self._request.device
        if not device.exists():
            return False
        return not is_pty(device) or (device.is_symlink() and self._link_identity() != self._link)

    def _link_identity(self) -> tuple[int, int] | None:
        try:
            status = self._request.device.lstat()
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns
