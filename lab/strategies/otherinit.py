"""Telling a board's kernel, at U-Boot's prompt, to run another init."""

from __future__ import annotations

from typing import Any

from lab.drivers import calls
from lab.drivers.calls import UBOOT
from lab.drivers.prompt import Prompt
from lab.errors import ConfigurationError


def give(board: Any, init: str) -> None:
    """Stop a board that has just got its power at U-Boot's prompt, say what its kernel is to run, and let it boot.

    Args:
        board: a `lab.strategies.drivenboard.DrivenBoard`.

    Raises:
        BoardTransientError: it did not come to its prompt.
        ConfigurationError: the board type does not say how, or the env has no UBootDriver.
    """
    variable, given, value = board.type.init.partition("=")
    if not given:
        raise ConfigurationError(
            f"board type {board.type.name} does not say how its kernel is given another init: add `init` to "
            "lab/boards/types, e.g. init = 'optargs=init={init}'"
        )
    uboot = board.interrupt()
    Prompt(uboot, UBOOT).run_check(f"setenv {variable} '{value.format(init=init)}'")
    calls.deactivate(uboot, UBOOT)
    board.console.sendline("boot")
