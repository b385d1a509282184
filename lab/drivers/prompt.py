"""Prompt of Linux or U-Boot: labgrid's driver with limits and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final

from attrs import frozen
from labgrid.util import re_vt100
from pexpect import TIMEOUT

from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import GRACE_S, UBOOT, DriverRole
from lab.drivers.typedline import TYPING_S

_NO_ARROW: Final = "(?<!=)"  # `crc32` and `hash` print `==> DIGEST`, which a prompt `=> ` would be found in
COMMAND_S = 30.0  # as labgrid's drivers have it
SILENT_S: Final = 5.0  # in which a program says something, e.g. systemctl on a slow board
QUIET_S: Final = 0.2  # behind a prompt, or a whole answer
# Beyond a command's own time: labgrid's ShellDriver types a line for its prompt before it
MORE_S = 2 * TYPING_S + GRACE_S


@frozen
class Prompt:
    """Runs commands at a prompt.

    Attributes:
        driver: with labgrid's CommandProtocol, active.
        kind: for the classes of its failures.
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
            return guarded_calls.call(self.driver, self.kind, f"`{cmd}`", run, timeout + MORE_S)

    def run_check(self, cmd: str, timeout: float = COMMAND_S) -> list[str]:
        """The lines of output of a command that ends well.

        Raises:
            BoardlabError: as of `run`, or its exit status is not 0.
        """

        def run() -> list[str]:
            return list(self.driver.run_check(cmd, timeout=timeout))

        with self.around():
            return guarded_calls.call(self.driver, self.kind, f"`{cmd}`", run, timeout + MORE_S)


def type_question(
    console: Any, kind: DriverRole, question: str, prompt: str, is_whole: Callable[[Sequence[str]], bool]
) -> list[str]:
    """Type a command at a shell's prompt and read its output.

    Output that is not whole is returned as far as it came. It costs the board one prompt and no program, where
    labgrid's `run` takes two prompts and a shell.

    Args:
        console: a StampedConsoleDriver.
        prompt: of the shell, a regular expression.

    Raises:
        BoardlabError: the line was not taken, or the output does not end.
    """
    ends_there = re.compile(f"(?:{prompt})\\s*\\Z")

    def ask() -> list[str]:
        console.sendline(question)
        text, lines = "", [""]
        with suppress(TIMEOUT):
            while True:
                is_over = is_whole(lines[:-1])
                at_prompt = ends_there.search(lines[-1]) is not None
                if is_over and at_prompt:
                    break
                quiet_s = QUIET_S if is_over or at_prompt else SILENT_S
                text += console.read(timeout=quiet_s).decode(errors="replace")
                lines = re_vt100.sub("", text).replace("\r", "").split("\n")
        return lines[:-1]

    return guarded_calls.call(console, kind, f"`{question}`", ask, COMMAND_S + MORE_S)


def uboot_prompt(uboot: Any) -> Prompt:
    """The prompt of a UBootDriver, which no digest of U-Boot's looks like."""
    if not uboot.prompt.startswith(_NO_ARROW):
        uboot.prompt = f"{_NO_ARROW}(?:{uboot.prompt})"
    return Prompt(uboot, UBOOT)


def type_line(console: Any, kind: DriverRole, line: str) -> None:
    """Type a line whose answer somebody else reads.

    Args:
        console: a StampedConsoleDriver.
        kind: of the prompt, for the classes of failures.

    Raises:
        BoardlabError: it was not taken; see `lab.drivers.typedline`.
    """
    guarded_calls.call(console, kind, f"`{line}`", lambda: console.sendline(line), TYPING_S + GRACE_S)
