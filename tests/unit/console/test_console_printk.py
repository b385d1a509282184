"""The kernel's times against the host's: the rate and the queueing that were put in come out."""

from __future__ import annotations

import random

import pytest
from support.console_bench import KERNEL_START_NS, kernel_log

from lab.console import Chunk, Event, LineTiming, fit_printk
from lab.console.model import Lateness
from lab.console.printk import clock_step

TIMING = LineTiming(speed_bd=115200)
BYTE_NS = TIMING.bytes_ns(1)


@pytest.mark.parametrize("ppm", [0.0, 80.0, -450.0, 20_000.0])
def test_the_rate_between_the_clocks_is_found(ppm: float) -> None:
    fit = fit_printk(kernel_log(100, ppm=ppm), TIMING)
    assert fit is not None
    assert fit.lines == 100
    assert fit.n == 100 or abs(ppm) > 1000  # then a part of the boot drifts away by more than a line may wait
    assert fit.rate_ppm == pytest.approx(ppm, abs=0.1)
    assert fit.offset_ns == pytest.approx(KERNEL_START_NS + BYTE_NS, abs=1000)
    assert fit.span_s == pytest.approx((fit.n - 1) * 0.02)
    assert fit.residual_max_ns < 1000


def test_lines_that_wait_for_the_uart_do_not_move_the_line() -> None:
    waits = (0, 5_000_000, 9_000_000, 0, 2_000_000)
    fit = fit_printk(kernel_log(100, ppm=50, waits_ns=waits), TIMING)
    assert fit is not None
    assert fit.rate_ppm == pytest.approx(50, abs=0.1)
    assert fit.residual_median_ns == pytest.approx(2_000_000, abs=1000)
    assert fit.residual_max_ns == pytest.approx(9_000_000, abs=1000)


def test_an_early_log_that_comes_all_at_once_does_not_move_the_line() -> None:
    """Before the console is registered, lines are only kept; then they come in one go."""
    early = kernel_log(60, step_us=100, first_us=1000, waits_ns=tuple(4 * 10**8 + n * 9 * 10**6 for n in range(60)))
    later = kernel_log(60, first_us=1_500_000)
    fit = fit_printk([*early, *later], TIMING)
    assert fit is not None
    assert (fit.n, fit.lines) == (60, 120)
    assert abs(fit.rate_ppm) < 1


@pytest.mark.parametrize(
    "ahead", [b"", b"\r", b"2026-11-22T01:02:03.123456+01:00 evm kernel: ", b"Nov 22 01:02:03 ", b"01:02:03 ", b"["]
)
def test_what_a_logger_puts_in_front_of_a_line_does_not_hide_its_time(ahead: bytes) -> None:
    events = [Chunk(e.t_ns, e.position, ahead + e.data) for e in kernel_log(100) if isinstance(e, Chunk)]
    fit = fit_printk(events, TIMING)
    assert fit is not None
    assert fit.lines == 100


def test_a_line_that_the_kernel_prints_behind_a_prompt_says_nothing_about_the_time_of_the_prompt() -> None:
    events = [event for event in kernel_log(100) if isinstance(event, Chunk)]
    last = events[-1]
    prompt = Chunk(last.t_ns + 50_000_000, last.position + len(last.data), b"evm login: ")
    (line,) = kernel_log(1, first_us=last.t_ns // 1000 - KERNEL_START_NS // 1000 + 700_000)
    assert isinstance(line, Chunk)
    behind = Chunk(line.t_ns, prompt.position + len(prompt.data), line.data)
    assert clock_step([*events, prompt, behind], TIMING) == 0


@pytest.mark.parametrize("seed", range(20))
def test_lines_that_a_busy_host_reads_late_are_no_drift(seed: int) -> None:
    """The second half of a short boot is read up to 9 ms late, and the server says so."""
    dice = random.Random(seed)
    late_ns = dice.randrange(2_000_000, 9_000_000)
    found: list[Event] = []
    for number, event in enumerate(kernel_log(dice.randrange(60, 100), ppm=dice.uniform(-200, 200))):
        assert isinstance(event, Chunk)
        is_late = number > 25
        t_ns = event.t_ns + late_ns * is_late
        found += [Lateness(t_ns, event.position, late_ns)] * is_late + [Chunk(t_ns, event.position, event.data)]
    fit = fit_printk(found, TIMING)
    assert fit is not None
    assert not fit.drifts
    told_nothing = fit_printk([event for event in found if isinstance(event, Chunk)], TIMING)
    assert told_nothing is not None
    assert told_nothing.drifts


@pytest.mark.parametrize("ppm", [-490.0, 490.0])
def test_two_crystals_do_not_drift(ppm: float) -> None:
    fit = fit_printk(kernel_log(400, ppm=ppm), TIMING)
    assert fit is not None
    assert fit.drift_ns < 1000


@pytest.mark.parametrize("ppm", [-600.0, 600.0, -1500.0, 1000.0, 20_000.0])
def test_clocks_that_drift_apart_are_beyond_the_limit(ppm: float) -> None:
    fit = fit_printk(kernel_log(400, ppm=ppm), TIMING)
    assert fit is not None
    assert fit.drifts


@pytest.mark.parametrize("seed", range(5))
def test_garbled_lines_and_text_between_do_not_matter(seed: int) -> None:
    dice = random.Random(seed)
    events = kernel_log(200, ppm=100)
    for number in dice.sample(range(len(events)), 12):
        event = events[number]
        assert isinstance(event, Chunk)
        digit = dice.randrange(2, 8)
        spoiled = event.data[:digit] + dice.choice([b"9", b"x", b" ", b""]) + event.data[digit + 1 :]
        events[number] = Chunk(event.t_ns, event.position, spoiled)
    fit = fit_printk(events, TIMING)
    assert fit is not None
    assert fit.rate_ppm == pytest.approx(100, abs=5)


def test_the_longest_of_several_boots_is_taken() -> None:
    short = kernel_log(30)
    fit = fit_printk([*short, *kernel_log(50, ppm=30)], TIMING)
    assert fit is not None
    assert fit.n in {48, 49, 50}
    assert fit.rate_ppm == pytest.approx(30, abs=0.1)


@pytest.mark.parametrize(
    "events",
    [
        [],
        kernel_log(19),
        kernel_log(40, step_us=100),
        [Chunk(n, 0, b"[    0.000000] before the clock runs\r\n") for n in range(50)],
        [Chunk(1, 0, b"login: ")],
    ],
    ids=["nothing", "too few lines", "too short", "no clock", "no kernel"],
)
def test_too_little_gives_no_fit(events: list[Event]) -> None:
    assert fit_printk(events, TIMING) is None
