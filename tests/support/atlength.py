"""Tests that have a short form, for every run, and a long one, for `./run soak`, which sets BOARDLAB_SOAK."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T", int, float)
LONG = bool(os.environ.get("BOARDLAB_SOAK"))


def either(short: T, long: T) -> T:
    """What the form that is asked for takes."""
    return long if LONG else short
