"""A suspend on a board that runs Linux: select the mode, sleep until the alarm, watch it come back."""

from __future__ import annotations

from lab.benchmarks.suspend import Suspended, SuspendWatch, selection
from lab.boards import Release
from lab.console.model import Chunk
from strategies.boardstrategy import POLL_S, BoardStrategy, Status


def suspend(board: BoardStrategy, release: Release, mode: str, seconds: int) -> Suspended:
    """Let the board sleep in `mode` for `seconds`, with the kernel's lines on its console.

    The board has to be in the state `linux`, and is in it again afterwards; after a failure its state is unknown.

    Raises:
        BoardlabError: by whose fault it failed.
        ConfigurationError: the board or the release does not have this mode.
    """
    commands = selection(board.type, release, mode)
    board.transition(Status.linux)
    try:
        for command in ("dmesg -n 8", *commands):
            board.shell.run_check(command)
        board.console.start_capture()
        watch = SuspendWatch(board.type, mode, float(seconds), board.power.clock.now_ns())
        board.console.sendline(f"rtcwake -s {seconds} -m mem")
        taken = 0
        while not watch.done:
            board.console.poll(POLL_S)
            for event in board.console.capture[taken:]:
                if isinstance(event, Chunk):
                    watch.feed(event.data, event.t_ns)
            taken = len(board.console.capture)
            watch.check(board.power.clock.now_ns())
        result = watch.finish()
        board.console.start_capture()
    except BaseException:
        board.status = Status.unknown
        raise
    return result
