"""Orders to another host's pdudaemon: each has a connection of its own, so that one that is given up does not come late."""

from __future__ import annotations

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

from lab.console.published import PublishedHost
from lab.drivers import StampedPDUDaemonDriver
from lab.drivers.stampedpdudaemondriver import RemotePdudaemon
from lab.host.ssh import SshLink

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
    link = SimpleNamespace(forward=lambda _at: Path(str(daemon.server_address)), generation=lambda: "one")
    session = requests.Session()
    remote = RemotePdudaemon(cast(SshLink, link), AT, session)
    for _ in range(3):
        remote.prepare()
        assert session.get(f"http://{AT}/power/control/on", timeout=DEADLINE_S).ok
    assert daemon.connections == 3


def test_a_pdudaemon_on_the_loopback_of_ipv6_is_asked_there(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path))
    asked_for = []

    def forward(_link: SshLink, remote: str) -> Path:
        asked_for.append(remote)
        return Path(str(daemon.server_address))

    monkeypatch.setattr(SshLink, "forward", forward)
    target = Target("main")
    port = PDUDaemonPort(target, None, host="[::1]:16421", pdu="rack 1", index=3)
    port.extra = PublishedHost("lab-2", "another boot").extra()
    driver = StampedPDUDaemonDriver(target, None)
    target.activate(driver)
    driver.on()
    assert asked_for == ["[::1]:16421"]
    assert daemon.connections == 1
