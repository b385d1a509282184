"""Opening a serial port: raw, locked, low latency."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import struct
import termios
from pathlib import Path

from attrs import frozen

from lab.errors import BoardlabError, ConfigurationError, LabStableError

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
        raise _open_error(device, error) from error
    try:
        lock = _lock(fd)
        _set_raw(fd, speed)
        _check_speed(fd, device, speed_bd)
        low_latency = _set_low_latency(fd)
        entry = sysfs / device.resolve().name
        adapter, latency_ns, fifo_bytes = _adapter(entry)
        adapter += _usb_of(entry)
    except LabStableError:
        close_port(fd)
        raise
    except (OSError, termios.error) as error:  # termios.error has the same arguments, but is none
        os.close(fd)
        raise _open_error(device, OSError(*error.args)) from error
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
        raise _open_error(device, OSError(*error.args)) from error


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


def _usb_of(entry: Path) -> str:
    """USB ids, release and product of a port's device; empty: none.

    The firmware's version is in the release (bcdDevice) of some adapters, in the product's text of others, in neither
    of many.
    """
    place = (entry / "device").resolve()
    for folder in (place, *place.parents[:4]):
        ids = [_read_text(folder / name) for name in ("idVendor", "idProduct", "bcdDevice")]
        if all(ids):
            product = _read_text(folder / "product")
            return ", USB {}:{}, release {}".format(*ids) + (f", {product}" if product else "")
    return ""


def _adapter(entry: Path) -> tuple[str, int, int]:
    """Text, hold time (ns) and FIFO of the UART (bytes) of an adapter."""
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


def _open_error(device: Path, error: OSError) -> BoardlabError:
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
