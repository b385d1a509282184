"""A step between the host's clock and the kernel's is found whatever the lines waited, and no wait is taken for one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from attrs import evolve

from lab.console import Chunk, Event, Lateness, LineTiming
from lab.console.moments import missing_ns
from lab.console.printk import clock_step

S, MS = 1_000_000_000, 1_000_000
TIMING = LineTiming(speed_bd=115200, adapter_latency_ns=0, fifo_bytes=1, scheduling_ns=200_000)
START_NS = 7_000 * S


def booted(*, console_from_s: float = 0.0, seed: int = 1, seconds: float = 5.0, rate: float = 1.0) -> list[Event]:
    """A kernel's log on a line of 115200 Bd: what came before the console was there waits for it, all else for the line."""
    dice = random.Random(seed)
    kernel_s, free_ns, position = 0.01, START_NS + round(console_from_s * S), 0
    events: list[Event] = []
    while kernel_s < seconds:
        kernel_s += dice.choice([0.0002, 0.001, 0.02, 0.08])
        line = f"[{kernel_s:12.6f}] {'x' * dice.randint(5, 60)}\r\n".encode()
        begins_ns = max(free_ns, START_NS + round(kernel_s * rate * S))
        for at in range(0, len(line), 16):
            piece = line[at : at + 16]
            events.append(Chunk(begins_ns + TIMING.bytes_ns(at + len(piece)), position, piece))
            position += len(piece)
        free_ns = begins_ns + TIMING.bytes_ns(len(line))
    return events


def shifted(events: list[Event], by_ns: int, after_s: float) -> list[Event]:
    return [evolve(e, t_ns=e.t_ns + by_ns) if e.t_ns > START_NS + after_s * S else e for e in events]


@pytest.mark.parametrize("console_from_s", [0.0, 0.7, 1.5])
@pytest.mark.parametrize("seed", range(5))
def test_a_good_boot_has_no_step_however_long_its_first_lines_waited(console_from_s: float, seed: int) -> None:
    assert clock_step(booted(console_from_s=console_from_s, seed=seed), TIMING) == 0


@pytest.mark.parametrize("rate", [1 - 400e-6, 1 + 400e-6])
def test_crystals_that_differ_are_no_step(rate: float) -> None:
    assert clock_step(booted(seconds=30.0, rate=rate), TIMING) == 0


@pytest.mark.parametrize("missing_s", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("after_s", [1.0, 2.5, 4.5])
def test_time_that_is_missing_in_the_stamps_is_a_step_back(missing_s: float, after_s: float) -> None:
    found = clock_step(shifted(booted(), -round(missing_s * S), after_s), TIMING)
    assert found == pytest.approx(-missing_s * S, abs=20 * MS)


@pytest.mark.parametrize("after_s", [1.0, 2.5, 4.0])
def test_a_clock_that_jumped_ahead_and_stays_there_is_a_step(after_s: float) -> None:
    found = clock_step(shifted(booted(), 2 * S, after_s), TIMING)
    assert found == pytest.approx(2 * S, abs=20 * MS)


def test_a_host_that_read_late_is_no_step() -> None:
    """Three seconds of reads come at once at the end of a stall, and the server says so."""
    events: list[Event] = []
    for event in booted():
        if isinstance(event, Chunk) and START_NS + S < event.t_ns < START_NS + 4 * S:
            event = evolve(event, t_ns=START_NS + 4 * S)  # noqa: PLW2901
            if not any(isinstance(e, Lateness) for e in events):
                events.append(Lateness(event.t_ns, event.position, 3 * S))
        events.append(event)
    assert clock_step(events, TIMING) == 0


@pytest.mark.parametrize(
    "dressed",
    [
        lambda line: line.replace(b"] ", b"][    T1] ", 1),
        lambda line: b"<6>" + line,
        lambda line: b"2026-11-22T01:02:03+0100 " + line,
    ],
)
def test_the_kernels_time_is_found_whatever_stands_around_it(dressed: Callable[[bytes], bytes]) -> None:
    whole = b"".join(e.data for e in booted() if isinstance(e, Chunk))
    starts, events, position = {}, [], 0
    at = 0
    for event in booted():
        if isinstance(event, Chunk) and (event.position == 0 or whole[event.position - 1 : event.position] == b"\n"):
            starts[event.position] = event.t_ns
    for line in whole.splitlines(keepends=True):
        data = dressed(line)
        events.append(Chunk(starts[at] + TIMING.bytes_ns(len(data) - 16), position, data))
        at, position = at + len(line), position + len(data)
    late = [evolve(e, t_ns=e.t_ns - 2 * S) if e.t_ns > START_NS + 3 * S else e for e in events]
    assert clock_step(late, TIMING) < -S


@pytest.mark.parametrize("seed", range(10))
def test_a_garbled_digit_is_no_step(seed: int) -> None:
    dice = random.Random(seed)
    events = []
    for event in booted(seed=seed):
        assert isinstance(event, Chunk)
        if event.data.startswith(b"[") and dice.random() < 0.03:
            at = dice.randint(4, 11)
            event = evolve(event, data=event.data[:at] + dice.choice([b"9", b"0", b"7"]) + event.data[at + 1 :])  # noqa: PLW2901
        events.append(event)
    assert clock_step(events, TIMING) == 0


def held_up(events: list[Event], dice: random.Random, times: int) -> list[Event]:
    """The line pauses now and then for some milliseconds; what is behind slips, until the board pauses as well."""
    stops = sorted(START_NS + dice.randrange(5 * S) for _ in range(times))
    found: list[Event] = []
    free_ns = 0
    for event in events:
        assert isinstance(event, Chunk)
        while stops and stops[0] <= event.t_ns:
            free_ns = max(free_ns, stops.pop(0) + dice.randrange(3 * MS, 40 * MS))
        found.append(evolve(event, t_ns=max(event.t_ns, free_ns + TIMING.bytes_ns(len(event.data)))))
        free_ns = found[-1].t_ns
    return found


@pytest.mark.parametrize("times", [3, 20, 100])
@pytest.mark.parametrize("seed", range(10))
def test_a_line_that_pauses_within_a_queue_is_no_step(seed: int, times: int) -> None:
    events = held_up(booted(console_from_s=0.7, seed=seed), random.Random(seed), times)
    assert clock_step(events, TIMING) == 0
    assert clock_step(shifted(events, -S, 4.0), TIMING) < -S // 2


@pytest.mark.parametrize("seed", range(10))
def test_pauses_of_a_queue_that_late_stamps_explain_are_no_step(seed: int) -> None:
    """The first lines wait 600 ms for the console.

    None catches up, since the kernel logs at the line's speed.
    """
    dice, line_ns, events = random.Random(seed), TIMING.bytes_ns(64), list[Event]()
    logged_ns = left_ns = 0
    for number in range(120):
        logged_ns += line_ns if number < 60 else 80 * MS
        pause_ns = dice.choice([0, 0, 0, 4 * MS]) if number < 60 else 0
        left_ns = max(left_ns + line_ns + pause_ns, logged_ns + line_ns, 600 * MS)
        line = f"[{logged_ns / S:12.6f}] ".encode().ljust(62, b"x") + b"\r\n"
        events.append(Chunk(START_NS + left_ns, number * 64, line))
        logged_ns += pause_ns
    evidence = [Lateness(START_NS + at * S // 4, 0, 9 * MS) for at in range(24)]
    assert clock_step(sorted([*events, *evidence], key=lambda event: event.t_ns), TIMING) == 0


def test_few_lines_say_nothing() -> None:
    assert clock_step(booted(seconds=0.05), TIMING) == 0
    assert clock_step([], TIMING) == 0


@pytest.mark.parametrize(("position", "early_ms"), [(10, 16), (500, 0)], ids=["all bytes", "some are lost"])
def test_bytes_that_came_sooner_than_the_line_sends_them_show_missing_time_where_none_is_lost(
    position: int, early_ms: int
) -> None:
    events = [Chunk(START_NS, 0, b"x" * 10), Chunk(START_NS + MS, position, b"x" * 200)]
    assert missing_ns(events, TIMING) // MS == early_ms
