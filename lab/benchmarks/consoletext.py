"""What the last text of a console says: is it text at all, what was its last line, does a prompt hide in it."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PRINTED = bytes(range(0x20, 0x7F)) + b"\b\t\n\f\r\x1b"  # what consoles print
_NO_TEXT = bytes(set(range(0x20)) - set(b"\0\a\b\t\n\v\f\r\x1b"))  # a UART that is switched on sends a NUL
_KERNEL_LINE = re.compile(r"(?:<\d+>)?\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? [^\n]*\n")


def garbage(data: bytes) -> float:
    """The share of bytes that no console prints."""
    return len(data.translate(None, _PRINTED)) / len(data) if data else 0.0


def unreadable(line: bytes) -> int:
    """How many bytes of a line are neither what consoles print nor part of a character in UTF-8."""
    text = line.decode("utf-8", errors="ignore").encode()  # what is left out is no character
    return len(line) - len(text.translate(None, _NO_TEXT))


def last_line(data: bytes, *, before: int = 0) -> str:
    """The last line that is not empty, or one so many lines `before` it."""
    lines = [part for part in data.decode("latin-1").splitlines() if part.strip()]
    return lines[-1 - before].strip() if len(lines) > before else ""


def in_pieces(data: bytes, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns matches the last line once the kernel's lines are taken out of the text."""
    text = _KERNEL_LINE.sub("", data.decode("latin-1"))
    line = text[text.rfind("\n") + 1 :]
    return any(re.search(pattern, line) for pattern in patterns)
