"""Tests that have a short form, for every run, and a long one: `tox -e long` sets BOARDLAB_LONG."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T", int, float)
LONG = bool(os.environ.get("BOARDLAB_LONG"))


def either(short: T, long: T) -> T:
    """What the form that is asked for takes."""
    return long if LONG else short
