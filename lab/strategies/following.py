"""Feeding a boot to its watch, as the console brings it."""

from __future__ import annotations

from lab.benchmarks.boot import BootWatch
from lab.console.moments import MomentFinder, feed_watch
from lab.errors import BoardTransientError
from lab.strategies.drivenboard import DrivenBoard
from lab.strategies.outage import power_asked

DRAIN_S = 5.0  # how long a board that was switched off may go on talking while supplies fall
POLL_S = 0.05  # longest wait for bytes before the boot's time limits are looked at


def follow(board: DrivenBoard, watch: BootWatch, taken: int | None = None, *, woken: bool = False) -> None:
    """Feed a boot to its watch until its prompt is certain.

    Args:
        taken: so many captured events are known, by default all.
        woken: the board slept before, and its supplies may be off because it still does.

    Raises:
        BoardlabError: it failed; by whose fault.
    """
    console, clock = board.console, board.power.clock
    finder = MomentFinder(board.type.markers, board.timing())
    taken = len(console.capture) if taken is None else taken
    synced = late = False
    while not (watch.done and synced):
        synced = watch.done  # whatever the console server had not read yet may still speak against it
        if synced:
            console.sync()
        else:
            console.poll(POLL_S)
        for event in console.capture[taken:]:
            feed_watch(watch, event, [finder])
        taken = len(console.capture)
        now_ns = clock.now_ns()
        with power_asked(board, rails=not woken):
            try:
                watch.check(now_ns)
            except BoardTransientError:
                if getattr(console, "relation", None) is None or late:
                    raise
                console.sync()  # what a slow link to another host still has may speak for the board
                late, synced = True, False
                continue
        late = False
        if watch.asks:
            watch.events = taken  # the answer is no part of the boot
            console.write(b"\r")
            watch.asked(now_ns)
    board.lives = True


def falls_silent(board: DrivenBoard) -> bool:
    """Whether a board that was switched off says nothing any more."""
    clock = board.power.clock
    deadline_ns = clock.now_ns() + round(DRAIN_S * 1e9)
    wait_s = board.type.timeouts.off_silence_s / 2
    while (asked_ns := clock.now_ns()) < deadline_ns:
        if not board.console.poll(wait_s) and not board.console.sync():
            return True  # and the console server has answered that there is nothing more
        took_ns = clock.now_ns() - asked_ns
        deadline_ns += max(0, took_ns - round(wait_s * 1e9))  # while the console's host was out of reach
    return False
