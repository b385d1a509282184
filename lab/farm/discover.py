"""USB devices of this host and proposed lines for those unnamed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import pyudev
from attrs import frozen

from lab import yamlfile
from lab.env import envfile
from lab.farm.config import Farm

Kind = Literal["adapter", "sdmux", "hub"]
_HUB: Final = "09"  # bDeviceClass (USB 2.0, 11.23.1)
# Vendor and model: Linux Automation's USB-SD-Mux, as labgrid's USBSDMuxDevice knows it.
_SDMUX: Final = ("0424", "4041")
RULES: Final = """\
# boardlab: USB serial adapters of boards. To /etc/udev/rules.d/99-boardlab.rules, then:
#   udevadm control --reload && udevadm trigger
# An FTDI adapter delivers its bytes after 1 ms instead of 16, which bounds the lateness of a stamp.
ACTION=="add", SUBSYSTEM=="usb-serial", DRIVER=="ftdi_sio", ATTR{latency_timer}="1"
# ModemManager does not type at boards.
ACTION=="add|change", SUBSYSTEM=="tty", ENV{ID_BUS}=="usb", ENV{ID_MM_PORT_IGNORE}="1"
# The group of serial ports may switch an SD multiplexer.
SUBSYSTEM=="scsi_generic", KERNEL=="sg[0-9]*", ATTRS{idVendor}=="0424", ATTRS{idProduct}=="4041", \
GROUP="dialout", MODE="0660"
"""


@frozen
class Port:
    """A serial port of an adapter.

    Attributes:
        interface: ID_USB_INTERFACE_NUM, e.g. "00".
        node: e.g. /dev/ttyUSB0.
    """

    interface: str
    node: str


@frozen
class DetectedDevice:
    """A USB device that is of use to a lab.

    Attributes:
        id_path: of the socket that it is in.
        serial: its number; empty: it has none.
    """

    kind: Kind
    id_path: str
    title: str
    serial: str
    ports: tuple[Port, ...] = ()


def detect_devices(context: Any = None) -> list[DetectedDevice]:
    """List the USB devices by socket.

    Args:
        context: of pyudev, or an equivalent.
    """
    udev = pyudev.Context() if context is None else context
    ports: dict[str, list[Port]] = {}
    for tty in udev.list_devices(subsystem="tty", ID_BUS="usb"):
        device = tty.find_parent("usb", "usb_device")
        if device is not None and tty.device_node:
            port = Port(str(tty.properties.get("ID_USB_INTERFACE_NUM", "")), str(tty.device_node))
            ports.setdefault(str(device.device_path), []).append(port)
    devices = []
    for device in udev.list_devices(subsystem="usb", DEVTYPE="usb_device"):
        own = sorted(ports.get(str(device.device_path), ()), key=lambda port: (port.interface, port.node))
        kind = _kind(device, bool(own))
        properties = device.properties
        if kind is not None and properties.get("ID_PATH"):
            title = " ".join(
                str(properties.get(key, "")).replace("_", " ") for key in ("ID_VENDOR", "ID_MODEL")
            ).strip()
            serial = str(properties.get("ID_SERIAL_SHORT", ""))
            devices.append(DetectedDevice(kind, str(properties["ID_PATH"]), title, serial, tuple(own)))
    return sorted(devices, key=lambda device: device.id_path)


def find_names(id_path: str, envs: Iterable[Path], farm: Farm | None) -> list[str]:
    """Environments, exports and `usb` entries that name a socket.

    Raises:
        ConfigurationError: a file cannot be read.
    """
    # A socket of a hub begins with the hub's own path.
    whole = re.compile(rf"(?<![\w.:-]){re.escape(id_path)}(?![\w.:-])")
    places = [path.name for path in envs if whole.search(yamlfile.text_of(path))]
    return places + [f"farm.yaml, {entry.name}" for entry in (farm.usb if farm else ()) if entry.id_path == id_path]


def environments(folder: Path) -> list[Path]:
    """Environments of a lab's folder."""
    return sorted(path for path in (folder / envfile.FOLDER).glob("*") if path.suffix in envfile.SUFFIXES)


def export_files(farm: Farm | None, folder: Path) -> list[Path]:
    """The file of this host's exports, if farm.yaml names an existing one."""
    path = folder / farm.exports if farm and farm.exports else None
    return [path] if path is not None and path.is_file() else []


def propose_lines(
    devices: Sequence[DetectedDevice], names: Mapping[str, Sequence[str]], exports: str = ""
) -> Iterator[str]:
    """Propose configuration lines for devices that no file names.

    Args:
        names: result of `find_names` by ID_PATH.
        exports: file of this host's exports; empty: boards are in environments.
    """
    new = [device for device in devices if not names.get(device.id_path)]
    if new:
        yield "usb:    # farm.yaml"
        for device in new:
            yield f"  - {{name: NAME, id_path: '{device.id_path}', kind: {device.kind}}}    # {device.title}"
    if exports:
        yield from _groups([device for device in new if device.kind != "hub"], exports)
        return
    for device in new:
        if device.kind == "adapter":
            yield f"# resources of a board's environment: {device.title}, serial number {device.serial or 'none'}"
            for port in device.ports:
                yield "- USBSerialPort:"
                yield "    name: NAME"
                yield (
                    f"    match: {{'@ID_PATH': '{device.id_path}', ID_USB_INTERFACE_NUM: '{port.interface}'}}    # "
                    f"{port.node} now"
                )
                yield "    speed: 115200"
        elif device.kind == "sdmux":
            yield f"# resource of a board's environment: {device.title}"
            yield "- USBSDMuxDevice:"
            yield f"    match: {{'@ID_PATH': '{device.id_path}'}}"


def _groups(devices: Iterable[DetectedDevice], exports: str) -> Iterator[str]:
    """Propose groups of labgrid's exporter, a Jinja template (## comments)."""
    for device in devices:
        yield (
            f"## group of {exports}: {device.title}, serial number {device.serial or 'none'}; a place's match is "
            "HOST/NAME/*"
        )
        yield "NAME:"
        for port in device.ports:
            yield f"  console{port.interface if len(device.ports) > 1 else ''}:"
            yield "    cls: USBSerialPort"
            yield (
                f"    match: {{'@ID_PATH': '{device.id_path}', ID_USB_INTERFACE_NUM: '{port.interface}'}}    # "
                f"{port.node} now"
            )
            yield "    speed: 115200"
        if device.kind == "sdmux":
            yield "  sdmux:"
            yield "    cls: USBSDMuxDevice"
            yield f"    match: {{'@ID_PATH': '{device.id_path}'}}"


def _kind(device: Any, has_ports: bool) -> Kind | None:
    properties = device.properties
    if (properties.get("ID_VENDOR_ID"), properties.get("ID_MODEL_ID")) == _SDMUX:
        return "sdmux"
    if has_ports:
        return "adapter"
    attributes = device.attributes
    is_root = attributes.get("devpath") in {b"0", None}  # a host's own hub
    return "hub" if attributes.get("bDeviceClass") == _HUB.encode() and not is_root else None
