"""Following of a boot: console, power, clocks and labgrid place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from lab.benchmarks.boot import BootWatch
from lab.console.moments import MomentFinder, feed_watch
from lab.control.lost_power import explain_silence
from lab.errors import BoardlabError, BoardTransientError, LabStableError, LabTransientError
from lab.run.board import Board

DRAIN_S = 5.0  # longest output of a switched-off board while its supplies fall
POLL_S = 0.05  # longest wait for bytes before the boot's time limits are looked at


def follow(board: Board, watch: BootWatch, taken: int | None = None, *, woken: bool = False) -> None:
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
        with explain_silence(board, rails=not woken):
            try:
                watch.check(now_ns)
            except BoardTransientError:
                if getattr(console, "relation", None) is None or late:
                    raise
                console.sync()  # bytes on a slow link may still come from the board
                late, synced = True, False
                continue
        late = False
        if watch.asks:
            watch.events = taken  # the answer is no part of the boot
            console.write(b"\r")
            watch.asked(now_ns)
    board.lives = True


def falls_silent(board: Board) -> bool:
    """Tell if a board that was switched off has fallen silent."""
    clock = board.power.clock
    deadline_ns = clock.now_ns() + round(DRAIN_S * 1e9)
    wait_s = board.type.timeouts.off_silence_s / 2
    while (asked_ns := clock.now_ns()) < deadline_ns:
        if not board.console.poll(wait_s) and not board.console.sync():
            return True  # and the console server has answered that there is nothing more
        took_ns = clock.now_ns() - asked_ns
        deadline_ns += max(0, took_ns - round(wait_s * 1e9))  # while the console's host was out of reach
    return False


_TEXT: Final = re.compile(rb"[ -~]{8,}")  # noise of a line that floats has no eight printable characters in a row


def check_still_off(board: Board, silent_at: int) -> None:
    """Refuse a board that printed text after its verified power-off.

    Args:
        silent_at: number of captured bytes at that time.

    Raises:
        LabTransientError: it did.
    """
    board.console.sync()
    text = _TEXT.search(board.console.captured()[silent_at:])
    if text is not None:
        raise LabTransientError(
            f"{board.board} printed {text[0][:60].decode()!r} after its power off and before its power on: its power "
            "came back by itself. Look at the outlet and its relay, at what else switches it, and at a second supply "
            "(USB, a debugger)",
            failure="impossible_times",
        )


@contextmanager
def adapter_fed(console: Any, name: str) -> Iterator[None]:
    """Explain a console's adapter that goes away with the board's power.

    Raises:
        LabStableError: it went away, and did not come back.
    """
    try:
        yield
    except BoardlabError as error:
        if error.failure != "adapter_lost" or not console.away:
            raise
        raise LabStableError(
            f"the console's adapter went away when {name} was switched off: the adapter is fed by the board, so the "
            "board's first output after power on is lost, and its boot is not measurable. Feed the adapter by the "
            "host: take an adapter with a USB supply of its own to the board's UART pins, or cut the adapter's "
            "supply from the board",
            failure="adapter_fed_by_board",
        ) from error
