"""An ssh connection that hangs, and whoever goes through it: a reader, the rails, a pdudaemon, commands. None waits for ever, none loses a byte."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest
from attrs import define
from labgrid import Target
from labgrid.resource import PDUDaemonPort
from support import realsshd
from support.console_bench import ConsoleBench, taken, wait_for
from support.playedpdudaemon import running_pdudaemon
from support.railsserved import hwmon, running_rails_server

from lab.console import ConsoleClient, Recording
from lab.console import reader as console_reader
from lab.console.published import PublishedHost
from lab.console.reader import ReconnectingReader
from lab.console.serial_line import PortRequest
from lab.drivers import StampedPDUDaemonDriver
from lab.errors import LabTransientError
from lab.host.clock import MonotonicRaw
from lab.host.runtime import socket_path
from lab.host.ssh import SshLink
from lab.rails import Trace, remote
from lab.rails.remote import Copier, RailsServer
from lab.rails.server import rails_socket

SSH = """\
Host lab
  HostName 127.0.0.1
  Port {port}
  IdentityFile {key}
  User {user}
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""
SILENT_S = 3.0  # of whoever asks; a healthy answer takes milliseconds
LINE = b"[%8d] the quick brown fox jumps over the lazy dog\r\n"


@define
class Host:
    """A host behind an sshd, and the connection to it."""

    sshd: realsshd.Sshd
    link: SshLink

    def masters(self) -> list[psutil.Process]:
        """The local ends."""
        return [process for process in self._all() if "-M" in process.cmdline()]

    def sessions(self) -> list[psutil.Process]:
        """The other ends."""
        return psutil.Process(self.sshd.pid).children(recursive=True)

    def hang(self, end: str) -> list[psutil.Process]:
        """Stop one end of the connection, as it is."""
        stopped = self.masters() if end == "master" else self.sessions()
        assert stopped
        for process in stopped:
            process.suspend()
        return stopped

    def left(self) -> list[str]:
        """Programs and sockets of the connection."""
        sockets = [str(path) for path in self.link.folder.rglob("*") if path.is_socket()]
        return [" ".join(process.cmdline()) for process in self._all()] + sockets

    def _all(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter(["cmdline"]):
            if str(self.link.folder) in " ".join(process.info["cmdline"] or []):
                found.append(process)
        return found


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """Nothing of it may be left at the end, whatever hung."""
    monkeypatch.setattr(console_reader, "AGAIN_S", 0.2)
    with TemporaryDirectory(prefix="run-") as runtime, realsshd.running_sshd(tmp_path) as sshd:
        config = tmp_path / "ssh"
        config.write_text(SSH.format(port=sshd.port, key=sshd.key, user=pwd.getpwuid(os.geteuid()).pw_name))
        monkeypatch.setenv("BOARDLAB_RUNTIME", runtime)
        monkeypatch.setenv("BOARDLAB_SSH_CONFIG", str(config))
        host = Host(sshd, SshLink("lab", Path(runtime) / "ssh", str(config), answer_s=SILENT_S))
        yield host
        host.link.reset()
        assert host.left() == []
        for process in host.sessions():
            process.kill()


def reader(host: Host, bench: ConsoleBench, device: Path) -> ReconnectingReader:
    bench.client().close()

    def through() -> ConsoleClient:
        return ConsoleClient(host.link.forward(str(socket_path(bench.runtime))), SILENT_S)

    return ReconnectingReader(through, host.link.reset, PortRequest(device, 115200), "lab", write=True)


ENDS = pytest.mark.parametrize("end", ["master", "sshd"])


@ENDS
def test_a_reader_goes_on_at_its_byte_over_a_new_connection(host: Host, bench: ConsoleBench, end: str) -> None:
    adapter = bench.adapter()
    text = b"".join(LINE % number for number in range(200))
    with reader(host, bench, adapter.link) as client:
        adapter.say(text[:4000])
        heard = taken(client, 2000)
        masters = host.masters()
        stopped = host.hang(end)
        adapter.say(text[4000:])
        heard += taken(client, len(text) - sum(len(chunk.data) for chunk in heard))
        assert b"".join(chunk.data for chunk in heard) == text
        recorded = list(Recording.open(Path(f"{client.info.recording}.log")).chunks())
        assert heard == recorded[-len(heard) :]
        client.write(b"still the one who writes")
        assert adapter.heard(24) == b"still the one who writes"
        assert client.cuts == 1
    gone, _ = psutil.wait_procs(masters, 60)
    assert gone == masters, "the hung connection is ended"
    assert end == "sshd" or gone == stopped


@pytest.mark.parametrize("end", ["master", pytest.param("sshd", marks=pytest.mark.soak)])
def test_a_session_that_begins_with_a_hung_connection_makes_a_new_one(
    host: Host, bench: ConsoleBench, end: str
) -> None:
    adapter = bench.adapter()
    host.link.forward(str(socket_path(bench.runtime)))
    masters = host.masters()
    host.hang(end)
    with reader(host, bench, adapter.link) as client:
        adapter.say(b"here")
        assert taken(client, 4)[0].data == b"here"
    assert psutil.wait_procs(masters, 60)[0] == masters


@pytest.mark.soak
def test_a_host_that_goes_on_hanging_ends_the_attempt_as_the_links_fault(host: Host, bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    with reader(host, bench, adapter.link) as client:
        client._patience_s = 5.0
        processes = [psutil.Process(host.sshd.pid), *host.hang("sshd")]
        processes[0].suspend()  # new connections are taken by its kernel, and nobody greets
        try:
            with pytest.raises(LabTransientError, match="is out of reach since") as caught:
                client.read_event(60.0)
        finally:
            for process in processes:
                process.resume()
    assert caught.value.failure == "console_link"


def test_rails_go_on_at_the_sample_that_is_missing(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "Copier", partial(Copier, silent_s=SILENT_S))
    (tmp_path / "sensor").mkdir()
    sensor, address = hwmon(tmp_path / "sensor"), rails_socket(tmp_path / "run")
    with running_rails_server(tmp_path / "run"):
        server = RailsServer(partial(host.link.forward, str(address)), "lab")
        with server.sampling(sensor, tmp_path / "power.trace") as sampler:
            wait_for(lambda: len(sampler.trace().records) > 3, "the trace grows")
            host.hang("master")
            until_ns = MonotonicRaw().now_ns()
            assert sampler.trace(until_ns).records["t_ns"].max() >= until_ns - 10**9
            assert sampler.alive
        trace = Trace.open(tmp_path / "power.trace")
        assert trace.ended
        assert all(earlier < later for earlier, later in pairwise(trace.records["t_ns"])), "none twice"


def test_power_is_switched_over_a_new_connection(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SshLink, "to", lambda *_args: host.link)
    with running_pdudaemon() as daemon:
        target = Target("main")
        port = PDUDaemonPort(target, None, host=f"localhost:{daemon.server_port}", pdu="rack", index=3)
        port.extra = {"proxy": "lab", "proxy_required": True, **PublishedHost("lab", "another boot").extra()}
        pdu = StampedPDUDaemonDriver(target, None, timeout=8.0)
        target.activate(pdu)
        pdu.on()
        host.hang("master")
        pdu.off()
        assert [path.partition("?")[0].rpartition("/")[2] for path in daemon.asked] == ["on", "off"]


def test_a_command_goes_through_a_new_connection_and_one_that_hangs_on_the_way_is_the_links_fault(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host.link.ran(["echo", "one"], 60).stdout == "one\n"
    host.hang("master")
    assert host.link.ran(["echo", "two"], 60).stdout == "two\n"
    monkeypatch.setattr("lab.host.ssh.CONNECT_S", 1)
    fifo = tmp_path / "began"
    os.mkfifo(fifo)
    caught: list[LabTransientError] = []

    def run() -> None:
        with pytest.raises(LabTransientError) as raised:
            host.link.ran(["sh", "-c", f"echo > {fifo}; exec sleep 7777"], 10)
        caught.append(raised.value)

    thread = threading.Thread(target=run)
    thread.start()
    fifo.read_bytes()
    host.hang("sshd")
    thread.join()
    assert [error.failure for error in caught] == ["console_link"]
