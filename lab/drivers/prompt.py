"""Prompt of Linux or U-Boot: labgrid's driver with limits and errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from attrs import frozen

from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import GRACE_S, UBOOT, DriverRole

_NO_ARROW: Final = "(?<!=)"  # `crc32` and `hash` print `==> DIGEST`, which a prompt `=> ` would be found in
COMMAND_S = 30.0  # as labgrid's drivers have it


@frozen
class Prompt:
    """Runs commands at a prompt.

    Attributes:
        driver: with labgrid's CommandProtocol, active. kind: for the classes of its failures.
        around: entered for each command; it may say more of a failure.
    """

    driver: Any
    kind: DriverRole
    around: Callable[[], AbstractContextManager[None]] = nullcontext

    def run(self, cmd: str, timeout: float = COMMAND_S) -> tuple[list[str], list[str], int]:
        """Run a command: lines of output, of errors, and exit status.

        Raises:
            BoardlabError: it did not end in time, or its answer came in pieces; see `lab.drivers.guarded_calls`.
        """

        def run() -> tuple[list[str], list[str], int]:
            out, err, status = self.driver.run(cmd, timeout=timeout)
            return out, err, status

        with self.around():
            return guarded_calls.call(self.driver, self.kind, f"`{cmd}`", run, timeout + GRACE_S)

    def run_check(self, cmd: str, timeout: float = COMMAND_S) -> list[str]:
        """The lines of output of a command that ends well.

        Raises:
            BoardlabError: as of `run`, or its exit status is not 0.
        """

        def run() -> list[str]:
            return list(self.driver.run_check(cmd, timeout=timeout))

        with self.around():
            return guarded_calls.call(self.driver, self.kind, f"`{cmd}`", run, timeout + GRACE_S)


def uboot_prompt(uboot: Any) -> Prompt:
    """The prompt of a UBootDriver, which no digest of U-Boot's looks like."""
    if not uboot.prompt.startswith(_NO_ARROW):
        uboot.prompt = f"{_NO_ARROW}(?:{uboot.prompt})"
    return Prompt(uboot, UBOOT)
