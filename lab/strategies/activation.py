"""Bringing a driver of the board's target to life: what is not plugged in, what does not come in time."""

from __future__ import annotations

from typing import Any

from labgrid.exceptions import NoResourceFoundError
from pexpect import TIMEOUT

from lab.drivers import calls
from lab.drivers.calls import ACTIVATE_LIMIT_S, DriverRole
from lab.errors import BoardTransientError, LabStableError
from lab.strategies.drivenboard import DrivenBoard
from lab.strategies.outage import power_asked


def activate(board: DrivenBoard, driver: Any, kind: DriverRole, late: BoardTransientError | None = None) -> None:
    """Activate one of the target's drivers, and what it is bound to.

    Args:
        late: raised, with what the board said last, where its prompt does not come in time.

    Raises:
        BoardlabError: nothing is plugged in that fits, or as of `calls.call`.
    """

    def work() -> None:
        try:
            board.target.activate(driver)
        except NoResourceFoundError as error:
            raise LabStableError(
                f"{board.board}: nothing is plugged in that fits {calls.missing(error)}. Is the adapter connected, and its "
                "`match` in the env right? `udevadm info -q property /dev/ttyUSB0` shows what to match",
                failure="adapter_missing",
            ) from error
        except TIMEOUT as error:
            if late is None:
                raise
            said = f"{late}; the last it said was {board.tail()!r}"
            raise BoardTransientError(said, failure=late.failure) from error

    with power_asked(board):
        calls.call(driver, kind, "activate", work, ACTIVATE_LIMIT_S + getattr(driver, "login_timeout", 0))
