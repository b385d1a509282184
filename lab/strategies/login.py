"""Logging in to a board that has just booted, and asking which board it is."""

from __future__ import annotations

from lab.benchmarks.identity import BoardIdentity, check_board, identify
from lab.drivers.calls import SHELL
from lab.errors import BoardTransientError
from lab.strategies.drivenboard import DrivenBoard


def log_in(board: DrivenBoard) -> None:
    """Activate the ShellDriver of a board that waits at its login prompt.

    Raises:
        BoardTransientError: the login failed.
    """
    shell = board.shell
    if shell.password is None:  # else labgrid gives up with a bare Exception when `login` asks for one
        shell.password = board.type.prompts.password
    # The prompt has been read to time it; the shell driver must see it too.
    board.console.unread(board.console.captured().rsplit(b"\n", 1)[-1])
    failed = f"{board.board} booted from {board.medium}, but the login failed"
    board.activate(shell, SHELL, BoardTransientError(failed, failure="login_failed"))


def identified(board: DrivenBoard) -> BoardIdentity:
    """Ask a board that somebody is logged in to which one it is.

    Raises:
        BoardTransientError: its shell does not answer, or only in pieces.
        LabStableError: another one than the env says.
    """
    try:
        found = identify(board.linux)
    except BoardTransientError as error:
        raise BoardTransientError(
            f"{board.board} does not say which board it is: {error}; the last it said was {board.tail()!r}",
            failure="login_failed",
        ) from error
    check_board(found, board.board, frozenset({board.identity} if board.identity else ()), "the env")
    return found
