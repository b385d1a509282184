"""Modes that a board leaves by a boot: Linux switches it off but for what wakes it."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import frozen

from lab.benchmarks.boot import BootWatch, PowerEdge
from lab.benchmarks.lowpower.modes import (
    RTC,
    SuspendPlan,
    mode_of,
    woken_by,
)
from lab.benchmarks.lowpower.power import Off, off
from lab.benchmarks.lowpower.preflight import (
    arm,
    boot_facts,
    preflight,
    select,
)
from lab.benchmarks.lowpower.result import RTC_OFF_S
from lab.benchmarks.lowpower.watch import EARLY_S
from lab.control.boot_progress import follow
from lab.control.power_edge import bound_ns, widen
from lab.drivers.guarded_calls import RAILS, SHELL
from lab.drivers.prompt import type_line
from lab.errors import BoardStableError, BoardTransientError
from lab.rails import AdcRange
from lab.rails.phase import cut
from lab.run.board import Board

POLL_S = 0.05
_DOWN = "reboot: Power down"
# A kernel whose firmware did not switch off restarts 5 s later (Linux drivers/firmware/ti_sci.c,
# ti_sci_sys_off_handler).
RESTART_S = 6.0
SHUTDOWN_S = 30  # from the command until the board is off, when its alarm is to end that
_TEXT = re.compile(r"[ -~]{8,}(?=[\r\n])")  # no noise of a line whose driver lost its power


@frozen
class Down:
    """A board that switched itself off, to be woken by a boot.

    Attributes:
        boot_id, rtc_s: of the boot before; empty, None: unknown.
        asked_ns: when it said them.
        alarm_ns: between these the RTC wakes it; None: it does not.
    """

    plan: SuspendPlan
    boot_id: str
    rtc_s: int | None
    asked_ns: int
    alarm_ns: tuple[int, int] | None


def enter(board: Board, plan: SuspendPlan) -> Down:
    """`poweroff` with an armed wake-up source; the console says whether the mode was understood.

    Raises:
        BoardTransientError: it did not power down, or not into the mode.
        BoardStableError: something is known to stand in the way.
    """
    shell, type_, mode = board.linux, board.type, mode_of(board.type, plan)
    preflight(shell, type_, None, plan)
    arm(shell, type_, plan)
    select(shell, mode)
    shell.run("dmesg -n 8")  # its last lines are the evidence
    console, clock = board.console, board.power.clock
    boot_id, rtc_s = boot_facts(shell, type_)
    asked_ns = clock.now_ns()
    alarm_ns = _set_alarm(board, plan.sleep_s + SHUTDOWN_S) if plan.wake == RTC else None
    start = len(console.captured())
    sent_ns = last_ns = clock.now_ns()
    type_line(console, SHELL, "poweroff")
    silence_ns = round(max(type_.low_power.asleep_s, RESTART_S) * 1e9)
    last_line = re.compile(mode.entered or re.escape(_DOWN))
    while True:
        printed = console.captured()[start:].decode("latin-1")
        if clock.now_ns() - last_ns >= silence_ns and _DOWN in printed:
            break
        if console.poll(POLL_S):
            last_ns = clock.now_ns()
        reached = last_line.search(printed)
        if reached and (more := _TEXT.search(printed[reached.end() :].partition("\n")[2])):
            raise BoardTransientError(
                f"the board did not stay in {mode.title}: behind {reached[0]!r} came {more[0]!r}. Its firmware "
                "refused, or something woke it at once: look at what wakes it "
                f"({', '.join(woken_by(type_, plan.mode))})",
                failure="wrong_sleep_mode",
            )
        if clock.now_ns() - sent_ns > type_.timeouts.hang_silence_s * 1e9:
            raise BoardTransientError(
                f"poweroff did not end in {_DOWN!r} within {type_.timeouts.hang_silence_s:g} s; look at the "
                "attempt's log for the service that does not stop",
                failure="did_not_suspend",
            )
    if not last_line.search(printed):
        says = type_.low_power.wakes[plan.wake].says
        raise BoardTransientError(
            f"the board is off, and not in {mode.title}: the kernel did not say {mode.entered!r}. Its wake-up source "
            f"({plan.wake}) was not armed" + (f"; {says}" if says else ""),
            failure="wrong_sleep_mode",
        )
    return Down(plan, boot_id, rtc_s, asked_ns, alarm_ns)


def _set_alarm(board: Board, seconds: int) -> tuple[int, int]:
    """Set the RTC's alarm; return its earliest and its latest instant."""
    clock, alarm = board.power.clock, f"/sys/class/rtc/{board.type.low_power.rtc}/wakealarm"
    before_ns = clock.now_ns()
    board.linux.run(f"echo 0 > {alarm}")
    if board.linux.run(f"echo +{seconds} > {alarm}")[2] != 0:
        raise BoardStableError(
            f"{alarm} does not take an alarm: nothing would wake the board. Is {board.type.low_power.rtc} the SoC's?",
            failure="setting_refused",
        )
    return before_ns + (seconds - 1) * 10**9, clock.now_ns() + seconds * 10**9


def rails_off(board: Board, plan: SuspendPlan, trace: Path, down: Down) -> Off | None:
    """Read the rails for `plan.sleep_s`; None: they are not measured.

    Raises:
        BoardTransientError: one that must be off is up; or the board came back by itself.
        LabError: the rails cannot be sampled.
    """
    if board.rails is None:
        return None
    board.activate(board.rails, RAILS)
    board.rails.check_clock()
    clock, console = board.power.clock, board.console
    silent_bytes = len(console.captured())
    with board.rails.sampling(trace, AdcRange.ACTIVE) as sampler:
        start_ns = clock.now_ns()
        end_ns = start_ns + plan.sleep_s * 10**9
        if down.alarm_ns is not None:
            end_ns = max(min(end_ns, down.alarm_ns[0]), start_ns + 10**9)
        while clock.now_ns() < end_ns:
            console.poll(POLL_S)
        end_ns = clock.now_ns()
        rails = cut(sampler.trace(end_ns), start_ns, end_ns, bound_ns(clock), bound_ns(clock)).rails
    if len(console.captured()) > silent_bytes:
        raise BoardTransientError(_early(board, plan), failure="early_wake")
    return off(rails, board.type, plan.mode)


def _early(board: Board, plan: SuspendPlan) -> str:
    mode = mode_of(board.type, plan)
    return (
        f"the board left {mode.title} by itself: its console spoke before {plan.wake} woke it. Look at what else "
        f"wakes it: {', '.join(woken_by(board.type, plan.mode))}"
    )


def cold_boot(board: Board, down: Down) -> BootWatch:
    """Wake a board out of a mode that is left by a boot, up to the login prompt.

    Raises:
        BoardlabError: it did not boot, or before it was woken.
    """
    clock, console = board.power.clock, board.console
    if down.alarm_ns is not None:
        requested_ns, acknowledged_ns = down.alarm_ns
        silent_bytes = len(console.captured())
        while clock.now_ns() < requested_ns - round(EARLY_S * 1e9):
            if console.poll(POLL_S) and _TEXT.search(console.captured()[silent_bytes:].decode("latin-1")):
                raise BoardTransientError(_early(board, down.plan), failure="early_wake")
    else:
        requested_ns, acknowledged_ns = board.wake_pins.press(down.plan.wake)
    edge = widen(PowerEdge(requested_ns, acknowledged_ns), clock)
    watch = BootWatch(board.type, board.medium, edge)
    follow(board, watch, woken=True)
    board.software = dict(watch.software)
    return watch


def check_kept(down: Down, facts: tuple[str, int | None], now_ns: int) -> None:
    """Require another boot, and an RTC that went on if it woke the board.

    Args:
        facts: the boot's id and the RTC's seconds at `now_ns`.

    Raises:
        BoardTransientError: the boot is the same, or the RTC lost its time.
    """
    boot_id, rtc_s = facts
    if down.boot_id and boot_id == down.boot_id:
        raise BoardTransientError(
            f"the board should have been off and booted, and its boot_id is still {boot_id}",
            failure="wrong_sleep_mode",
        )
    if down.plan.wake != RTC or rtc_s is None or down.rtc_s is None:
        return
    off_s = rtc_s - down.rtc_s - (now_ns - down.asked_ns) / 1e9
    if abs(off_s) > RTC_OFF_S:
        raise BoardTransientError(
            f"the board's RTC went {rtc_s - down.rtc_s} s while {(now_ns - down.asked_ns) / 1e9:.1f} s passed: it "
            "lost its supply or its time, so the mode was another one, or its alarm proves nothing. Is the PMIC kept "
            "from switching off the RTC's supply?",
            failure="rtc_lost",
        )
