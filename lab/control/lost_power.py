"""A board that fell silent: has it lost its power?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from lab.boards.hardware import RAIL_OFF_V
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import RAILS
from lab.drivers.powerdriver import is_on, last_command
from lab.errors import BoardlabError, BoardTransientError, LabTransientError
from lab.run.board import Board

_SILENCES: Final = ("silent", "hang_", "hung_resume", "prompt_unanswered")  # a board without power looks like that
# May, too; a line whose power goes between two of its characters seems to have lost some.
_LOST_CHARACTERS: Final = (
    "autoboot_missed",
    "login_failed",
    "did_not_suspend",
    "shell_timeout",
    "uboot_timeout",
    "characters_lost",
)
_RAILS_LIMIT_S: Final = 10.0


@contextmanager
def explain_silence(board: Board, *, rails: bool = True) -> Iterator[None]:
    """Check the power when the board falls silent in this block.

    An unexplained silence names power among its causes.

    Args:
        rails: switched-off supplies mean that the power is gone; those of a sleeping board may be off.

    Raises:
        LabTransientError: it has lost its power (`power_lost`). BoardTransientError, LabTransientError: the original
            error.
    """
    try:
        yield
    except (BoardTransientError, LabTransientError) as error:
        if not error.failure.startswith((*_SILENCES, *_LOST_CHARACTERS)):
            raise
        doubts: list[str] = []
        lost = _find_loss(board, doubts, rails=rails and board.rails is not None)
        if lost:
            raise LabTransientError(
                f"{board.board} has lost its power: {lost}. It fell silent: {error}. Who else switches it?",
                failure="power_lost",
            ) from error
        if not doubts or not error.failure.startswith(_SILENCES):
            raise
        raise BoardTransientError(f"{error}. Or its power was cut: {doubts[0]}", failure=error.failure) from error


def _find_loss(board: Board, doubts: list[str], *, rails: bool) -> str:
    """Evidence that the board has no power; empty: none.

    `doubts` gets the reasons why that is not certain; none: it has power.
    """
    if rails:
        try:
            volts: dict[str, float] = guarded_calls.call(board.rails, RAILS, "read", board.rails.volts, _RAILS_LIMIT_S)
        except BoardlabError:  # the boot failed; silent sensors change nothing
            volts = {}
        if volts and max(volts.values()) < RAIL_OFF_V:
            return f"its rails are off ({', '.join(f'{name} {value:.2f} V' for name, value in volts.items())})"
        if volts:
            return ""
    outlet = board.power.outlet
    try:
        is_outlet_on = is_on(board.power)
    except BoardlabError as error:
        is_outlet_on = None
        doubts.append(f"the power switch does not say ({error.failure})")
    if is_outlet_on is False:
        return f"the power switch says that its outlet ({outlet.label}) is off"
    last = last_command(outlet)
    if is_outlet_on is None and last is not None and last.command == "off" and last.at > board.on_at:
        at = datetime.fromtimestamp(last.at, UTC).strftime("%H:%M:%S UTC")
        return f"another program of this host switched its outlet ({outlet.label}) off at {at}"
    if is_outlet_on is None and not doubts:
        doubts.append(f"the power switch cannot tell whether its outlet ({outlet.label}) is on")
    return ""
