"""One write at a time on a USB hub: which hub that is, and who is waited for."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab.control import provisioning
from lab.control.provisioning import hub_of_write, writing
from lab.provision.release import Content, Image
from lab.provision.snagboot import hub_of
from lab.provision.writer import Plan, WriteTarget

READER = "pci-0000:00:14.0-usb-0:3.2:1.0-scsi-0:0:0:0"


def plan(identity: str = "") -> Plan:
    return Plan(
        "sd-mux",
        WriteTarget("b1", "am62xx_sk", "sd", identity=identity),
        Content(Image(source="sdk.wic", sha256="0" * 64)),
        (),
    )


@pytest.mark.parametrize(
    ("id_path", "hub"),
    [
        (READER, "pci-0000:00:14.0-usb-0:3"),
        ("pci-0000:00:14.0-usb-0:3.4.1:1.0", "pci-0000:00:14.0-usb-0:3.4"),
        ("pci-0000:00:14.0-usb-0:2", "pci-0000:00:14.0-usb-0"),
        ("platform-fe980000.usb-usb-0:1.3:1.0", "platform-fe980000.usb-usb-0:1"),
        ("pci-0000:00:17.0-ata-1", ""),
        ("USB_SD_MUX_000123", ""),
        ("", ""),
    ],
)
def test_the_hub_is_one_port_above_the_device(id_path: str, hub: str) -> None:
    assert hub_of(id_path) == hub


def test_the_reader_of_the_multiplexer_comes_before_the_consoles_adapter() -> None:
    adapter = {"/dev/ttyUSB0": "pci-0000:00:14.0-usb-0:9.1:1.0"}.__getitem__
    assert hub_of_write(plan(f"{READER} SERIAL_7"), "/dev/ttyUSB0", adapter) == "pci-0000:00:14.0-usb-0:3"
    assert hub_of_write(plan(), "/dev/ttyUSB0", adapter) == "pci-0000:00:14.0-usb-0:9"
    assert hub_of_write(plan(), None, adapter) == ""


def test_a_second_write_at_the_hub_waits_and_says_for_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    said: list[str] = []
    waits, order = threading.Event(), list[str]()

    def say(line: str) -> None:
        said.append(line)
        waits.set()

    def second() -> None:
        with writing("b2", None, say, plan(READER)):
            order.append("second")

    thread = threading.Thread(target=second)
    with writing("b1", None, print, plan(READER)):
        with writing("b3", None, print, plan("pci-0000:00:14.0-usb-0:4.2:1.0")):
            order.append("another hub")
        thread.start()
        assert waits.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["another hub", "first", "second"]
    assert not missing_facts(said[0], "sd: waits", "b1, process ", "same USB hub", "pci-0000:00:14.0", "-usb-0:3)")


def test_what_hangs_on_no_hub_waits_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    with writing("b1", None, print, plan()), writing("b2", None, print, plan()):
        assert not (tmp_path / "run").exists()
    assert provisioning.id_path_of("/dev/null") == ""
