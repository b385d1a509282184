"""`lab farm export`: how labgrid's own clients reach a console, and what it knows of an adapter."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from attrs import evolve
from labgrid.remote import exporter as stock

from lab.console.published import PublishedHost
from lab.errors import ConfigurationError, LabTransientError
from lab.places import exporter
from lab.places.exporter import LOOPBACK, ConsoleHost, ExporterOptions, _ServedPort, exports, run


def options(folder: Path, listen: str = LOOPBACK, *, isolated: bool = False) -> ExporterOptions:
    return ExporterOptions(folder / "exporter.yaml", "127.0.0.1:1", folder, "lab-1", "lab-1.example", listen, isolated)


@pytest.mark.parametrize(
    ("listen", "isolated", "proxied", "host"),
    [
        (LOOPBACK, False, True, LOOPBACK),
        ("::1", False, True, "localhost"),
        ("127.0.0.2", False, True, "127.0.0.2"),
        ("192.0.2.7", False, False, "lab-1.example"),
        ("192.0.2.7", True, True, "192.0.2.7"),
    ],
)
def test_who_listens_on_loopback_is_reached_through_ssh(
    tmp_path: Path, listen: str, isolated: bool, proxied: bool, host: str
) -> None:
    kind = exports(options(tmp_path, listen, isolated=isolated))["RawSerialPort"]
    config = {"cls": "RawSerialPort", "params": {"port": "/dev/null", "speed": 115200}, "avail": False}
    port = kind(config, host="lab-1", proxy="lab-1", proxy_required=isolated)
    assert isinstance(port, stock.ResourceExport)
    assert port.proxy_required is proxied
    assert port.proxy == "lab-1.example"
    assert port._get_params()["host"] == host


def test_a_port_is_offered_while_something_is_plugged_in_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter.ConsoleHost, "answers", lambda _host: True)
    device = tmp_path / "ttyUSB0"
    kind = exports(options(tmp_path))["RawSerialPort"]
    config = {"cls": "RawSerialPort", "params": {"port": str(device), "speed": 115200}, "avail": False}
    port = kind(config, host="lab-1", proxy="lab-1", proxy_required=False)
    assert isinstance(port, stock.ResourceExport)
    for there in (False, True, False):
        device.symlink_to("/dev/null") if there else device.unlink(missing_ok=True)
        port.poll()
        assert port.avail is there


def test_a_console_server_that_hangs_is_asked_once_for_all_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = [100.0], []

    def hangs(path: Path) -> None:
        asked.append(path)
        now[0] += 5.0
        raise LabTransientError("no answer in 5 s", failure="console_server_silent")

    monkeypatch.setattr(exporter, "ConsoleClient", hangs)
    monkeypatch.setattr(exporter, "time", SimpleNamespace(monotonic=lambda: now[0]))
    host = exporter.ConsoleHost(options(tmp_path))
    assert [host.answers() for _ in range(16)] == [False] * 16
    assert len(asked) == 1
    now[0] += 1.0
    host.answers()
    assert len(asked) == 2


def test_an_address_that_is_not_this_hosts_is_said_before_anything_is_exported(tmp_path: Path) -> None:
    (tmp_path / "exporter.yaml").write_text("{}")
    with pytest.raises(ConfigurationError, match=r"--listen 192\.0\.2\.7: "):
        run(options(tmp_path, "192.0.2.7"))


def test_another_adapter_at_the_same_path_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, str] = {}
    found = SimpleNamespace(from_device_file=lambda *_: SimpleNamespace(properties=dict(known)))
    monkeypatch.setattr(exporter.pyudev, "Devices", found)
    monkeypatch.setattr(exporter.pyudev, "Context", lambda: None)
    device = tmp_path / "ttyUSB0"
    assert exporter._udev(str(device)) == {}
    device.touch()
    assert exporter._udev(str(device)) == {}
    known["ID_SERIAL_SHORT"] = "A1"
    assert exporter._udev(str(device)) == {"ID_SERIAL_SHORT": "A1"}, "that nothing was known is not kept"
    known["ID_SERIAL_SHORT"] = "B2"
    fresh = tmp_path / "fresh"
    fresh.touch()
    fresh.replace(device)
    assert exporter._udev(str(device)) == {"ID_SERIAL_SHORT": "B2"}


@pytest.mark.parametrize(("host", "through_ssh"), [("127.0.0.1:16421", True), ("[::1]", True), ("pdu.example", False)])
def test_an_outlet_on_this_hosts_loopback_says_how_others_reach_it(
    tmp_path: Path, host: str, through_ssh: bool
) -> None:
    kind = exports(options(tmp_path))["PDUDaemonPort"]
    outlet = kind(
        {"cls": "PDUDaemonPort", "avail": False, "params": {"host": host, "pdu": "p", "index": 1, "extra": {}}}
    )
    assert outlet.avail
    assert outlet.extra.get("proxy_required", False) is through_ssh
    assert outlet.extra.get("proxy") == ("lab-1.example" if through_ssh else None)
    published = PublishedHost.of(outlet.extra)
    assert (published is not None and published.is_here) is through_ssh


def test_a_comment_that_is_a_statement_to_labgrid_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "exporter.yaml").write_text("{}\n# Our PDU\n")
    with pytest.raises(ConfigurationError, match=r"exporter\.yaml:2.*'Our'"):
        run(options(tmp_path))


def test_sensors_are_no_resource_of_a_place(tmp_path: Path) -> None:
    (tmp_path / "exporter.yaml").write_text("b1: {RailSensors: {backend: hwmon, port: /sys/class/hwmon}}")
    with pytest.raises(ConfigurationError, match=r"b1: RailSensors.*\benv\b"):
        run(options(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "exporter.yaml: expected groups, as labgrid's exporter has it, and found None"),
        ("[b1]", "expected groups"),
        ("b1:", "exporter.yaml: b1: expected resources by their classes"),
        ("b1: {RawSerialPort: /dev/ttyUSB0}", "b1: RawSerialPort: expected arguments"),
        ("{{", "unexpected"),
    ],
)
def test_a_file_of_resources_with_a_wrong_shape_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "exporter.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        run(options(tmp_path))


def test_a_file_of_resources_may_ask_for_what_labgrids_exporter_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[dict[str, object]] = []

    async def amain(config: dict[str, object]) -> None:
        ended.append(config)

    monkeypatch.setattr(stock, "amain", amain)
    monkeypatch.setattr(exporter, "_wait_for", lambda _coordinator: None)
    group = "{% if hostname == 'lab-1.example' %}b1: {location: '{{ env['HOME'] }}', RawSerialPort: {port: /dev/null}}{% endif %}"
    (tmp_path / "exporter.yaml").write_text(group)
    assert run(options(tmp_path)) == 0
    assert [config["name"] for config in ended] == ["lab-1"]


@pytest.mark.parametrize("params", [{}, {"port": "/dev/null", "sped": 9600}, {"port": "/dev/null", "speed": "fast"}])
def test_a_serial_port_with_wrong_arguments_is_said(tmp_path: Path, params: dict[str, object]) -> None:
    kind = exports(options(tmp_path))["RawSerialPort"]
    with pytest.raises(ConfigurationError, match=r"RawSerialPort.*resources"):
        kind({"cls": "RawSerialPort", "params": params, "avail": False}, host="lab-1", proxy="lab-1")


def test_a_coordinators_address_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "exporter.yaml").write_text("b1: {}")
    with pytest.raises(ConfigurationError, match=r"--coordinator lab:port: .*HOST:PORT"):
        run(evolve(options(tmp_path), coordinator="lab:port"))


def test_a_coordinator_that_is_away_is_waited_for_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as coordinator:
        address = f"127.0.0.1:{coordinator.getsockname()[1]}"
        there = [None, None, coordinator.getsockname()]

        def connect(asked: tuple[str, int], timeout_s: float) -> socket.socket:
            assert asked == coordinator.getsockname()
            if there.pop(0) is None:
                raise ConnectionRefusedError(111, "Connection refused")
            return real(asked, timeout_s)

        real = socket.create_connection
        monkeypatch.setattr(exporter.socket, "create_connection", connect)
        monkeypatch.setattr(exporter, "time", SimpleNamespace(sleep=lambda _seconds: None))
        exporter._wait_for(address)
    assert there == []
    assert caplog.text.count(f"{address} (Connection refused)") == 1


@pytest.mark.parametrize(("node", "is_its"), [("/dev/null", True), ("/dev/zero", False), ("/dev/nothing", False)])
def test_a_port_whose_name_another_device_has_since_a_reset_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str, is_its: bool
) -> None:
    monkeypatch.setattr(ConsoleHost, "answers", lambda _host: True)
    device = SimpleNamespace(device_path="/devices/virtual/mem/null")
    port = SimpleNamespace(port=node, device=device, avail=True, poll=lambda: None)
    served = _ServedPort(port, ConsoleHost(options(tmp_path)))
    served.poll()
    assert served.avail is is_its
    if is_its:
        assert served.node() == node
    else:
        with pytest.raises(LabTransientError, match=r"another device.*reset"):
            served.node()
