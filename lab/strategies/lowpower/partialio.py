"""Partial I/O: Linux switches the board off but for its CAN pins, and activity on them is a cold boot."""

from __future__ import annotations

from pathlib import Path

from lab.benchmarks.boot import BootWatch, PowerEdge
from lab.benchmarks.lowpower.modes import CAN, SuspendPlan
from lab.benchmarks.lowpower.power import Off, off
from lab.benchmarks.lowpower.preflight import arm, preflight
from lab.drivers.calls import RAILS
from lab.errors import BoardTransientError
from lab.rails import Range
from lab.rails.phase import cut
from lab.strategies.clocks import bound_ns, widened
from lab.strategies.drivenboard import DrivenBoard
from lab.strategies.following import follow

POLL_S = 0.05
_DOWN, _REACHED = b"reboot: Power down", b"Entering Partial-IO"


def enter(board: DrivenBoard, plan: SuspendPlan) -> None:
    """`poweroff` with an armed CAN pin; the kernel says whether it understood.

    Raises:
        BoardTransientError: it did not power down, or not into partial I/O.
        BoardStableError: something is known to stand in the way.
    """
    preflight(board.linux, board.type, None, plan)
    arm(board.linux, board.type, plan.wake)
    board.linux.run("dmesg -n 8")  # its last lines are the evidence
    console, clock = board.console, board.power.clock
    from_ = len(console.captured())
    sent_ns = last_ns = clock.now_ns()
    console.sendline("poweroff")
    silence_ns = round(board.type.low_power.asleep_s * 1e9)
    while _DOWN not in console.captured()[from_:] or clock.now_ns() - last_ns < silence_ns:
        if console.poll(POLL_S):
            last_ns = clock.now_ns()
        if clock.now_ns() - sent_ns > board.type.timeouts.hang_silence_s * 1e9:
            raise BoardTransientError(
                f"poweroff did not end in {_DOWN.decode()!r} within {board.type.timeouts.hang_silence_s:g} s; look at the "
                "attempt's log for the service that does not stop",
                failure="did_not_suspend",
            )
    known = board.type.low_power.wakes.get("can")
    if _REACHED not in console.captured()[from_:]:
        raise BoardTransientError(
            f"the board is off, and not in partial I/O: the kernel did not say {_REACHED.decode()!r}. No CAN pin was armed"
            + (f"; {known.says}" if known and known.says else ""),
            failure="wrong_sleep_mode",
        )


def rails_off(board: DrivenBoard, plan: SuspendPlan, trace: Path) -> Off | None:
    """What the rails read for `plan.sleep_s`; None where nobody measures them.

    Raises:
        BoardTransientError: one that must be off is up; or the board came back by itself.
        LabError: the rails cannot be sampled.
    """
    if board.rails is None:
        return None
    board.activate(board.rails, RAILS)
    board.rails.check_clock()
    clock, console = board.power.clock, board.console
    heard = len(console.captured())
    with board.rails.sampling(trace, Range.ACTIVE) as sampler:
        start_ns = clock.now_ns()
        while clock.now_ns() < start_ns + plan.sleep_s * 10**9:
            console.poll(POLL_S)
        end_ns = clock.now_ns()
        rails = cut(sampler.trace(end_ns), start_ns, end_ns, bound_ns(clock), bound_ns(clock)).rails
    if len(console.captured()) > heard:
        raise BoardTransientError(
            "the board left partial I/O by itself: its console spoke before the host woke it. Look at the CAN pins: what drives "
            "them?",
            failure="early_wake",
        )
    return off(rails, board.type)


def cold_boot(board: DrivenBoard) -> BootWatch:
    """Wake a board out of partial I/O, which is a boot to the login prompt.

    Raises:
        BoardlabError: it did not boot.
    """
    requested_ns, acknowledged_ns = board.wake_pins.press(CAN)
    edge = widened(PowerEdge(requested_ns, acknowledged_ns), board.power.clock)
    watch = BootWatch(board.type, board.medium, edge)
    follow(board, watch, woken=True)
    board.software = dict(watch.software)
    return watch
