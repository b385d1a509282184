"""What Linux' commands have in common."""

from __future__ import annotations

from collections.abc import Sequence

from lab.virtual.sim.editor import INTERRUPT
from lab.virtual.sim.linux.session import LoginSession
from lab.virtual.sim.program import Hear, Program
from lab.virtual.sim.sh.interpreter import InterruptedCommandError, Streams


def say(streams: Streams, text: str) -> Program[None]:
    """Print a line."""
    yield from streams.out(text.encode() + b"\n")


def complain(streams: Streams, text: str) -> Program[int]:
    """Print a line to standard error, and fail."""
    yield from streams.err(text.encode() + b"\n")
    return 1


def inputs(
    session: LoginSession, paths: Sequence[str], streams: Streams, name: str
) -> Program[list[tuple[str, bytes]]]:
    """The named files, or standard input when none is named; says which do not exist."""
    if not paths:
        return [("-", streams.stdin or b"")]
    found = []
    for path in paths:
        content = streams.stdin or b"" if path == "-" else session.files.read(session.path(path))
        if content is None:
            yield from complain(streams, f"{name}: {path}: No such file or directory")
        else:
            found.append((path, content))
    return found


def wait(session: LoginSession, ns: float) -> Program[None]:
    """A command works or sleeps; ctrl-C ends it.

    Raises:
        InterruptedCommandError: ctrl-C.
    """
    computer = session.computer
    due_ns = computer.now_ns + round(ns * computer.time_scale)
    ahead: list[int] = []
    while computer.now_ns < due_ns:
        typed = yield Hear((computer.console,), due_ns - computer.now_ns)
        if typed is not None and typed.byte == INTERRUPT:
            yield from computer.write(b"^C\n")
            raise InterruptedCommandError
        if typed is not None:
            ahead.append(typed.byte)
    computer.machine.unread(computer.console, bytes(ahead))
