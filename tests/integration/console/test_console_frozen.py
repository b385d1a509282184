"""What the console server's stamps are worth when it stands still, its disk does, or the host's clocks do.

The truth is when the test wrote to the adapter; tests/support/freeze.py freezes many boots.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.console_bench import DEADLINE_S, Adapter, ConsoleBench, wait_for
from support.frozen_host import PAUSED, PAUSED_AND_SET, SUSPENDED, Shim

from lab.boards import MomentPattern
from lab.console import Chunk, ConsoleClient, Event, Moment, Suspended, find_moments
from lab.host.clock import MonotonicRaw

BYTE_NS = 1_000_000_000 // 11_520
PROMPT = b"\r\nboard login: "
PATTERNS = [MomentPattern(name="login", pattern=r"board login: ")]
SUSPENDED_S = 0.5
FIFO_BYTES = 62
BUSY_NS = 10_000_000  # now and then a busy host's kernel hands on a byte so much later, and nothing tells


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shim]:
    """Under which the console server starts."""
    shim = Shim(tmp_path)
    for name in ("LD_PRELOAD", "BOARDLAB_FREEZE"):
        monkeypatch.setenv(name, shim.environ[name])
    yield shim
    shim.block_disk(blocked=False)
    shim.close()


def moments(events: list[Event], client: ConsoleClient) -> list[Moment]:
    (port,) = client.status().ports
    return find_moments(events, PATTERNS, port.info.meta.timing)


def take(client: ConsoleClient, count: int) -> list[Event]:
    """All events up to the last of so many bytes."""
    events: list[Event] = []
    while count > sum(len(event.data) for event in events if isinstance(event, Chunk)):
        event = client.read_event(DEADLINE_S)
        assert event is not None, "bytes are missing"
        events.append(event)
    return events


@contextlib.contextmanager
def stopped(bench: ConsoleBench) -> Iterator[None]:
    """The server stands still meanwhile."""
    stat = Path(f"/proc/{bench.server_pid}/stat")
    os.kill(bench.server_pid, signal.SIGSTOP)
    wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "that the server stops")
    try:
        yield
    finally:
        os.kill(bench.server_pid, signal.SIGCONT)


def play(adapter: Adapter, data: bytes) -> list[int]:
    """Send bytes at the line's speed, a FIFO's load at a time; when each of them had left the board at the latest."""
    clock = MonotonicRaw()
    left: list[int] = []
    due_ns = clock.now_ns()
    for start in range(0, len(data), FIFO_BYTES):
        load = data[start : start + FIFO_BYTES]
        due_ns = max(due_ns + len(load) * BYTE_NS, clock.now_ns())
        time.sleep(max(0, due_ns - clock.now_ns()) / 1e9)
        left += [clock.now_ns()] * len(load)
        adapter.say(load)
    return left


def played(adapter: Adapter, data: bytes, left: list[int]) -> threading.Thread:
    """`play` beside the test; `left` gets the times."""
    thread = threading.Thread(target=lambda: left.extend(play(adapter, data)))
    thread.start()
    return thread


@pytest.mark.parametrize("talkative", [False, True])
def test_a_prompt_that_comes_as_the_server_stops_is_as_unsure_as_it_waited(
    bench: ConsoleBench, *, talkative: bool
) -> None:
    adapter, clock = bench.adapter(), MonotonicRaw()
    client, _ = bench.opened(adapter)
    events: list[Event] = []
    came_ns = []
    for _ in range(8):
        if talkative:  # then the server sends bytes of its own, and looks for them often
            adapter.say(b"Reached target Multi-User System.")
            events += take(client, 33)
        with stopped(bench):
            time.sleep(len(PROMPT) * BYTE_NS / 1e9)  # a line of this speed needs as long to bring it
            came_ns.append(clock.now_ns())
            adapter.say(PROMPT)
            time.sleep(0.15)  # the stall itself
        events += take(client, len(PROMPT))
    found = moments(events, client)
    assert len(found) == len(came_ns)
    late = [(m.t_ns - at_ns, m.uncertainty_ns) for m, at_ns in zip(found, came_ns, strict=True)]
    assert [(late_ns, about_ns) for late_ns, about_ns in late if late_ns > about_ns] == []


@pytest.mark.parametrize("frozen", ["server", "disk"])
def test_a_stall_longer_than_the_buffers_is_in_the_bound_of_every_read_behind_it(
    bench: ConsoleBench, shim: Shim, frozen: str
) -> None:
    adapter, client = bench.adapter(), bench.client()
    client.attach(client.open(adapter.link, fifo_bytes=FIFO_BYTES).name, write=False)
    data = b"".join(b"[%5d.000000] a line of a kernel" % n + PROMPT for n in range(400))
    left: list[int] = []
    line = played(adapter, data, left)
    events = take(client, 1000)
    if frozen == "disk":
        shim.block_disk(blocked=True)
        time.sleep(1.2)
        shim.block_disk(blocked=False)
    else:
        with stopped(bench):
            time.sleep(1.2)
    events += take(client, len(data) - sum(len(e.data) for e in events if isinstance(e, Chunk)))
    line.join()
    late = [(m.t_ns - left[m.position - 1], m.uncertainty_ns) for m in moments(events, client)]
    assert len(late) == 400
    assert max(late_ns for late_ns, _ in late) > 500_000_000
    beyond_ns = [late_ns - about_ns for late_ns, about_ns in late if late_ns > about_ns]
    assert len(beyond_ns) <= len(late) // 100
    assert max(beyond_ns, default=0) <= BUSY_NS


def while_stopped(bench: ConsoleBench, shim: Shim, clocks: tuple[int, ...]) -> list[Event]:
    """What a reader gets when the server is stopped for half a second, and these clocks do not count it."""
    adapter = bench.adapter()
    client, _ = bench.opened(adapter)
    adapter.say(b"before")
    events = take(client, 6)
    with stopped(bench):
        time.sleep(SUSPENDED_S)
        shim.set_back(clocks, round(SUSPENDED_S * 1e9))
    adapter.say(b"after")
    return events + take(client, 5)


@pytest.mark.parametrize("clocks", [SUSPENDED, PAUSED_AND_SET])
def test_a_host_that_was_suspended_is_told_to_the_readers_and_in_the_recording(
    bench: ConsoleBench, shim: Shim, clocks: tuple[int, ...]
) -> None:
    events = while_stopped(bench, shim, clocks)
    (told,) = [event for event in events if isinstance(event, Suspended)]
    assert abs(told.missing_ns - SUSPENDED_S * 1e9) < 2_000_000
    assert list(bench.recording().suspends()) == [told]


def test_a_paused_virtual_machine_leaves_no_trace_on_the_clocks(bench: ConsoleBench, shim: Shim) -> None:
    events = while_stopped(bench, shim, PAUSED)
    assert [event for event in events if isinstance(event, Suspended)] == []  # the board's own clock has to tell
    assert b"".join(event.data for event in events if isinstance(event, Chunk)) == b"beforeafter"
