"""Signals beside the console: their instants on the clock of its stamps."""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import gpiod
import pytest
from attrs import define, field
from support import gpiod_lines
from support.atlength import either
from support.console_bench import ConsoleBench
from support.instants import InstantBoard, instant_board

from lab.boards import MomentPattern
from lab.console import Chunk, ConsoleClient, Event
from lab.console.moments import find_moments
from lab.errors import ConfigurationError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.run import moment_sources
from lab.run.moment_sources import Answer, Instant, StampRelation, signal

CLOCK = MonotonicRaw()
ROUNDS = either(10, 1000)


@pytest.fixture
def played_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board's lines stand in for gpiod's."""
    monkeypatch.setitem(sys.modules, "gpiod", gpiod_lines)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[ConsoleBench]:
    found = ConsoleBench(tmp_path)
    yield found
    found.close()


@pytest.mark.usefixtures("played_lines")
def test_pin_frame_and_network_agree_on_an_instant_within_their_bounds(bench: ConsoleBench, tmp_path: Path) -> None:
    adapter = bench.adapter()
    client, info = bench.opened(adapter, write=True)  # as a run: the probe sends
    text = b"\r\nmyapp: ready"
    pattern = [MomentPattern("app.line", "myapp: ready")]
    widths: dict[str, list[int]] = {}
    stream: list[Event] = []  # evidence of late reads counts for the second after it
    late = 0
    for number in range(ROUNDS):
        (folder := tmp_path / f"b{number}").mkdir()
        with instant_board(folder, adapter.board) as board:
            found, spread_ns = instants(board, text), board.spread_ns
        stream += heard(client, len(text))
        line = find_moments(stream, pattern, info.meta.timing)[-1]
        earliest = {name: each.t_ns - each.uncertainty_ns for name, each in found.items()}
        latest = {name: each.t_ns for name, each in found.items()}
        assert max(earliest.values()) <= min(latest.values()) + spread_ns, (number, earliest, latest, spread_ns)
        assert line.t_ns >= max(earliest.values()) - spread_ns, "a stamp of the console is never early"
        late += line.t_ns - line.uncertainty_ns > min(latest.values()) + spread_ns
        widths.setdefault("spread", []).append(spread_ns)
        for name, each in found.items():
            widths.setdefault(name, []).append(each.uncertainty_ns)
    client.close()
    assert late <= max(1, ROUNDS // 100), "beyond its ± with no evidence: a rare one on a busy host"
    assert sorted(widths["app.pin"])[ROUNDS // 2] < 10_000_000, "a bound that proves nothing agrees with everything"


def heard(client: ConsoleClient, count: int) -> list[Event]:
    """The events up to so many bytes, with the evidence of late reads among them."""
    events: list[Event] = []
    while sum(len(event.data) for event in events if isinstance(event, Chunk)) < count:
        event = client.read_event(20.0)
        assert event is not None, "the console is silent"
        events.append(event)
    return events


def instants(board: InstantBoard, text: bytes) -> dict[str, Instant]:
    """The instants of all signals of one firing."""
    since_ns = CLOCK.now_ns()
    waiting = {name: signal(address, CLOCK, since_ns) for name, address in board.addresses.items()}
    opened = list(waiting.values())
    board.wait()
    firing = threading.Timer(0.02, board.fire, [text])
    firing.start()
    found: dict[str, Instant] = {}
    ends = time.monotonic() + 30
    while waiting:
        assert time.monotonic() < ends, f"{', '.join(waiting)} did not come"
        time.sleep(0.001)  # the board is a thread of this process
        for name, each in list(waiting.items()):
            came = each.poll()
            if came is not None:
                found[name] = came
                del waiting[name]
    firing.join()
    for each in opened:
        each.close()
    return found


@define
class Steps:
    """A clock that shows given readings, the last one for ever."""

    readings: list[int]
    name: str = field(default="test")

    def now_ns(self) -> int:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def test_a_stamp_is_converted_with_all_that_the_clocks_moved_meanwhile() -> None:
    other = iter([1_000_000_000] * 3 + [1_000_150_000] * 3)
    ours = Steps([0, 0] * 3 + [100_000, 100_000] * 3)
    relation = StampRelation(ours, lambda: next(other), "CLOCK_OTHER")
    relation.look()
    found = relation.instant(1_000_075_000)
    assert found.t_ns - found.uncertainty_ns <= 50_000 <= found.t_ns, "at half of either clock's way"
    assert found.uncertainty_ns >= 2 * 50_000, "the other went 50 us faster"


class Related(StampRelation):
    """A relation of a clock to itself, read at 100, 200, ..."""

    def __init__(self) -> None:
        self._ticks = 0
        super().__init__(self, self.now_ns, "CLOCK_REALTIME")

    def now_ns(self) -> int:
        self._ticks += 100
        return self._ticks


@pytest.mark.parametrize(("number", "is_first"), [(1, True), (17, False)])
def test_a_first_edge_that_the_kernel_dropped_came_since_the_last_look_without_one(
    number: int, is_first: bool
) -> None:
    relation = Related()
    looks: list[list[object]] = [[]]
    request = SimpleNamespace(wait_edge_events=lambda _s: True, read_edge_events=looks.pop)
    edge = moment_sources._Edge(request, relation, 0)
    quiet_ns = relation._ticks + 100
    assert edge.poll() is None
    looks.append([SimpleNamespace(timestamp_ns=relation._ticks + 150, line_seqno=number)])
    found = edge.poll()
    assert found is not None
    assert (found.t_ns - found.uncertainty_ns == quiet_ns) != is_first
    assert (found.uncertainty_ns > moment_sources._STAMP_NS) == is_first


@pytest.mark.parametrize(("early_ns", "is_kernels"), [(50_000, True), (0, False)])
def test_a_frame_that_is_stamped_as_it_is_read_came_since_the_last_look_without_one(
    early_ns: int, is_kernels: bool
) -> None:
    relation = Related()
    relation._ticks = 1_000_000
    looks: list[list[object]] = [[None]]
    frame = moment_sources._Frame(SimpleNamespace(recv=lambda _s: looks[-1].pop(0)), 0x123, False, relation, 0)
    quiet_ns = relation._ticks + 100
    assert frame.poll() is None
    usual = {"arbitration_id": 0x123, "is_extended_id": False, "is_error_frame": False, "is_remote_frame": False}
    others: tuple[dict[str, object], ...] = (
        {"is_extended_id": True},
        {"is_remote_frame": True},
        {"is_error_frame": True},
        {"arbitration_id": 1},
        {},
    )
    stamp_s = (relation._ticks + 250 - early_ns) / 1e9
    looks.append([SimpleNamespace(timestamp=stamp_s, **{**usual, **changes}) for changes in others])
    found = frame.poll()
    assert found is not None
    assert looks[-1] == [], "the last one"
    assert (found.t_ns - found.uncertainty_ns == quiet_ns) != is_kernels


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ([124], None),
        ([124, 124, 124], "frames came while the bus was opened"),
        ([123], "frames came while the bus was opened"),
    ],
)
def test_frames_that_come_with_socketcands_answer_are_not_taken_for_a_bus_that_is_down(
    frames: list[int], told: str | None
) -> None:
    """python-can refuses them; a frame that was waited for must not be lost unseen."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for frame in [*frames, *([None] if told is None else [])]:
                client = server.accept()[0]
                client.sendall(b"< hi >")
                for more in (b"", f"< frame {frame} 23.424242 11 >".encode() if frame else b""):
                    client.recv(100)
                    client.sendall(b"< ok >" + more)

        threading.Thread(target=serve, daemon=True).start()
        address = f"can://can0/123?interface=socketcand&host=127.0.0.1&port={server.getsockname()[1]}"
        if told is None:
            signal(address, MonotonicRaw(), 0).close()
            return
        with pytest.raises(LabTransientError, match=told) as caught:
            signal(address, MonotonicRaw(), 0)
        assert caught.value.failure == "tester_broken"


@pytest.mark.parametrize(("stamp_ns", "told"), [(-300_000_000, "0.300 s before"), (5_000_000_000, "4.000 s after")])
def test_a_stamp_of_another_hosts_clock_is_refused(stamp_ns: int, told: str) -> None:
    ours = Steps([0, 0] * 3 + [1_000_000_000])
    relation = StampRelation(ours, lambda: ours.readings[0], "CLOCK_REALTIME")
    relation.look()
    assert relation.instant(500_000_000).t_ns >= 500_000_000
    with pytest.raises(LabTransientError, match=f"{told} .*CLOCK_REALTIME") as caught:
        relation.instant(stamp_ns)
    assert caught.value.failure == "clock_unrelated"


def test_a_pin_of_labgrid_is_between_the_last_look_at_its_old_level_and_the_first_at_its_new_one() -> None:
    levels = {"APP": [True, False, True], "LOW": [True, False]}
    asked: list[str] = []

    def pin(name: str) -> Callable[[], bool]:
        asked.append(name)
        return lambda: levels[name].pop(0)

    falling = signal("pin://LOW?edge=falling", Steps([10, 20, 30, 40]), 0, pin)
    assert falling.poll() is None
    assert falling.poll() == Instant(40, 30), "from the begin of the look before on"
    rising = signal("pin://APP", Steps([10, 20]), 3, pin)
    assert rising.poll() == Instant(20, 17), "it was high at once: any time since power on"
    assert asked == ["LOW", "APP"]


def test_a_try_in_which_the_host_stood_still_does_not_show_that_there_was_no_answer() -> None:
    tries = iter([False, False, True])
    clock = Steps([0, 200_000_000, 300_000_000, 900_000_000, 910_000_000, 920_000_000])
    found = Answer(lambda: next(tries), clock, -50)
    assert [found.poll(), found.poll()] == [None, None]
    assert found.poll() == Instant(920_000_000, 920_000_000), "only the first try, of 0.2 s, shows something"


def test_a_web_server_that_needs_half_a_second_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            client, _ = listening.accept()
            with client:
                client.recv(1000)
                assert not select.select([client], [], [], 0.5)[0], "the client waits"
                client.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

        server = threading.Thread(target=serve)
        server.start()
        assert signal(f"http://127.0.0.1:{listening.getsockname()[1]}/", CLOCK, CLOCK.now_ns()).poll() is not None
        server.join()


def test_a_stamp_of_a_clock_that_was_set_is_refused() -> None:
    other = iter([0] * 3 + [3_600_000_000_000] * 3)
    relation = StampRelation(Steps([0]), lambda: next(other), "CLOCK_REALTIME")
    relation.look()
    with pytest.raises(LabTransientError, match=r"REALTIME.*3600000\.0 ms") as caught:
        relation.instant(5)
    assert caught.value.failure == "clock_unrelated"


def test_a_port_answers_when_something_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert signal(f"tcp://127.0.0.1:{port}", CLOCK, CLOCK.now_ns()).poll() is not None
    assert signal(f"tcp://127.0.0.1:{port}", CLOCK, 0).poll() is None
    assert signal(f"http://127.0.0.1:{port}/", CLOCK, 0).poll() is None


@pytest.mark.parametrize(
    ("status", "said", "answers"), [(0, "", True), (1, "", False), (2, "Network is unreachable", False)]
)
def test_an_echo_is_pings_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, said: str, answers: bool
) -> None:
    (ping := tmp_path / "ping").write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked\necho "{said}" >&2\nexit {status}\n'
    )
    ping.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert (signal("icmp://192.168.7.2", CLOCK, 0).poll() is not None) == answers
    assert (tmp_path / "asked").read_text().split()[-1] == "192.168.7.2"


def test_ping_that_cannot_work_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ping := tmp_path / "ping").write_text("#!/bin/sh\necho ping: nohost: Name or service not known >&2\nexit 2\n")
    ping.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ConfigurationError, match=r"icmp://nohost.*not known"):
        signal("icmp://nohost", CLOCK, 0).poll()
    ping.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"ping: .*iputils-ping"):
        signal("icmp://nohost", CLOCK, 0).poll()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("192.168.7.2", "is no signal: tcp://HOST:PORT, icmp"),
        ("tcp://192.168.7.2", "is no signal"),
        ("ftp://x", "is no signal"),
        ("tcp://[", "Invalid IPv6"),
        ("http://", "is no signal"),
        ("gpio://gpiochip99/4", "/dev/gpiochip99: No such file or directory; `gpiodetect` lists"),
        ("gpio://gpiochip0/4?edge=both", "gpio://gpiochip0/17"),
        ("gpio://gpiochip0", "gpio://gpiochip0/17"),
        ("gpio:///dev/null/4", "is the line there and free"),
        ("can://can0/xyz", "with the frame's id in hexadecimal digits"),
        ("can://can0/-5", "with the frame's id in hexadecimal digits"),
        ("can://can0/20000000", "eight digits are an extended id"),
        ("can://nocan7/123", "is the bus up .ip link show nocan7"),
        ("can://can0/123?interface=socketcand&host=bench-2&port=29536", "unknown which clock stamps the frames"),
        ("can://PCAN_USBBUS1/123?interface=pcan", "unknown which clock stamps the frames"),
        ("pin://APP", "is no signal"),
    ],
)
def test_a_wrong_address_is_told_with_its_remedy(address: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        signal(address, CLOCK, 0)


def test_a_library_that_is_not_there_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys  # noqa: PLC0415 - of this test

    monkeypatch.setitem(sys.modules, "can", None)
    with pytest.raises(ConfigurationError, match=r"install 'boardlab\[can\]'"):
        signal("can://can0/123", CLOCK, 0)


def test_the_stand_in_has_the_names_of_gpiod() -> None:
    real = gpiod.LineSettings(
        direction=gpiod.line.Direction.INPUT,
        edge_detection=gpiod.line.Edge.FALLING,
        event_clock=gpiod.line.Clock.MONOTONIC,
    )
    played = gpiod_lines.LineSettings(
        direction=gpiod_lines.line.Direction.INPUT,
        edge_detection=gpiod_lines.line.Edge.FALLING,
        event_clock=gpiod_lines.line.Clock.MONOTONIC,
    )
    assert (real.edge_detection.name, played.edge_detection.name) == ("FALLING", "FALLING")
    for name in ("wait_edge_events", "read_edge_events", "release"):
        assert hasattr(gpiod.LineRequest, name)
        assert hasattr(gpiod_lines.LineRequest, name)
    assert {"line_offset", "timestamp_ns"} <= gpiod.EdgeEvent.__dataclass_fields__.keys()


@pytest.mark.usefixtures("played_lines")
def test_a_bench_that_ends_is_the_labs_failure(tmp_path: Path) -> None:
    read, write = os.pipe()
    with instant_board(tmp_path, write) as board:
        pin = signal(board.addresses["app.pin"], CLOCK, 0)
        assert pin.poll() is None
        while not board._pins:
            time.sleep(0.001)
    with pytest.raises(LabTransientError, match="the GPIO chip is gone"):
        pin.poll()
    os.close(read)
    os.close(write)
