"""A person at a terminal on a port: what comes is shown, what is typed is sent."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from lab.console.client import ConsoleClient

LEAVE = b"\x1d"  # Ctrl-], telnet's escape character
_BLOCK = 4096


def interact(client: ConsoleClient, keyboard: int | None = None, screen: int | None = None) -> None:
    """Connect keyboard and screen (file descriptors) with the port until Ctrl-] or the end of the input.

    Raises:
        LabTransientError: the server or the port went away.
    """
    keyboard = sys.stdin.fileno() if keyboard is None else keyboard
    screen = sys.stdout.fileno() if screen is None else screen
    with _raw(keyboard):
        poll = select.poll()
        poll.register(keyboard, select.POLLIN)
        poll.register(client.fileno(), select.POLLIN)
        while True:
            if keyboard in {descriptor for descriptor, _ in poll.poll()}:
                typed, escape, _ = os.read(keyboard, _BLOCK).partition(LEAVE)
                if typed:
                    client.write(typed)
                if escape or not typed:
                    return
            while (chunk := client.read(timeout_s=0)) is not None:  # waiting for the write's answer may bring some too
                os.write(screen, chunk.data)


@contextmanager
def _raw(keyboard: int) -> Iterator[None]:
    """Every key goes to the board, Ctrl-C too; the terminal is as before at the end."""
    if not os.isatty(keyboard):
        yield
        return
    before = termios.tcgetattr(keyboard)
    tty.setraw(keyboard)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
