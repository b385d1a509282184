"""labgrid's CommandProtocol as a host of sections: the serial shell, SSH, or U-Boot's prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from labgrid.driver.exception import ExecutionError
from pexpect import EOF, TIMEOUT

from lab.errors import BoardTransientError, LabTransientError
from lab.run.session import Ended


def _nothing() -> None: ...


@frozen
class LabgridHost:
    """A driver with CommandProtocol.

    Attributes:
        name: how messages call it.
        error: raised when it does not answer.
        is_shell: a POSIX shell, whose output may hold any bytes; else U-Boot's prompt.
        lost_hook: called when it does not answer; its state is not known from then on.
    """

    driver: Any
    name: str
    error: type[BoardTransientError | LabTransientError] = BoardTransientError
    is_shell: bool = True
    lost_hook: Callable[[], None] = _nothing

    def run(self, command: str, timeout_s: float) -> Ended:
        """See `lab.run.session.Host`.

        Raises:
            BoardTransientError, LabTransientError: it did not end in time, or the answer came in pieces.
        """
        more = {"codec": "utf-8", "decodeerrors": "replace"} if self.is_shell else {}
        try:
            stdout, stderr, status = self.driver.run(command, timeout=timeout_s, **more)
        except (TIMEOUT, EOF, ExecutionError, ValueError) as error:
            self.lost_hook()
            raise self.error(
                f"`{command}` did not end on {self.name} within {timeout_s:g} s, or its answer came in pieces "
                f"({type(error).__name__}); the board is power-cycled before the next try",
                failure="command_timeout",
            ) from error
        return Ended([*stdout, *stderr], status)
