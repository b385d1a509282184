"""The console on a port of another host: behind a console server there, or a bare TCP port, which is flagged."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from labgrid import Target
from labgrid.resource import NetworkSerialPort, Resource
from pexpect import TIMEOUT
from support.console_bench import DEADLINE_S, ConsoleBench, running_bench, wait_for
from support.railsserved import hwmon, running_rails_server

from lab.benchmarks.boot import PowerEdge
from lab.console.client import ConsoleClient
from lab.console.published import PublishedPort, machine_id
from lab.console.serial_line import PortRequest
from lab.control.power_edge import bound_ns, relate, widen
from lab.drivers import StampedConsoleDriver
from lab.drivers.networkports import HOLD_NS, RemotePort, port_of
from lab.errors import ConfigurationError, LabTransientError
from lab.host.clock import MonotonicRaw, time_line
from lab.host.clockrelation import ClockReading, ClockRelation
from lab.host.runtime import socket_path
from lab.host.ssh import SshLink
from lab.host.tcp import own_address
from lab.metrics import Flag
from lab.rails.server import rails_socket
from lab.run.attempts import check_clocks, clocks_document, port_flags


@pytest.fixture
def bench() -> Iterator[ConsoleBench]:
    with running_bench() as bench:
        yield bench


def driver(port: int | None, extra: dict[str, object] | None = None, **options: str) -> StampedConsoleDriver:
    target = Target("main")
    resource = NetworkSerialPort(target, None, host="127.0.0.1", port=port, protocol="raw")
    resource.extra = extra or {}
    return StampedConsoleDriver(target, None, **options)


def published(bench: ConsoleBench) -> dict[str, object]:
    bench.client().close()
    device = str(bench.adapter().link)
    port = PublishedPort(str(socket_path(bench.runtime)), "127.0.0.1", machine_id(), time_line(), device, pty=True)
    return port.extra()


@pytest.mark.parametrize("forgets", ["forget_input", "start_capture"])
def test_text_from_before_a_timeout_is_forgotten(bench: ConsoleBench, forgets: str) -> None:
    """Else the prompt of a session that failed is found after the next boot, and commands are typed at its login prompt."""
    console = driver(4000, published(bench))
    console.target.activate(console)
    console.start_capture()
    bench.adapters[0].say(b"root@board:~# ")
    while console.captured() != b"root@board:~# ":
        with pytest.raises(TIMEOUT):
            console.expect("nothing like it", timeout=0.05)
    getattr(console, forgets)()
    bench.adapters[0].say(b"board login: ")
    assert console.expect([r"root@board:[^ ]*# ", "board login: "], timeout=DEADLINE_S)[0] == 1
    console.target.deactivate(console)


def test_a_published_port_of_this_host_is_read_without_ssh_with_the_stamps_of_its_server(bench: ConsoleBench) -> None:
    console = driver(4000, published(bench))
    console.target.activate(console)
    console.start_capture()
    bench.adapters[0].say(b"hello")
    wait_for(lambda: console.poll(0.1) or console.captured() == b"hello", "the bytes came")
    assert console.info is not None
    assert console.capture[-1] in list(bench.recording(console.info.name).events())
    console.send(b"typed")
    assert bench.adapters[0].heard(5) == b"typed"
    assert port_flags(console.info) == {Flag.SIMULATED}
    assert console.simulated
    assert console.relation is None
    assert clocks_document(console) == {}
    console.target.deactivate(console)


@pytest.mark.parametrize(("transport", "line"), [("auto", "another host's"), ("ssh", time_line())])
def test_the_rails_of_a_ports_host_are_reached_through_ssh(
    bench: ConsoleBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str, line: str
) -> None:
    bench.client().close()
    through_ssh = []

    def forward(link: SshLink, remote: str) -> Path:
        through_ssh.append(link.host)
        return Path(remote)

    monkeypatch.setattr(SshLink, "forward", forward)
    port = PublishedPort(
        str(socket_path(bench.runtime)),
        "127.0.0.1",
        machine_id(),
        line,
        "/dev/ttyUSB0",
        rails=str(rails_socket(bench.runtime)),
    )
    way = port_of(driver(4000, port.extra()).port, str(bench.runtime), transport)
    assert isinstance(way, RemotePort)
    with running_rails_server(bench.runtime):
        assert way.rails_server().volts(hwmon(tmp_path), 0.1) == {"vdd_core": pytest.approx(0.85)}
    assert set(through_ssh) == {"127.0.0.1"}


def test_a_published_port_that_nobody_serves_says_what_to_look_at() -> None:
    console = driver(None, {})
    with pytest.raises(LabTransientError, match=r"no exporter.*127\.0\.0\.1") as caught:
        console.target.activate(console)
    assert caught.value.failure == "exporter_gone"


def test_a_published_port_whose_adapter_is_away_may_come_back(bench: ConsoleBench) -> None:
    extra = published(bench)
    bench.adapters[0].link.unlink()
    console = driver(4000, extra)
    with pytest.raises(LabTransientError, match=r"127\.0\.0\.1: .*port") as caught:
        console.target.activate(console)
    assert caught.value.failure == "port_missing"


def test_an_exporter_of_another_version_is_said() -> None:
    console = driver(4000, {"boardlab_socket": "/run/x/console.sock"})
    with pytest.raises(ConfigurationError, match=r"another boardlab"):
        console.target.activate(console)
    console = driver(4000, {**PublishedPort("/a", "h", "m", "l", "/dev/x").extra(), "boardlab_socket": "/a:/etc"})
    with pytest.raises(ConfigurationError, match="says too little of it"):
        console.target.activate(console)


def test_a_bare_port_is_read_and_every_number_of_it_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        console = driver(server.getsockname()[1])
        console.target.activate(console)
        board, _ = server.accept()
        console.start_capture()
        board.sendall(b"U-Boot")
        wait_for(lambda: console.poll(0.1) or console.captured() == b"U-Boot", "the bytes came")
        console.send(b"x")
        board.settimeout(DEADLINE_S)
        assert board.recv(1) == b"x"
        assert console.info is not None
        assert port_flags(console.info) == {Flag.REMOTE_STAMP}
        assert console.info.meta.timing.delivery_ns == HOLD_NS
        assert not console.sync()
        board.close()
        with pytest.raises(LabTransientError) as caught:
            wait_for(lambda: console.poll(0.1), "the end is noticed")
        assert caught.value.failure == "port_lost"


class Switch:
    def __init__(self) -> None:
        self.clock: object = None


class Elsewhere:
    """A console whose stamps are on another host's clock."""

    def __init__(self, relation: ClockRelation | None) -> None:
        self.relation = relation


def test_switches_take_their_instants_on_the_consoles_time_line_and_say_how_sure_that_is() -> None:

    switch = Switch()
    switch.clock = here = MonotonicRaw()
    relate(Elsewhere(None), switch, None)
    assert switch.clock is here
    assert widen(PowerEdge(10, 20), switch.clock) == PowerEdge(10, 20)
    relation, now_ns = ClockRelation("lab-2"), here.now_ns()
    relation.add(ClockReading(now_ns - 4_000_000, now_ns + 10**12, now_ns, "line"))
    console = Elsewhere(relation)
    relate(console, switch)
    bound = bound_ns(switch.clock)
    assert 2_000_000 <= bound < 500_000_000
    assert switch.clock.now_ns() - here.now_ns() == pytest.approx(10**12, abs=2 * bound)
    edge = widen(PowerEdge(10**12, 10**12 + 5), switch.clock)
    assert edge.acknowledged_ns - edge.requested_ns >= 5 + 2 * 2_000_000
    relate(Elsewhere(None), switch)
    assert isinstance(switch.clock, MonotonicRaw)


def test_a_clock_that_jumps_while_something_is_measured_lets_the_attempt_fail(
    bench: ConsoleBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumped_ns = 0

    def clock(client: ConsoleClient) -> ClockReading:
        reading = asked(client)
        return ClockReading(reading.asked_ns, reading.there_ns + jumped_ns, reading.told_ns, "another host's")

    asked = ConsoleClient.clock
    monkeypatch.setattr(ConsoleClient, "clock", clock)
    console = driver(4000, published(bench))
    console.target.activate(console)
    since_ns = MonotonicRaw().now_ns()
    check_clocks(console, since_ns)
    jumped_ns = 100 * 10**9
    with pytest.raises(LabTransientError, match="has jumped") as caught:
        check_clocks(console, since_ns)
    assert caught.value.failure == "clock_unrelated"
    console.start_capture()
    check_clocks(console, MonotonicRaw().now_ns() + jumped_ns)  # related anew
    console.target.deactivate(console)


def test_a_hosts_name_that_is_none_is_said() -> None:
    with pytest.raises(ConfigurationError, match=r"lab\.\.example: .*no way"):
        own_address("lab..example")
    console = driver(4001)
    console.port.host = "lab..example"
    assert console.elsewhere == "lab..example"


def test_of_a_terminal_server_nobody_knows_where_the_boards_other_cables_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.drivers.networkports.is_own", lambda host: host == "lab-1")
    console = driver(4001)
    console.port.host = "moxa1"
    assert (console.elsewhere, console.board_host) == ("moxa1", "")
    console.port.parent = Resource(Target("place"), None)
    assert console.board_host == "moxa1"  # a place of labgrid's brings all that its board has
    console.port.host = "lab-1"
    assert (console.elsewhere, console.board_host) == ("", "")


def test_a_console_server_that_hangs_up_is_to_be_started_where_it_is() -> None:
    """No run starts one beside an exporter."""
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(socket_path(Path(folder))))
        server.listen()

        def hang_up() -> None:
            server.accept()[0].close()

        hangs_up = threading.Thread(target=hang_up)
        hangs_up.start()
        port = PublishedPort(str(socket_path(Path(folder))), "lab-2", machine_id(), time_line(), "/dev/ttyUSB0")
        with pytest.raises(LabTransientError, match=r"lab-2.*boardlab-console") as caught:
            port_of(driver(4000, port.extra()).port, "").connect(PortRequest(Path("/dev/ttyUSB0")))
        assert caught.value.failure == "console_server_gone"
        hangs_up.join()
