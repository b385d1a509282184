"""A board that fell silent: has it lost its power? Whoever can tell is asked, and else the message says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from lab.boards.hardware import RAIL_OFF_V
from lab.drivers import calls
from lab.drivers.calls import RAILS
from lab.drivers.switching import is_on, last_command
from lab.errors import BoardlabError, BoardTransientError, LabTransientError
from lab.strategies.drivenboard import DrivenBoard

_SILENCES: Final = ("silent", "hang_", "hung_resume", "prompt_unanswered")  # a board without power looks like that
_OTHERS: Final = ("autoboot_missed", "login_failed", "did_not_suspend", "shell_timeout", "uboot_timeout")  # may, too
_RAILS_LIMIT_S: Final = 10.0


@contextmanager
def power_asked(board: DrivenBoard, *, rails: bool = True) -> Iterator[None]:
    """Whatever in this block waits for the board: where it fell silent, find out whether it has lost its power.

    A silence that nobody can explain names power among its causes.

    Args:
        rails: whether supplies that are off mean that the power is gone; those of a board that sleeps may be off.

    Raises:
        LabTransientError: it has (`power_lost`).
        BoardTransientError: as it came.
    """
    try:
        yield
    except BoardTransientError as error:
        if not error.failure.startswith((*_SILENCES, *_OTHERS)):
            raise
        doubts: list[str] = []
        lost = _lost(board, doubts, rails=rails and board.rails is not None)
        if lost:
            raise LabTransientError(
                f"{board.board} has lost its power: {lost}. It fell silent: {error}. Who else switches it?",
                failure="power_lost",
            ) from error
        if not doubts or not error.failure.startswith(_SILENCES):
            raise
        raise BoardTransientError(f"{error}. Or its power was cut: {doubts[0]}", failure=error.failure) from error


def _lost(board: DrivenBoard, doubts: list[str], *, rails: bool) -> str:
    """Who says that it has no power; empty: nobody does. `doubts` are why that is not certain; none: it has power."""
    if rails:
        volts = _volts(board)
        if volts and max(volts.values()) < RAIL_OFF_V:
            return f"its rails are off ({', '.join(f'{name} {value:.2f} V' for name, value in volts.items())})"
        if volts:
            return ""
    outlet = board.power.outlet
    try:
        on = is_on(board.power)
    except BoardlabError as error:
        on = None
        doubts.append(f"the power switch does not say ({error.failure})")
    if on is False:
        return f"the power switch says that its outlet ({outlet.shown}) is off"
    last = last_command(outlet)
    if on is None and last is not None and last.command == "off" and last.at > board.on_at:
        at = datetime.fromtimestamp(last.at, UTC).strftime("%H:%M:%S UTC")
        return f"another program of this host switched its outlet ({outlet.shown}) off at {at}"
    if on is None and not doubts:
        doubts.append(f"the power switch cannot tell whether its outlet ({outlet.shown}) is on")
    return ""


def _volts(board: DrivenBoard) -> dict[str, float]:
    """What the rails read now; none where that is not known."""
    try:
        volts: dict[str, float] = calls.call(board.rails, RAILS, "read", board.rails.volts, _RAILS_LIMIT_S)
    except BoardlabError:  # what fails is the boot; that its sensors do not answer either changes nothing
        return {}
    return volts
