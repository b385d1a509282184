"""What is plugged into a host, against a udev that answers as pyudev does: who names it, and lines that labgrid takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import labgrid.resource.udev  # noqa: F401 - registers the classes that proposals name
import pytest
import pyudev
import yaml
from attrs import field, frozen
from labgrid.factory import target_factory
from labgrid.remote.config import ResourceConfig
from support.facts import missing_facts
from typer.testing import CliRunner

from lab.cli import farm as commands
from lab.farm import config, discover
from lab.places import exporter

SOCKET = "pci-0000:00:14.0-usb-0:2"


@frozen
class Device:
    """As pyudev's, as far as it is asked."""

    device_path: str
    properties: dict[str, str]
    attributes: dict[str, bytes] = field(factory=dict)
    device_node: str | None = None
    parent: Any = None

    def find_parent(self, _subsystem: str, _device_type: str) -> Any:
        return self.parent


@frozen
class Udev:
    """A host's devices, by subsystem."""

    usb: list[Device]
    tty: list[Device]

    def list_devices(self, subsystem: str, **wanted: str) -> list[Device]:
        devices = {"usb": self.usb, "tty": self.tty}[subsystem]
        return [d for d in devices if wanted.items() <= d.properties.items()]


def usb(path: str, *, vendor: str = "0403", model: str = "6011", serial: str = "", **attributes: bytes) -> Device:
    properties = {"DEVTYPE": "usb_device", "ID_PATH": path, "ID_VENDOR": "FTDI", "ID_MODEL": "FT4232H_Board"}
    properties |= {"ID_VENDOR_ID": vendor, "ID_MODEL_ID": model, **({"ID_SERIAL_SHORT": serial} if serial else {})}
    return Device(f"/devices/{path}", properties, {"bDeviceClass": b"00", "devpath": b"2", **attributes})


def tty(node: str, adapter: Device | None, interface: str = "00") -> Device:
    properties = {"ID_BUS": "usb", "ID_USB_INTERFACE_NUM": interface} if adapter else {}
    return Device(f"/devices/{node}", properties, device_node=node, parent=adapter)


@pytest.fixture
def udev(monkeypatch: pytest.MonkeyPatch) -> Udev:
    """A hub with an adapter of two ports and an SD multiplexer, and a keyboard; another adapter."""
    hub = usb(SOCKET, bDeviceClass=b"09")
    adapter, other = usb(f"{SOCKET}.1", serial="FT1"), usb(f"{SOCKET}.10", serial="FT2")
    mux = usb(f"{SOCKET}.2", vendor="0424", model="4041")
    root, keyboard = usb("pci-0000:00:14.0", bDeviceClass=b"09", devpath=b"0"), usb(f"{SOCKET}.3")
    ports = [tty("/dev/ttyUSB1", adapter, "01"), tty("/dev/ttyUSB0", adapter), tty("/dev/ttyUSB2", other)]
    found = Udev([mux, other, adapter, hub, root, keyboard], [*ports, tty("/dev/ttyS0", None)])
    monkeypatch.setattr(pyudev, "Context", lambda: found)
    return found


def test_adapters_multiplexers_and_hubs_are_found_and_nothing_else(udev: Udev) -> None:
    found = discover.detect_devices()
    assert [(device.kind, device.id_path.removeprefix(SOCKET)) for device in found] == [
        ("hub", ""),
        ("adapter", ".1"),
        ("adapter", ".10"),
        ("sdmux", ".2"),
    ]
    assert [(port.interface, port.node) for port in found[1].ports] == [("00", "/dev/ttyUSB0"), ("01", "/dev/ttyUSB1")]
    assert found[1].serial == "FT1"


def test_what_nobody_names_is_proposed_as_labgrid_and_farm_yaml_take_it(
    udev: Udev, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "one.yaml").write_text(f"match: {{'@ID_PATH': '{SOCKET}.10'}}\n")
    (tmp_path / "farm.yaml").write_text(
        f"directory: {tmp_path}\nusb: [{{name: left hub, id_path: '{SOCKET}', kind: hub}}]\n"
    )
    said = CliRunner().invoke(commands.app, ["discover"])
    assert said.exit_code == 0, said.exception
    table, _, lines = said.output.partition("To name the others")
    by = {line.split()[0]: line for line in table.splitlines() if line.startswith("pci-")}
    assert by[SOCKET].rstrip().endswith("farm.yaml, left hub")
    assert by[f"{SOCKET}.10"].rstrip().endswith("one.yaml")
    assert by[f"{SOCKET}.1"].rstrip().endswith("nobody"), "it only begins as the other does"
    yaml_text = lines.partition("\n\n")[2]
    usb_lines, resources = yaml_text.split("# resources", 1)
    (tmp_path / "new.yaml").write_text(usb_lines)
    assert [(entry.kind, entry.id_path) for entry in config.load(tmp_path / "new.yaml").usb] == [
        ("adapter", f"{SOCKET}.1"),
        ("sdmux", f"{SOCKET}.2"),
    ]
    for resource in yaml.safe_load(f"#{resources}"):
        ((kind, arguments),) = resource.items()
        target_factory.normalize_config({"resources": [{kind: arguments}]})
        target_factory.class_from_string(kind)
        assert arguments["match"]["@ID_PATH"].startswith(SOCKET)
    assert resources.count("USBSerialPort") == 2


def test_what_a_host_exports_names_its_adapters_and_new_ones_are_proposed_as_groups(
    udev: Udev, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exports.yaml").write_text(
        f"one:\n  USBSerialPort:\n    match: {{'@ID_PATH': '{SOCKET}.10'}}\n    speed: 115200\n"
    )
    text = f"directory: {tmp_path}\ncoordinator: '127.0.0.1:1'\nexports: exports.yaml\n"
    (tmp_path / "farm.yaml").write_text(text)
    table, _, lines = CliRunner().invoke(commands.app, ["discover"]).output.partition("To name the others")
    by = {line.split()[0]: line.rstrip() for line in table.splitlines() if line.startswith("pci-")}
    assert by[f"{SOCKET}.10"].endswith("exports.yaml")
    assert by[f"{SOCKET}.1"].endswith("nobody")
    groups = lines.partition("## group")[2]
    assert "## resource" not in lines, "a board of this host is in no environment's resources"
    assert "# resource" not in lines
    for number, text in enumerate(f"## group{groups}".split("## group")[1:]):
        path = tmp_path / f"{number}.yaml"
        path.write_text(f"## group{text}")
        exporter.check(path, {})
        (group,) = ResourceConfig(str(path), {}).data.values()
        for resource in group.values():
            target_factory.class_from_string(resource["cls"])
            assert resource["match"]["@ID_PATH"].startswith(SOCKET)
    assert number == 1, "the adapter and the SD multiplexer; a hub is no resource"
    assert groups.count("cls: USBSerialPort") == 2
    (tmp_path / "exports.yaml").unlink()
    assert not missing_facts(CliRunner().invoke(commands.app, ["discover"]).output, "exports.yaml", "no such file")


def test_the_devices_are_json_for_other_programs(udev: Udev, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "one.yaml").write_text(f"match: {{'@ID_PATH': '{SOCKET}.10'}}\n")
    devices = json.loads(CliRunner().invoke(commands.app, ["discover", "--json"]).output)
    assert [(d["kind"], d["id_path"].removeprefix(SOCKET), d["named_by"]) for d in devices] == [
        ("hub", "", []),
        ("adapter", ".1", []),
        ("adapter", ".10", ["one.yaml"]),
        ("sdmux", ".2", []),
    ]
    assert devices[1]["ports"][1] == {"interface": "01", "node": "/dev/ttyUSB1"}


def test_a_host_without_any_of_them_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyudev, "Context", lambda: Udev([], []))
    assert "No USB adapter" in CliRunner().invoke(commands.app, ["discover"]).output


def test_the_rules_are_printed_as_they_stand() -> None:
    assert CliRunner().invoke(commands.app, ["discover", "--udev-rules"]).output.strip() == discover.RULES.strip()
