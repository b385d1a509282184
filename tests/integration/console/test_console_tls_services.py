"""What else the TLS front leads to: rails that outlive cuts, a pdudaemon that was named, and nothing to who may not."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from labgrid import Target
from labgrid.resource import PDUDaemonPort
from support import certificates
from support.console_bench import DEADLINE_S, ConsoleBench, running_bench
from support.playedpdudaemon import PlayedPdudaemon, running_pdudaemon
from support.prometheus_server import until
from support.railsserved import hwmon, running_rails_server
from support.tlsfront import HOST, Front, running_front

from lab.console.published import PublishedHost
from lab.console.tlsdoor import SharedTls
from lab.console.tlswords import CONSOLE, POWER, RAILS, power
from lab.console.wire import Deframer, FrameType, encode_message
from lab.drivers import StampedPDUDaemonDriver
from lab.errors import ConfigurationError, LabTransientError
from lab.host.clock import MonotonicRaw, time_line
from lab.host.tls import VARIABLE
from lab.rails import Sampler, Trace
from lab.rails.elsewhere import RailsServer
from lab.rails.server import rails_socket

pytestmark = pytest.mark.soak

CUTS = 3


@pytest.fixture(scope="module")
def bench() -> Iterator[ConsoleBench]:
    with running_bench() as bench:
        bench.client().close()
        yield bench


@pytest.fixture(scope="module")
def switch() -> Iterator[PlayedPdudaemon]:
    with running_pdudaemon() as switch:
        yield switch


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the rails server keeps its traces."""
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def running(
    bench: ConsoleBench, switch: PlayedPdudaemon, temporary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("front")
    with (
        running_rails_server(bench.runtime, temporary),
        running_front(folder, bench.runtime, switch.address) as front,
    ):
        yield front


@pytest.fixture
def front(running: Front, switch: PlayedPdudaemon) -> Front:
    """It runs, and nothing was said or switched yet."""
    running.log.write_bytes(b"")
    switch.asked.clear()
    return running


def rails(front: Front, patience_s: float = DEADLINE_S) -> RailsServer:
    door = front.door(RAILS)
    return RailsServer(lambda timeout_s: SharedTls(door.connect(timeout_s)), HOST, patience_s=patience_s)


def until_ns(sampler: Sampler) -> int:
    """How far its trace has come here."""
    return int(sampler.trace().records["t_ns"].max(initial=0))


def test_rails_come_as_they_grow_and_a_cut_costs_no_byte(front: Front, temporary: Path, tmp_path: Path) -> None:
    sensor, path = hwmon(tmp_path), tmp_path / "power.trace"
    assert rails(front).volts(sensor, 0.1) == {"vdd_core": pytest.approx(0.85)}
    with rails(front).sampling(sensor, path, line=time_line()) as sampler:
        for _ in range(CUTS):
            now_ns = MonotonicRaw().now_ns()
            until(lambda now_ns=now_ns: until_ns(sampler) >= now_ns, "it grows")  # type: ignore[misc]
            front.kill()
            front.start()
        now_ns = MonotonicRaw().now_ns()
        until(lambda: until_ns(sampler) >= now_ns, "it goes on")
        assert sampler.alive
        (there,) = temporary.glob("boardlab-rails-*/power.trace")
        kept = there.open("rb")
    with kept:
        assert path.read_bytes() == kept.read()
    trace = Trace.open(path)
    assert trace.ended
    assert len(trace.records) > CUTS


def test_a_rails_server_that_is_away_is_said(front: Front, bench: ConsoleBench, tmp_path: Path) -> None:
    address = rails_socket(bench.runtime)
    hidden = address.rename(address.with_name("hidden.sock"))
    try:
        with pytest.raises(
            LabTransientError, match=r"does not answer \(nothing answers at .*`lab rails serve` must run there"
        ):
            rails(front).volts(hwmon(tmp_path), 0.1)
    finally:
        hidden.rename(address)


def outlet(front: Front, port: int) -> StampedPDUDaemonDriver:
    """Of a pdudaemon at a port of another host's loopback."""
    target = Target("main")
    resource = PDUDaemonPort(target, None, host=f"localhost:{port}", pdu="rack 1", index=3)
    resource.extra = PublishedHost(HOST, "another boot", front.port).extra()
    driver = StampedPDUDaemonDriver(target, None)
    target.activate(driver)
    return driver


@pytest.fixture
def certified(front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(front.folder / "client"))
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path))


@pytest.mark.usefixtures("certified")
def test_power_is_switched_by_tls_and_the_connection_is_made_before_it_is_timed(
    front: Front, switch: PlayedPdudaemon
) -> None:
    driver = outlet(front, switch.server_port)
    driver.on()
    assert driver.edge is not None
    assert driver.edge.requested_ns < driver.edge.acknowledged_ns
    driver.off()
    assert switch.asked == [f"/power/control/{command}?hostname=rack+1&port=3" for command in ("on", "off")]
    until(lambda: front.said().count(b"has gone") == 2, "each order had a connection")
    driver.prepare()
    until(lambda: front.said().count(b"is here") == 3, "there is one before the order")
    driver.order("on")
    until(lambda: front.said().count(b"has gone") == 3, "the order had that one")
    assert front.said().count(power(switch.server_port).encode()) == 3


@pytest.mark.usefixtures("certified")
def test_power_is_there_again_after_a_cut(front: Front, switch: PlayedPdudaemon) -> None:
    driver = outlet(front, switch.server_port)
    driver.prepare()
    front.kill()
    front.start()
    driver.order("on")
    assert len(switch.asked) == 1
    front.kill()
    with pytest.raises(LabTransientError, match="does `lab console tls` run there") as caught:
        driver.off()
    assert caught.value.failure == "console_link"
    front.start()
    driver.off()
    assert len(switch.asked) == 2


@pytest.mark.usefixtures("certified")
def test_a_port_that_was_not_named_is_refused_in_one_line_on_both_sides(front: Front, switch: PlayedPdudaemon) -> None:
    with PlayedPdudaemon() as other:
        driver = outlet(front, other.server_port)
        with pytest.raises(ConfigurationError, match=r"this pdudaemon is not served: .*--pdudaemon") as caught:
            driver.on()
        assert f"served: {switch.address}" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert other.asked == switch.asked == []
    until(lambda: b"this pdudaemon is not served" in front.said(), "its log says so")


@pytest.mark.usefixtures("certified")
def test_a_front_that_was_told_of_no_pdudaemon_serves_none(front: Front, switch: PlayedPdudaemon) -> None:
    named, front.pdudaemons = front.pdudaemons, ()
    front.kill()
    front.start()
    try:
        with pytest.raises(ConfigurationError, match="served: none"):
            outlet(front, switch.server_port).on()
        assert switch.asked == []
    finally:
        front.pdudaemons = named
        front.kill()
        front.start()


@pytest.mark.usefixtures("certified")
def test_a_pdudaemon_that_is_away_is_said(front: Front) -> None:
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    named, front.pdudaemons = front.pdudaemons, (f"{HOST}:{port}",)
    front.kill()
    front.start()
    try:
        with pytest.raises(LabTransientError, match=f"nothing answers at {HOST}:{port}.*Start pdudaemon") as caught:
            outlet(front, port).on()
        assert caught.value.failure == "pdu_unreachable"
    finally:
        front.pdudaemons = named
        front.kill()
        front.start()


@pytest.fixture(scope="module")
def stranger(running: Front) -> str:
    """A certificate of an authority of its own."""
    made = running.folder / "another"
    made.mkdir()
    certificates.make(made, "stranger")
    identity = certificates.identity(made, "stranger", running.folder / "stranger")
    (identity / "ca.crt").write_bytes((running.folder / "client" / "ca.crt").read_bytes())
    return "stranger"


@pytest.mark.parametrize("wanted", [RAILS, POWER, "the named one"])
def test_without_a_certificate_of_the_authority_there_is_nothing_to_be_had(
    front: Front, switch: PlayedPdudaemon, stranger: str, wanted: str
) -> None:
    wanted = power(switch.server_port) if wanted == "the named one" else wanted
    with pytest.raises(ConfigurationError, match="ours is not of its authority"):
        front.door(wanted, stranger).connect(DEADLINE_S)
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(front.folder / "client" / "ca.crt")
    bare.set_alpn_protocols([wanted])
    with (
        bare.wrap_socket(socket.create_connection((HOST, front.port), DEADLINE_S), server_hostname=HOST) as opened,
        pytest.raises(OSError, match="certificate required"),
    ):
        opened.recv(1)
    until(lambda: front.said().count(b": refused: ") == 2, "the front says it as well")
    assert b"is here" not in front.said()
    assert switch.asked == []


@pytest.mark.parametrize("named", [[], [CONSOLE], ["h2", "http/1.1"]])
def test_who_names_nothing_that_is_known_here_gets_the_console(front: Front, named: list[str]) -> None:
    """As clients of an earlier boardlab, which name nothing."""
    context = front.identity().client()
    if named:
        context.set_alpn_protocols(named)
    with context.wrap_socket(socket.create_connection((HOST, front.port), DEADLINE_S), server_hostname=HOST) as opened:
        opened.sendall(encode_message(FrameType.REQUEST, {"op": "hello", "protocol": 1}))
        frames = list(Deframer().feed(opened.recv(4096)))
    assert [frame.type for frame in frames] == [FrameType.ANSWER]
    assert "error" not in frames[0].message()
