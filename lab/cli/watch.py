"""`lab watch`: the lab on one screen, live."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from lab.cli.options import FarmFile, HostDatabase, Runtime
from lab.farm import status
from lab.farm.status import LabNow
from lab.terminal import Marked, colours, echo, plain, until_closed

app = typer.Typer(help="`lab status`, live, until q or Ctrl-C.")

_HELP: Final = "q ends; arrows, Page Up and Page Down scroll"
_COLOURS: Final = {"31": "red", "33": "yellow"}  # SGR as of lab.terminal -> rich's names
_LINE_KEYS: Final = {b"\x1b[A": -1, b"k": -1, b"\x1b[B": 1, b"j": 1}
_PAGE_KEYS: Final = {b"\x1b[5~": -1, b"\x1b[6~": 1, b" ": 1}
_KEY_BYTES: Final = 16


@app.command()
def watch(
    *,
    interval: Annotated[float, typer.Option(min=0.5, max=3600.0, metavar="S", help="Look again so often.")] = 2.0,
    db: HostDatabase = None,
    farm: FarmFile = None,
    runtime: Runtime = None,
) -> None:
    """Show `lab status` again and again.

    Without a terminal, each look is printed below the last.
    """
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        with until_closed():
            while True:
                echo(*status.lines(status.look(db, farm, runtime)), "")
                time.sleep(interval)
        return
    console = Console(no_color=not colours(sys.stdout), highlight=False)
    top = 0
    with _keys() as keyboard, Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            lab_now = status.look(db, farm, runtime)
            due_s = time.monotonic() + interval
            while True:
                lines, top = view(lab_now, top, screen.console.width, screen.console.height)
                screen.update(Group(*lines), refresh=True)
                wait_s = due_s - time.monotonic()
                if wait_s <= 0 or not select.select([keyboard], [], [], wait_s)[0]:
                    break
                key = os.read(keyboard, _KEY_BYTES)
                if key in {b"q", b"Q", b"\x03", b""}:
                    return
                top = scroll(top, key, console.height - 1)


def view(lab_now: LabNow, top: int, width: int, height: int) -> tuple[list[Text], int]:
    """Visible lines of a screen, and the first line's index.

    The last line is help.
    """
    lines = status.lines(lab_now, width)
    room = max(1, height - 1)
    first = min(max(0, top), max(0, len(lines) - room))
    rest = len(lines) - first - room
    visible = []
    for line in lines[first : first + room]:
        text = Text(plain(line), no_wrap=True, overflow="ellipsis")
        for start, end, colour in line.marks if isinstance(line, Marked) else ():
            text.stylize(_COLOURS[colour], start, end)
        visible.append(text)
    more = f"; {rest} more lines below" if rest > 0 else ""
    return [*visible, *([Text("")] * (room - len(visible))), Text(f"{_HELP}{more}", style="dim")], first


def scroll(top: int, key: bytes, page: int) -> int:
    """The first line after a key."""
    return max(0, top + _LINE_KEYS.get(key, 0) + _PAGE_KEYS.get(key, 0) * page)


@contextmanager
def _keys() -> Iterator[int]:
    """Keyboard in cbreak mode, without echo; restored at the end."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield keyboard
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
