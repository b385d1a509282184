"""Asking the person at the terminal, past pytest's capturing."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def asker(config: pytest.Config) -> Callable[[str], str]:
    """What drivers that are done by hand (ManualPowerDriver) ask through: `input`, with the terminal given back to it.

    Returns: shows a message, and returns the line that was typed; EOFError where nobody is there.
    """
    capture = config.pluginmanager.getplugin("capturemanager")

    def ask(message: str) -> str:
        if capture is None:
            return input(f"\n{message} ")
        capture.suspend(in_=True)
        try:
            return input(f"\n{message} ")
        finally:
            capture.resume()

    return ask
