"""Identity of plugged devices, from sysfs.

A name in /dev belongs to whatever was probed at that moment: after a reset of a hub, ttyUSB0 may be another adapter.
A device is the same if it has the same ids and serial number, in the same USB socket, with the same interface.
sysfs is asked rather than udev's database, which lags behind the kernel.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final, Self

from attrs import frozen

SYSFS: Final = Path("/sys")
DEV: Final = Path("/dev")
# A controller, its root hub, the ports of the hubs to a device, and what the device has, e.g.
# /devices/pci0000:00/0000:00:04.0/usb1/1-2/1-2.3/1-2.3:1.0/ttyUSB0/tty/ttyUSB0.
_USB: Final = re.compile(r"(?P<controller>.*)/usb\d+(?P<chain>(?:/\d+-[\d.]+(?=/|$))+)(?P<rest>(?:/.*)?)")
# Numbers in the order of probing: buses of USB, of SCSI and of I2C, and names that end with one.
_VOLATILE: Final = (
    (re.compile(r"\d+-[\d.]+(:\d+\.\d+)"), r"\1"),
    (re.compile(r"(?:host|target)\d.*"), ""),
    (re.compile(r"\d+(:\d+:\d+:\d+)"), r"\1"),
    (re.compile(r"\d+-([0-9a-f]{4})"), r"\1"),
    (re.compile(r"(.*\D)\d+"), r"\1"),
)


@frozen(str=False)
class DeviceIdentity:
    """Identity of a device, whatever its name in /dev is.

    Attributes:
        subsystem: of its node, e.g. "tty".
        controller: of its USB; without USB its own path in sysfs.
        ports: of the hubs to its USB socket, e.g. "1.3".
        unit: its part of the adapter, e.g. the interface.
        ids: vendor and product.
        serial: empty, it has none.
    """

    subsystem: str
    controller: str
    ports: str = ""
    unit: str = ""
    ids: str = ""
    serial: str = ""

    def __str__(self) -> str:
        """For messages and provenance."""
        if not self.ports:
            return self.controller
        serial = f"serial number {self.serial}" if self.serial else "without a serial number"
        return f"USB {self.ids} {serial}, socket {self.ports} of {self.controller}, interface {self.unit.lstrip(':')}"

    @classmethod
    def of_path(cls, path: str, sysfs: Path = SYSFS) -> Self:
        """Identity of a device by its path in sysfs, from /devices on."""
        subsystem, controller, ports, unit, folder = _parse(path)
        if not ports:
            return cls(subsystem, controller)
        device = sysfs / folder.lstrip("/")
        port = _read_text(sysfs / path.lstrip("/") / ".." / ".." / "port_number")  # of usb-serial
        return cls(
            subsystem,
            controller,
            ports,
            f"{unit} port {port}" if port else unit,
            f"{_read_text(device / 'idVendor')}:{_read_text(device / 'idProduct')}",
            _read_text(device / "serial"),
        )


def sysfs_path(node: Path | int, sysfs: Path = SYSFS) -> str:
    """The path of a node, or open device, in sysfs from /devices on; empty: it has none."""
    try:
        status = node.stat() if isinstance(node, Path) else os.fstat(node)
    except OSError:
        return ""
    kind = "block" if stat.S_ISBLK(status.st_mode) else "char"
    number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    path = (sysfs / "dev" / kind / number).resolve()
    return str(path).removeprefix(str(sysfs.resolve())) if path.is_dir() else ""


def identify(node: Path | int, sysfs: Path = SYSFS) -> DeviceIdentity | None:
    """Identity of the device behind a node, or an open device; None: sysfs has none, as of a pty."""
    path = sysfs_path(node, sysfs)
    return DeviceIdentity.of_path(path, sysfs) if path else None


def find_node(identity: DeviceIdentity, sysfs: Path = SYSFS) -> Path | None:
    """Find the node that a device has now; None: it is not there."""
    socket, folder = (identity.subsystem, identity.controller, identity.ports), sysfs / "class" / identity.subsystem
    try:
        names = os.listdir(folder)  # noqa: PTH208 - the console server asks this between two stamps
    except OSError:
        return None
    for name in names:
        try:
            link = os.readlink(f"{folder}/{name}")  # noqa: PTH115
        except OSError:
            continue
        path = link[link.find("/devices/") :]
        if _parse(path)[:3] == socket and DeviceIdentity.of_path(path, sysfs) == identity:
            for line in _read_text((sysfs / path.lstrip("/")) / "uevent").splitlines():
                if line.startswith("DEVNAME="):
                    return DEV / line.removeprefix("DEVNAME=")
            return None
    return None


def belongs_to(node: Path, path: str, sysfs: Path = SYSFS) -> bool:
    """True if a node is that of the device at this path in sysfs, or of a part of it."""
    return f"{sysfs_path(node, sysfs)}/".startswith(f"{path}/")


def _parse(path: str) -> tuple[str, str, str, str, str]:
    """Subsystem, controller, ports, unit, and the USB device's folder; without USB only the first two."""
    parts = path.rsplit("/", 2)
    subsystem = parts[1] if len(parts) > 2 else ""
    match = _USB.fullmatch(path)
    if match is None:
        return subsystem, path, "", "", ""
    ports = match["chain"].rpartition("/")[2].partition("-")[2]
    unit = [_lasting(part) for part in match["rest"].split("/")[1:-2]]
    controller = match["controller"].removeprefix("/devices/")
    return subsystem, controller, ports, "/".join(filter(None, unit)), path[: match.end("chain")]


def _lasting(part: str) -> str:
    for pattern, lasting in _VOLATILE:
        if match := pattern.fullmatch(part):
            return match.expand(lasting)
    return part


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
