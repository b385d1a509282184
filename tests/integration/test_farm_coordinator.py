"""A real labgrid coordinator, exporter and client, as the farm's collector sees them; and the real udev."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.coordinator import client, running, running_coordinator
from support.prometheus_server import until
from support.virtual_bench import wait_for_listener

from exporters.farm.host import RealUdev, Usb, UsbDevice
from exporters.farm.places import PlaceCollector
from lab.errors import ConfigurationError, LabTransientError
from lab.places.coordinator import Coordinator
from lab.virtual.ports import free_port


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[str]:
    with running_coordinator(tmp_path) as address:
        yield address


def values(places: PlaceCollector) -> dict[tuple[str, ...], float]:
    return {(s.name, *s.labels.values()): s.value for family in places.read() for s in family.samples}


def test_places_reservations_and_exporters_of_a_real_coordinator(coordinator: str, tmp_path: Path) -> None:
    places = PlaceCollector(Coordinator(coordinator).state)
    assert not [key for key in values(places) if key[0] == "boardlab_place_acquired"]
    resources = tmp_path / "exporter.yaml"
    resources.write_text("b1:\n  NetworkService: {address: 127.0.0.1, username: root}\n")
    words = ("-c", coordinator, "-n", "labhost", "--hostname", "127.0.0.1", str(resources))
    for name in ("b1", "b2"):
        client(coordinator, "-p", name, "create")
    client(coordinator, "-p", "b1", "add-match", "labhost/b1/*")
    client(coordinator, "-p", "b2", "add-match", "away/b2/*")
    client(coordinator, "-p", "b2", "set-tags", "board=am62")
    with running("labgrid-exporter", *words, folder=tmp_path):
        until(lambda: values(places)["boardlab_labgrid_exporter_up", "labhost"] == 1, "the exporter is seen")
        client(coordinator, "-p", "b1", "acquire")
        client(coordinator, "reserve", "board=am62")
        found = values(places)
        assert found["boardlab_place_acquired", "b1"] == 1
        assert found["boardlab_place_acquired_by", "b1", "ci1/alice"] == 1
        assert found["boardlab_place_acquired", "b2"] == 0
        assert found["boardlab_place_changed_timestamp_seconds", "b1"] > 1.7e9
        assert sum(value for key, value in found.items() if key[0] == "boardlab_reservations") == 1
        assert found["boardlab_labgrid_exporter_up", "away"] == 0
        assert found["boardlab_labgrid_exporter_resources", "labhost"] == 1
        client(coordinator, "-p", "b1", "release")
        assert values(places)["boardlab_place_acquired", "b1"] == 0
    until(lambda: values(places)["boardlab_labgrid_exporter_up", "labhost"] == 0, "the exporter is gone")


def test_a_place_that_boardlab_makes_is_one_that_labgrid_gives(coordinator: str, tmp_path: Path) -> None:
    at = Coordinator(coordinator)
    at.create("b1", "labhost/b1/*", {"board": "b1", "type": "am62xx_sk"})
    assert at.holders() == {"b1": ""}
    with pytest.raises(ConfigurationError, match="b1"):
        at.create("b1", "labhost/b1/*", {})
    resources = tmp_path / "exporter.yaml"
    resources.write_text("b1:\n  NetworkService: {address: 127.0.0.1, username: root}\n")
    words = ("-c", coordinator, "-n", "labhost", "--hostname", "127.0.0.1", str(resources))
    with running("labgrid-exporter", *words, folder=tmp_path):
        until(lambda: not at.find_unmatched("b1"), "its resource is there")
        client(coordinator, "reserve", "--wait", "type=am62xx_sk")
        client(coordinator, "-p", "b1", "acquire")
        assert at.holder("b1") == "ci1/alice"
        client(coordinator, "-p", "b1", "release")


def test_a_coordinator_that_is_not_there_is_one_clear_error() -> None:
    with pytest.raises(LabTransientError, match="does not answer"):
        Coordinator(f"127.0.0.1:{free_port()}").state()


def test_sessions_of_one_process_are_of_different_users(coordinator: str) -> None:
    at, together = Coordinator(coordinator), threading.Barrier(3)
    for name in ("b1", "b2", "b3"):
        client(coordinator, "-p", name, "create")

    def held(name: str) -> str:
        together.wait()
        at.acquire(name, f"lab/{name}")
        return at.holder(name)

    for _ in range(5):
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(held, ("b1", "b2", "b3"))) == ["lab/b1", "lab/b2", "lab/b3"]
        for name in ("b1", "b2", "b3"):
            at.release(name, f"lab/{name}")


def test_a_coordinator_that_is_stopped_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with running("labgrid-coordinator", "-l", address, folder=tmp_path) as process:
        wait_for_listener(address)
        process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(LabTransientError, match="does not answer") as caught:
                Coordinator(address).find_unmatched("b1")
            assert caught.value.failure == "coordinator_unreachable"
        finally:
            process.send_signal(signal.SIGCONT)


def test_the_hosts_udev_knows_of_no_device_that_is_not_there() -> None:
    usb = Usb([UsbDevice("console", "adapter", "pci-0000:ff:1f.7-usb-0:99")], RealUdev())
    (present,) = [s for f in usb.read() for s in f.samples if s.name == "boardlab_usb_device_present"]
    assert present.value == 0
