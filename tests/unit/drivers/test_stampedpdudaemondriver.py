"""Every way in which pdudaemon can fail has its class and its mend."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from labgrid import Target
from labgrid.resource import PDUDaemonPort

from lab.console.published import PublishedHost
from lab.drivers import StampedPDUDaemonDriver
from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.host import status_files
from lab.host.clock import time_line
from lab.host.ssh import SshLink
from lab.host.status_files import OutletStatus


class Daemon(ThreadingHTTPServer):
    """Answers like pdudaemon; `status` 0 means that it never answers."""

    daemon_threads = True
    status = 200
    body = b""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.hosts: list[str] = []
        self.release = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Daemon

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.hosts.append(self.headers["Host"])
        if self.server.status == 0:
            self.server.release.wait(30)
            return
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path))
    return tmp_path


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    server = Daemon()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()
    thread.join()


def driver(port: int, timeout: float = 5.0) -> StampedPDUDaemonDriver:
    target = Target("main")
    PDUDaemonPort(target, None, host=f"127.0.0.1:{port}", pdu="rack 1", index=3)
    pdu = StampedPDUDaemonDriver(target, None, timeout=timeout)
    target.activate(pdu)
    return pdu


def test_on_asks_for_the_outlet_and_bounds_the_instant(daemon: Daemon) -> None:
    pdu = driver(daemon.server_port)
    before_ns = pdu.clock.now_ns()
    pdu.on()
    assert daemon.asked == ["/power/control/on?hostname=rack+1&port=3"]
    assert pdu.edge is not None
    assert before_ns <= pdu.edge.requested_ns < pdu.edge.acknowledged_ns <= pdu.clock.now_ns()


def test_a_proxy_of_the_environment_is_not_asked(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    driver(daemon.server_port).on()
    assert len(daemon.asked) == 1


def test_who_watches_the_lab_is_told_of_each_command(daemon: Daemon, runtime: Path) -> None:
    def told() -> OutletStatus:
        (status,) = status_files.read_all(runtime / status_files.OUTLETS, OutletStatus)
        return status

    driver(daemon.server_port).on()
    first = told()
    assert (first.pdu, first.outlet, first.command, first.commands, first.failures) == ("rack 1", "3", "on", 1, 0)
    assert first.duration_s > 0
    daemon.status = 500
    with pytest.raises(LabTransientError):
        driver(daemon.server_port).off()  # another process would count on, too
    assert (told().command, told().commands, told().failures) == ("off", 2, 1)
    assert told().at >= first.at


def test_a_folder_that_cannot_be_written_does_not_keep_a_board_off(
    daemon: Daemon, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(runtime / "nowhere"))
    driver(daemon.server_port).on()
    assert len(daemon.asked) == 1
    assert not (runtime / "nowhere").exists(), "it is made by its owner, for one user alone"


def test_off_is_told_as_off(daemon: Daemon) -> None:
    driver(daemon.server_port).off()
    assert daemon.asked == ["/power/control/off?hostname=rack+1&port=3"]


def test_a_pdu_that_refuses_is_the_labs_transient_fault(daemon: Daemon) -> None:
    daemon.status = 500
    pdu = driver(daemon.server_port)
    with pytest.raises(LabTransientError, match=r"rack 1, port 3.*'on'") as raised:
        pdu.on()
    assert raised.value.failure == "pdu_refused"
    assert pdu.edge is None


def test_something_that_is_no_pdudaemon_is_a_stable_fault(daemon: Daemon) -> None:
    daemon.status, daemon.body = 404, b"no outlet 1 of bench/x\n"
    with pytest.raises(LabStableError, match=r"HTTP 404.*1 of bench/x"):
        driver(daemon.server_port).on()


def test_a_pdudaemon_that_hangs_is_not_waited_for_for_ever(daemon: Daemon) -> None:
    daemon.status = 0
    with pytest.raises(LabTransientError, match=r"within 0\.05 s") as raised:
        driver(daemon.server_port, timeout=0.05).on()
    assert raised.value.failure == "pdu_timeout"


def test_no_pdudaemon_is_said_with_its_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(LabTransientError, match=f"127.0.0.1:{port}.*refused") as raised:
        driver(port).on()
    assert raised.value.failure == "pdu_unreachable"


class Forwarded(Daemon):
    """The same at the end of a forwarded socket."""

    address_family = socket.AF_UNIX

    def __init__(self, path: Path) -> None:
        self.asked, self.hosts = [], []
        self.release = threading.Event()
        super(ThreadingHTTPServer, self).__init__(str(path), Handler, bind_and_activate=False)  # type: ignore[arg-type]
        self.socket.bind(str(path))
        self.server_activate()


def test_a_pdudaemon_on_another_hosts_loopback_is_reached_through_ssh_and_again_after_a_cut(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = iter([runtime / "gone", runtime / "s"])
    asked_for = []

    def forward(link: SshLink, remote: str) -> Path:
        asked_for.append((link.host, remote))
        return next(ways)

    monkeypatch.setattr(SshLink, "forward", forward)
    server = Forwarded(runtime / "s")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    target = Target("main")
    port = PDUDaemonPort(target, None, host="localhost", pdu="rack 1", index=3)
    port.extra = {"proxy": "lab-2", "proxy_required": True, **PublishedHost("lab-2", "another boot").extra()}
    pdu = StampedPDUDaemonDriver(target, None)
    target.activate(pdu)
    pdu.on()
    assert server.asked == ["/power/control/on?hostname=rack+1&port=3"]
    assert asked_for == [("lab-2", "localhost:16421")] * 2
    assert server.hosts == ["localhost:16421"]  # its own: what guards itself against web pages refuses any other
    server.status = 500
    with pytest.raises(LabTransientError, match=r"lab-2.*port 3: .*'off'"):
        pdu.off()
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_exporter_that_says_something_wrong_of_an_outlet_is_of_another_version() -> None:
    target = Target("main")
    port = PDUDaemonPort(target, None, host="localhost", pdu="rack 1", index=3)
    port.extra = {**PublishedHost("lab-2", "another boot").extra(), "boardlab_host": ""}
    pdu = StampedPDUDaemonDriver(target, None)
    with pytest.raises(ConfigurationError, match=r"another boardlab.*both"):
        target.activate(pdu)


def test_a_pdudaemon_that_an_exporter_of_this_host_offers_is_asked_without_ssh(daemon: Daemon) -> None:
    target = Target("main")
    port = PDUDaemonPort(target, None, host=f"127.0.0.1:{daemon.server_port}", pdu="rack 1", index=3)
    port.extra = {"proxy": "lab-1", "proxy_required": True, **PublishedHost("lab-1", time_line()).extra()}
    pdu = StampedPDUDaemonDriver(target, None)
    target.activate(pdu)
    pdu.on()
    assert daemon.asked == ["/power/control/on?hostname=rack+1&port=3"]
