"""An order to another host's pdudaemon that is given up does not come late: each has a connection of its own, which ends with what it has not sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from types import SimpleNamespace
from typing import cast

import pytest
import requests
from labgrid import Target
from labgrid.resource import PDUDaemonPort
from support.tlsfront import HOST, identities

from lab.console.published import PublishedHost
from lab.console.tlsdoor import TlsDoor
from lab.console.tlsway import TlsWay
from lab.console.tlswords import ADMITTED, power
from lab.drivers import StampedPDUDaemonDriver
from lab.drivers.pdudaemonthere import ByTls, ThroughSsh
from lab.host.sshlink import SshLink
from lab.host.tls import Identity

DEADLINE_S = 60.0
AT = "localhost:16421"


class Obeying(BaseHTTPRequestHandler):
    """As pdudaemon, whose HTTP server keeps connections for more than a minute, and says nothing of ending one."""

    protocol_version = "HTTP/1.1"
    server: Daemon

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.close_connection = False

    def log_message(self, *_args: object) -> None:
        pass


class Daemon(ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.connections = 0
        super().__init__(str(path), Obeying)

    def verify_request(self, *_args: object) -> bool:
        self.connections += 1
        return True


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "s") as daemon:
        thread = threading.Thread(target=daemon.serve_forever)
        thread.start()
        yield daemon
        daemon.shutdown()
        thread.join()


def test_each_order_through_ssh_has_a_channel_of_its_own(daemon: Daemon) -> None:
    link = SimpleNamespace(forwarded=lambda _at: Path(str(daemon.server_address)), generation=lambda: "one")
    session = requests.Session()
    there = ThroughSsh(cast(SshLink, link), AT, session)
    for _ in range(3):
        there.prepare(DEADLINE_S)
        assert session.get(f"http://{AT}/power/control/on", timeout=DEADLINE_S).ok
    assert daemon.connections == 3


def test_what_was_not_sent_by_tls_is_thrown_away_with_its_connection(tmp_path: Path) -> None:
    """Its end is a reset: then the kernel has nothing left to send."""
    identities(tmp_path)
    server = Identity(tmp_path / "server").server()
    server.set_alpn_protocols([power(16421)])
    ends: list[str] = []

    def take_an_order_and_never_obey() -> None:
        accepted, _ = listening.accept()
        agreed = server.wrap_socket(accepted, server_side=True)
        agreed.sendall(ADMITTED)
        with socket.socket(fileno=agreed.detach()) as bare:  # OpenSSL tells a reset as an end
            try:
                while bare.recv(4096):
                    pass
                ends.append("as if all was said")
            except ConnectionResetError:
                ends.append("reset")

    with socket.create_server((HOST, 0)) as listening:
        thread = threading.Thread(target=take_an_order_and_never_obey)
        thread.start()
        way = TlsWay(HOST, listening.getsockname()[1], Identity(tmp_path / "client"))
        session = requests.Session()
        ByTls(TlsDoor(way, power(16421)), AT, session).prepare(DEADLINE_S)
        with pytest.raises(requests.Timeout):
            session.get(f"http://{AT}/power/control/off", timeout=0.05)
        thread.join(DEADLINE_S)
    assert ends == ["reset"]


def test_a_pdudaemon_on_the_loopback_of_ipv6_is_asked_there(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path))
    asked_for = []

    def forwarded(_link: SshLink, remote: str) -> Path:
        asked_for.append(remote)
        return Path(str(daemon.server_address))

    monkeypatch.setattr(SshLink, "forwarded", forwarded)
    target = Target("main")
    port = PDUDaemonPort(target, None, host="[::1]:16421", pdu="rack 1", index=3)
    port.extra = PublishedHost("lab-2", "another boot").extra()
    driver = StampedPDUDaemonDriver(target, None)
    target.activate(driver)
    driver.on()
    assert asked_for == ["[::1]:16421"]
    assert daemon.connections == 1
