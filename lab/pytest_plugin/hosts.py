"""labgrid's CommandProtocol as a host of sections: the serial shell, SSH, or U-Boot's prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from lab.drivers import guarded
from lab.drivers.guarded import GRACE_S, SHELL, TESTER, UBOOT, DriverRole
from lab.errors import BoardlabError, BoardTransientError, LabTransientError
from lab.run.session import CommandResult

_NO_ANSWER: Final = frozenset({"timeout", "failed", "unreachable"})


def _nothing() -> None: ...


@frozen
class LabgridHost:
    """A driver with CommandProtocol.

    Attributes:
        name: how messages call it.
        error: whose fault it is when it does not answer.
        is_shell: a POSIX shell, whose output may hold any bytes; else U-Boot's prompt.
        lost_hook: called when it does not answer; its state is not known from then on.
    """

    driver: Any
    name: str
    error: type[BoardTransientError | LabTransientError] = BoardTransientError
    is_shell: bool = True
    lost_hook: Callable[[], None] = _nothing

    def run(self, command: str, timeout_s: float) -> CommandResult:
        """See `lab.run.session.CommandHost`.

        Raises:
            BoardTransientError, LabTransientError: it did not end in time, or the answer came in pieces.
            BoardlabError: the driver failed otherwise, see `lab.drivers.guarded`.
        """
        more = {"codec": "utf-8", "decodeerrors": "replace"} if self.is_shell else {}

        def run() -> CommandResult:
            stdout, stderr, status = self.driver.run(command, timeout=timeout_s, **more)
            return CommandResult([*stdout, *stderr], status)

        try:
            return guarded.call(self.driver, self._kind, f"`{command}` on {self.name}", run, timeout_s + GRACE_S)
        except BoardlabError as error:
            self.lost_hook()
            if self._kind is TESTER or error.failure.removeprefix(f"{self._kind.name}_") not in _NO_ANSWER:
                raise
            raise BoardTransientError(
                f"`{command}` did not end on {self.name} within {timeout_s:g} s, or its answer came in pieces; the board "
                f"is power-cycled before the next try. {error}",
                failure="command_timeout",
            ) from error

    @property
    def _kind(self) -> DriverRole:
        if issubclass(self.error, LabTransientError):
            return TESTER
        return SHELL if self.is_shell else UBOOT
