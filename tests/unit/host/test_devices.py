"""Devices after a reset: the same one under another name, and another one under its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts
from support.pluggedusb import PluggedUsb, UsbDevice

from lab.host import devices
from lab.host.devices import DeviceIdentity

ADAPTER = UsbDevice("AB01", "1.3")
NODES = (Path("/dev/null"), Path("/dev/zero"))  # any two


def identity(device: UsbDevice, name: str, folder: Path) -> DeviceIdentity:
    usb = PluggedUsb(folder)
    usb.plug(device, NODES[0], name)
    found = devices.identify(NODES[0], folder)
    assert found is not None
    return found


def test_an_identity_says_what_a_person_can_look_for(tmp_path: Path) -> None:
    assert not missing_facts(
        str(identity(ADAPTER, "ttyUSB0", tmp_path)),
        "USB 0403:6001",
        "AB01",
        "socket 1.3",
        "0000:00:04.0",
        "1.0/ttyUSB",
    )


def test_a_device_is_found_under_its_new_name_on_a_bus_of_another_number(tmp_path: Path) -> None:
    usb = PluggedUsb(tmp_path)
    other = UsbDevice("AB02", "1.4")
    usb.plug(ADAPTER, NODES[0], "ttyUSB0")
    usb.plug(other, NODES[1], "ttyUSB1")
    before = devices.identify(NODES[0], tmp_path)
    assert before is not None
    usb.reset()
    assert devices.find_node(before, tmp_path) is None
    usb.plug(other, NODES[0], "ttyUSB0")
    assert devices.find_node(before, tmp_path) is None
    usb.plug(ADAPTER, NODES[1], "ttyUSB1")
    assert devices.find_node(before, tmp_path) == NODES[1]
    assert devices.identify(NODES[1], tmp_path) == before != devices.identify(NODES[0], tmp_path)


@pytest.mark.parametrize(
    "other",
    [
        evolve(ADAPTER, serial="AB02"),
        evolve(ADAPTER, serial=""),
        evolve(ADAPTER, ports="1.2"),
        evolve(ADAPTER, ports="3"),
        evolve(ADAPTER, ids="0403:6010"),
        evolve(ADAPTER, interface="01"),
    ],
)
def test_another_serial_number_socket_kind_or_interface_is_another_device(tmp_path: Path, other: UsbDevice) -> None:
    assert identity(ADAPTER, "ttyUSB0", tmp_path / "a") != identity(other, "ttyUSB0", tmp_path / "b")


@pytest.mark.parametrize(
    ("below", "name", "again"),
    [
        ("host6/target6:0:0/6:0:0:0/block", "sda", "host9/target9:0:0/9:0:0:0/block"),
        ("host6/target6:0:0/6:0:0:0/scsi_generic", "sg1", "host9/target9:0:0/9:0:0:0/scsi_generic"),
        ("i2c-7/i2c-dev", "i2c-7", "i2c-3/i2c-dev"),
        ("0003:10C4:EA90.0004/i2c-7/i2c-dev", "i2c-7", "0003:10C4:EA90.0011/i2c-9/i2c-dev"),
        ("i2c-7/7-0040/hwmon", "hwmon3", "i2c-12/12-0040/hwmon"),
    ],
)
def test_numbers_in_the_order_of_probing_are_no_part_of_an_identity(
    tmp_path: Path, below: str, name: str, again: str
) -> None:
    before = identity(evolve(ADAPTER, below=below), name, tmp_path / "a")
    after = identity(evolve(ADAPTER, below=again), "other9", tmp_path / "b")
    assert before == after


@pytest.mark.parametrize(
    ("below", "other"),
    [
        ("host6/target6:0:0/6:0:0:0/block", "host6/target6:0:0/6:0:0:1/block"),
        ("i2c-7/7-0040/hwmon", "i2c-7/7-0041/hwmon"),
    ],
)
def test_units_of_one_adapter_are_told_apart(tmp_path: Path, below: str, other: str) -> None:
    before = identity(evolve(ADAPTER, below=below), "a1", tmp_path / "a")
    assert before != identity(evolve(ADAPTER, below=other), "a1", tmp_path / "b")


def test_ports_of_one_interface_are_told_apart_by_their_number(tmp_path: Path) -> None:
    usb = PluggedUsb(tmp_path)
    for number, node in enumerate(NODES):
        folder = usb.plug(ADAPTER, node, f"ttyUSB{number}")
        (folder.parent.parent / "port_number").write_text(f"{number}\n")
    assert devices.identify(NODES[0], tmp_path) != devices.identify(NODES[1], tmp_path)


def test_a_device_without_usb_is_its_place_in_sysfs_and_a_pty_has_none(tmp_path: Path) -> None:
    assert DeviceIdentity.of_path("/devices/platform/serial8250/tty/ttyS0") == DeviceIdentity(
        "tty", "/devices/platform/serial8250/tty/ttyS0"
    )
    assert devices.identify(NODES[0], tmp_path) is None
    assert devices.identify(tmp_path / "missing") is None
