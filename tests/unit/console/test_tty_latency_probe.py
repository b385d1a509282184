"""The byte that the server sends through the kernel to see how late others come."""

from __future__ import annotations

import gc
import os
import select
import socket
import tempfile
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.console import loop
from lab.console.connection import Connection
from lab.console.latency import INTERVAL_NS, OVERDUE_NS, TtyLatencyProbe
from lab.console.loop import ConsoleServer
from lab.console.model import LATE_WINDOW_NS, Lateness
from lab.console.port import ServedPort
from lab.console.serial_line import PortRequest
from lab.host.clock import MonotonicRaw
from lab.host.runtime import prepare
from lab.host.scheduling import EVIDENCE_NS, Heartbeat, Scheduling

NOW_NS = 10**12
HELD_UP_NS = 9_000_000
LOOKS = 20  # of a server without bytes: one at each heartbeat, and one when a byte of its own arrives


@pytest.fixture
def probe() -> Iterator[TtyLatencyProbe]:
    made = TtyLatencyProbe()
    yield made
    made.close()


def pass_on(probe: TtyLatencyProbe, sent_ns: int, arrived_ns: int) -> None:
    """A byte goes through."""
    probe.send(sent_ns)
    assert select.select([probe.fd], [], [], 10)[0] == [probe.fd]
    probe.take_arrival(arrived_ns)


def test_a_byte_goes_alone_and_tells_how_long_it_has_been_going(probe: TtyLatencyProbe) -> None:
    assert probe.transit_ns(NOW_NS) == probe.late_ns(NOW_NS) == 0
    probe.send(NOW_NS)
    probe.send(NOW_NS + 5)
    assert probe.transit_ns(NOW_NS + 1_000) == probe.late_ns(NOW_NS + 1_000) == 1_000
    assert select.select([probe.fd], [], [], 10)[0]
    probe.take_arrival(NOW_NS + 1_500)
    assert probe.transit_ns(NOW_NS + 2_000) == probe.late_ns(NOW_NS + 2_000) == 0
    probe.send(NOW_NS + INTERVAL_NS - 1)
    assert probe.late_ns(NOW_NS + INTERVAL_NS) == 0
    probe.send(NOW_NS + INTERVAL_NS)
    assert probe.late_ns(NOW_NS + INTERVAL_NS + 7) == 7


def test_a_byte_that_is_announced_too_early_is_still_on_its_way(probe: TtyLatencyProbe) -> None:
    probe.take_arrival(NOW_NS)  # nothing has come
    pass_on(probe, NOW_NS, NOW_NS + 1_000)
    probe.send(NOW_NS + INTERVAL_NS)
    probe.take_arrival(NOW_NS + 2 * INTERVAL_NS)  # perhaps before it has come
    assert probe.transit_ns(NOW_NS + 2 * INTERVAL_NS) in {0, INTERVAL_NS}


def test_others_may_have_waited_since_the_byte_before_the_one_that_is_late(probe: TtyLatencyProbe) -> None:
    pass_on(probe, NOW_NS, NOW_NS + 20_000)
    sent_ns = NOW_NS + INTERVAL_NS
    probe.send(sent_ns)
    assert probe.late_ns(sent_ns + EVIDENCE_NS) == EVIDENCE_NS  # as usual, so far
    assert probe.late_ns(sent_ns + EVIDENCE_NS + 1) == INTERVAL_NS + EVIDENCE_NS + 1 - 20_000


def test_others_may_have_waited_as_long_as_no_byte_was_sent_although_it_was_time(probe: TtyLatencyProbe) -> None:
    probe.bytes_came(NOW_NS)
    pass_on(probe, NOW_NS, NOW_NS + 20_000)
    assert probe.late_ns(NOW_NS + INTERVAL_NS + OVERDUE_NS) == 0
    assert probe.late_ns(NOW_NS + INTERVAL_NS + OVERDUE_NS + 1) == INTERVAL_NS + OVERDUE_NS + 1 - 20_000


def test_that_no_byte_was_sent_while_nothing_came_says_nothing(probe: TtyLatencyProbe) -> None:
    pass_on(probe, NOW_NS, NOW_NS + 20_000)
    assert probe.late_ns(NOW_NS + LATE_WINDOW_NS) == 0
    probe.bytes_came(NOW_NS + LATE_WINDOW_NS)
    assert probe.late_ns(NOW_NS + LATE_WINDOW_NS + OVERDUE_NS) == 0


def test_bytes_are_due_for_a_second_after_others_came_and_all_the_time_while_somebody_measures(
    probe: TtyLatencyProbe,
) -> None:
    assert probe.timeout_s(NOW_NS) is None
    probe.bytes_came(NOW_NS)
    assert probe.timeout_s(NOW_NS) == 0.0
    probe.send(NOW_NS)
    assert probe.timeout_s(NOW_NS + INTERVAL_NS) is None, "its byte is on its way, and epoll tells of it"
    assert select.select([probe.fd], [], [], 10)[0]
    probe.take_arrival(NOW_NS + 1_000)
    assert probe.timeout_s(NOW_NS + 1_000_000) == (INTERVAL_NS - 1_000_000) / 1e9
    assert probe.timeout_s(NOW_NS + LATE_WINDOW_NS) is None
    probe.measuring = True
    assert probe.timeout_s(NOW_NS + 1_000 * LATE_WINDOW_NS) == 0.0


class WatchedProbe(TtyLatencyProbe):
    """Ends the server when a byte is due, or after some looks.

    Attributes:
        due: whether one was due, at each look.
    """

    server: ConsoleServer

    def __init__(self) -> None:
        super().__init__()
        self.due: list[bool] = []

    def timeout_s(self, now_ns: int) -> float | None:
        wait_s = super().timeout_s(now_ns)
        self.due.append(wait_s is not None)
        if self.due[-1] or len(self.due) >= LOOKS:
            self.server.stop()
        return wait_s


class HeldUpProbe(TtyLatencyProbe):
    """Says at the first question that others' bytes may have waited; only then comes one, and with it the server ends.

    Attributes:
        looks: of the server before that question.
    """

    server: ConsoleServer
    board: int

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.said = False

    def timeout_s(self, now_ns: int) -> float | None:  # noqa: ARG002
        if not self.said:
            self.looks += 1
        return 0.0

    def late_ns(self, now_ns: int) -> int:  # noqa: ARG002
        if self.said:
            return 0
        self.said = True
        os.write(self.board, b"x")
        return HELD_UP_NS


@pytest.fixture
def quiet_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in this process leaves alone what the other tests need."""
    monkeypatch.setattr(loop, "raise_priority", lambda: Scheduling("as it is", 0))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "disable", lambda: None)


@pytest.fixture
def uarts() -> Iterator[list[tuple[int, Path]]]:
    """The boards' ends of two ports, and the ports."""
    pairs = [os.openpty() for _ in range(2)]
    for _, device in pairs:
        tty.setraw(device)
    yield [(board, Path(os.ttyname(device))) for board, device in pairs]
    for fd in (fd for pair in pairs for fd in pair):
        os.close(fd)


@pytest.fixture
def uart(uarts: list[tuple[int, Path]]) -> tuple[int, Path]:
    """One of them."""
    return uarts[0]


@pytest.mark.usefixtures("quiet_host")
@pytest.mark.parametrize("write", [True, False])
def test_a_server_looks_how_late_bytes_come_as_long_as_somebody_may_write_to_a_port_that_says_nothing(
    monkeypatch: pytest.MonkeyPatch, uart: tuple[int, Path], write: bool
) -> None:
    watched = WatchedProbe()
    monkeypatch.setattr(loop, "TtyLatencyProbe", lambda: watched)
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with tempfile.TemporaryDirectory() as folder, select.epoll() as epoll, theirs:
        server = watched.server = ConsoleServer(prepare(Path(folder) / "run"), MonotonicRaw())
        port: ServedPort = server.open_port(PortRequest(uart[1], name="uart"))
        port.attach(Connection(ours, epoll), write)
        server.run()
        ours.close()
    assert any(watched.due) == write


@pytest.mark.usefixtures("quiet_host")
def test_a_look_at_which_nothing_had_come_is_evidence_for_what_comes_at_the_next(
    monkeypatch: pytest.MonkeyPatch, uart: tuple[int, Path]
) -> None:
    probe = HeldUpProbe()
    probe.board = uart[0]
    monkeypatch.setattr(loop, "TtyLatencyProbe", lambda: probe)
    monkeypatch.setattr(loop, "Heartbeat", lambda: Heartbeat(1000 * LATE_WINDOW_NS))  # no other reason to look
    publish = ServedPort.publish
    told: list[Lateness | None] = []

    def published(port: ServedPort, t_ns: int, data: bytes, late: Lateness | None) -> None:
        publish(port, t_ns, data, late)
        told.append(late)
        probe.server.stop()

    monkeypatch.setattr(ServedPort, "publish", published)
    with tempfile.TemporaryDirectory() as folder:
        probe.server = ConsoleServer(prepare(Path(folder) / "run"), MonotonicRaw())
        probe.server.open_port(PortRequest(uart[1], name="uart"))
        probe.server.run()
    assert probe.looks == 1
    assert told[0] is not None
    assert told[0].lateness_ns >= HELD_UP_NS


@pytest.mark.usefixtures("quiet_host")
@pytest.mark.parametrize("waiting", [0, loop.BACKLOG_CHUNKS])
def test_all_that_came_is_stamped_before_any_of_it_is_handed_out(
    monkeypatch: pytest.MonkeyPatch, uarts: list[tuple[int, Path]], waiting: int
) -> None:
    monkeypatch.setattr(loop, "BACKLOG_CHUNKS", waiting)
    clock, publish = MonotonicRaw(), ServedPort.publish
    stamps_ns: list[int] = []
    handed_out_ns: list[int] = []
    came = {"uart0": b"", "uart1": b""}

    def published(port: ServedPort, t_ns: int, data: bytes, late: Lateness | None) -> None:
        if not stamps_ns:
            os.write(uarts[0][0], b"y")
        stamps_ns.append(t_ns)
        came[port.meta.name] += data
        publish(port, t_ns, data, late)
        handed_out_ns.append(clock.now_ns())
        if b"y" in data:
            server.stop()

    monkeypatch.setattr(ServedPort, "publish", published)
    with tempfile.TemporaryDirectory() as folder:
        server = ConsoleServer(prepare(Path(folder) / "run"), clock)
        for name, (board, device) in zip(came, uarts, strict=True):
            port = server.open_port(PortRequest(device, name=name))
            os.write(board, b"x")
            assert select.select([port.line.fd], [], [], 10)[0]
        server.run()
    assert came == {"uart0": b"xy", "uart1": b"x"}
    assert max(stamps_ns[:2]) < handed_out_ns[0] < stamps_ns[2]
