"""Line editing at a prompt: echo and corrections, byte by byte."""

from __future__ import annotations

from lab.virtual.sim.computer import Computer
from lab.virtual.sim.program import NS_PER_MS, Program
from lab.virtual.sim.sh.interpreter import InterruptedCommandError

INTERRUPT = 0x03
END_OF_INPUT = 0x04
_ESCAPE = 0x1B
_KILL_LINE = 0x15
_KILL_WORD = 0x17
_ENTER = b"\r\n"
_BACKSPACE = b"\b\x7f"
_SEQUENCE_NS = 2 * NS_PER_MS  # the bytes of an arrow key follow each other at line rate
_LINE_BYTES = 1024  # of U-Boot's console buffer; it refuses more


class EndOfInputError(Exception):
    """Ctrl-D on an empty line."""


def read_line(computer: Computer, *, interrupted: str, secret: bool = False, ends: bool = False) -> Program[str]:
    """A line, without its end.

    Args:
        interrupted: what is printed for ctrl-C.
        secret: do not echo (a password).
        ends: ctrl-D on an empty line ends the input.

    Raises:
        InterruptedCommandError: ctrl-C.
        EndOfInputError: ctrl-D.
    """
    line = bytearray()
    while True:
        typed = yield from computer.hear()
        if typed is None:
            continue
        byte = typed.byte
        if byte in _ENTER:
            yield from computer.say("\n")
            return line.decode("utf-8", errors="replace")
        if byte == INTERRUPT:
            yield from computer.say(interrupted)
            raise InterruptedCommandError
        if byte == END_OF_INPUT and ends and not line:
            raise EndOfInputError
        if byte == _ESCAPE:
            yield from _skip_sequence(computer)
        elif byte in _BACKSPACE or byte in {_KILL_LINE, _KILL_WORD}:
            gone = 1 if byte in _BACKSPACE else len(line)
            if byte == _KILL_WORD:
                gone = len(line) - len(line.rstrip().rpartition(b" ")[0])
            gone = min(gone, len(line))
            del line[len(line) - gone :]
            if not secret:
                yield from computer.say("\b \b" * gone)
        elif byte >= 0x20 and len(line) < _LINE_BYTES:
            line.append(byte)
            if not secret:
                yield from computer.echo(bytes([byte]))


def _skip_sequence(computer: Computer) -> Program[None]:
    """Drop an escape sequence's rest, up to a letter or `~`."""
    introducer = yield from computer.hear(_SEQUENCE_NS)
    if introducer is None or introducer.byte not in b"[O":
        return
    while (typed := (yield from computer.hear(_SEQUENCE_NS))) is not None:
        if 0x40 <= typed.byte <= 0x7E:
            return


def interruptible_pause(computer: Computer, ns: float) -> Program[None]:
    """Wait and look out for ctrl-C.

    Other typed bytes are lost, as U-Boot loses them.

    Raises:
        InterruptedCommandError: ctrl-C.
    """
    due_ns = computer.now_ns + round(ns * computer.time_scale)
    while computer.now_ns < due_ns:
        typed = yield from computer.hear(due_ns - computer.now_ns)
        if typed is not None and typed.byte == INTERRUPT:
            raise InterruptedCommandError
