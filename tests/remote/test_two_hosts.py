"""Consoles of another host through real ssh: no byte lost over twenty cuts, one connection for all, and its clock within its bound."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import netlab
import pytest
from console_bench import ConsoleBench, running_bench, taken, wait_for
from otherhost import AHEAD_S, console_server_with_another_clock
from railsserved import hwmon, running_rails_server

from lab.console import ConsoleClient, Recording
from lab.console.resuming import PortOrder, ResumingClient
from lab.errors import LabTransientError
from lab.host.clock import MonotonicRaw, time_line
from lab.host.runtime import prepare, socket_path
from lab.host.sshlink import SshLink
from lab.rails import Trace
from lab.rails.elsewhere import RailsServer
from lab.rails.server import rails_socket

CUTS = 20
CONSOLES = 16  # more than sshd's MaxSessions
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
    return ConsoleClient(link.forwarded(str(server)))


def reader(link: SshLink, server: Path, device: Path) -> ResumingClient:
    order = PortOrder(str(device), 115200)
    return ResumingClient(partial(through, link, server), link.reset, order, netlab.HOST, write=True)


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


def test_rails_of_another_host_come_through_the_same_connection_and_a_cut_fails_what_is_measured(
    hosts: netlab.Hosts, link: SshLink, tmp_path: Path
) -> None:
    sensor, address = hwmon(tmp_path), rails_socket(tmp_path / "run")
    hosts.tell("20 0.01")
    with running_rails_server(tmp_path / "run"):
        with RailsServer(link.forwarded(str(address)), netlab.HOST).sampling(
            sensor, tmp_path / "power.trace", line=time_line()
        ) as sampler:
            until_ns = MonotonicRaw().now_ns()
            wait_for(lambda: len(sampler.trace(until_ns).records) > 3, "the trace grows")
        assert Trace.open(tmp_path / "power.trace").ended
        assert len(hosts.connections()) == 1

        def measure() -> None:
            server = RailsServer(link.forwarded(str(address)), netlab.HOST)
            with server.sampling(sensor, tmp_path / "power.trace") as sampler:
                assert hosts.cut() == 1
                wait_for(lambda: not sampler.alive, "the cut is noticed")

        with pytest.raises(LabTransientError, match="or the connection to it did") as caught:
            measure()
        assert caught.value.failure == "power_sampler"
        volts = RailsServer(link.forwarded(str(address)), netlab.HOST).volts(sensor, 0.1)
        assert volts == {"vdd_core": pytest.approx(0.85)}


def test_a_host_that_ssh_cannot_reach_is_said(hosts: netlab.Hosts, link: SshLink) -> None:
    nobody = SshLink("10.77.0.9", link.folder, str(hosts.ssh_config))
    with pytest.raises(LabTransientError, match=r"ssh to 10\.77\.0\.9 cannot connect") as caught:
        nobody.forwarded("/run/nobody.sock")
    assert caught.value.failure == "console_link"
