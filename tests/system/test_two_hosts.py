"""Consoles of another host through real ssh: no byte lost over twenty cuts, one connection for all, and its clock within its bound."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from labgrid import Target
from labgrid.resource import NetworkSerialPort
from support import netlab
from support.console_bench import ConsoleBench, running_bench, taken, wait_for
from support.otherhost import AHEAD_S, console_server_with_another_clock
from support.railsserved import hwmon, running_rails_server

from lab.console import ConsoleClient, Recording
from lab.console.published import PublishedPort
from lab.console.reader import ReconnectingReader
from lab.console.serial_line import PortRequest
from lab.drivers import BootModeDriver, CommandOutputDriver, StampedConsoleDriver
from lab.errors import LabTransientError
from lab.host.clock import MonotonicRaw, time_line
from lab.host.runtime import prepare, socket_path
from lab.host.ssh import SshLink
from lab.provision.errors import MediaWriteFailedError
from lab.provision.writer import Meter
from lab.provision.writers import blockdevice
from lab.provision.writers.planning import WritePiece
from lab.provision.writers.sd_mux import CardHost
from lab.rails import Sampler, Trace
from lab.rails.remote import RailsServer
from lab.rails.server import rails_socket

pytestmark = pytest.mark.soak

CUTS = 20
CONSOLES = 16  # more than sshd's MaxSessions
# `lab` of the other host, where a file is the card; what udev would say is the host's own address.
CARD_LAB = """#!{python}
import os, subprocess, sys
sys.path.insert(0, {root!r})
from lab.provision.writers import sd_mux as cardhost
from lab.provision.writers.sd_mux import Disk
address = subprocess.run(["ip", "-br", "-4", "address"], capture_output=True, text=True).stdout
identity = "on " + next(word.partition("/")[0] for word in address.split() if word.startswith("10.77."))
cardhost.disk_here = lambda path: Disk(path, os.stat(path).st_size, identity)
from lab.cli import main
sys.exit(main())
"""
LINE = b"[%8d] the quick brown fox jumps over the lazy dog\r\n"


@pytest.fixture(scope="module")
def hosts() -> Iterator[netlab.Hosts]:
    assert not netlab.problem(), netlab.problem()
    folder = Path(tempfile.mkdtemp(prefix="hosts-"))
    with netlab.hosts(folder) as hosts:
        yield hosts
    shutil.rmtree(folder)


@pytest.fixture
def bench() -> Iterator[ConsoleBench]:
    """The host with the boards: its folder, its server and its adapters."""
    with running_bench() as bench:
        yield bench


@pytest.fixture
def link(hosts: netlab.Hosts) -> Iterator[SshLink]:
    """ssh of the runner; each test begins on a wire without delay, and leaves no connection."""
    folder = Path(tempfile.mkdtemp(prefix="runner-"))
    hosts.tell("up")
    hosts.tell("0 0")
    link = SshLink(netlab.HOST, folder / "ssh", str(hosts.ssh_config))
    with netlab.inside(hosts.runner):
        yield link
        link.reset()
    shutil.rmtree(folder)


def through(link: SshLink, server: Path) -> ConsoleClient:
    return ConsoleClient(link.forward(str(server)))


def reader(link: SshLink, server: Path, device: Path) -> ReconnectingReader:
    order = PortRequest(device, 115200)
    return ReconnectingReader(partial(through, link, server), link.reset, order, netlab.HOST, write=True)


def masters_of(link: SshLink) -> list[psutil.Process]:
    """The local ends of its connections."""
    found = [(process, process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    return [process for process, words in found if "-M" in words and any(str(link.folder) in word for word in words)]


@pytest.mark.parametrize("wire", ["0 0", "20 0.01"])
def test_twenty_cuts_of_ssh_cost_no_byte_and_no_stamp(
    hosts: netlab.Hosts, bench: ConsoleBench, link: SshLink, wire: str
) -> None:
    bench.client().close()
    adapter = bench.adapter()
    chance = random.Random(19)
    with reader(link, socket_path(bench.runtime), adapter.link) as client:
        hosts.tell(wire)
        said, heard = b"", []
        for number in range(CUTS):
            text = b"".join(LINE % n for n in range(number * 100, number * 100 + 100))
            adapter.say(text)
            said += text
            before = chance.randrange(1, len(text) // 2)
            heard += taken(client, before)
            assert hosts.cut() == 1
            heard += taken(client, len(said) - sum(len(chunk.data) for chunk in heard))
            wait_for(lambda: client.read_event(0.05) is None and client.status().pid > 0, "the cut is mended")
            assert client.cuts == number + 1
        client.write(b"still the one who writes")
        assert adapter.heard(24) == b"still the one who writes"
        assert b"".join(chunk.data for chunk in heard) == said
        recorded = list(Recording.open(Path(f"{client.info.recording}.log")).chunks())
        assert heard == recorded[-len(heard) :]


def test_a_wire_that_is_down_for_a_while_costs_no_byte(
    hosts: netlab.Hosts, bench: ConsoleBench, link: SshLink
) -> None:
    bench.client().close()
    adapter = bench.adapter()
    with reader(link, socket_path(bench.runtime), adapter.link) as client:
        hosts.tell("down")
        adapter.say(b"nobody hears this yet")
        assert client.read_event(0.5) is None
        with pytest.raises(LabTransientError):  # silence is not taken for silence of the board
            client.write(b"x")
        hosts.tell("up")
        assert b"".join(chunk.data for chunk in taken(client, 21)) == b"nobody hears this yet"


def test_a_connection_whose_packets_vanish_ends_by_itself_and_the_next_one_goes_on_at_the_byte(
    hosts: netlab.Hosts, bench: ConsoleBench, link: SshLink
) -> None:
    bench.client().close()
    adapter = bench.adapter()
    with reader(link, socket_path(bench.runtime), adapter.link) as client:
        masters = masters_of(link)
        hosts.tell("down")  # nobody hangs up
        adapter.say(b"nobody hears this yet")
        assert psutil.wait_procs(masters, 120)[0] == masters
        hosts.tell("up")
        assert b"".join(chunk.data for chunk in taken(client, 21)) == b"nobody hears this yet"
        assert len(masters_of(link)) == 1
    hosts.cut()  # also the other end of the first one, which nobody has told


def test_packets_that_go_on_vanishing_end_the_attempt_as_the_links_fault_and_leave_no_ssh(
    hosts: netlab.Hosts, bench: ConsoleBench, link: SshLink
) -> None:
    bench.client().close()
    adapter = bench.adapter()
    with reader(link, socket_path(bench.runtime), adapter.link) as client:
        client._patience_s = 10.0
        hosts.tell("down")
        with pytest.raises(LabTransientError, match="is out of reach since") as caught:
            client.read_event(300.0)
        assert caught.value.failure == "console_link"
    link.reset()
    assert masters_of(link) == []
    assert not [path for path in link.folder.rglob("*") if path.is_socket()]
    hosts.cut()  # the other end, which nobody has told


def test_sixteen_consoles_share_one_connection(hosts: netlab.Hosts, bench: ConsoleBench, link: SshLink) -> None:
    bench.client().close()
    adapters = [bench.adapter(f"uart{number}") for number in range(CONSOLES)]
    clients = [reader(link, socket_path(bench.runtime), adapter.link) for adapter in adapters]
    assert len(hosts.connections()) == 1
    for number, (adapter, client) in enumerate(zip(adapters, clients, strict=True)):
        adapter.say(b"console %2d" % number)
        assert b"".join(chunk.data for chunk in taken(client, 10)) == b"console %2d" % number
        client.close()
    assert link.folder.stat().st_mode & 0o077 == 0
    sockets = [path for path in link.folder.rglob("*") if path.is_socket()]
    assert len(sockets) == 2  # ssh's own, and that of the console server
    assert all(path.stat().st_mode & 0o077 == 0 for path in sockets)


@pytest.mark.parametrize("delay_ms", [0, 20, 200])
def test_another_hosts_clock_is_within_its_bound_and_that_within_half_the_delay(
    hosts: netlab.Hosts, bench: ConsoleBench, link: SshLink, delay_ms: int
) -> None:
    adapter = bench.adapter()
    runtime = prepare(bench.folder / "other")
    hosts.tell(f"{delay_ms} 0.01")
    with (
        console_server_with_another_clock(runtime) as server,
        reader(link, server, adapter.link) as client,
    ):
        document = client.relation.document()
        assert abs(document["offset_ns"] - AHEAD_S * 10**9) <= document["bound_ns"]
        assert delay_ms / 2 * 1e6 <= document["bound_ns"] <= 0.55 * document["round_trip_ns"] + 1e6


def until(sampler: Sampler) -> int:
    """How far its trace has come here."""
    return int(sampler.trace().records["t_ns"].max(initial=0))


def test_rails_of_another_host_come_through_the_same_connection_and_a_cut_costs_no_sample(
    hosts: netlab.Hosts, link: SshLink, tmp_path: Path
) -> None:
    sensor, address = hwmon(tmp_path), rails_socket(tmp_path / "run")
    hosts.tell("20 0.01")
    with running_rails_server(tmp_path / "run"):
        with RailsServer(partial(link.forward, str(address)), netlab.HOST).sampling(
            sensor, tmp_path / "power.trace", line=time_line()
        ) as sampler:
            until_ns = MonotonicRaw().now_ns()
            wait_for(lambda: len(sampler.trace(until_ns).records) > 3, "the trace grows")
        assert Trace.open(tmp_path / "power.trace").ended
        assert len(hosts.connections()) == 1
        server = RailsServer(partial(link.forward, str(address)), netlab.HOST)
        with server.sampling(sensor, tmp_path / "power.trace") as sampler:
            for _ in range(3):
                assert hosts.cut() == 1
                until_ns = MonotonicRaw().now_ns()
                wait_for(lambda until_ns=until_ns: until(sampler) >= until_ns, "it goes on")  # type: ignore[misc]
        trace = Trace.open(tmp_path / "power.trace")
        assert trace.ended
        assert all(earlier < later for earlier, later in pairwise(trace.records["t_ns"])), "none twice"
        volts = RailsServer(partial(link.forward, str(address)), netlab.HOST).volts(sensor, 0.1)
        assert volts == {"vdd_core": pytest.approx(0.85)}


def test_straps_of_another_host_are_commands_there_and_are_read_back(
    hosts: netlab.Hosts, link: SshLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's own address stands in what a command writes there."""
    monkeypatch.setenv("BOARDLAB_SSH_CONFIG", str(hosts.ssh_config))
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(link.folder.parent))
    hosts.tell("20 0.01")
    target = Target("main")
    port = NetworkSerialPort(target, None, host="127.0.0.1", port=4000, protocol="raw")
    port.extra = PublishedPort("/run/console.sock", netlab.HOST, "m", "another boot", "/dev/ttyUSB0").extra()
    console = StampedConsoleDriver(target, None)
    monkeypatch.setattr(target, "get_strategy", lambda: SimpleNamespace(console=console))
    for bit in (0, 1):
        pin = tmp_path / f"strap {bit}"
        sets = ["sh", "-c", 'echo "$1 $(ip -br -4 address)" > "$2"', "-"]
        words = {"asserted": [*sets, "1", str(pin)], "deasserted": [*sets, "0", str(pin)]}
        CommandOutputDriver(target, f"B{bit}", at="console", reads=["head", "-c1", str(pin)], **words)
    straps = BootModeDriver(target, None, lines={0: "B0", 1: "B1"})
    target.activate(straps)
    for value in (0b01, 0b10, 0b11, 0b00):
        straps.set(value)
        assert straps.get() == value
    assert netlab.HOST in (tmp_path / "strap 1").read_text()
    assert len(hosts.connections()) == 1


def test_a_card_of_another_host_is_written_and_read_back_there_and_a_cut_ends_its_writer(
    hosts: netlab.Hosts, link: SshLink, tmp_path: Path
) -> None:
    card, data = tmp_path / "card", random.Random(19).randbytes(6 << 20)
    card.write_bytes(bytes(8 << 20))
    program = tmp_path / "lab"
    program.write_text(CARD_LAB.format(python=sys.executable, root=str(Path(__file__).parents[2])))
    program.chmod(0o755)
    there = CardHost(link, str(program))
    hosts.tell("20 0.01")
    disk = there.disk(str(card))
    assert disk.identity == f"on {netlab.HOST}"
    steps = [
        (WritePiece(0, None, start, data[start : start + (1 << 20)], first=not start), start)
        for start in range(0, len(data), 1 << 20)
    ]
    meter = Meter(len(data), lambda _progress: None, MonotonicRaw().now_ns, stall_s=60.0)
    blockdevice.write(disk.path, steps, meter, lambda _piece: "image", there.opened(disk))
    assert card.read_bytes()[: len(data)] == data
    assert blockdevice.compare(disk.path, steps, meter, there.opened(disk)).count == len(data)

    def cut_short() -> None:
        with there.opened(disk)(disk.path, meter, writable=True) as block:
            assert hosts.cut() == 1
            block.write(0, bytes(1 << 20))
            block.finish()

    with pytest.raises(MediaWriteFailedError, match="its writer ended"):
        cut_short()
    assert card.read_bytes()[: len(data)] == data
    assert there.disk(str(card)) == disk


def test_a_host_that_ssh_cannot_reach_is_said(hosts: netlab.Hosts, link: SshLink) -> None:
    nobody = SshLink("10.77.0.9", link.folder, str(hosts.ssh_config))
    with pytest.raises(LabTransientError, match=r"10\.77\.0\.9 .*connect") as caught:
        nobody.forward("/run/nobody.sock")
    assert caught.value.failure == "console_link"
