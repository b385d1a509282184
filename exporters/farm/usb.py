"""USB adapters, SD-muxes and hubs, found through udev by where they are plugged in (ID_PATH)."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import pyudev
from attrs import define, field, frozen
from prometheus_client import Metric

from exporters.farm.build import counter, gauge


@frozen
class UsbDevice:
    """A device that shall be there.

    Attributes:
        kind: "adapter", "sdmux", "hub" …; id_path: as `udevadm info` has it.
    """

    name: str
    kind: str
    id_path: str


class Udev(Protocol):
    """What is asked of udev."""

    def present(self, id_path: str) -> bool:
        """Whether a device is plugged in there."""
        ...

    def added(self) -> Sequence[str]:
        """The ID_PATH of devices that were plugged in since the last question."""
        ...


class RealUdev:
    """udev of this host."""

    def __init__(self) -> None:
        self._context = pyudev.Context()
        self._monitor = pyudev.Monitor.from_netlink(
            self._context
        )  # of udev's own events: the kernel's have no ID_PATH
        self._monitor.filter_by("usb", "usb_device")
        self._monitor.start()

    def present(self, id_path: str) -> bool:
        """Whether a device is plugged in there."""
        return any(True for _ in self._context.list_devices(ID_PATH=id_path))

    def added(self) -> Sequence[str]:
        """The ID_PATH of devices that were plugged in since the last question."""
        found = []
        while (device := self._monitor.poll(timeout=0)) is not None:
            with contextlib.suppress(KeyError):
                if device.action == "add":
                    found.append(str(device.properties["ID_PATH"]))
        return found


@define
class Usb:
    """The devices that shall be there."""

    devices: Sequence[UsbDevice]
    udev: Udev
    _added: Counter[str] = field(factory=Counter, init=False)

    def read(self) -> list[Metric]:
        """Whether they are, and how often they were plugged in."""
        known = {device.id_path for device in self.devices}
        self._added.update(id_path for id_path in self.udev.added() if id_path in known)
        labels = ["device", "kind", "id_path"]
        return [
            gauge(
                "boardlab_usb_device_present",
                "Whether the device is plugged in where it shall be.",
                labels,
                [((d.name, d.kind, d.id_path), float(self.udev.present(d.id_path))) for d in self.devices],
            ),
            counter(
                "boardlab_usb_device_enumerations",
                "How often the device was plugged in, or came back, since the exporter started.",
                labels,
                [((d.name, d.kind, d.id_path), self._added[d.id_path]) for d in self.devices],
            ),
        ]
