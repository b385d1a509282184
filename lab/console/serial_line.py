"""The serial device of a port: open, write, lose and reopen it."""

from __future__ import annotations

import contextlib
import os
import select
from pathlib import Path

from attrs import evolve, frozen

from lab.console.recording import RecordingMeta
from lab.console.serial_port import SerialPort, close_port, is_pty, line_errors, open_port, set_speed
from lab.errors import BoardlabError, LabTransientError
from lab.host import devices
from lab.host.clock import utc_now
from lab.host.scheduling import Scheduling

DEFAULT_SPEED_BD = 115200  # of a port that is opened without a speed
_CONFIGURED = "; latency as configured"
OUTGOING_BYTES = 65536  # unsent bytes; six seconds at 115200 Bd


@frozen(str=False)
class PortRequest:
    """A client's request for a port; None: keep or use the default.

    Attributes:
        device: its path on the server's host.
        name: of the port; empty: the server makes one from the path.
    """

    device: Path
    speed_bd: int | None = None
    adapter_latency_ns: int | None = None
    fifo_bytes: int | None = None
    board: str = ""
    name: str = ""

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
        """True if it states settings; a mere reader states none."""
        return (self.speed_bd, self.adapter_latency_ns, self.fifo_bytes) != (None, None, None)

    @property
    def opening_speed_bd(self) -> int:
        """The speed to open the port with."""
        return DEFAULT_SPEED_BD if self.speed_bd is None else self.speed_bd

    def fits(self, meta: RecordingMeta) -> bool:
        """True if an open port has the requested settings."""
        return (
            self.speed_bd in {None, meta.speed_bd}
            and self.adapter_latency_ns in {None, meta.adapter_latency_ns}
            and self.fifo_bytes in {None, meta.fifo_bytes}
        )

    def apply_to(self, meta: RecordingMeta) -> RecordingMeta:
        """Return the metadata of an open port after this request."""
        is_configured = self.adapter_latency_ns is not None and not meta.adapter.endswith(_CONFIGURED)
        return evolve(
            meta,
            speed_bd=meta.speed_bd if self.speed_bd is None else self.speed_bd,
            adapter_latency_ns=meta.adapter_latency_ns if self.adapter_latency_ns is None else self.adapter_latency_ns,
            fifo_bytes=meta.fifo_bytes if self.fifo_bytes is None else self.fifo_bytes,
            adapter=f"{meta.adapter}{_CONFIGURED}" if is_configured else meta.adapter,
        )

    def meta(self, serial: SerialPort, scheduling: Scheduling, boot_id: str) -> RecordingMeta:
        """Return the metadata of the port just opened."""
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
        device: the path that leads to it, another one after a reset of its hub.
        identity: of the adapter; None: sysfs has none, as of a pty.
        state: "open", or since when and why it is lost.
    """

    def __init__(
        self, request: PortRequest, serial: SerialPort, epoll: select.epoll, sysfs: Path = devices.SYSFS
    ) -> None:
        """Takes the open device over and registers it with `epoll`."""
        self._request = request
        self._epoll = epoll
        self._sysfs = sysfs
        self._outgoing = bytearray()
        self.fd = -1
        self.device = request.device
        self.identity = devices.identify(serial.fd, sysfs)
        self.state = self._loss = ""
        self._take(serial)

    def is_device(self, path: Path) -> bool:
        """True if this path leads to the open device.

        To a lost one leads the path of the same adapter; a path where nothing is, or a pty, has only its name.
        """
        if self.fd < 0:
            identity = devices.identify(path, self._sysfs)
            return path == self._request.device if identity is None else identity == self.identity
        try:
            return path.stat().st_rdev == os.fstat(self.fd).st_rdev
        except OSError:
            return False

    def change(self, speed_bd: int) -> None:
        """Set another speed, now or when a lost port is back.

        Raises:
            BoardlabError: the driver refuses.
        """
        if self.fd >= 0:
            set_speed(self.fd, self.device, speed_bd)
        self._request = evolve(self._request, speed_bd=speed_bd)

    def write(self, data: bytes) -> None:
        """Queue bytes for the port.

        Raises:
            LabTransientError: the port is lost, or does not take its queued bytes.
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
        """Write queued bytes without blocking."""
        with contextlib.suppress(OSError):  # full, or gone, which the next read notices
            del self._outgoing[: os.write(self.fd, self._outgoing)]
        self._epoll.modify(self.fd, select.EPOLLIN | (select.EPOLLOUT if self._outgoing else 0))

    def lose(self, code: int) -> None:
        """The port failed with this errno: let go of it."""
        self.state = self._loss = f"lost since {utc_now().isoformat(timespec='seconds')}: {os.strerror(code)}"
        self.close()

    def try_reopen(self) -> bool:
        """Reopen a lost port if its adapter is back, under any name; True if it is open."""
        device = self._find_device()
        if device is None:
            return False
        try:
            serial = open_port(device, self._request.opening_speed_bd)
        except BoardlabError:  # not ready yet, or somebody else was faster
            return False
        if devices.identify(serial.fd, self._sysfs) != self.identity:  # replaced since it was looked at
            close_port(serial.fd)
            return False
        self.device = device
        self._take(serial)
        return True

    def errors(self) -> dict[str, int] | None:
        """The kernel's counters of lost and damaged characters; None: no counters."""
        return None if self.fd < 0 else line_errors(self.fd)

    def close(self) -> None:
        """Close the port; discard its queued bytes."""
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

    def _find_device(self) -> Path | None:
        """The path of the lost device; None: it is not back, as far as can be proved.

        A pty's number may belong to another program now: only a new link proves ours.
        """
        device = self._request.device
        if self.identity is None:
            is_new = is_pty(device) and device.is_symlink() and self._link_identity() != self._link
            return device if is_new else None
        identity = devices.identify(device, self._sysfs)
        if identity == self.identity:
            return device
        self.state = self._loss if identity is None else f"{self._loss}; {device} is another device now: {identity}"
        return devices.find_node(self.identity, self._sysfs)

    def _link_identity(self) -> tuple[int, int] | None:
        try:
            status = self._request.device.lstat()
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns
