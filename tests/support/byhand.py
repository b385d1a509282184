"""The environment of a board whose boot-mode switches are set by hand."""

from __future__ import annotations

import re
from pathlib import Path


def by_hand(env: Path, medium: str) -> str:
    """The text of an environment without its BootModeDriver, with the switches set to this medium."""
    text, drivers = re.subn(r"      - BootModeDriver:\n(?:          .*\n)+", "", env.read_text(encoding="utf-8"))
    text, strategies = re.subn(r"(      - BoardStrategy:\n)", rf"\1          medium: {medium}\n", text)
    assert (drivers, strategies) == (1, 1)
    return text
