"""The real pdudaemon with its drivers of software: an edge holds the switching's instant, also behind others in the queue."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest
from attrs import field, frozen
from labgrid import Target
from labgrid.resource import PDUDaemonPort
from support.virtual_bench import wait_for_listener

from lab.drivers import StampedPDUDaemonDriver
from lab.errors import LabTransientError
from lab.host.clock import MonotonicRaw
from lab.virtual import pdudaemon

LOCAL, NO_SUCH_PROGRAM = "local", "no-such-program"
KEY, USER, PASSWORD = "a-key", "admin", "letmein"
now_ns = MonotonicRaw().now_ns


@frozen
class Switched:
    """The switchings of a device, with their instants."""

    t_ns: int
    outlet: str
    is_on: bool


class Device(ThreadingHTTPServer):
    """An outlet with an HTTP interface, at an address of its own: some drivers take the PDU's name for it."""

    daemon_threads = True

    def __init__(self, address: str, read: Callable[[Request], tuple[str, bool] | None]) -> None:
        self.read, self.switched, self.refused = read, list[Switched](), 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        super().__init__((address, 0), Handler)


@frozen
class Request:
    """A request to a device."""

    path: str
    query: dict[str, list[str]]
    body: Any
    authorization: str


class Handler(BaseHTTPRequestHandler):
    server: Device

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        authorization = self.headers.get("Authorization", "")
        request = Request(parts.path, parse_qs(parts.query), json.loads(body) if body else None, authorization)
        order = self.server.read(request)
        if order is None:
            self.server.refused += 1
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        outlet, is_on = order
        self.server.may_answer.wait()
        self.server.switched.append(Switched(now_ns(), outlet, is_on))
        answer = json.dumps(
            {f"POWER{outlet}": "ON" if is_on else "OFF", "Outputs": [{"ID": outlet, "State": int(is_on)}]}
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    do_GET = do_POST = _answer  # noqa: N815 - http.server's

    def log_message(self, *_words: object) -> None:
        pass


def tasmota(request: Request) -> tuple[str, bool] | None:
    """Tasmota: HTTP, /cm?cmnd=Power1 on."""
    if request.query.get("password") != [PASSWORD]:
        return None
    outlet, state = request.query["cmnd"][0].removeprefix("Power").split()
    return outlet, state == "on"


def netio(request: Request) -> tuple[str, bool] | None:
    """NETIO JSON API: one output in the body, HTTP Basic."""
    if not has_password(request):
        return None
    (output,) = request.body["Outputs"]
    return str(output["ID"]), bool(output["Action"])


def home_assistant(request: Request) -> tuple[str, bool] | None:
    """Home Assistant's REST API: a service, with a long-lived token."""
    if request.authorization != f"Bearer {KEY}":
        return None
    return request.body["entity_id"].removeprefix("switch."), request.path.endswith("turn_on")


def intellinet(request: Request) -> tuple[str, bool] | None:
    """Intellinet 163682: op 0 is on, HTTP Basic."""
    if not has_password(request):
        return None
    (outlet,) = (name.removeprefix("outlet") for name in request.query if name.startswith("outlet"))
    return outlet, request.query["op"] == ["0"]


def esphome(request: Request) -> tuple[str, bool] | None:
    """ESPHome's web_server: /switch/ID/turn_on."""
    _, _, outlet, command = request.path.split("/")
    return outlet, command == "turn_on"


def has_password(request: Request) -> bool:
    return b64decode(request.authorization.removeprefix("Basic ")) == f"{USER}:{PASSWORD}".encode()


READERS: Final = {
    "tasmota": tasmota,
    "netiojson": netio,
    "home-assistant-http": home_assistant,
    "intellinet": intellinet,
    "esphome-http": esphome,
}


@frozen
class Daemon:
    """A running pdudaemon.

    Attributes:
        devices: driver -> its device. log: lines of `localcmdline`: instant, outlet, order. orders: pdudaemon's own.
    """

    address: str
    devices: dict[str, Device]
    log: Path
    orders: Path
    targets: list[Target] = field(factory=list)

    def driver(self, pdu: str, outlet: int = 1) -> StampedPDUDaemonDriver:
        """The product's driver for an outlet."""
        target = Target("main")
        PDUDaemonPort(target, None, host=self.address, pdu=pdu, index=outlet)
        power = StampedPDUDaemonDriver(target, None)
        target.activate(power)
        self.targets.append(target)
        return power


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("pdudaemon")
    log = folder / "local.log"
    devices = {name: Device(f"127.0.1.{number}", read) for number, (name, read) in enumerate(READERS.items(), 1)}
    once = {"retries": 1, "retrydelay": 0}
    access = {"username": USER, "password": PASSWORD, "api_key": KEY}
    note = f"{sys.executable} -c \"import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), '%s', '{{}}')\" >> {log}"
    pdus: dict[str, dict[str, object]] = {
        LOCAL: {"driver": "localcmdline", "cmd_on": note.format("on"), "cmd_off": note.format("off"), **once},
        NO_SUCH_PROGRAM: {
            "driver": "localcmdline",
            "cmd_on": "/no/such/program %s",
            "cmd_off": "/no/such/program %s",
            **once,
        },
    }
    for name, device in devices.items():
        address, port = device.server_address[:2]
        at_port = {"ip": f"{address}:{port}"} if name == "tasmota" else {"ip": address, "port": port}
        pdus[str(address)] = {"driver": name, "port_count": 8, **at_port, **access, **once}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listening = probe.getsockname()[1]
    configuration = {"daemon": {"hostname": "127.0.0.1", "port": listening, "listener": "http"}, "pdus": pdus}
    (folder / "pdudaemon.conf").write_text(json.dumps(configuration))
    threads = [threading.Thread(target=device.serve_forever, daemon=True) for device in devices.values()]
    for thread in threads:
        thread.start()
    with (folder / "pdudaemon.log").open("wb") as output:
        process = subprocess.Popen(
            [pdudaemon.find(), "--conf", str(folder / "pdudaemon.conf"), "--listener", "http"],
            stdout=output,
            stderr=output,
        )
        try:
            wait_for_listener(f"127.0.0.1:{listening}")
            yield Daemon(f"127.0.0.1:{listening}", devices, log, folder / "pdudaemon.log")
        finally:
            process.terminate()
            process.wait()
            for device in devices.values():
                device.shutdown()
                device.server_close()


def assert_held(power: StampedPDUDaemonDriver, t_ns: int) -> None:
    """The instant of switching lies within the edge."""
    assert power.edge is not None
    assert power.edge.requested_ns <= t_ns <= power.edge.acknowledged_ns


@pytest.mark.parametrize("name", READERS)
def test_a_driver_of_software_switches_its_outlet_within_the_edge(daemon: Daemon, name: str) -> None:
    device = daemon.devices[name]
    device.switched.clear()
    power = daemon.driver(str(device.server_address[0]), 2)
    for order, is_on in ((power.on, True), (power.off, False)):
        order()
        assert (device.switched[-1].outlet, device.switched[-1].is_on) == ("2", is_on)
        assert_held(power, device.switched[-1].t_ns)
    assert len(device.switched) == 2


def test_a_local_command_switches_within_the_edge(daemon: Daemon) -> None:
    power = daemon.driver(LOCAL, 3)
    for order, name in ((power.on, "on"), (power.off, "off")):
        order()
        t_ns, outlet, ordered = daemon.log.read_text().splitlines()[-1].split()
        assert (outlet, ordered) == ("3", name)
        assert_held(power, int(t_ns))


def test_an_edge_holds_the_switching_of_a_board_that_waited_in_the_queue_behind_others(daemon: Daemon) -> None:
    device = daemon.devices["tasmota"]
    device.switched.clear()
    device.may_answer.clear()
    pdu = str(device.server_address[0])
    power = daemon.driver(pdu, 4)

    def order(outlet: int) -> None:
        urlopen(f"http://{daemon.address}/power/control/on?hostname={pdu}&port={outlet}").close()

    def answer_all() -> None:
        """Let the device answer once the board's order is pdudaemon's, too."""
        while daemon.orders.read_text().count(f"hostname={pdu}&port=") < before + 4:
            threading.Event().wait(0.01)
        device.may_answer.set()

    before = daemon.orders.read_text().count(f"hostname={pdu}&port=")
    with ThreadPoolExecutor(4) as others:
        waiting = [others.submit(order, outlet) for outlet in (1, 2, 3)]
        while daemon.orders.read_text().count(f"hostname={pdu}&port=") < before + 3:
            threading.Event().wait(0.01)
        waiting.append(others.submit(answer_all))
        power.on()
        for other in waiting:
            other.result()
    assert [switched.outlet for switched in device.switched][3:] == ["4"], "a PDU's orders keep their order"
    assert_held(power, device.switched[3].t_ns)


def test_a_device_that_refuses_the_password_is_a_refusal_of_the_pdu(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = daemon.devices["home-assistant-http"]
    monkeypatch.setattr(device, "read", lambda _request: None)
    with pytest.raises(LabTransientError) as raised:
        daemon.driver(str(device.server_address[0])).on()
    assert raised.value.failure == "pdu_refused"


def test_a_local_command_that_fails_is_answered_as_if_it_had_switched(daemon: Daemon) -> None:
    """So power off is proved by the board; `power_off_ineffective` names this driver."""
    power = daemon.driver(NO_SUCH_PROGRAM)
    power.off()
    assert power.edge is not None
