"""Debian's busybox, made to hold its tongue at the prompt."""

from __future__ import annotations

from typing import Final

from lab.errors import LabStableError

CURSOR_QUERY: Final = b"\x1b[6n"


def quiet(program: bytes) -> bytes:
    """Remove the cursor query behind each prompt from busybox.

    Debian builds busybox with FEATURE_EDITING_ASK_TERMINAL. Its line editor (libbb/lineedit.c, ask_terminal) then
    prints `ESC [ 6 n` after a prompt, whatever TERM says and unless somebody has typed ahead. A reader that expects a
    prompt at the end of the output, as tbot does, waits for ever; and no setting at run time turns it off but one that
    turns the echo off too. So the text is made an empty string.

    It may also be the end of the longer text with which `resize` asks how large the terminal is; where that has a copy
    of its own, it stays.

    Raises:
        LabStableError: the text is not there exactly once.
    """
    alone = b"\0" + CURSOR_QUERY + b"\0"
    if program.count(alone) == 1:
        return program.replace(alone, alone.replace(CURSOR_QUERY, b"\0" + CURSOR_QUERY[1:]))
    found = program.count(CURSOR_QUERY + b"\0")
    if found != 1 or program.count(CURSOR_QUERY) != 1:
        raise LabStableError(
            f"Debian's busybox has the text {CURSOR_QUERY!r} {program.count(CURSOR_QUERY)} times instead of once at the end of "
            "a string; look at ask_terminal in libbb/lineedit.c of its source, then at lab/virtual/qemu/busybox.py",
            failure="image_build",
        )
    return program.replace(CURSOR_QUERY, b"\0" + CURSOR_QUERY[1:])
