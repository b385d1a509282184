"""The serial device of a port: open, write, lose and reopen it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import select
import struct
import termios
from pathlib import Path

from attrs import evolve, frozen

from lab.console.recording import RecordingMeta
from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError
from lab.host import devices
from lab.host.clock import utc_now
from lab.host.scheduling import Scheduling

DEFAULT_SPEED_BD = 115200  # of a port that is opened without a speed
_CONFIGURED = "; latency as configured"
OUTGOING_BYTES = 65536  # unsent bytes; six seconds at 115200 Bd


@frozen(str=False)
class PortRequest:
    """A client's request for a port; None: keep or use the default."""

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

    def changed(self, meta: RecordingMeta) -> RecordingMeta:
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


# --- Opening a port: raw, locked, low latency ---


SYSFS_TTY = Path("/sys/class/tty")
_TIOCGEXCL = 0x80045440  # <asm-generic/ioctls.h>; not in the termios module
_TIOCGICOUNT = 0x545D
_TCGETS2 = 0x802C542A
_TERMIOS2_BYTES = 44  # struct termios2, <asm-generic/termbits.h>: four flags, c_line, c_cc[19], c_ispeed, c_ospeed
_OUTPUT_SPEED = struct.Struct("@40xI")
_SPEED_TOLERANCE = 0.02  # as the kernel's for a divisor that is near enough (tty_termios_encode_baud_rate)
_ICOUNTER = struct.Struct("@20i")  # struct serial_icounter_struct, <linux/serial.h>: 11 counters, 9 reserved
_SERIAL_BYTES = 128  # room for struct serial_struct, <linux/serial.h>, on any architecture
_SERIAL_FLAGS = struct.Struct("@16xi")  # its member flags, after four integers
_ASYNC_LOW_LATENCY = 1 << 13  # <linux/tty_flags.h>
_UNIX98_SLAVE_MAJORS = range(136, 144)  # Documentation/admin-guide/devices.txt
_USB_FRAME_NS = 1_000_000  # a full-speed adapter is asked once per frame (USB 2.0, 5.3.3)


@frozen
class SerialPort:
    """An open port and the settings it accepted.

    Attributes:
        low_latency, adapter, lock: as text, for the recording.
        adapter_latency_ns: maximum hold time of a byte in the adapter.
        fifo_bytes: of the receiving UART; 1: none, or the adapter's latency covers it.
    """

    fd: int
    low_latency: str
    adapter: str
    adapter_latency_ns: int
    fifo_bytes: int
    lock: str


def open_port(device: Path, speed_bd: int, sysfs: Path = SYSFS_TTY) -> SerialPort:
    """Open the port exclusively and without blocking.

    Raises:
        LabStableError: missing, in use, not permitted, or the driver refuses, or takes another speed; or a link left
            behind by a pty that is gone.
        ConfigurationError: not a serial port, or a speed that termios(3) does not have.
    """
    speed = speed_of(device, speed_bd)
    require_own_pty(device)
    try:
        fd = os.open(device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(device, error) from error
    try:
        lock = _lock(fd)
        _set_raw(fd, speed)
        _check_speed(fd, device, speed_bd)
        low_latency = _set_low_latency(fd)
        adapter, latency_ns, fifo_bytes = _describe(device.resolve().name, sysfs)
    except LabStableError:
        close_port(fd)
        raise
    except (OSError, termios.error) as error:  # termios.error has the same arguments, but is none
        os.close(fd)
        raise _refused(device, OSError(*error.args)) from error
    return SerialPort(fd, low_latency, adapter, latency_ns, fifo_bytes, lock)


def speed_of(device: Path, speed_bd: int) -> int:
    """The speed as termios(3) has it.

    Raises:
        ConfigurationError: it has no such speed.
    """
    speed = getattr(termios, f"B{speed_bd}", None) if speed_bd > 0 else None
    if speed is None:
        raise ConfigurationError(f"{device}: {speed_bd} Bd is not a speed of Linux' serial ports, such as 115200")
    return int(speed)


def set_speed(fd: int, device: Path, speed_bd: int) -> None:
    """Change an open port's speed; received bytes stay.

    Raises:
        ConfigurationError: termios(3) has no such speed.
        LabStableError: the driver refuses, or takes another speed; the port has its old one.
    """
    speed = speed_of(device, speed_bd)
    try:
        before = termios.tcgetattr(fd)
        _set_raw(fd, speed)
        try:
            _check_speed(fd, device, speed_bd)
        except LabStableError:
            termios.tcsetattr(fd, termios.TCSANOW, before)
            raise
    except (OSError, termios.error) as error:
        raise _refused(device, OSError(*error.args)) from error


def close_port(fd: int) -> None:
    """Close the port; a vanished port is no error."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCNXCL)
    with contextlib.suppress(OSError):
        os.close(fd)


def is_pty(device: Path) -> bool:
    """True if this is a pseudo terminal; its number may be reused."""
    try:
        return os.major(device.stat().st_rdev) in _UNIX98_SLAVE_MAJORS
    except OSError:
        return False


def require_own_pty(device: Path) -> None:
    """Refuse a link that is older than the pty behind it.

    Such a link outlived its pty, and the number belongs to another program.

    The kernel sets a pty's change time when it makes it; reading and writing move the other times only (devpts).

    Raises:
        LabStableError: the pty is newer than the link to it.
    """
    link = device
    with contextlib.suppress(OSError):  # no link, or nothing behind it
        while (target := link.parent / link.readlink()).is_symlink():
            link = target
        if is_pty(link) and link.lstat().st_ctime_ns < link.stat().st_ctime_ns:
            raise LabStableError(
                f"{device}: leads to a terminal that is newer than this link, so it is another program's; start again "
                "what made the link (a virtual board: `lab virtual up`), or make the link anew",
                failure="port_missing",
            )


def is_there(device: Path) -> bool:
    """True if the device exists and is not another program's pty."""
    try:
        require_own_pty(device)
        return device.exists()
    except (OSError, LabStableError):
        return False


def is_tty(device: Path) -> bool:
    """True if this is a terminal, e.g. a serial port."""
    return is_pty(device) or (SYSFS_TTY / device.resolve().name).exists()


def line_errors(fd: int) -> dict[str, int] | None:
    """Read the driver's error counters (TIOCGICOUNT); None: it has none."""
    try:
        counters = _ICOUNTER.unpack(fcntl.ioctl(fd, _TIOCGICOUNT, bytes(_ICOUNTER.size)))
    except OSError:
        return None
    return dict(zip(("frame", "overrun", "parity", "brk", "buf_overrun"), counters[6:11], strict=True))


def _lock(fd: int) -> str:
    """Lock out other programs.

    flock(2) stops programs that ask for it, as pyserial does with `exclusive`; TIOCEXCL stops all others but root. A
    pty gets no TIOCEXCL: a process with its slave open would preserve the flag after a crash of ours.
    """
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if os.major(os.fstat(fd).st_rdev) in _UNIX98_SLAVE_MAJORS:
        return "flock"
    if struct.unpack("@i", fcntl.ioctl(fd, _TIOCGEXCL, bytes(4)))[0]:
        raise OSError(errno.EBUSY, "exclusive")
    fcntl.ioctl(fd, termios.TIOCEXCL)
    return "flock, TIOCEXCL"


def _set_raw(fd: int, speed: int) -> None:
    """Set 8N1, raw, no flow control, VMIN 1 (then "" means hang-up)."""
    control = termios.CS8 | termios.CREAD | termios.CLOCAL
    characters = termios.tcgetattr(fd)[6]
    characters[termios.VMIN], characters[termios.VTIME] = 1, 0
    termios.tcsetattr(fd, termios.TCSANOW, [0, 0, control, 0, speed, speed, characters])


def _check_speed(fd: int, device: Path, speed_bd: int) -> None:
    """Read the speed back: a driver sets another one if its adapter lacks it, without an error.

    Raises:
        LabStableError: the speed is another one.
    """
    (driver_bd,) = _OUTPUT_SPEED.unpack_from(fcntl.ioctl(fd, _TCGETS2, bytes(_TERMIOS2_BYTES)))
    if abs(driver_bd - speed_bd) > speed_bd * _SPEED_TOLERANCE:
        raise LabStableError(
            f"{device}: its adapter has no {speed_bd} Bd, the driver set {driver_bd} Bd; take a speed that it has, or "
            "another adapter",
            failure="port",
        )


def _set_low_latency(fd: int) -> str:
    buffer = bytearray(_SERIAL_BYTES)
    try:
        fcntl.ioctl(fd, termios.TIOCGSERIAL, buffer)
        (flags,) = _SERIAL_FLAGS.unpack_from(buffer)
        struct.pack_into("@i", buffer, _SERIAL_FLAGS.size - 4, flags | _ASYNC_LOW_LATENCY)
        fcntl.ioctl(fd, termios.TIOCSSERIAL, buffer)
        fcntl.ioctl(fd, termios.TIOCGSERIAL, buffer)
    except OSError as error:
        reason = "not supported by this port" if error.errno in {errno.ENOTTY, errno.EINVAL} else error.strerror
        return str(reason)
    return "on" if _SERIAL_FLAGS.unpack_from(buffer)[0] & _ASYNC_LOW_LATENCY else "refused by the driver"


def _describe(tty: str, sysfs: Path) -> tuple[str, int, int]:
    """Describe the adapter.

    Returns: text with its USB device, hold time (ns), FIFO of its UART (bytes).
    """
    entry = sysfs / tty
    text, hold_ns, fifo_bytes = _held(entry)
    return text + _usb_of(entry), hold_ns, fifo_bytes


def _usb_of(entry: Path) -> str:
    """USB ids, release and product of a port's device; empty: none.

    The firmware's version is in the release (bcdDevice) of some adapters, in the product's text of others, in neither
    of many.
    """
    place = (entry / "device").resolve()
    for folder in (place, *place.parents[:4]):
        found = [_read_text(folder / name) for name in ("idVendor", "idProduct", "bcdDevice")]
        if all(found):
            product = _read_text(folder / "product")
            return ", USB {}:{}, release {}".format(*found) + (f", {product}" if product else "")
    return ""


def _held(entry: Path) -> tuple[str, int, int]:
    timer = _read_number(entry / "device" / "latency_timer")  # ms; ftdi_sio, after ASYNC_LOW_LATENCY was set
    if timer is not None:
        return f"FTDI, latency timer {timer} ms", timer * 1_000_000, 1
    bus = (entry / "device" / "subsystem").resolve().name
    if bus.startswith("usb"):
        return f"{bus}, no latency timer known; one USB frame assumed", _USB_FRAME_NS, 1
    fifo = _read_number(entry / "xmit_fifo_size")
    if fifo is not None:
        return f"UART on the host, FIFO of {fifo} bytes", 0, max(1, fifo)
    return "no adapter known", 0, 1


def _read_number(path: Path) -> int | None:
    try:
        return int(_read_text(path))
    except ValueError:
        return None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _refused(device: Path, error: OSError) -> BoardlabError:
    match error.errno:
        case errno.ENOENT | errno.ENXIO | errno.ENODEV:
            return LabStableError(
                f"{device}: no such port; plug the adapter in and power it (one that the board feeds is there only "
                "while the board is on), or correct the path",
                failure="port_missing",
            )
        case errno.EACCES | errno.EPERM:
            return LabStableError(f"{device}: not permitted; {_advice(device)}", failure="port_permission")
        case errno.EBUSY | errno.EWOULDBLOCK:
            return LabStableError(f"{device}: in use by another program", failure="port_in_use")
        case errno.ENOTTY | errno.EISDIR | errno.EINVAL:
            return ConfigurationError(f"{device}: not a serial port; name a tty, such as /dev/ttyUSB0")
    return LabStableError(f"{device}: cannot be opened: {error.strerror}", failure="port")


def _advice(device: Path) -> str:
    try:
        status = device.stat()
        group = grp.getgrgid(status.st_gid).gr_name
    except (OSError, KeyError):
        return "run as a user who may open it"
    if not status.st_mode & 0o060 or group == "root":
        return "its group may not open it either; install boardlab's udev rules, or chmod it"
    return f"it belongs to group {group}: run `sudo usermod -aG {group} $USER`, then log in again"
