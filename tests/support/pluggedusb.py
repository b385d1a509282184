"""A sysfs of USB devices that can be pulled and plugged in again; a device's node may be a pty."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from attrs import define, frozen

CONTROLLER = "devices/pci0000:00/0000:00:04.0"


@frozen
class UsbDevice:
    """A device as its descriptor and its socket tell it.

    Attributes:
        serial: empty: it has none. ports: of the hubs to its socket, e.g. "1.3". below: of its interface, e.g. "ttyUSB{n}/tty".
    """

    serial: str
    ports: str
    ids: str = "0403:6001"
    interface: str = "00"
    below: str = "ttyUSB{n}/tty"


@define
class PluggedUsb:
    """The tree below `sysfs`; `bus` counts the controller's resets."""

    sysfs: Path
    bus: int = 1

    def plug(self, device: UsbDevice, node: Path, name: str) -> Path:
        """Plug a device in; returns the folder of its node, which the kernel calls `name`."""
        vendor, product = device.ids.split(":")
        parts = device.ports.split(".")
        chain = [f"{self.bus}-{'.'.join(parts[: count + 1])}" for count in range(len(parts))]
        usb = self.sysfs / CONTROLLER / f"usb{self.bus}" / "/".join(chain)
        number = "".join(filter(str.isdigit, name))
        folder = usb / f"{chain[-1]}:1.{int(device.interface)}" / device.below.format(n=number) / name
        folder.mkdir(parents=True)
        for file, text in {"idVendor": vendor, "idProduct": product, "serial": device.serial}.items():
            if text:
                (usb / file).write_text(f"{text}\n")
        status = node.stat()
        kind = "block" if node.is_block_device() else "char"
        (folder / "uevent").write_text(f"DEVNAME={node.relative_to('/dev')}\n")
        links = {
            self.sysfs / "dev" / kind / f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}": folder,
            self.sysfs / "class" / folder.parent.name / name: folder,
        }
        for link, target in links.items():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(target, link.parent))
        return folder

    def reset(self) -> None:
        """Every device vanishes, and those that come back are on a bus of another number."""
        for folder in ("devices", "dev", "class"):
            shutil.rmtree(self.sysfs / folder, ignore_errors=True)
        self.bus += 1
