"""What a check found."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

Level = Literal["ok", "doubtful", "bad"]


@frozen
class Finding:
    """One thing that was looked at.

    Attributes:
        area: e.g. "ports". subject: what of it, e.g. "/dev/ttyUSB0".
        level: "bad": measuring fails, or its numbers are wrong; "doubtful": it works, and could be better.
        said: what is there. mend: what to do; empty where nothing is.
    """

    area: str
    subject: str
    level: Level
    said: str
    mend: str = ""
