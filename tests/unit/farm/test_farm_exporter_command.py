"""`lab exporter` and `lab run`: wrong orders are refused in one line, before anything is opened."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporters.farm.host import UsbDevice
from exporters.sources import OptionalSources, host_sources, sources
from lab.cli import main
from lab.cli.exporter import address, optional_sources
from lab.farm.config import Farm, HostEntry, PduDaemonConfig, Schedule, UsbEntry
from lab.host.clock import MonotonicRaw
from lab.results.snapshot import watch


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("exporter", "--listen", "9870"), "expected ADDRESS:PORT"),
        (("exporter", "--listen", "localhost:9870"), "expected the IP address"),
        (("exporter", "--listen", "0.0.0.0:9870"), "needs TLS and authentication"),
        (("exporter", "--listen", "[::]:9870"), "needs TLS and authentication"),
        (
            ("exporter", "--web-config", "/nowhere.yml"),
            "/nowhere.yml: cannot be read as a web-config file: No such file or directory",
        ),
        (("exporter", "--farm", "/nowhere.yaml"), "/nowhere.yaml: cannot be read"),
        (("exporter", "--farm", "/dev/null", "--host", "lab-9"), "no host 'lab-9'; `hosts` has: local"),
        (("exporter", "--host", "lab-9"), "say of which farm: --farm FILE"),
        (("exporter", "--db", "mysql://x/y"), "cannot be kept in 'mysql'"),
        (("run", "--env", "sim-am62x.yaml", "--suite", "sunspots"), "no suite 'sunspots'"),
        (("run", "--env", "nowhere"), "no environment 'nowhere'"),
        (("run",), "which board?"),
        (("run", "--resume", "1", "--continue"), "--resume names the job, --continue looks for it"),
        (("run", "--resume", "7"), "no job j7; there are none yet"),
        (("farm", "check", "/nowhere.yaml"), "/nowhere.yaml: cannot be read"),
    ],
)
def test_a_wrong_order_is_one_line(
    words: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LAB_DB", str(tmp_path / "results.db"))
    monkeypatch.delenv("LAB_ENV", raising=False)
    assert main(words) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "host", "port"), [("127.0.0.1:9870", "127.0.0.1", 9870), ("[::1]:0", "::1", 0), ("::1:80", "::1", 80)]
)
def test_an_address_is_host_and_port(text: str, host: str, port: int) -> None:
    assert address(text) == (host, port)


def test_a_host_is_asked_for_what_its_farm_names(tmp_path: Path) -> None:
    store = watch(str(tmp_path / "results.db"))
    plain = sources(store, tmp_path, OptionalSources(), 1.0, MonotonicRaw())
    usual = {"jobs", "verdicts", "failures", "console", "outlets", "rails", "disks", "sizes", "health"}
    assert {poller.name for poller in plain.live} == usual
    farm = Farm(coordinator="127.0.0.1:1", schedules=[Schedule("n", "e", "b1", "boot,low_power")])
    full = sources(store, tmp_path, optional_sources(farm), 1.0, MonotonicRaw())
    assert {poller.name for poller in full.live} >= {"pdudaemon", "coordinator"}


def test_another_host_is_asked_for_what_is_there_and_not_for_results(tmp_path: Path) -> None:
    farm = Farm(
        coordinator="127.0.0.1:1",
        schedules=[Schedule("n", "e", "b1")],
        hosts=[HostEntry("lab-1"), HostEntry("lab-2")],
        usb=[UsbEntry("left", "1-1"), UsbEntry("right", "1-2", host="lab-2")],
        pdudaemon=PduDaemonConfig("/pdudaemon"),
    )
    first, second = optional_sources(farm), optional_sources(farm, "lab-2")
    assert (list(first.usb), first.coordinator) == ([UsbDevice("left", "adapter", "1-1")], "127.0.0.1:1")
    assert second == OptionalSources(pdudaemon="127.0.0.1:16421", usb=[UsbDevice("right", "adapter", "1-2")])
    runtime = tmp_path / "run"
    asked = host_sources(tmp_path / "not" / "yet", runtime, OptionalSources(), 1.0, MonotonicRaw())
    assert {poller.name for poller in asked.live} == {"console", "outlets", "rails", "disks"}
    for poller in asked.live:
        poller.poll()
    _, pieces = asked.exposition().plain()
    text = b"".join(pieces).decode()
    assert re.search(r'boardlab_disk_free_bytes\{what="[^"]*artifacts', text)
    assert 'boardlab_collector_up{collector="rails"} 1.0' in text
    assert "boardlab_exporter_info" in text
    assert "boardlab_results_stale" not in text
    assert list(tmp_path.iterdir()) == [], "nothing is made"
