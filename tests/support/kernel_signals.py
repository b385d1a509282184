"""Edges of gpio-sim and frames of vcan, waited for by the product's own readers.

`tests/system/test_kernel_signals.py` runs it in a Linux that has both. Each event is stamped before and after it is made.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import frozen

from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.run.moment_sources import Instant, Signal, signal

EVENTS = 100
FLOOD = 3000  # frames: more than a socket's buffer holds
NARROW_NS, ANY_NS = 10_000_000, 60_000_000_000
STORM = 100  # edges: more than the kernel keeps for a line (16)
CONFIG = Path("/sys/kernel/config/gpio-sim/lab")
LINE, NAME = 3, "APP_READY"
FRAME = struct.Struct("=IB3x8s")
CLOCK = MonotonicRaw()


@frozen
class Lines:
    """A chip of gpio-sim."""

    chip: str
    pulls: Path

    def pull(self, level: int) -> None:
        self.pulls.write_text("pull-up" if level else "pull-down")


@pytest.fixture
def lines() -> Iterator[Lines]:
    (CONFIG / "bank" / f"line{LINE}").mkdir(parents=True)
    (CONFIG / "bank" / "num_lines").write_text("8")
    (CONFIG / "bank" / f"line{LINE}" / "name").write_text(NAME)
    (CONFIG / "live").write_text("1")
    chip = (CONFIG / "bank" / "chip_name").read_text().strip()
    device = (CONFIG / "dev_name").read_text().strip()
    yield Lines(chip, Path(f"/sys/devices/platform/{device}/{chip}/sim_gpio{LINE}/pull"))
    (CONFIG / "live").write_text("0")
    for folder in (CONFIG / "bank" / f"line{LINE}", CONFIG / "bank", CONFIG):
        folder.rmdir()


@frozen
class Bus:
    """A bus of vcan, from another node of it."""

    name: str
    node: socket.socket

    def send(self, identity: int, data: bytes = b"\1") -> None:
        self.node.send(FRAME.pack(identity, len(data), data))


@pytest.fixture
def bus() -> Iterator[Bus]:
    name = "vcan7"
    ip("link", "add", name, "type", "vcan")
    ip("link", "set", name, "up")
    with socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW) as node:
        node.bind((name,))
        yield Bus(name, node)
    if Path(f"/sys/class/net/{name}").exists():
        ip("link", "del", name)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def came(waiting: Signal, make: Callable[[], None]) -> tuple[Instant, int, int]:
    """The product's instant of an event, and the clock before and after it."""
    assert waiting.poll() is None
    before_ns = CLOCK.now_ns()
    make()
    after_ns = CLOCK.now_ns()
    deadline = time.monotonic() + 20
    while (found := waiting.poll()) is None:
        assert time.monotonic() < deadline, "the event did not come"
    waiting.close()
    return found, before_ns, after_ns


def assert_true(found: Instant, before_ns: int, after_ns: int, narrow_ns: int = NARROW_NS) -> None:
    assert found.t_ns - found.uncertainty_ns <= after_ns, "too late"
    assert found.t_ns >= before_ns, "too early"
    assert found.uncertainty_ns <= narrow_ns, "a bound that proves nothing agrees with everything"


@pytest.mark.parametrize(("line", "edge"), [(LINE, "rising"), (NAME, "falling")])
def test_edges(lines: Lines, line: int | str, edge: str) -> None:
    level = int(edge == "rising")
    for _ in range(EVENTS):
        lines.pull(1 - level)
        waiting = signal(f"gpio://{lines.chip}/{line}?edge={edge}", CLOCK, CLOCK.now_ns())
        assert_true(*came(waiting, lambda: lines.pull(level)))


def test_the_first_edge_of_more_than_the_kernel_keeps(lines: Lines) -> None:
    lines.pull(0)
    waiting = signal(f"gpio://{lines.chip}/{LINE}", CLOCK, CLOCK.now_ns())
    first: list[int] = []

    def storm() -> None:
        for _ in range(STORM):
            lines.pull(1)
            first.append(CLOCK.now_ns())
            lines.pull(0)

    found, before_ns, _ = came(waiting, storm)
    assert found.t_ns - found.uncertainty_ns <= first[0], "an edge that came later"
    assert found.t_ns >= before_ns


def test_a_chip_that_is_taken_away(lines: Lines) -> None:
    waiting = signal(f"gpio://{lines.chip}/{LINE}", CLOCK, CLOCK.now_ns())
    assert waiting.poll() is None
    (CONFIG / "live").write_text("0")
    with pytest.raises(LabTransientError, match="the GPIO chip is gone") as caught:
        waiting.poll()
    assert caught.value.failure == "tester_broken"
    waiting.close()
    (CONFIG / "live").write_text("1")


@pytest.mark.parametrize("line", ["8", "-1", "99999999999999999999", "NO_SUCH", "a/b", "%00"])
def test_a_line_that_is_not_there(lines: Lines, line: str) -> None:
    with pytest.raises(ConfigurationError, match="gpio") as caught:
        signal(f"gpio://{lines.chip}/{line}", CLOCK, CLOCK.now_ns())
    print(caught.value)


def test_a_line_that_is_in_use(lines: Lines) -> None:
    waiting = signal(f"gpio://{lines.chip}/{LINE}", CLOCK, CLOCK.now_ns())
    with pytest.raises(ConfigurationError, match=r"busy.*gpioinfo") as caught:
        signal(f"gpio://{lines.chip}/{LINE}", CLOCK, CLOCK.now_ns())
    print(caught.value)
    waiting.close()


def test_frames(bus: Bus) -> None:
    def found(narrow_ns: int) -> int:
        waiting = signal(f"can://{bus.name}/123", CLOCK, CLOCK.now_ns())
        event = came(waiting, lambda: bus.send(0x123))
        assert_true(*event, narrow_ns)
        return event[0].uncertainty_ns

    for _ in range(EVENTS):
        found(ANY_NS)
    other = signal(f"can://{bus.name}/1", CLOCK, CLOCK.now_ns())
    deadline = time.monotonic() + 20
    while found(ANY_NS) > NARROW_NS:
        assert time.monotonic() < deadline, "the kernel does not begin to stamp"
    assert sum(found(ANY_NS) > NARROW_NS for _ in range(EVENTS)) <= EVENTS // 20
    other.close()


def test_the_first_frame_among_more_than_a_socket_holds(bus: Bus) -> None:
    waiting = signal(f"can://{bus.name}/123", CLOCK, CLOCK.now_ns())
    times: list[int] = []

    def flood() -> None:
        for number in range(FLOOD):
            bus.send(0x200 + number % 16)
        times.append(CLOCK.now_ns())
        bus.send(0x123)
        times.append(CLOCK.now_ns())
        for _ in range(FLOOD):
            bus.send(0x123)

    found, _, _ = came(waiting, flood)
    assert found.t_ns - found.uncertainty_ns <= times[1], "a later one"
    assert found.t_ns >= times[0]


def test_a_frame_of_the_same_number_in_the_other_form(bus: Bus) -> None:
    standard = signal(f"can://{bus.name}/123", CLOCK, CLOCK.now_ns())
    extended = signal(f"can://{bus.name}/00000123", CLOCK, CLOCK.now_ns())
    bus.send(0x123 | socket.CAN_RTR_FLAG)
    bus.send(0x123 | socket.CAN_EFF_FLAG)
    assert standard.poll() is None
    assert extended.poll() is not None
    bus.send(0x123)
    assert standard.poll() is not None
    standard.close()
    extended.close()


def test_a_bus_that_goes_down(bus: Bus) -> None:
    waiting = signal(f"can://{bus.name}/123", CLOCK, CLOCK.now_ns())
    assert waiting.poll() is None
    ip("link", "set", bus.name, "down")
    with pytest.raises(LabTransientError, match="the CAN bus fails") as caught:
        waiting.poll()
    print(caught.value)
    waiting.close()


def test_a_bus_that_is_taken_away(bus: Bus) -> None:
    waiting = signal(f"can://{bus.name}/123", CLOCK, CLOCK.now_ns())
    ip("link", "del", bus.name)
    with pytest.raises(LabTransientError, match="the CAN bus fails") as caught:
        waiting.poll()
    print(caught.value)
    waiting.close()


def test_a_bus_that_is_down_from_the_start(bus: Bus) -> None:
    ip("link", "set", bus.name, "down")
    with pytest.raises(BoardlabError, match="ip link") as caught:
        signal(f"can://{bus.name}/123", CLOCK, CLOCK.now_ns()).poll()
    print(caught.value)


@pytest.mark.parametrize("channel", ["vcan99", "lo", "x" * 40])
def test_a_bus_that_is_not_there(channel: str) -> None:
    with pytest.raises(ConfigurationError, match="ip link show") as caught:
        signal(f"can://{channel}/123", CLOCK, CLOCK.now_ns())
    print(caught.value)


def test_a_wall_clock_that_is_set_between(bus: Bus) -> None:
    waiting = signal(f"can://{bus.name}/123", CLOCK, CLOCK.now_ns())
    assert waiting.poll() is None
    bus.send(0x123)
    wall = time.clock_gettime(time.CLOCK_REALTIME)
    time.clock_settime(time.CLOCK_REALTIME, wall + 3600)
    with pytest.raises(LabTransientError, match="it was set") as caught:
        waiting.poll()
    time.clock_settime(time.CLOCK_REALTIME, time.time() - 3600)
    assert caught.value.failure == "clock_unrelated"
    waiting.close()
